//! Calls of operators and of the gateway: directory, access, tasks, circuits, dead letters.

use a2a_policy::{Assignment, CircuitKey, Explanation, Holder, NameTaken, Profile};
use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Kind, TaskId};
use tokio::sync::oneshot;

use super::{BusSystem, CancelError, SETTLE_DEADLINE};
use crate::bus::router::{
    CancelTask, ClaimNames, CompareLedger, Explain, FindAgent, FindName, FindTask,
    LedgerComparison, ListAgents, ListCircuits, ListDeadLetters, ListReachable, ListTasks, Part,
    RecordDeleted, Register, RemoveAgent, ResetCircuit, ResolveDeadLetter, TaskCursor, TripCircuit,
    UnacknowledgedAnswers,
};
use crate::{
    AgentView, CircuitView, DeadLetterView, ReachableAgents, RegisterError, RemoveError, TaskFilter,
};

/// Maximum parts read for one page. It bounds the cost of a page whose filter matches little.
const PARTS_OF_A_PAGE: usize = 64;

impl BusSystem {
    /// All agents, by name.
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

    /// Up to `limit` agents whose names follow `after`, and where the next page begins. With a
    /// `viewer` only those that it may write to, and itself. A page may have fewer entries and
    /// still have a next one.
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

    /// Agents that an A2A caller of this name may reach; `None` when the bus has stopped.
    pub async fn reach(&self, from: AgentId, most: usize) -> Option<ReachableAgents> {
        self.router.send(ListReachable { from, most }).await.ok()
    }

    /// Records that an operator deleted an A2A task, linked to its request where the ledger still
    /// has it. Returns when that is durable.
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

    /// One agent, including those that are part of the server or only a caller of it.
    pub async fn agent(&self, agent: AgentId) -> Option<AgentView> {
        self.agent_for(None, agent).await
    }

    /// One agent as `viewer` sees it: `None` when the viewer may not write to it.
    pub async fn agent_for(&self, viewer: Option<AgentId>, agent: AgentId) -> Option<AgentView> {
        self.router.send(FindAgent { viewer, agent }).await.ok().flatten()
    }

    /// Registers the profile of an agent, also across restarts; returns when that is durable.
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

    /// Removes an agent from the directory and returns how many of its messages were dropped. `by`
    /// is the name of the operator, for the log.
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

    /// Replaces the claimed names by those of the A2A clients that have a token now. Returns the
    /// names that an agent has already; `None` when the bus has stopped.
    pub async fn claim_names(&self, clients: Vec<AgentId>) -> Option<Vec<NameTaken>> {
        self.router.send(ClaimNames(clients)).await.ok()
    }

    /// Holder of a name in any case, and its spelling: an agent, or an A2A client.
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

    /// A task that is open, or ended recently.
    pub async fn task(&self, id: TaskId) -> Option<Assignment> {
        self.router.send(FindTask(id)).await.ok().flatten()
    }

    /// Tasks with a final answer that is not acknowledged yet.
    pub(crate) async fn unacknowledged_answers(&self) -> Vec<TaskId> {
        self.router.send(UnacknowledgedAnswers).await.unwrap_or_default()
    }

    /// Up to `limit` tasks that match the filter, last changed first, and where the next page
    /// begins. A page may have fewer entries and still have a next one.
    pub async fn tasks_page(
        &self,
        filter: TaskFilter,
        mut behind: Option<TaskCursor>,
        limit: usize,
    ) -> (Vec<Assignment>, Option<TaskCursor>) {
        let mut page: Vec<Assignment> = Vec::new();
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

    /// Open tasks of the ledger, and which of `known` were cancelled there.
    pub(crate) async fn compare_ledger(&self, known: Vec<TaskId>) -> LedgerComparison {
        self.router.send(CompareLedger(known)).await.unwrap_or_default()
    }

    /// Cancels a task in the name of its requester (`by`) or of an operator (`None`). Returns when
    /// that is durable: no answer to it is accepted any more.
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

    /// Open circuits, the latest first.
    pub async fn circuits(&self) -> Vec<CircuitView> {
        self.router.send(ListCircuits).await.unwrap_or_default()
    }

    /// Trips the circuit of a conversation, or of one content between two agents, until it is
    /// reset; `None` when the bus has stopped.
    pub async fn trip_circuit(&self, key: CircuitKey, reason: String) -> Option<CircuitView> {
        self.router.send(TripCircuit { key, reason }).await.ok()
    }

    /// Resets a circuit; `false` when it was not open.
    pub async fn reset_circuit(&self, key: CircuitKey) -> bool {
        self.router.send(ResetCircuit(key)).await.unwrap_or(false)
    }

    /// All dead letters.
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

    /// Redelivers a dead letter; `false` when there is none.
    pub async fn retry_dead_letter(&self, seq: u64, agent: AgentId) -> bool {
        self.router.send(ResolveDeadLetter { seq, agent, again: true }).await.unwrap_or(false)
    }

    /// Drops a dead letter; `false` when there is none.
    pub async fn drop_dead_letter(&self, seq: u64, agent: AgentId) -> bool {
        self.router.send(ResolveDeadLetter { seq, agent, again: false }).await.unwrap_or(false)
    }
}
