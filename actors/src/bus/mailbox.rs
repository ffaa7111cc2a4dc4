//! Mailboxes: the durable messages of each session until they are acknowledged.
//!
//! ```text
//! CommitEffects ──enqueue──▶ Mailbox ──Wake──▶ Session ──┬─ attempts   agent code attached here
//!                             │ Inbox (policy): queue,   └─ pull       agent that polls
//!                             │   leases, retries              │
//!                             │ InboxCapacity (policy)         ▼
//!                             └──────────◀── free ──────── acknowledge ──▶ CommitBuffer
//! ```
//!
//! - [`Mailbox`] is the state of one session: queue, capacity, presence. Router, commit effects and
//!   sessions share it on the bus thread, so enqueueing a message is a push and no actor message.
//! - [`Session`] is the actor that works a mailbox off. It is woken only when it waits: a broadcast
//!   to a thousand busy sessions costs a thousand pushes and not one actor message.
//! - `attempts` runs an agent's code, `pull` serves agents elsewhere. Neither depends on how the
//!   agent is reached.
//! - `acknowledge` ends every delivery and states the whole path of an acknowledgement; `lease`
//!   fails the attempts whose time is over.

mod acknowledge;
mod attempts;
mod lease;
mod pull;
mod session;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use a2a_policy::{Inbox, InboxCapacity, InboxFull, InboxLimits, QueueEntry, SendCause};
use a2a_protocol::{AgentId, CorrelationId, Envelope, Outcome};
use actix::prelude::*;

use crate::bus::message::StoredMessage;
use crate::{AgentRuntime, Delivery};

pub use acknowledge::AckHandle;
pub(crate) use acknowledge::{Settle, Settlement};
pub(crate) use attempts::{CancelRunning, Retracted, StartAttempt};
pub(crate) use pull::{Poll, Polling, Pull, PulledDeliveries};
pub(crate) use session::{
    DetachMode, DetachRuntime, HandOver, Session, SetRuntime, Wake, delivery,
};

/// Index of a mailbox; unlike the mailbox it can travel in actor messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MailboxId(u32);

/// Queue, capacity and presence of one session.
pub(crate) struct Mailbox {
    pub(crate) agent: AgentId,
    pub(crate) capacity: InboxCapacity,
    pub(crate) inbox: RefCell<Inbox<Arc<StoredMessage>>>,
    session: RefCell<Option<Addr<Session>>>,
    /// The session is idle and must be woken when a message arrives.
    waits: Cell<bool>,
    /// Attached agent code, which may await out-of-band messages while the session is busy.
    runtime: RefCell<Option<Arc<dyn AgentRuntime>>>,
    /// Number of the current attachment of agent code; 0 for none so far.
    pub(crate) attachment: Cell<u64>,
    /// Last sign of the agent, as uptime of the bus; `None` for none so far.
    pub(crate) last_seen: Cell<Option<Duration>>,
    /// Polls of this mailbox that wait, or waited when last checked.
    polls: RefCell<Vec<Arc<Poll>>>,
    /// The message that was leased last, by its number, and its conversation.
    last_leased: Cell<Option<(u64, CorrelationId)>>,
    /// The conversation of the message that was settled last, and when that was.
    last_settled: Cell<Option<(CorrelationId, Duration)>>,
}

/// A settled message counts as the cause of what its agent sends for so long.
const SETTLED_WINDOW: Duration = Duration::from_secs(30);

impl Mailbox {
    /// What leads the agent to send now: the message in flight that was leased last, else the one
    /// that was just settled. Of several in flight the others are not considered.
    pub(crate) fn cause(&self, now: Duration) -> SendCause {
        let Some((seq, leased)) = self.last_leased.get() else { return SendCause::Unknown };
        if self.inbox.borrow().get_in_flight(seq).is_some() {
            return SendCause::Message(leased);
        }
        match self.last_settled.get() {
            Some((settled, at)) if now.saturating_sub(at) < SETTLED_WINDOW => {
                SendCause::Message(settled)
            }
            _ => SendCause::Nothing,
        }
    }

    /// Notes that a message was leased.
    pub(crate) fn note_leased(&self, delivery: &Delivery) {
        self.last_leased.set(Some((delivery.seq, delivery.message.correlation_id)));
    }

    /// Notes that a message was settled.
    pub(crate) fn note_settled(&self, message: &Envelope, now: Duration) {
        self.last_settled.set(Some((message.correlation_id, now)));
    }

    /// Registers a poll that waits for messages.
    pub(crate) fn polled_by(&self, poll: Arc<Poll>, now: Duration) {
        self.is_polled(now);
        self.polls.borrow_mut().push(poll);
    }

    /// Whether a poll waits now. The end of finished polls becomes `last_seen`.
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

    /// Enqueues a durable message whose capacity is reserved, and wakes the session if it waits.
    pub(crate) fn enqueue(&self, entry: QueueEntry<Arc<StoredMessage>>) {
        let wanted = self.is_out_of_band(&entry.by, &entry.item.message);
        self.inbox.borrow_mut().arrive(entry);
        self.wake(wanted);
    }

    /// Enqueues a message that was accepted earlier: it takes capacity, and its turn by sequence
    /// number.
    pub(crate) fn requeue(&self, entry: QueueEntry<Arc<StoredMessage>>) {
        let wanted = self.is_out_of_band(&entry.by, &entry.item.message);
        self.requeue_without_wake(entry);
        self.wake(wanted);
    }

    /// Requeues without waking the session; the caller wakes it afterwards.
    pub(crate) fn requeue_without_wake(&self, entry: QueueEntry<Arc<StoredMessage>>) {
        self.capacity.take_back(entry.bytes);
        self.inbox.borrow_mut().arrive(entry);
    }

    fn wake(&self, wanted: bool) {
        if self.waits.replace(false) || wanted {
            self.send(Wake);
        }
    }

    /// Whether the agent's code awaits this message out of band.
    pub(crate) fn is_out_of_band(&self, by: &AgentId, message: &Envelope) -> bool {
        let runtime = self.runtime.borrow();
        runtime
            .as_ref()
            .is_some_and(|runtime| runtime.has_out_of_band() && runtime.is_out_of_band(by, message))
    }

    /// Whether the agent's code may get a message before its commit.
    pub(crate) fn takes_uncommitted(&self) -> bool {
        self.runtime.borrow().as_ref().is_some_and(|runtime| runtime.takes_uncommitted())
    }

    pub(crate) fn set_runtime(&self, runtime: Option<Arc<dyn AgentRuntime>>) {
        *self.runtime.borrow_mut() = runtime;
    }

    pub(crate) fn set_waiting(&self, waits: bool) {
        self.waits.set(waits);
    }

    /// Sends the session a message; `false` when it has ended or is full.
    pub(crate) fn send<M>(&self, message: M) -> bool
    where
        M: actix::Message<Result: Send> + Send + 'static,
        Session: actix::Handler<M>,
    {
        let session = self.session.borrow();
        let sent = session.as_ref().map(|session| session.try_send(message));
        let taken = matches!(sent, Some(Ok(())));
        if !taken {
            tracing::error!(agent = %self.agent, "session refused a message");
        }
        taken
    }

    pub(crate) fn session(&self) -> Option<Addr<Session>> {
        self.session.borrow().clone()
    }
}

enum MailboxState {
    Open(Rc<Mailbox>),
    /// The session ended; messages being committed go to another mailbox of the agent.
    Forwarded(MailboxId),
}

/// All mailboxes, by index.
#[derive(Default)]
pub(crate) struct Mailboxes {
    all: RefCell<Vec<MailboxState>>,
    /// Messages being committed that must not be delivered.
    discarded: RefCell<HashSet<u64>>,
}

impl Mailboxes {
    pub(crate) fn open(&self, agent: AgentId, capacity: InboxCapacity) -> (MailboxId, Rc<Mailbox>) {
        let mut all = self.all.borrow_mut();
        // 2^32 sessions in one run of the bus are out of reach.
        let number = MailboxId(u32::try_from(all.len()).unwrap_or(u32::MAX));
        let mailbox = Rc::new(Mailbox {
            agent,
            capacity,
            inbox: RefCell::default(),
            session: RefCell::default(),
            waits: Cell::new(false),
            runtime: RefCell::default(),
            attachment: Cell::new(0),
            last_seen: Cell::new(None),
            polls: RefCell::default(),
            last_leased: Cell::default(),
            last_settled: Cell::default(),
        });
        all.push(MailboxState::Open(Rc::clone(&mailbox)));
        (number, mailbox)
    }

    pub(crate) fn set_session(mailbox: &Mailbox, session: Addr<Session>) {
        *mailbox.session.borrow_mut() = Some(session);
    }

    pub(crate) fn get(&self, number: MailboxId) -> Option<Rc<Mailbox>> {
        let all = self.all.borrow();
        let mut at = number;
        // Terminates: a mailbox is forwarded to one that is open, and an agent's first never
        // closes.
        loop {
            match all.get(at.0 as usize)? {
                MailboxState::Open(mailbox) => return Some(Rc::clone(mailbox)),
                MailboxState::Forwarded(to) => at = *to,
            }
        }
    }

    /// Closes a mailbox; messages being committed for it go to `to`.
    pub(crate) fn forward(&self, number: MailboxId, to: MailboxId) {
        if let Some(state) = self.all.borrow_mut().get_mut(number.0 as usize) {
            *state = MailboxState::Forwarded(to);
        }
    }

    /// Sets the capacity of every mailbox.
    pub(crate) fn set_limits(&self, limits: InboxLimits) {
        for state in self.all.borrow().iter() {
            if let MailboxState::Open(mailbox) = state {
                mailbox.capacity.set_limits(limits);
            }
        }
    }

    /// Reserves capacity in a mailbox; `exempt` messages may exceed its limit.
    pub(crate) fn take_slot(
        &self,
        number: MailboxId,
        exempt: bool,
        bytes: usize,
    ) -> Result<Outcome, InboxFull> {
        match self.all.borrow().get(number.0 as usize) {
            Some(MailboxState::Open(mailbox)) if exempt => {
                mailbox.capacity.take_exempt(bytes)?;
                Ok(Outcome::Queued)
            }
            Some(MailboxState::Open(mailbox)) => mailbox.capacity.take(bytes),
            _ => Err(InboxFull::Messages { limit: 0 }),
        }
    }

    /// Marks a message that is being committed as not to be delivered.
    pub(crate) fn discard_on_commit(&self, seq: u64) {
        self.discarded.borrow_mut().insert(seq);
    }

    /// Whether the message was discarded; clears the mark.
    pub(crate) fn take_discarded(&self, seq: u64) -> bool {
        self.discarded.borrow_mut().remove(&seq)
    }

    /// Delivers a durable message into each mailbox.
    pub(crate) fn deliver(&self, to: &[MailboxId], stored: &Arc<StoredMessage>) {
        if self.take_discarded(stored.seq) {
            return self.release(to, stored.size());
        }
        let all = self.all.borrow();
        for number in to {
            match all.get(number.0 as usize) {
                Some(MailboxState::Open(mailbox)) => mailbox.enqueue(stored.entry(0)),
                // The reserved capacity went with the session; the message takes capacity where it
                // goes now.
                _ => drop(self.get(*number).map(|mailbox| mailbox.requeue(stored.entry(0)))),
            }
        }
    }

    /// Whether all of the mailboxes take a message before its commit.
    pub(crate) fn all_take_uncommitted(&self, to: &[MailboxId]) -> bool {
        let all = self.all.borrow();
        let takes = |number: &MailboxId| match all.get(number.0 as usize) {
            Some(MailboxState::Open(mailbox)) => mailbox.takes_uncommitted(),
            _ => false,
        };
        !to.is_empty() && to.iter().all(takes)
    }

    /// Takes back a message that was delivered before its commit failed.
    pub(crate) fn retract(&self, to: &[MailboxId], seq: u64) {
        for mailbox in to.iter().filter_map(|number| self.get(*number)) {
            let mut inbox = mailbox.inbox.borrow_mut();
            if let Some(taken) = inbox.acknowledge(seq).or_else(|| inbox.withdraw(seq)) {
                mailbox.capacity.free(taken.bytes);
            }
            drop(inbox);
            if let Some(session) = mailbox.session() {
                // Beyond the limit of the session's queue: capacity that is not returned is lost.
                session.do_send(Retracted(seq));
            }
        }
    }

    /// Releases capacity reserved for a message of this size that is not delivered.
    pub(crate) fn release(&self, to: &[MailboxId], bytes: usize) {
        let all = self.all.borrow();
        for number in to {
            if let Some(MailboxState::Open(mailbox)) = all.get(number.0 as usize) {
                mailbox.capacity.free(bytes);
            }
        }
    }
}
