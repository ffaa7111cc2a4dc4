//! What those ask of a bus who look after it: who is there, who may, how work stands, what is stopped
//! or was given up.

use a2a_policy::{CircuitKey, Explanation, Holder, NameTaken, Profile, Task};
use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Kind, TaskId};
use tokio::sync::oneshot;

use super::{BusSystem, CancelError, SETTLE_DEADLINE};
use crate::router::{
    CancelTask, ClaimNames, Explain, FindAgent, FindName, FindTask, ListAgents, ListCircuits,
    ListDeadLetters, ListTasks, Register, RemoveAgent, ResetCircuit, ResolveDeadLetter,
    TripCircuit, UnheardAnswers,
};
use crate::{AgentView, CircuitView, DeadLetterView, RegisterError, RemoveError, TaskFilter};

impl BusSystem {
    /// Everyone the bus knows.
    pub async fn agents(&self) -> Vec<AgentView> {
        self.router.send(ListAgents).await.unwrap_or_default()
    }

    /// One agent, also one that is part of the server or only a caller of it.
    pub async fn agent(&self, agent: AgentId) -> Option<AgentView> {
        self.router.send(FindAgent(agent)).await.ok().flatten()
    }

    /// Says what an agent is, from now on and after restarts; returns when that is durable.
    ///
    /// # Errors
    /// When the directory refuses it, or the bus cannot write.
    pub async fn register(&self, agent: AgentId, profile: Profile) -> Result<(), RegisterError> {
        let request = Register { agent, profile };
        let durable = self.router.send(request).await.unwrap_or(Err(RegisterError::Unavailable))?;
        match tokio::time::timeout(SETTLE_DEADLINE, durable).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(RegisterError::Unavailable),
        }
    }

    /// Removes an agent from the directory; how many of its messages were dropped. `by` is who
    /// does it, for the log.
    ///
    /// # Errors
    /// When there is no such agent, it is at work or listed, or messages wait for it and `drop` is
    /// not set.
    pub async fn remove_agent(
        &self,
        agent: AgentId,
        drop: bool,
        by: String,
    ) -> Result<usize, RemoveError> {
        let (reply, removal) = oneshot::channel();
        let sent = self.router.send(RemoveAgent { agent, drop, by, reply }).await;
        sent.map_err(|_| RemoveError::Unavailable)?;
        let (dropped, durable) = removal.await.map_err(|_| RemoveError::Unavailable)??;
        match tokio::time::timeout(SETTLE_DEADLINE, durable).await {
            Ok(Ok(())) => Ok(dropped),
            _ => Err(RemoveError::Unavailable),
        }
    }

    /// Claims the names of the A2A clients that have a token now, in place of those claimed
    /// before. Returns those that cannot have their name, because an agent has it; `None` when
    /// the bus has stopped.
    pub async fn claim_names(&self, clients: Vec<AgentId>) -> Option<Vec<NameTaken>> {
        self.router.send(ClaimNames(clients)).await.ok()
    }

    /// Who holds a name in any case, as it is spelled: an agent, or an A2A client.
    pub async fn name_holder(&self, name: String) -> Option<(String, Holder)> {
        self.router.send(FindName(name)).await.ok().flatten()
    }

    /// Whether, and by which rule, one agent may write to another; `None` when either is unknown.
    pub async fn explain(
        &self,
        from: AgentId,
        to: AgentId,
        kind: Kind,
        scope: Option<Scope>,
    ) -> Option<Explanation> {
        self.router.send(Explain { from, to, kind, scope }).await.ok().flatten()
    }

    /// A task that is open, or ended not long ago.
    pub async fn task(&self, id: TaskId) -> Option<Task> {
        self.router.send(FindTask(id)).await.ok().flatten()
    }

    /// The tasks that somebody has ended by an answer which nobody has acknowledged.
    pub(crate) async fn unheard_answers(&self) -> Vec<TaskId> {
        self.router.send(UnheardAnswers).await.unwrap_or_default()
    }

    /// The tasks that changed last among those that are wanted.
    pub async fn tasks(&self, filter: TaskFilter, limit: usize) -> Vec<Task> {
        self.router.send(ListTasks { filter, limit }).await.unwrap_or_default()
    }

    /// Calls a task off in the name of whoever asked for it (`by`), or of a person (`None`).
    /// Returns when that is durable: no answer to it is accepted any more.
    ///
    /// # Errors
    /// When there is no such task, it is not theirs, or it has ended.
    pub async fn cancel_task(
        &self,
        task: TaskId,
        by: Option<AgentId>,
        reason: String,
    ) -> Result<(), CancelError> {
        let reason: String = reason.chars().take(2_000).collect();
        let request = CancelTask { task, by, reason };
        let durable = self.router.send(request).await.map_err(|_| CancelError::Unavailable)??;
        match tokio::time::timeout(SETTLE_DEADLINE, durable).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(CancelError::Unavailable),
        }
    }

    /// Conversations that are stopped, the latest first.
    pub async fn circuits(&self) -> Vec<CircuitView> {
        self.router.send(ListCircuits).await.unwrap_or_default()
    }

    /// Stops a conversation, or one content between two agents, until somebody resets it;
    /// `None` when the bus has stopped.
    pub async fn trip_circuit(&self, key: CircuitKey, reason: String) -> Option<CircuitView> {
        self.router.send(TripCircuit { key, reason }).await.ok()
    }

    /// Lets what was stopped go on; `false` when it was not stopped.
    pub async fn reset_circuit(&self, key: CircuitKey) -> bool {
        self.router.send(ResetCircuit(key)).await.unwrap_or(false)
    }

    /// Messages that were given up.
    pub async fn dead_letters(&self) -> Vec<DeadLetterView> {
        self.router.send(ListDeadLetters).await.unwrap_or_default()
    }

    /// Sends a dead letter again; `false` when there is none.
    pub async fn retry_dead_letter(&self, seq: u64, agent: AgentId) -> bool {
        self.router.send(ResolveDeadLetter { seq, agent, again: true }).await.unwrap_or(false)
    }

    /// Throws a dead letter away; `false` when there is none.
    pub async fn drop_dead_letter(&self, seq: u64, agent: AgentId) -> bool {
        self.router.send(ResolveDeadLetter { seq, agent, again: false }).await.unwrap_or(false)
    }
}
