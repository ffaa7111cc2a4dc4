//! Changes of the directory: agents join, register, claim names and are removed.

use std::sync::Arc;
use std::time::Duration;

use a2a_journal::{EventLine, Fact, Line};
use a2a_policy::{CannotUpdate, NameTaken, Profile, QueueEntry, Roster};
use a2a_protocol::{AgentId, Event};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::Router;
use crate::bus::commit::effects::OnCommit;
use crate::bus::commit::writer::Append;
use crate::bus::message::StoredMessage;

/// How keys of agents begin.
pub(super) const KEY: &str = "agent:";

/// Messages dead-lettered in one turn of the router.
const DEAD_LETTER_BATCH: usize = 100;
/// How long to wait for messages that are on their way to the disk.
const COMMIT_WAIT: Duration = Duration::from_millis(10);
/// How often that is waited for.
const RETRIES: u32 = 500;

/// Why a profile was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The directory refuses it.
    #[error(transparent)]
    Refused(#[from] CannotUpdate),
    /// The bus stops, or cannot write.
    #[error("the bus takes nothing right now; try again later")]
    Unavailable,
}

/// Says what an agent is; the reply comes when that is durable.
#[derive(Message)]
#[rtype(result = "Result<oneshot::Receiver<()>, RegisterError>")]
pub(crate) struct Register {
    pub(crate) agent: AgentId,
    pub(crate) profile: Profile,
}

impl Handler<Register> for Router {
    type Result = Result<oneshot::Receiver<()>, RegisterError>;

    fn handle(&mut self, request: Register, ctx: &mut Self::Context) -> Self::Result {
        let Register { agent, profile } = request;
        if self.unavailable().is_some() {
            return Err(RegisterError::Unavailable);
        }
        self.enter(agent.clone(), profile.clone(), ctx)?;
        let (done, durable) = oneshot::channel();
        let value = serde_json::to_string(&profile).ok();
        let line = Line::Event(EventLine {
            facts: vec![Fact { key: format!("{KEY}{agent}").into(), value: value.map(Into::into) }],
            agent_id: Some(agent),
            ..self.bus.event(Event::Joined)
        });
        self.bus.append(Append { line, on_commit: OnCommit::Notify(done) });
        Ok(durable)
    }
}

/// The A2A clients that have a token now, in place of those claimed before. The reply names those
/// that cannot have their name, because an agent has it.
#[derive(Message)]
#[rtype(result = "Vec<NameTaken>")]
pub(crate) struct ClaimNames(pub(crate) Vec<AgentId>);

impl Handler<ClaimNames> for Router {
    type Result = MessageResult<ClaimNames>;

    fn handle(&mut self, ClaimNames(clients): ClaimNames, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.claim_names(&clients))
    }
}

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
    /// Makes an agent known and gives it its first session; `true` when it was not.
    pub(super) fn ensure_agent(
        &mut self,
        agent: AgentId,
        profile: Profile,
        listed: bool,
        ctx: &mut Context<Self>,
    ) -> bool {
        let Some(key) = self.roster.insert(agent.clone(), profile, listed) else { return false };
        if Roster::is_for_people(&agent) {
            self.roster.set_apart(&agent);
        }
        // One that was removed and returns has its sessions still.
        if key.index() == self.sessions.len() {
            self.open_sessions(agent, ctx);
        }
        true
    }

    /// An agent that appears while the bus runs is known from then on, restarts included.
    pub(super) fn join(&mut self, agent: &AgentId, ctx: &mut Context<Self>) {
        if self.ensure_agent(agent.clone(), Profile::default(), false, ctx) {
            let line = Line::Event(EventLine {
                agent_id: Some(agent.clone()),
                ..self.bus.event(Event::Joined)
            });
            self.bus.append(Append { line, on_commit: OnCommit::Nothing });
        }
    }

    /// Takes an agent into the directory with this profile, or gives it another one.
    pub(super) fn enter(
        &mut self,
        agent: AgentId,
        profile: Profile,
        ctx: &mut Context<Self>,
    ) -> Result<(), CannotUpdate> {
        let key = self.roster.update(agent.clone(), profile)?;
        if key.index() == self.sessions.len() {
            self.open_sessions(agent, ctx);
        }
        Ok(())
    }

    /// Makes a name known that is on record only in a message that survived a restart: the name
    /// is an agent's or a client's.
    pub(super) fn presume(&mut self, agent: &AgentId, ctx: &mut Context<Self>) {
        if self.ensure_agent(agent.clone(), Profile::default(), false, ctx) {
            self.roster.presume(agent);
        }
    }

    pub(super) fn claim_names(&mut self, clients: &[AgentId]) -> Vec<NameTaken> {
        let unnamed = &self.bus.settings.unnamed;
        // No agent can have these, not even one that an older version let in.
        for name in unnamed.iter().filter(|name| self.roster.contains(name)).collect::<Vec<_>>() {
            self.roster.set_client(name);
        }
        let all: Vec<_> = clients.iter().chain(unnamed).cloned().collect();
        self.roster.claim(&all)
    }

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
            facts: vec![Fact { key: format!("{}{agent}", KEY).into(), value: None }],
            ..self.bus.event(Event::Left)
        });
        self.bus.append(Append { line, on_commit: OnCommit::Notify(done) });
        durable
    }
}
