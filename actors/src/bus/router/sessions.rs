//! Sessions of agents: attach and detach agent code, choose the mailbox of a delivery.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use a2a_policy::{AgentKey, Directory, InboxCapacity, QueueEntry};
use a2a_protocol::{AgentId, CorrelationId, Envelope};
use actix::prelude::*;

use super::Router;
use crate::AgentRuntime;
use crate::bus::commit::effects::JournalHealth;
use crate::bus::mailbox::{
    DetachMode, DetachRuntime, HandOver, Mailbox, MailboxId, Mailboxes, Pull, Session, SetRuntime,
    Settle, Wake,
};
use crate::bus::message::StoredMessage;

/// Maximum conversations remembered per agent with several sessions.
const STICKY: usize = 10_000;

/// Sessions of one agent; the first stays as long as the agent is in the directory.
pub(super) struct AgentSessions {
    pub(super) first: MailboxId,
    pub(super) others: Vec<MailboxId>,
    /// Mailbox of a runtime that takes certain messages beside the sessions.
    pub(super) interceptor: Option<MailboxId>,
    pub(super) sticky: HashMap<CorrelationId, MailboxId>,
}

impl AgentSessions {
    /// Whether the interceptor takes this message.
    pub(super) fn is_intercepted(
        &self,
        by: &AgentId,
        message: &Envelope,
        mailboxes: &Mailboxes,
    ) -> bool {
        let interceptor = self.interceptor.and_then(|number| mailboxes.get(number));
        interceptor.is_some_and(|mailbox| mailbox.is_out_of_band(by, message))
    }

    /// The interceptor if it takes the message, else sticky by conversation, else the least loaded.
    pub(super) fn choose(
        &mut self,
        by: &AgentId,
        message: &Envelope,
        mailboxes: &Mailboxes,
    ) -> MailboxId {
        if let Some(interceptor) = self.interceptor
            && self.is_intercepted(by, message, mailboxes)
        {
            return interceptor;
        }
        let conversation = message.correlation_id;
        if self.others.is_empty() {
            return self.first;
        }
        let is_live = |number: &MailboxId| {
            mailboxes.get(*number).is_some_and(|mailbox| mailbox.capacity.is_live())
        };
        if let Some(stuck) = self.sticky.get(&conversation)
            && (is_live(stuck) || !self.all().any(|number| is_live(&number)))
        {
            return *stuck;
        }
        let load = |number: &MailboxId| {
            mailboxes
                .get(*number)
                .map(|mailbox| (!mailbox.capacity.is_live(), mailbox.capacity.taken()))
        };
        let free = self.all().min_by_key(load).unwrap_or(self.first);
        if self.sticky.len() >= STICKY {
            self.sticky.clear();
        }
        self.sticky.insert(conversation, free);
        free
    }

    pub(super) fn all(&self) -> impl Iterator<Item = MailboxId> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// Why an inbox cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// No such agent, or a reserved name.
    #[error(
        "there is no such agent: the name is kept for the bus and for people, or the directory is not open for new ones"
    )]
    NoSuchAgent,
    /// Agents and A2A clients share one list of names, and this one is taken.
    #[error(
        "the name is taken: an agent and an A2A client cannot have the same one, whatever its case"
    )]
    NameTaken,
    /// Not leased, or settled already.
    #[error("the message is not in flight to you: it was settled before, or never taken")]
    NotTaken,
    /// The bus is stopping.
    #[error("the bus is stopping")]
    Closed,
    /// The settlement could not be written.
    #[error("the bus cannot write its journal right now; the message may come again")]
    NotDurable,
}

/// Attaches agent code; the reply is the number of the attachment.
#[derive(Message)]
#[rtype(result = "Result<u64, InboxError>")]
pub(crate) struct Attach {
    pub(crate) agent: AgentId,
    pub(crate) runtime: Arc<dyn AgentRuntime>,
}

impl Handler<Attach> for Router {
    type Result = Result<u64, InboxError>;

    fn handle(
        &mut self,
        Attach { agent, runtime }: Attach,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        // People have an inbox, but no code.
        if Directory::is_reserved(&agent) {
            return Err(InboxError::NoSuchAgent);
        }
        self.directory.check_agent_name(&agent).map_err(|_| InboxError::NameTaken)?;
        let (key, mut mailbox) = self.first_mailbox(&agent, ctx)?;
        if mailbox.attachment.get() != 0 {
            let number;
            (number, mailbox) = self.open_mailbox(agent.clone(), ctx);
            self.sessions[key.index()].others.push(number);
        }
        // Marked at once, so that a second attachment at the same moment gets its own session.
        mailbox.capacity.set_live(true);
        self.attachments += 1;
        mailbox.attachment.set(self.attachments);
        if !mailbox.send(SetRuntime(runtime)) {
            return Err(InboxError::Closed);
        }
        self.move_waiting(&agent, key);
        Ok(self.attachments)
    }
}

/// Detaches agent code; the messages of its session wait for another.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Detach {
    pub(crate) agent: AgentId,
    pub(crate) attachment: u64,
    pub(crate) mode: DetachMode,
}

impl Handler<Detach> for Router {
    type Result = ();

    fn handle(&mut self, request: Detach, ctx: &mut Self::Context) {
        let Detach { agent, attachment, mode } = request;
        let Some((key, number, gone)) = self.attached(&agent, attachment) else { return };
        let mailboxes = Rc::clone(&self.bus.mailboxes);
        let sessions = &mut self.sessions[key.index()];
        gone.capacity.set_live(false);
        gone.attachment.set(0);
        sessions.sticky.retain(|_, stuck| *stuck != number);
        if number == sessions.first {
            // Waiting messages are moved after that, in order with those that return.
            gone.send(DetachRuntime(mode));
            return;
        }
        let is_live =
            |number: &MailboxId| mailboxes.get(*number).is_some_and(|d| d.capacity.is_live());
        let live = sessions.all().find(is_live);
        sessions.others.retain(|other| *other != number);
        mailboxes.forward(number, live.unwrap_or(sessions.first));
        let Some(session) = gone.session() else { return };
        let held = session.send(HandOver(mode)).into_actor(self).map(move |held, router, _| {
            for entry in held.unwrap_or_default() {
                router.requeue(&agent, entry);
            }
        });
        held.wait(ctx);
    }
}

/// Marks agent code as reachable or not. While unreachable it keeps its messages in flight; waiting
/// ones go to other sessions of the agent, if any.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SetReachable {
    pub(crate) agent: AgentId,
    pub(crate) attachment: u64,
    pub(crate) reachable: bool,
}

impl Handler<SetReachable> for Router {
    type Result = ();

    fn handle(&mut self, request: SetReachable, _: &mut Self::Context) {
        let SetReachable { agent, attachment, reachable } = request;
        let Some((key, number, mailbox)) = self.attached(&agent, attachment) else { return };
        mailbox.capacity.set_live(reachable);
        mailbox.last_seen.set(Some(self.bus.clock.now().uptime));
        if !reachable {
            self.sessions[key.index()].sticky.retain(|_, stuck| *stuck != number);
        }
        self.move_waiting(&agent, key);
        mailbox.send(Wake);
    }
}

/// Moves messages that wait at a session without agent code.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct MoveWaiting(pub(crate) AgentId);

impl Handler<MoveWaiting> for Router {
    type Result = ();

    fn handle(&mut self, MoveWaiting(agent): MoveWaiting, _: &mut Self::Context) {
        if let Some(key) = self.directory.key(&agent) {
            self.move_waiting(&agent, key);
        }
    }
}

/// Attaches a runtime that takes the messages of an agent that are [out of
/// band](AgentRuntime::is_out_of_band), beside its sessions. The agent is added to the directory
/// even if that is closed.
#[derive(Message)]
#[rtype(result = "Result<(), InboxError>")]
pub(crate) struct AttachInterceptor {
    pub(crate) agent: AgentId,
    pub(crate) runtime: Arc<dyn AgentRuntime>,
    /// The name belongs to a caller and not to an agent: it has no scope.
    pub(crate) is_client: bool,
}

impl Handler<AttachInterceptor> for Router {
    type Result = Result<(), InboxError>;

    fn handle(
        &mut self,
        AttachInterceptor { agent, runtime, is_client }: AttachInterceptor,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        if a2a_policy::Directory::is_reserved(&agent) {
            return Err(InboxError::NoSuchAgent);
        }
        if self.bus.stopping.get() || self.bus.journal_status.health.get() == JournalHealth::Broken
        {
            return Err(InboxError::Closed);
        }
        if is_client {
            // Never over an agent: the interceptor of the caller would take its messages.
            let free = self.directory.check_client_name(&agent);
            free.map_err(|_| InboxError::NameTaken)?;
            // A caller, not an agent: it need not survive a restart.
            self.ensure_agent(agent.clone(), a2a_policy::Profile::default(), false, ctx);
            self.directory.set_client(&agent);
        } else {
            self.directory.check_agent_name(&agent).map_err(|_| InboxError::NameTaken)?;
            self.join(&agent, ctx);
        }
        let key = self.directory.key(&agent).ok_or(InboxError::NoSuchAgent)?;
        let (number, mailbox) = match self.sessions[key.index()].interceptor {
            Some(number) => match self.bus.mailboxes.get(number) {
                Some(mailbox) => (number, mailbox),
                None => return Err(InboxError::Closed),
            },
            None => self.open_mailbox(agent, ctx),
        };
        mailbox.capacity.set_live(true);
        mailbox.set_runtime(Some(Arc::clone(&runtime)));
        self.sessions[key.index()].interceptor = Some(number);
        // Messages recovered from before a restart wait in the agent's own mailbox.
        let first = self.sessions[key.index()].first;
        if let Some(first) = self.bus.mailboxes.get(first) {
            let waiting = first.inbox.borrow_mut().drain_idle();
            for entry in waiting {
                first.capacity.free(entry.bytes);
                if mailbox.is_out_of_band(&entry.by, &entry.item.message) {
                    // `SetRuntime` below wakes the session once; a wake-up each would exceed its
                    // queue.
                    mailbox.requeue_without_wake(entry);
                } else {
                    first.requeue(entry);
                }
            }
        }
        if mailbox.send(SetRuntime(runtime)) { Ok(()) } else { Err(InboxError::Closed) }
    }
}

/// A request to the first session of an agent.
#[derive(Message)]
#[rtype(result = "Result<(), InboxError>")]
pub(crate) enum ForInbox {
    Pull(AgentId, Pull),
    Settle(AgentId, Settle),
}

impl Handler<ForInbox> for Router {
    type Result = Result<(), InboxError>;

    fn handle(&mut self, request: ForInbox, ctx: &mut Self::Context) -> Self::Result {
        if self.bus.stopping.get() {
            return Err(InboxError::Closed);
        }
        let sent = match request {
            ForInbox::Pull(agent, pull) => self.first_mailbox(&agent, ctx)?.1.send(pull),
            ForInbox::Settle(agent, settle) => self.first_mailbox(&agent, ctx)?.1.send(settle),
        };
        if sent { Ok(()) } else { Err(InboxError::Closed) }
    }
}

impl Router {
    /// Opens the first session of the agent that was just added to the directory.
    pub(super) fn open_sessions(&mut self, agent: AgentId, ctx: &mut Context<Self>) {
        debug_assert_eq!(
            self.directory.key(&agent).map(AgentKey::index),
            Some(self.sessions.len())
        );
        let (first, _) = self.open_mailbox(agent, ctx);
        self.sessions.push(AgentSessions {
            first,
            others: Vec::new(),
            interceptor: None,
            sticky: HashMap::new(),
        });
    }

    pub(super) fn open_mailbox(
        &mut self,
        agent: AgentId,
        ctx: &mut Context<Self>,
    ) -> (MailboxId, Rc<Mailbox>) {
        let capacity = InboxCapacity::new(self.inbox_limits, self.bus.settings.prompt_slots);
        let (number, mailbox) = self.bus.mailboxes.open(agent, capacity);
        let bus = Rc::clone(&self.bus);
        let session = Session::new(Rc::clone(&mailbox), ctx.address(), bus);
        Mailboxes::set_session(&mailbox, session.start());
        (number, mailbox)
    }

    /// Delivers a message accepted earlier: after a restart, from an ended session, or a dead
    /// letter.
    pub(super) fn requeue(&mut self, agent: &AgentId, entry: QueueEntry<Arc<StoredMessage>>) {
        let Some(key) = self.directory.key(agent) else { return };
        let (by, message) = (&entry.by, &entry.item.message);
        let number = self.sessions[key.index()].choose(by, message, &self.bus.mailboxes);
        if let Some(mailbox) = self.bus.mailboxes.get(number) {
            mailbox.requeue(entry);
        }
    }

    /// First mailbox of an agent that polls; admits the agent if needed.
    pub(super) fn first_mailbox(
        &mut self,
        agent: &AgentId,
        ctx: &mut Context<Self>,
    ) -> Result<(AgentKey, Rc<Mailbox>), InboxError> {
        if !Directory::may_be_answered(agent) {
            return Err(InboxError::NoSuchAgent);
        }
        if !Directory::is_for_people(agent) {
            self.directory.check_agent_name(agent).map_err(|_| InboxError::NameTaken)?;
            self.directory.confirm(agent);
        }
        if !self.directory.contains(agent) {
            if !self.directory.admits(agent) && !Directory::is_for_people(agent) {
                return Err(InboxError::NoSuchAgent);
            }
            if self.unavailable().is_some() {
                return Err(InboxError::Closed);
            }
            self.join(agent, ctx);
        }
        let key = self.directory.key(agent).ok_or(InboxError::NoSuchAgent)?;
        let first = self.sessions[key.index()].first;
        let mailbox = self.bus.mailboxes.get(first).ok_or(InboxError::NoSuchAgent)?;
        Ok((key, mailbox))
    }

    /// The mailbox with this attachment.
    fn attached(
        &self,
        agent: &AgentId,
        attachment: u64,
    ) -> Option<(AgentKey, MailboxId, Rc<Mailbox>)> {
        let key = self.directory.key(agent)?;
        let mailboxes = &self.bus.mailboxes;
        let all = self.sessions[key.index()].all();
        let mut all = all.filter_map(|number| Some((key, number, mailboxes.get(number)?)));
        all.find(|(_, _, mailbox)| mailbox.attachment.get() == attachment)
    }

    /// Moves messages from mailboxes without reachable code to those with it.
    fn move_waiting(&mut self, agent: &AgentId, key: AgentKey) {
        let mailboxes = Rc::clone(&self.bus.mailboxes);
        let all = self.sessions[key.index()].all().filter_map(|number| mailboxes.get(number));
        let (here, away): (Vec<_>, Vec<_>) = all.partition(|mailbox| mailbox.capacity.is_live());
        if here.is_empty() {
            return;
        }
        let mut moved = Vec::new();
        for mailbox in away {
            for entry in mailbox.inbox.borrow_mut().drain_idle() {
                mailbox.capacity.free(entry.bytes);
                moved.push(entry);
            }
        }
        for entry in moved {
            self.requeue(agent, entry);
        }
    }
}
