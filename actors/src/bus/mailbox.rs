//! Mailboxes: the durable messages of each session until they are acknowledged.
//!
//! ```text
//! CommitEffects ──enqueue──▶ Mailbox ──Wake──▶ Session ──┬─ attempts   agent runtime in this process
//!                             │ Inbox (policy): queue,   └─ pull       agent that polls
//!                             │   leases, retries              │
//!                             │ Slots (policy): capacity       ▼
//!                             └──────────◀── free ──────── acknowledge ──▶ CommitBuffer
//! ```
//!
//! - [`Mailbox`] is the state of one session: queue, capacity, presence. Router, commit effects and
//!   sessions share it on the bus thread, so enqueueing a message is a push and no actor message.
//! - [`Session`] is the actor that works a mailbox off. It is woken only when it waits: a broadcast
//!   to a thousand busy sessions costs a thousand pushes and not one actor message.
//! - `attempts` runs an agent's code, `pull` serves agents elsewhere. Neither depends on how the
//!   agent is reached.
//! - `acknowledge` ends every delivery and states the whole path of an acknowledgement.

mod acknowledge;
mod attempts;
mod pull;
mod session;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use a2a_policy::{Inbox, InboxFull, InboxLimits, QueueEntry, Slots};
use a2a_protocol::{AgentId, Envelope, Outcome};
use actix::prelude::*;

use crate::AgentRuntime;
use crate::bus::message::StoredMessage;

pub use acknowledge::AckHandle;
pub(crate) use acknowledge::{Settle, Settlement};
pub(crate) use attempts::{CancelRunning, Retracted, StartAttempt};
pub(crate) use pull::{Poll, Polling, Pull, PulledDeliveries};
pub(crate) use session::{Departure, HandOver, Leave, Session, SetRuntime, Wake, delivery};

/// The number of a desk; it can travel in messages, a desk cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MailboxId(u32);

/// One session's messages and places.
pub(crate) struct Mailbox {
    pub(crate) agent: AgentId,
    pub(crate) slots: Slots,
    pub(crate) inbox: RefCell<Inbox<Arc<StoredMessage>>>,
    session: RefCell<Option<Addr<Session>>>,
    /// The session has nothing to do and wants to be told when something arrives.
    waits: Cell<bool>,
    /// The agent's code, which may wait for certain messages while the session is busy.
    runtime: RefCell<Option<Arc<dyn AgentRuntime>>>,
    /// Which attachment of an agent's code is here; 0 for none so far.
    pub(crate) attachment: Cell<u64>,
    /// When somebody was last here, since the bus started.
    pub(crate) last_seen: Cell<Option<Duration>>,
    /// Calls that wait for messages of this desk, or did since it was last looked at.
    polls: RefCell<Vec<Arc<Poll>>>,
}

impl Mailbox {
    /// Notes a call that waits for messages of this desk.
    pub(crate) fn polled_by(&self, poll: Arc<Poll>, now: Duration) {
        self.is_polled(now);
        self.polls.borrow_mut().push(poll);
    }

    /// Whether a call waits for messages now. The end of those that do not was when the agent was
    /// last seen.
    pub(crate) fn is_polled(&self, now: Duration) -> bool {
        let mut polls = self.polls.borrow_mut();
        polls.retain(|poll| match poll.ended() {
            Some(ago) => {
                let seen = Some(now.saturating_sub(ago));
                self.last_seen.set(self.last_seen.get().max(seen));
                false
            }
            None => true,
        });
        !polls.is_empty()
    }

    pub(crate) fn enqueue(&self, entry: QueueEntry<Arc<StoredMessage>>) {
        let wanted = self.is_out_of_band(&entry.by, &entry.item.message);
        self.inbox.borrow_mut().arrive(entry);
        self.wake(wanted);
    }

    /// The same for a message that was accepted earlier: it takes a place and its turn by number.
    pub(crate) fn requeue(&self, entry: QueueEntry<Arc<StoredMessage>>) {
        let wanted = self.is_out_of_band(&entry.by, &entry.item.message);
        self.requeue_without_wake(entry);
        self.wake(wanted);
    }

    /// The same without waking the session, for one who does so afterwards.
    pub(crate) fn requeue_without_wake(&self, entry: QueueEntry<Arc<StoredMessage>>) {
        self.slots.take_back(entry.bytes);
        self.inbox.borrow_mut().arrive(entry);
    }

    fn wake(&self, wanted: bool) {
        if self.waits.replace(false) || wanted {
            self.send(Wake);
        }
    }

    /// Whether the agent's code waits for this message while it is busy with another.
    pub(crate) fn is_out_of_band(&self, by: &AgentId, message: &Envelope) -> bool {
        let runtime = self.runtime.borrow();
        runtime
            .as_ref()
            .is_some_and(|runtime| runtime.has_out_of_band() && runtime.is_out_of_band(by, message))
    }

    /// Whether the agent's code may have a message before that is durable.
    pub(crate) fn takes_uncommitted(&self) -> bool {
        self.runtime.borrow().as_ref().is_some_and(|runtime| runtime.takes_uncommitted())
    }

    pub(crate) fn set_runtime(&self, runtime: Option<Arc<dyn AgentRuntime>>) {
        *self.runtime.borrow_mut() = runtime;
    }

    pub(crate) fn set_waiting(&self, waits: bool) {
        self.waits.set(waits);
    }

    /// Sends the session a message; `false` when it is gone or takes none.
    pub(crate) fn send<M>(&self, message: M) -> bool
    where
        M: actix::Message<Result: Send> + Send + 'static,
        Session: actix::Handler<M>,
    {
        let session = self.session.borrow();
        let sent = session.as_ref().map(|session| session.try_send(message));
        let taken = matches!(sent, Some(Ok(())));
        if !taken {
            tracing::error!(agent = %self.agent, "a session did not take a message");
        }
        taken
    }

    pub(crate) fn session(&self) -> Option<Addr<Session>> {
        self.session.borrow().clone()
    }
}

enum Place {
    Open(Rc<Mailbox>),
    /// Its session ended; what is on its way goes to another of the same agent.
    Forwarded(MailboxId),
}

/// All desks, by number.
#[derive(Default)]
pub(crate) struct Mailboxes {
    all: RefCell<Vec<Place>>,
    /// Messages that nobody wants any more and that are still on their way here.
    discarded: RefCell<HashSet<u64>>,
}

impl Mailboxes {
    pub(crate) fn open(&self, agent: AgentId, slots: Slots) -> (MailboxId, Rc<Mailbox>) {
        let mut all = self.all.borrow_mut();
        // Four thousand million sessions in one run of the bus are out of reach.
        let number = MailboxId(u32::try_from(all.len()).unwrap_or(u32::MAX));
        let mailbox = Rc::new(Mailbox {
            agent,
            slots,
            inbox: RefCell::default(),
            session: RefCell::default(),
            waits: Cell::new(false),
            runtime: RefCell::default(),
            attachment: Cell::new(0),
            last_seen: Cell::new(None),
            polls: RefCell::default(),
        });
        all.push(Place::Open(Rc::clone(&mailbox)));
        (number, mailbox)
    }

    pub(crate) fn set_session(mailbox: &Mailbox, session: Addr<Session>) {
        *mailbox.session.borrow_mut() = Some(session);
    }

    pub(crate) fn get(&self, number: MailboxId) -> Option<Rc<Mailbox>> {
        let all = self.all.borrow();
        let mut at = number;
        // It ends: a desk is forwarded to one that is open then, and an agent's first never closes.
        loop {
            match all.get(at.0 as usize)? {
                Place::Open(mailbox) => return Some(Rc::clone(mailbox)),
                Place::Forwarded(to) => at = *to,
            }
        }
    }

    /// Closes a desk; what is still on its way to it goes to `to`.
    pub(crate) fn forward(&self, number: MailboxId, to: MailboxId) {
        if let Some(place) = self.all.borrow_mut().get_mut(number.0 as usize) {
            *place = Place::Forwarded(to);
        }
    }

    /// So much may wait at each desk from now on.
    pub(crate) fn set_limits(&self, limits: InboxLimits) {
        for place in self.all.borrow().iter() {
            if let Place::Open(mailbox) = place {
                mailbox.slots.set_limits(limits);
            }
        }
    }

    /// Takes a place at a desk, for an `exempt` message even beyond its limit.
    pub(crate) fn take_slot(
        &self,
        number: MailboxId,
        exempt: bool,
        bytes: usize,
    ) -> Result<Outcome, InboxFull> {
        match self.all.borrow().get(number.0 as usize) {
            Some(Place::Open(mailbox)) if exempt => {
                mailbox.slots.take_exempt(bytes)?;
                Ok(Outcome::Queued)
            }
            Some(Place::Open(mailbox)) => mailbox.slots.take(bytes),
            _ => Err(InboxFull::Messages { limit: 0 }),
        }
    }

    /// A message that is on its way to the disk is not laid onto any desk when it is there.
    pub(crate) fn discard_on_commit(&self, seq: u64) {
        self.discarded.borrow_mut().insert(seq);
    }

    /// Whether it was to be turned away; that is forgotten with the answer.
    pub(crate) fn take_discarded(&self, seq: u64) -> bool {
        self.discarded.borrow_mut().remove(&seq)
    }

    /// Lays one durable message onto each desk.
    pub(crate) fn deliver(&self, to: &[MailboxId], stored: &Arc<StoredMessage>) {
        if self.take_discarded(stored.seq) {
            return self.release(to, stored.size());
        }
        let all = self.all.borrow();
        for number in to {
            match all.get(number.0 as usize) {
                Some(Place::Open(mailbox)) => mailbox.enqueue(stored.entry(0)),
                // The place that was taken went with the session; it takes one where it goes now.
                _ => drop(self.get(*number).map(|mailbox| mailbox.requeue(stored.entry(0)))),
            }
        }
    }

    /// Whether all of them may have a message before it is durable.
    pub(crate) fn all_take_uncommitted(&self, to: &[MailboxId]) -> bool {
        let all = self.all.borrow();
        let takes = |number: &MailboxId| match all.get(number.0 as usize) {
            Some(Place::Open(mailbox)) => mailbox.takes_uncommitted(),
            _ => false,
        };
        !to.is_empty() && to.iter().all(takes)
    }

    /// Takes a message back that was laid there before it was durable and never will be.
    pub(crate) fn retract(&self, to: &[MailboxId], seq: u64) {
        for mailbox in to.iter().filter_map(|number| self.get(*number)) {
            let mut inbox = mailbox.inbox.borrow_mut();
            if let Some(taken) = inbox.acknowledge(seq).or_else(|| inbox.withdraw(seq)) {
                mailbox.slots.free(taken.bytes);
            }
            drop(inbox);
            if let Some(session) = mailbox.session() {
                // However many there are: a place that is not given back is lost.
                session.do_send(Retracted(seq));
            }
        }
    }

    /// Releases capacity reserved for a message of this size that is not delivered to a mailbox.
    pub(crate) fn release(&self, to: &[MailboxId], bytes: usize) {
        let all = self.all.borrow();
        for number in to {
            if let Some(Place::Open(mailbox)) = all.get(number.0 as usize) {
                mailbox.slots.free(bytes);
            }
        }
    }
}
