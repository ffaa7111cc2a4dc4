//! Coming and going: an agent's code attaches and detaches, its inbox is used from outside.

use std::rc::Rc;
use std::sync::Arc;

use a2a_protocol::AgentId;
use actix::prelude::*;

use super::Router;
use crate::Runtime;
use crate::desk::DeskNo;
use crate::session::{HandOver, Pull, SetRuntime, Settle};

/// The code of an agent joins; its number is the reply.
#[derive(Message)]
#[rtype(result = "Result<u64, InboxError>")]
pub(crate) struct Attach {
    pub(crate) agent: AgentId,
    pub(crate) runtime: Arc<dyn Runtime>,
}

impl Handler<Attach> for Router {
    type Result = Result<u64, InboxError>;

    fn handle(
        &mut self,
        Attach { agent, runtime }: Attach,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        let (key, mut desk) = self.first_desk(&agent, ctx)?;
        if desk.slots.is_live() {
            let number;
            (number, desk) = self.open_desk(agent, ctx);
            self.sessions[key.index()].others.push(number);
        }
        // Marked at once, so that a second one attached in the same moment gets its own.
        desk.slots.set_live(true);
        self.attachments += 1;
        desk.attachment.set(self.attachments);
        if desk.tell(SetRuntime(Some(runtime))) {
            Ok(self.attachments)
        } else {
            Err(InboxError::Closed)
        }
    }
}

/// The code of an agent goes away; what its session holds waits for another.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Detach {
    pub(crate) agent: AgentId,
    pub(crate) attachment: u64,
}

impl Handler<Detach> for Router {
    type Result = ();

    fn handle(&mut self, Detach { agent, attachment }: Detach, ctx: &mut Self::Context) {
        let Some(key) = self.roster.key(&agent) else { return };
        let sessions = &mut self.sessions[key.index()];
        let desks = Rc::clone(&self.shared.desks);
        let mut moved = Vec::new();
        let is_it =
            |number: &DeskNo| desks.get(*number).is_some_and(|d| d.attachment.get() == attachment);
        let Some(number) = sessions.all().find(is_it) else { return };
        let Some(gone) = desks.get(number) else { return };
        gone.slots.set_live(false);
        sessions.sticky.retain(|_, stuck| *stuck != number);
        let is_live = |number: &DeskNo| desks.get(*number).is_some_and(|d| d.slots.is_live());
        let live = sessions.all().find(is_live);
        if number == sessions.first {
            gone.tell(SetRuntime(None));
            if live.is_some() {
                // Others of the agent are there: they take over what waits.
                for delivery in gone.inbox.borrow_mut().drain_idle() {
                    gone.slots.free();
                    moved.push(delivery);
                }
            }
            for delivery in moved {
                self.deliver_again(&agent, delivery);
            }
            return;
        }
        sessions.others.retain(|other| *other != number);
        desks.forward(number, live.unwrap_or(sessions.first));
        let Some(session) = gone.session() else { return };
        let held = session.send(HandOver).into_actor(self).map(move |held, router, _| {
            for delivery in held.unwrap_or_default() {
                router.deliver_again(&agent, delivery);
            }
        });
        held.wait(ctx);
    }
}

/// Why an inbox cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// No such agent, or a name no agent may have.
    #[error("there is no such agent, and the directory is not open for new ones")]
    NoSuchAgent,
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
        if self.shared.stopping.get() {
            return Err(InboxError::Closed);
        }
        let told = match request {
            ForInbox::Pull(agent, pull) => self.first_desk(&agent, ctx)?.1.tell(pull),
            ForInbox::Settle(agent, settle) => self.first_desk(&agent, ctx)?.1.tell(settle),
        };
        if told { Ok(()) } else { Err(InboxError::Closed) }
    }
}
