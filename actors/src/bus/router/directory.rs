//! Changes of the directory: agents join, register, claim names and are removed.
//!
//! A removed agent can return at any time, as a new one without its earlier profile.

use std::sync::Arc;
use std::time::Duration;

use a2a_journal::{EventRecord, Fact, Record};
use a2a_policy::{CannotUpdate, Directory, NameTaken, Profile, QueueEntry};
use a2a_protocol::{AgentId, Event};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::Router;
use crate::bus::commit::effects::OnCommit;
use crate::bus::commit::writer::Append;
use crate::bus::message::StoredMessage;

/// Prefix of the fact keys of agents.
pub(super) const KEY: &str = "agent:";

/// Messages dead-lettered in one turn of the router.
const DEAD_LETTER_BATCH: usize = 100;
/// Pause for messages that are being committed.
const COMMIT_WAIT: Duration = Duration::from_millis(10);
/// Maximum number of such pauses.
const RETRIES: u32 = 500;

/// Why a profile was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The directory refuses it.
    #[error(transparent)]
    Refused(#[from] CannotUpdate),
    /// The bus stops, or cannot write.
    #[error("the bus takes nothing right now; try again later")]
    Unavailable,
}

/// Registers the profile of an agent; the reply comes when that is durable.
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
        let record = Record::Event(EventRecord {
            facts: vec![Fact { key: format!("{KEY}{agent}").into(), value: value.map(Into::into) }],
            agent_id: Some(agent),
            ..self.bus.event(Event::Joined)
        });
        self.bus.append(Append { record, on_commit: OnCommit::Notify(done) });
        Ok(durable)
    }
}

/// Replaces the claimed names by those of the A2A clients that have a token now. The reply lists
/// the names that an agent has already.
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
    /// No such agent.
    #[error("there is no agent `{0}`")]
    NoSuchAgent(AgentId),
    /// The name does not belong to an agent that joined on its own.
    #[error(
        "`{0}` is part of the server, a person, or a caller of the A2A gateway; it cannot be removed"
    )]
    Kept(AgentId),
    /// The configuration lists it.
    #[error("`{0}` is listed in [[agents]] of the configuration; remove it there, then here")]
    Listed(AgentId),
    /// It is connected or has messages in flight.
    #[error(
        "`{0}` is connected or has messages in its hands; stop it first, and wait until the lease of what it took ends"
    )]
    AtWork(AgentId),
    /// Messages wait for it.
    #[error("{owed} messages wait for `{agent}`; handle them, or give them up (drop)")]
    Owed {
        /// The agent.
        agent: AgentId,
        /// Number of messages.
        owed: usize,
    },
    /// The bus stops, or cannot write.
    #[error("the bus takes nothing right now; try again later")]
    Unavailable,
}

/// Result of a removal: number of dropped messages, and the receiver for its commit.
pub(crate) type Removal = Result<(usize, oneshot::Receiver<()>), RemoveError>;

/// Removes an agent. With `drop` its waiting messages are dead-lettered, which notifies their
/// senders, and dropped.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RemoveAgent {
    pub(crate) agent: AgentId,
    pub(crate) drop: bool,
    /// Name of the operator, for the log.
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
    /// Adds an agent to the directory and opens its first session; `true` when it was new.
    pub(super) fn ensure_agent(
        &mut self,
        agent: AgentId,
        profile: Profile,
        listed: bool,
        ctx: &mut Context<Self>,
    ) -> bool {
        let Some(key) = self.directory.insert(agent.clone(), profile, listed) else { return false };
        if Directory::is_for_people(&agent) {
            self.directory.set_apart(&agent);
        }
        // A removed agent that returns still has its sessions.
        if key.index() == self.sessions.len() {
            self.open_sessions(agent, ctx);
        }
        true
    }

    /// Adds an agent that appears at run time; recorded, so that it survives a restart.
    pub(super) fn join(&mut self, agent: &AgentId, ctx: &mut Context<Self>) {
        if self.ensure_agent(agent.clone(), Profile::default(), false, ctx) {
            let record = Record::Event(EventRecord {
                agent_id: Some(agent.clone()),
                ..self.bus.event(Event::Joined)
            });
            self.bus.append(Append { record, on_commit: OnCommit::Nothing });
        }
    }

    /// Adds an agent with this profile, or replaces its profile.
    pub(super) fn enter(
        &mut self,
        agent: AgentId,
        profile: Profile,
        ctx: &mut Context<Self>,
    ) -> Result<(), CannotUpdate> {
        let key = self.directory.update(agent.clone(), profile)?;
        if key.index() == self.sessions.len() {
            self.open_sessions(agent, ctx);
        }
        Ok(())
    }

    /// Adds a name found only in a recovered message: it belongs to an agent or to a client.
    pub(super) fn presume(&mut self, agent: &AgentId, ctx: &mut Context<Self>) {
        if self.ensure_agent(agent.clone(), Profile::default(), false, ctx) {
            self.directory.presume(agent);
        }
    }

    pub(super) fn claim_names(&mut self, clients: &[AgentId]) -> Vec<NameTaken> {
        let unnamed = &self.bus.settings.unnamed;
        // No agent can have these names, not even one that an older version admitted.
        for name in unnamed.iter().filter(|name| self.directory.contains(name)).collect::<Vec<_>>()
        {
            self.directory.set_client(name);
        }
        let all: Vec<_> = clients.iter().chain(unnamed).cloned().collect();
        self.directory.claim(&all)
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

    /// Number of messages owed to an agent that can be removed.
    fn may_remove(&self, agent: &AgentId) -> Result<usize, RemoveError> {
        let key = self.directory.key(agent).ok_or(RemoveError::NoSuchAgent(agent.clone()))?;
        if self.unavailable().is_some() {
            return Err(RemoveError::Unavailable);
        }
        let sessions = &self.sessions[key.index()];
        if Directory::is_reserved(agent)
            || self.directory.is_apart(key)
            || sessions.interceptor.is_some()
        {
            return Err(RemoveError::Kept(agent.clone()));
        }
        if self.directory.is_listed(key) {
            return Err(RemoveError::Listed(agent.clone()));
        }
        let now = self.bus.clock.now().uptime;
        let mailboxes = sessions.all().filter_map(|number| self.bus.mailboxes.get(number));
        let mut owed = 0;
        for mailbox in mailboxes {
            let is_at_work = mailbox.capacity.is_live()
                || mailbox.is_polled(now)
                || mailbox.inbox.borrow().in_flight() > 0;
            if is_at_work {
                return Err(RemoveError::AtWork(agent.clone()));
            }
            owed += mailbox.capacity.taken();
        }
        Ok(owed)
    }

    /// Takes a batch of waiting messages of an agent.
    fn take_idle(&self, agent: &AgentId) -> Vec<QueueEntry<Arc<StoredMessage>>> {
        let Some(key) = self.directory.key(agent) else { return Vec::new() };
        let mut taken = Vec::new();
        for number in self.sessions[key.index()].all() {
            let Some(mailbox) = self.bus.mailboxes.get(number) else { continue };
            let some = mailbox.inbox.borrow_mut().take_idle(DEAD_LETTER_BATCH - taken.len());
            some.iter().for_each(|entry| mailbox.capacity.free(entry.bytes));
            taken.extend(some);
        }
        taken
    }

    fn forget(&mut self, agent: &AgentId, by: &str) -> oneshot::Receiver<()> {
        if let Some(key) = self.directory.remove(agent) {
            self.sessions[key.index()].sticky.clear();
        }
        let (done, durable) = oneshot::channel();
        let record = Record::Event(EventRecord {
            agent_id: Some(agent.clone()),
            reason: Some(format!("removed by {by}")),
            facts: vec![Fact { key: format!("{}{agent}", KEY).into(), value: None }],
            ..self.bus.event(Event::Left)
        });
        self.bus.append(Append { record, on_commit: OnCommit::Notify(done) });
        durable
    }
}
