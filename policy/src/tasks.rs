//! A2A tasks: queueing, state transitions, and the translation to and from bus messages.
//!
//! ```text
//! queue         one task runs per agent and conversation, the others wait
//! transitions   which transition is allowed in which state: one table
//! request       an A2A task as the `task_request` that is sent to the agent
//! agent_update  an agent's response, report or bus notice as an update of its A2A task
//! progress      how often progress updates are forwarded
//! expiry        when a task that waits for its caller expires
//! ```

mod agent_update;
mod expiry;
mod progress;
mod queue;
mod request;
mod transitions;

pub use agent_update::{ARTIFACT_EXTENSION, AgentText, AgentUpdate, ArtifactPiece, interpret};
pub use expiry::is_expired;
pub use progress::{PROGRESS_INTERVAL, Pace};
pub use queue::{ContextQueues, Lane, LaneFull, QueuePosition};
pub use request::{BadRequest, Request, TaskDispatch, describes_whole, dispatch_id, task_request};
pub use transitions::{TASK_TRANSITIONS, TaskTransition};
