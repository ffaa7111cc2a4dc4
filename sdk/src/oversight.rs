//! Oversight for operators: directory, tasks, circuits, access.

use std::sync::Arc;
use std::time::Instant;

use a2a_actors::{BusSystem, CancelError, CircuitView, RegisterError, Submission, TaskFilter};
use a2a_policy::{Assignment, Caller, CircuitKey, Explanation, Profile};
use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Envelope, Kind, Receipt, TaskId};

use super::Bus;

impl Bus {
    /// Registers the profile of an agent: role, squad, tier, c-suite membership and capabilities.
    /// The agent need not exist yet. Durable when this returns.
    ///
    /// Access rules trust profiles, so this is for operators, not for agents.
    ///
    /// # Errors
    /// When the profile is refused, there are too many agents, or the bus cannot write.
    pub async fn register(&self, agent: AgentId, profile: Profile) -> Result<(), RegisterError> {
        self.system.register(agent, profile).await
    }

    /// Explains whether `from` may send `to` a message of this kind (a broadcast: with this scope),
    /// and by which rule; `None` when either agent is unknown.
    pub async fn explain(
        &self,
        from: &AgentId,
        to: &AgentId,
        kind: Kind,
        scope: Option<Scope>,
    ) -> Option<Explanation> {
        self.system.explain(from.clone(), to.clone(), kind, scope).await
    }

    /// A task of the ledger that is open, or ended recently.
    pub async fn task(&self, id: TaskId) -> Option<Assignment> {
        self.system.task(id).await
    }

    /// The last changed tasks, of one agent or of all.
    pub async fn tasks(&self, agent: Option<&AgentId>, limit: usize) -> Vec<Assignment> {
        let filter = TaskFilter { agent: agent.cloned(), ..TaskFilter::default() };
        let (mut tasks, mut place) = (Vec::new(), None);
        loop {
            let rest = limit.saturating_sub(tasks.len());
            let (page, next) = self.system.tasks_page(filter.clone(), place, rest).await;
            tasks.extend(page);
            place = next;
            if place.is_none() || tasks.len() >= limit {
                return tasks;
            }
        }
    }

    /// Cancels a task of any owner.
    ///
    /// # Errors
    /// When there is no such task, or it has ended.
    pub async fn cancel_task(&self, id: TaskId, reason: &str) -> Result<(), CancelError> {
        self.system.cancel_task(id, None, reason.to_owned()).await
    }

    /// Circuits that are not closed, the latest first.
    pub async fn circuits(&self) -> Vec<CircuitView> {
        self.system.circuits().await
    }

    /// Trips the circuit of a conversation, or of one content between two agents, until it is reset
    /// by hand. `None` when the bus has stopped.
    pub async fn trip_circuit(&self, key: CircuitKey, reason: &str) -> Option<CircuitView> {
        self.system.trip_circuit(key, reason.to_owned()).await
    }

    /// Resets a circuit; `false` when it was closed.
    pub async fn reset_circuit(&self, key: &CircuitKey) -> bool {
        self.system.reset_circuit(key.clone()).await
    }

    /// An operator, who may send on behalf of agents.
    ///
    /// The log records both: `by` is the agent, `via` the operator.
    #[must_use]
    pub fn operator(&self, name: &str) -> Operator {
        Operator { name: name.into(), system: self.system.clone() }
    }
}

/// An operator of the bus.
#[derive(Clone)]
pub struct Operator {
    name: Arc<str>,
    system: BusSystem,
}

impl Operator {
    /// Sends a message as the operator: `from` is `operator` or `human`. Refused with the name of
    /// an agent.
    pub async fn send(&self, message: Envelope) -> Receipt {
        self.hand_in(None, message).await
    }

    /// Sends a message on behalf of the agent in its `from`.
    pub async fn send_as(&self, agent: &AgentId, message: Envelope) -> Receipt {
        self.hand_in(Some(agent.clone()), message).await
    }

    async fn hand_in(&self, on_behalf_of: Option<AgentId>, message: Envelope) -> Receipt {
        let caller = Caller::Operator { name: Arc::clone(&self.name), on_behalf_of };
        self.system.send(caller, Submission::from_message(message, Instant::now())).await
    }
}
