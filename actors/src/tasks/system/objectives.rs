//! The calls of the OPT extension, and messages for whose work the server makes a plan.

use a2a_protocol::AgentId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{OptOperation, Reply, SendMessage, SubscribeObjective};
use a2a_protocol::opt::OptHints;

use super::{TaskCaller, TaskSystem};
use crate::tasks::TaskStream;

impl TaskSystem {
    /// Everything a caller can ask about objectives and plans, but for watching one.
    ///
    /// # Errors
    /// When there is no such objective or plan, or it cannot be changed so.
    pub async fn opt(
        &self,
        _caller: &TaskCaller,
        _agent: &AgentId,
        _operation: OptOperation,
    ) -> Result<Reply, Fault> {
        Err(Fault::Internal)
    }

    /// Watches an objective: as it stands, and everything that happens to it and below it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn watch_objective(
        &self,
        _caller: &TaskCaller,
        _watch: SubscribeObjective,
    ) -> Result<TaskStream, Fault> {
        Err(Fault::Internal)
    }

    /// Says something to an agent, and lets the server decide whether that needs a plan.
    ///
    /// # Errors
    /// When the message, the objective or task it names, or the caller's limits do not allow it.
    pub async fn send_with_opt(
        &self,
        _caller: &TaskCaller,
        _agent: &AgentId,
        _send: SendMessage,
        _hints: OptHints,
    ) -> Result<Reply, Fault> {
        Err(Fault::Internal)
    }

    /// The same, with everything that happens to the first task on the way.
    ///
    /// # Errors
    /// When the message, the objective or task it names, or the caller's limits do not allow it.
    pub async fn stream_with_opt(
        &self,
        _caller: &TaskCaller,
        _agent: &AgentId,
        _send: SendMessage,
        _hints: OptHints,
        _after: Option<u64>,
    ) -> Result<TaskStream, Fault> {
        Err(Fault::Internal)
    }
}
