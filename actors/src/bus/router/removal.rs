//! An agent is removed from the directory by a person. It can come back at any time: as a new agent,
//! without what was known of it.

use std::time::Duration;

use a2a_journal::{EventLine, Fact, Line};
use a2a_policy::{QueueEntry, Roster};
use a2a_protocol::{AgentId, Event};
use actix::prelude::*;
use std::sync::Arc;
use tokio::sync::oneshot;

use super::{Router, agents};
use crate::bus::commit::effects::OnCommit;
use crate::bus::commit::writer::Append;
use crate::bus::message::StoredMessage;

/// Messages dead-lettered in one turn of the router.
const DEAD_LETTER_BATCH: usize = 100;
/// How long to wait for messages that are on their way to the disk.
const COMMIT_WAIT: Duration = Duration::from_millis(10);
/// How often that is waited for.
const RETRIES: u32 = 500;

/// Why an agent was not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoveError {
    /// There is none.
    #[error("there is no agent `{0}`")]
    NoSuchAgent(AgentId),
    /// The name is not one of an agent that came by itself.
    #[error(
        "`{0}` is part of the server, a person, or a caller of the A2A gateway; it cannot be removed"
    )]
    Kept(AgentId),
    /// The configuration lists it.
    #[error("`{0}` is listed in [[agents]] of the configuration; remove it there, then here")]
    Listed(AgentId),
    /// It is there.
    #[error(
        "`{0}` is connected or has messages in its hands; stop it first, and wait until the lease of what it took ends"
    )]
    AtWork(AgentId),
    /// Messages wait for it.
    #[error("{owed} messages wait for `{agent}`; handle them, or give them up (drop)")]
    Owed {
        /// Which agent.
        agent: AgentId,
        /// How many.
        owed: usize,
    },
    /// The bus stops, or cannot write.
    #[error("the bus takes nothing right now; try again later")]
    Unavailable,
}

/// What came of a removal: how many messages were dropped, and when it is durable.
pub(crate) type Removal = Result<(usize, oneshot::Receiver<()>), RemoveError>;

/// Removes an agent. With `drop` the messages that wait for it are given up: their senders are
/// notified, and they are dropped.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RemoveAgent {
    pub(crate) agent: AgentId,
    pub(crate) drop: bool,
    /// Who removes it, for the log.
    pub(crate) by: String,
    pub(crate) reply: oneshot::Sender<Removal>,
}

impl Handler<RemoveAgent> for Router {
    type Result = ();

    fn handle(&mut self, request: RemoveAgent, ctx: &mut Self::Context) {
        self.remove(request, 0, RETRIES, ctx);
    }
}

impl Router {
    fn remove(
        &mut self,
        request: RemoveAgent,
        mut dropped: usize,
        retries: u32,
        ctx: &mut Context<Self>,
    ) {
        let owed = match self.may_remove(&request.agent) {
            Ok(owed) => owed,
            Err(error) => return drop(request.reply.send(Err(error))),
        };
        let agent = request.agent.clone();
        if owed > 0 && !request.drop {
            return drop(request.reply.send(Err(RemoveError::Owed { agent, owed })));
        }
        if owed == 0 {
            let done = self.forget(&agent, &request.by);
            return drop(request.reply.send(Ok((dropped, done))));
        }
        let some = self.take_idle(&agent);
        let wait = if some.is_empty() { COMMIT_WAIT } else { Duration::ZERO };
        dropped += some.len();
        for entry in some {
            let (seq, reason) = (entry.seq, format!("`{agent}` was removed by {}", request.by));
            self.dead_letter(Event::DeadLetter, &agent, entry, reason, OnCommit::Nothing, ctx);
            self.resolve_dead_letter(seq, &agent, false, ctx);
        }
        let Some(retries) = retries.checked_sub(1) else {
            return drop(request.reply.send(Err(RemoveError::Unavailable)));
        };
        ctx.run_later(wait, move |router, ctx| router.remove(request, dropped, retries, ctx));
    }

    /// How many messages are owed to an agent that can be removed.
    fn may_remove(&self, agent: &AgentId) -> Result<usize, RemoveError> {
        let key = self.roster.key(agent).ok_or(RemoveError::NoSuchAgent(agent.clone()))?;
        if self.unavailable().is_some() {
            return Err(RemoveError::Unavailable);
        }
        let sessions = &self.sessions[key.index()];
        if Roster::is_reserved(agent) || self.roster.is_apart(key) || sessions.interceptor.is_some()
        {
            return Err(RemoveError::Kept(agent.clone()));
        }
        if self.roster.is_listed(key) {
            return Err(RemoveError::Listed(agent.clone()));
        }
        let now = self.bus.clock.now().uptime;
        let mailboxes = sessions.all().filter_map(|number| self.bus.mailboxes.get(number));
        let mut owed = 0;
        for mailbox in mailboxes {
            let is_at_work = mailbox.slots.is_live()
                || mailbox.is_polled(now)
                || mailbox.inbox.borrow().out() > 0;
            if is_at_work {
                return Err(RemoveError::AtWork(agent.clone()));
            }
            owed += mailbox.slots.taken();
        }
        Ok(owed)
    }

    /// Takes some of what waits for an agent.
    fn take_idle(&self, agent: &AgentId) -> Vec<QueueEntry<Arc<StoredMessage>>> {
        let Some(key) = self.roster.key(agent) else { return Vec::new() };
        let mut taken = Vec::new();
        for number in self.sessions[key.index()].all() {
            let Some(mailbox) = self.bus.mailboxes.get(number) else { continue };
            let some = mailbox.inbox.borrow_mut().take_idle(DEAD_LETTER_BATCH - taken.len());
            some.iter().for_each(|entry| mailbox.slots.free(entry.bytes));
            taken.extend(some);
        }
        taken
    }

    fn forget(&mut self, agent: &AgentId, by: &str) -> oneshot::Receiver<()> {
        if let Some(key) = self.roster.remove(agent) {
            self.sessions[key.index()].sticky.clear();
        }
        let (done, durable) = oneshot::channel();
        let line = Line::Event(EventLine {
            agent_id: Some(agent.clone()),
            reason: Some(format!("removed by {by}")),
            facts: vec![Fact { key: format!("{}{agent}", agents::KEY).into(), value: None }],
            ..self.bus.event(Event::Left)
        });
        self.bus.append(Append { line, on_commit: OnCommit::Notify(done) });
        durable
    }
}
