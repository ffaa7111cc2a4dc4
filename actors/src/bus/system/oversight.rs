//! What those ask of a bus who look after it: who is there, who may, how work stands, what is stopped
//! or was given up.

use a2a_policy::{CircuitKey, Explanation, Holder, NameTaken, Profile, Task};
use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Kind, TaskId};
use tokio::sync::oneshot;

use super::{BusSystem, CancelError, SETTLE_DEADLINE};
use crate::bus::router::{
    CancelTask, ClaimNames, CompareLedger, Explain, FindAgent, FindName, FindTask,
    LedgerComparison, ListAgents, ListCircuits, ListDeadLetters, ListReachable, ListTasks, Part,
    RecordDeleted, Register, RemoveAgent, ResetCircuit, ResolveDeadLetter, TaskPlace, TripCircuit,
    UnacknowledgedAnswers,
};
use crate::{
    AgentView, CircuitView, DeadLetterView, Reach, RegisterError, RemoveError, TaskFilter,
};

/// Parts of which one page is made at most: what a page may cost is bounded, however little of what
/// was looked at is wanted.
const PARTS_OF_A_PAGE: usize = 64;

impl BusSystem {
    /// Everyone the bus knows, by name.
    pub async fn agents(&self) -> Vec<AgentView> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let part = self.agents_part(None, after, usize::MAX).await;
            all.extend(part.found);
            after = part.next;
            if after.is_none() {
                return all;
            }
        }
    }

    /// Up to `limit` agents whose names come after `after`, by name, and where the next page begins.
    /// With a `viewer` only those that it may write to, and itself. A page of which much is hidden may
    /// have fewer, and a next one all the same.
    pub async fn agents_page(
        &self,
        viewer: Option<AgentId>,
        mut after: Option<AgentId>,
        limit: usize,
    ) -> (Vec<AgentView>, Option<AgentId>) {
        let mut page = Vec::new();
        for _ in 0..PARTS_OF_A_PAGE {
            let rest = limit.saturating_sub(page.len());
            let part = self.agents_part(viewer.clone(), after, rest).await;
            page.extend(part.found);
            after = part.next;
            if after.is_none() || page.len() >= limit {
                break;
            }
        }
        (page, after)
    }

    async fn agents_part(
        &self,
        viewer: Option<AgentId>,
        after: Option<AgentId>,
        limit: usize,
    ) -> Part<AgentView, AgentId> {
        self.router.send(ListAgents { viewer, after, limit }).await.unwrap_or_default()
    }

    /// What a caller of A2A of this name may reach; `None` when the bus has stopped.
    pub async fn reach(&self, from: AgentId, most: usize) -> Option<Reach> {
        self.router.send(ListReachable { from, most }).await.ok()
    }

    /// Records that a person deleted an A2A task, beside the records of its request where the
    /// ledger still knows it; returns when that is durable.
    ///
    /// # Errors
    /// The bus stops, or cannot write right now.
    pub async fn record_deleted(&self, task: TaskId, reason: String) -> Result<(), CancelError> {
        let record = RecordDeleted { task, reason };
        let durable = self.router.send(record).await.map_err(|_| CancelError::Unavailable)?;
        let durable = durable.ok_or(CancelError::Unavailable)?;
        match tokio::time::timeout(SETTLE_DEADLINE, durable).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(CancelError::Unavailable),
        }
    }

    /// One agent, also one that is part of the server or only a caller of it.
    pub async fn agent(&self, agent: AgentId) -> Option<AgentView> {
        self.agent_for(None, agent).await
    }

    /// The same for a `viewer`: `None` when it may not write to that agent at all.
    pub async fn agent_for(&self, viewer: Option<AgentId>, agent: AgentId) -> Option<AgentView> {
        self.router.send(FindAgent { viewer, agent }).await.ok().flatten()
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
    pub(crate) async fn unacknowledged_answers(&self) -> Vec<TaskId> {
        self.router.send(UnacknowledgedAnswers).await.unwrap_or_default()
    }

    /// Up to `limit` of the tasks that are wanted, those that changed last first, and where the next
    /// page begins. A page for which much was looked through may have fewer, and a next one all the
    /// same.
    pub async fn tasks_page(
        &self,
        filter: TaskFilter,
        mut behind: Option<TaskPlace>,
        limit: usize,
    ) -> (Vec<Task>, Option<TaskPlace>) {
        let mut page: Vec<Task> = Vec::new();
        for _ in 0..PARTS_OF_A_PAGE {
            let rest = limit.saturating_sub(page.len());
            let part = ListTasks { filter: filter.clone(), behind, limit: rest };
            let part = self.router.send(part).await.unwrap_or_default();
            page.extend(part.found);
            behind = part.next;
            if behind.is_none() || page.len() >= limit {
                break;
            }
        }
        (page, behind)
    }

    /// What the ledger has open, and which of these tasks were cancelled there.
    pub(crate) async fn compare_ledger(&self, known: Vec<TaskId>) -> LedgerComparison {
        self.router.send(CompareLedger(known)).await.unwrap_or_default()
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
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let part = self.router.send(ListDeadLetters { after }).await.unwrap_or_default();
            all.extend(part.found);
            after = part.next;
            if after.is_none() {
                return all;
            }
        }
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
