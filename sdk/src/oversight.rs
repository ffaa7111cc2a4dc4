//! What people see and stop: the directory, tasks, circuits, who may write to whom.

use std::sync::Arc;
use std::time::Instant;

use a2a_actors::{BusSystem, CancelError, CircuitView, RegisterError, Submission, TaskFilter};
use a2a_policy::{Caller, CircuitKey, Explanation, Profile, Task};
use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Envelope, Kind, Receipt, TaskId};

use super::Bus;

impl Bus {
    /// Says what an agent is: its role, squad, tier, c-suite membership and capabilities. It
    /// need not be there yet. Holds from when this returns, restarts included.
    ///
    /// Access rules trust profiles, so this is for whoever runs the bus, not for agents.
    ///
    /// # Errors
    /// When the profile is refused, there are too many agents, or the bus cannot write.
    pub async fn register(&self, agent: AgentId, profile: Profile) -> Result<(), RegisterError> {
        self.system.register(agent, profile).await
    }

    /// Whether `from` may send `to` a message of this kind (a broadcast: with this scope), and
    /// the rule that says so; `None` when either agent is unknown.
    pub async fn explain(
        &self,
        from: &AgentId,
        to: &AgentId,
        kind: Kind,
        scope: Option<Scope>,
    ) -> Option<Explanation> {
        self.system.explain(from.clone(), to.clone(), kind, scope).await
    }

    /// A task that is open, or ended not long ago.
    pub async fn task(&self, id: TaskId) -> Option<Task> {
        self.system.task(id).await
    }

    /// The tasks that changed last, of one agent or of all.
    pub async fn tasks(&self, agent: Option<&AgentId>, limit: usize) -> Vec<Task> {
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

    /// Calls a task off, whoever asked for it.
    ///
    /// # Errors
    /// When there is no such task, or it has ended.
    pub async fn cancel_task(&self, id: TaskId, reason: &str) -> Result<(), CancelError> {
        self.system.cancel_task(id, None, reason.to_owned()).await
    }

    /// What is stopped, the latest first.
    pub async fn circuits(&self) -> Vec<CircuitView> {
        self.system.circuits().await
    }

    /// Stops a conversation, or one content between two agents, until somebody resets it.
    /// `None` when the bus has stopped.
    pub async fn trip_circuit(&self, key: CircuitKey, reason: &str) -> Option<CircuitView> {
        self.system.trip_circuit(key, reason.to_owned()).await
    }

    /// Lets what was stopped go on; `false` when it was not stopped.
    pub async fn reset_circuit(&self, key: &CircuitKey) -> bool {
        self.system.reset_circuit(key.clone()).await
    }

    /// A person who may send in the name of agents.
    ///
    /// Every message says in the log who sent it: `by` is the agent, `via` the person.
    #[must_use]
    pub fn operator(&self, name: &str) -> Operator {
        Operator { name: name.into(), system: self.system.clone() }
    }
}

/// A person at the bus.
#[derive(Clone)]
pub struct Operator {
    name: Arc<str>,
    system: BusSystem,
}

impl Operator {
    /// Sends a message in the person's own right: `from` is `operator` or `human`. In an agent's
    /// name it is refused.
    pub async fn send(&self, message: Envelope) -> Receipt {
        self.hand_in(None, message).await
    }

    /// Sends a message in the name of the agent that its `from` says.
    pub async fn send_as(&self, agent: &AgentId, message: Envelope) -> Receipt {
        self.hand_in(Some(agent.clone()), message).await
    }

    async fn hand_in(&self, on_behalf_of: Option<AgentId>, message: Envelope) -> Receipt {
        let caller = Caller::Operator { name: Arc::clone(&self.name), on_behalf_of };
        self.system.send(caller, Submission::from_message(message, Instant::now())).await
    }
}
