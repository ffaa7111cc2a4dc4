//! The task service's side doors: what a request would meet, and who takes its answers.

use std::sync::Arc;

use a2a_policy::{Audience, Caller, Incoming, Limited, assess};
use a2a_protocol::{AgentId, Priority, Receipt};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::{InboxError, Router};
use crate::bus::mailbox::SetRuntime;
use crate::bus::message::Submission;
use crate::bus::router::Reply;
use crate::{AgentRuntime, bus::commit::effects::JournalHealth};

/// Whether a message that is sent later, when it is its turn, would be taken. It is charged now;
/// a refusal is on record like any other. The submission comes back for sending.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Assess {
    pub(crate) caller: Caller,
    pub(crate) submission: Submission,
    pub(crate) reply: oneshot::Sender<Assessed>,
}

/// What [`Assess`] found.
pub(crate) enum Assessed {
    /// It would be taken.
    Fits(Box<Submission>),
    /// It would not; the receipt follows when it is on record.
    Refused(oneshot::Receiver<Receipt>),
}

impl Handler<Assess> for Router {
    type Result = ();

    fn handle(&mut self, Assess { caller, submission, reply }: Assess, ctx: &mut Self::Context) {
        let now = self.bus.clock.now();
        let incoming = Incoming {
            caller: &caller,
            message: submission.message.as_deref(),
            bytes: submission.bytes.len(),
            fingerprints: submission.fingerprints,
        };
        let assessed = match self.unavailable() {
            // It answers so by itself.
            Some(_) => {
                let (answer, receipt) = oneshot::channel();
                self.route(&caller, submission, Some(Reply::Caller(answer)), ctx);
                Assessed::Refused(receipt)
            }
            None => match assess(&incoming, self, now) {
                Ok(()) => Assessed::Fits(Box::new(submission)),
                Err(refusal) => {
                    let (answer, receipt) = oneshot::channel();
                    self.refuse(
                        &caller,
                        refusal,
                        &submission,
                        Some(Reply::Caller(answer)),
                        now,
                        ctx,
                    );
                    Assessed::Refused(receipt)
                }
            },
        };
        let _ = reply.send(assessed);
    }
}

/// Charges a call of A2A that sends no message, or the bytes of one that does.
#[derive(Message)]
#[rtype(result = "Result<(), Limited>")]
pub(crate) struct Charge {
    /// In whose name.
    pub(crate) from: AgentId,
    /// At which agent.
    pub(crate) to: AgentId,
    /// It counts as a message; else that is charged elsewhere.
    pub(crate) counts: bool,
    pub(crate) bytes: usize,
}

impl Handler<Charge> for Router {
    type Result = Result<(), Limited>;

    fn handle(&mut self, charge: Charge, _: &mut Self::Context) -> Self::Result {
        let Charge { from, to, counts, bytes } = charge;
        let now = self.bus.clock.now();
        if counts {
            // A refusal of either costs nothing.
            self.limits.may_send_bytes(&from, bytes, now)?;
            self.limits.charge(&from, Audience::One(&to), Priority::Normal, now)?;
        }
        self.limits.charge_bytes(&from, bytes, now)
    }
}

/// Somebody takes certain messages of an agent, beside its sessions: those its runtime
/// [wants](Runtime::wants_at_once). The agent becomes known, whatever the directory says.
#[derive(Message)]
#[rtype(result = "Result<(), InboxError>")]
pub(crate) struct AttachInterceptor {
    pub(crate) agent: AgentId,
    pub(crate) runtime: Arc<dyn AgentRuntime>,
    /// The name is a caller's and no agent's: it belongs to no scope.
    pub(crate) is_client: bool,
}

impl Handler<AttachInterceptor> for Router {
    type Result = Result<(), InboxError>;

    fn handle(
        &mut self,
        AttachInterceptor { agent, runtime, is_client }: AttachInterceptor,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        if a2a_policy::Roster::is_reserved(&agent) {
            return Err(InboxError::NoSuchAgent);
        }
        if self.bus.stopping.get() || self.bus.journal_status.health.get() == JournalHealth::Broken
        {
            return Err(InboxError::Closed);
        }
        if is_client {
            // Never over an agent: its messages would be taken by the caller's clerk.
            let free = self.roster.client_may_be_called(&agent);
            free.map_err(|_| InboxError::NameTaken)?;
            // A caller, not an agent: nobody needs to know it after a restart.
            self.ensure_agent(agent.clone(), a2a_policy::Profile::default(), false, ctx);
            self.roster.set_client(&agent);
        } else {
            self.roster.agent_may_be_called(&agent).map_err(|_| InboxError::NameTaken)?;
            self.join(&agent, ctx);
        }
        let key = self.roster.key(&agent).ok_or(InboxError::NoSuchAgent)?;
        let (number, mailbox) = match self.sessions[key.index()].interceptor {
            Some(number) => match self.bus.mailboxes.get(number) {
                Some(mailbox) => (number, mailbox),
                None => return Err(InboxError::Closed),
            },
            None => self.open_mailbox(agent, ctx),
        };
        mailbox.slots.set_live(true);
        mailbox.set_runtime(Some(Arc::clone(&runtime)));
        self.sessions[key.index()].interceptor = Some(number);
        // What was owed before a restart lies on the agent's own desk.
        let first = self.sessions[key.index()].first;
        if let Some(first) = self.bus.mailboxes.get(first) {
            let waiting = first.inbox.borrow_mut().drain_idle();
            for entry in waiting {
                first.slots.free(entry.bytes);
                if mailbox.is_out_of_band(&entry.by, &entry.item.message) {
                    // One word below wakes it for all of them; so many would not fit its mailbox.
                    mailbox.requeue_without_wake(entry);
                } else {
                    first.requeue(entry);
                }
            }
        }
        if mailbox.send(SetRuntime(runtime)) { Ok(()) } else { Err(InboxError::Closed) }
    }
}
