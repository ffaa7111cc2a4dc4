//! Coming and going: an agent's code attaches and detaches, its inbox is used from outside.

use std::rc::Rc;
use std::sync::Arc;

use a2a_policy::{AgentKey, Roster};
use a2a_protocol::AgentId;
use actix::prelude::*;

use super::Router;
use crate::AgentRuntime;
use crate::bus::mailbox::{Departure, HandOver, Leave, Pull, SetRuntime, Settle, Wake};
use crate::bus::mailbox::{Mailbox, MailboxId};

/// The code of an agent joins; its number is the reply.
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
        if Roster::is_reserved(&agent) {
            return Err(InboxError::NoSuchAgent);
        }
        self.roster.agent_may_be_called(&agent).map_err(|_| InboxError::NameTaken)?;
        let (key, mut mailbox) = self.first_mailbox(&agent, ctx)?;
        if mailbox.attachment.get() != 0 {
            let number;
            (number, mailbox) = self.open_mailbox(agent.clone(), ctx);
            self.sessions[key.index()].others.push(number);
        }
        // Marked at once, so that a second one attached in the same moment gets its own.
        mailbox.slots.set_live(true);
        self.attachments += 1;
        mailbox.attachment.set(self.attachments);
        if !mailbox.send(SetRuntime(runtime)) {
            return Err(InboxError::Closed);
        }
        self.move_waiting(&agent, key);
        Ok(self.attachments)
    }
}

/// The code of an agent goes away; what its session holds waits for another.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Detach {
    pub(crate) agent: AgentId,
    pub(crate) attachment: u64,
    pub(crate) departure: Departure,
}

impl Handler<Detach> for Router {
    type Result = ();

    fn handle(&mut self, request: Detach, ctx: &mut Self::Context) {
        let Detach { agent, attachment, departure } = request;
        let Some((key, number, gone)) = self.attached(&agent, attachment) else { return };
        let mailboxes = Rc::clone(&self.bus.mailboxes);
        let sessions = &mut self.sessions[key.index()];
        gone.slots.set_live(false);
        gone.attachment.set(0);
        sessions.sticky.retain(|_, stuck| *stuck != number);
        if number == sessions.first {
            // What waits is moved when that is done, together with what comes back: in order.
            gone.send(Leave(departure));
            return;
        }
        let is_live =
            |number: &MailboxId| mailboxes.get(*number).is_some_and(|d| d.slots.is_live());
        let live = sessions.all().find(is_live);
        sessions.others.retain(|other| *other != number);
        mailboxes.forward(number, live.unwrap_or(sessions.first));
        let Some(session) = gone.session() else { return };
        let held =
            session.send(HandOver(departure)).into_actor(self).map(move |held, router, _| {
                for entry in held.unwrap_or_default() {
                    router.requeue(&agent, entry);
                }
            });
        held.wait(ctx);
    }
}

/// The code of an agent cannot be reached for a while, or can be again. It keeps what is in its
/// hands; what waits for it goes to others of the agent, if there are any.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SetPresent {
    pub(crate) agent: AgentId,
    pub(crate) attachment: u64,
    pub(crate) present: bool,
}

impl Handler<SetPresent> for Router {
    type Result = ();

    fn handle(&mut self, request: SetPresent, _: &mut Self::Context) {
        let SetPresent { agent, attachment, present } = request;
        let Some((key, number, mailbox)) = self.attached(&agent, attachment) else { return };
        mailbox.slots.set_live(present);
        mailbox.last_seen.set(Some(self.bus.clock.now().uptime));
        if !present {
            self.sessions[key.index()].sticky.retain(|_, stuck| *stuck != number);
        }
        self.move_waiting(&agent, key);
        mailbox.send(Wake);
    }
}

/// Something waits at a session of the agent where nobody is.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct MoveWaiting(pub(crate) AgentId);

impl Handler<MoveWaiting> for Router {
    type Result = ();

    fn handle(&mut self, MoveWaiting(agent): MoveWaiting, _: &mut Self::Context) {
        if let Some(key) = self.roster.key(&agent) {
            self.move_waiting(&agent, key);
        }
    }
}

impl Router {
    /// The desk where this attachment of an agent's code is.
    fn attached(
        &self,
        agent: &AgentId,
        attachment: u64,
    ) -> Option<(AgentKey, MailboxId, Rc<Mailbox>)> {
        let key = self.roster.key(agent)?;
        let mailboxes = &self.bus.mailboxes;
        let all = self.sessions[key.index()].all();
        let mut all = all.filter_map(|number| Some((key, number, mailboxes.get(number)?)));
        all.find(|(_, _, mailbox)| mailbox.attachment.get() == attachment)
    }

    /// What waits where nobody is goes where somebody is.
    fn move_waiting(&mut self, agent: &AgentId, key: AgentKey) {
        let mailboxes = Rc::clone(&self.bus.mailboxes);
        let all = self.sessions[key.index()].all().filter_map(|number| mailboxes.get(number));
        let (here, away): (Vec<_>, Vec<_>) = all.partition(|mailbox| mailbox.slots.is_live());
        if here.is_empty() {
            return;
        }
        let mut moved = Vec::new();
        for mailbox in away {
            for entry in mailbox.inbox.borrow_mut().drain_idle() {
                mailbox.slots.free(entry.bytes);
                moved.push(entry);
            }
        }
        for entry in moved {
            self.requeue(agent, entry);
        }
    }
}

/// Why an inbox cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// No such agent, or a name no agent may have.
    #[error(
        "there is no such agent: the name is kept for the bus and for people, or the directory is not open for new ones"
    )]
    NoSuchAgent,
    /// Agents and A2A clients share one list of names, and this one is taken.
    #[error(
        "the name is taken: an agent and an A2A client cannot have the same one, whatever its case"
    )]
    NameTaken,
    /// Not handed out, or settled already.
    #[error("the message is not in your hands: it was settled before, or never taken")]
    NotTaken,
    /// The bus is stopping.
    #[error("the bus is stopping")]
    Closed,
    /// The settlement could not be written.
    #[error("the bus cannot write its journal right now; the message may come again")]
    NotDurable,
}

/// Something for the first session of an agent.
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
