//! A2A tasks: where they wait, how they move, and how they travel over the bus.
//!
//! ```text
//! queue    one runs per agent and conversation, the rest wait
//! step     what may happen to a task, and when: the one table
//! request  a task as the task_request that puts it into the agent's session
//! heard    what the agent's answers mean for the task
//! progress how often what it says about its progress is passed on
//! age      when nobody will come back to it
//! ```

mod age;
mod heard;
mod progress;
mod queue;
mod request;
mod step;

pub use age::is_given_up;
pub use heard::{ARTIFACT_EXTENSION, ArtifactPiece, Heard, Said, hear};
pub use progress::{PROGRESS_INTERVAL, Pace};
pub use queue::{ContextQueues, Lane, Place, WaitingFull};
pub use request::{Asked, BadRequest, Request, describes_whole, dispatch_id, task_request};
pub use step::{STEPS, Step};
