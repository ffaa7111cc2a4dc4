//! SDK for authors of agents: start a bus, attach agents, send and handle messages.
//!
//! ```text
//! Bus ── attach(name, handler) ─▶ Agent ── send_…(draft) ─▶ Sent, or SendError
//!          ▲                        └───── request_task ─▶ TaskHandle ─▶ TaskUpdate …
//!          └── Delivery ─▶ Handler, Handlers
//! ```
//!
//! - `draft`: messages to write. `send`, `sent`: sending them, and the result.
//! - `handler`, `handlers`: code that gets deliveries. `work`, `feed`: tasks that are watched.
//! - `progress`: progress bars. `a2a`: tasks of A2A clients. `oversight`: operations for people.

mod a2a;
mod agent;
mod draft;
mod feed;
mod handler;
mod handlers;
mod oversight;
mod progress;
mod send;
mod sent;
mod trace;
mod work;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use a2a_actors::{
    AgentView, BusSettings, BusSystem, BusThread, DeadLetterView, StartError, Stopped,
};
use a2a_journal::{
    Commit, Journal, MemoryJournal, OpenError, Options, Recovered, RecoveryReport, Retention,
};
use a2a_protocol::{AgentId, BadAgentId};
use parking_lot::Mutex;

pub use a2a::{A2aRequest, REFERENCE_EXTENSION};
pub use agent::Agent;
pub use draft::{
    Addressee, Announcement, BuildError, Draft, FollowUp, Knowledge, NewReview, NewTask,
    ReviewAnswer, StatusReport, TaskAnswer, When,
};
pub use handler::{Answer, Handler};
use handler::{HandlerThread, SyncAnswer};
pub use handlers::Handlers;
pub use oversight::Operator;
pub use progress::ProgressBars;
pub use send::parse_message;
pub use sent::{SendError, Sent};
pub use work::{Finished, TaskError, TaskHandle, TaskUpdate};

use feed::WatchedTasks;

/// A bus that runs in this process.
///
/// Clones are handles to the same bus. It runs until [`Bus::stop`].
#[derive(Clone)]
pub struct Bus {
    system: BusSystem,
    thread: Arc<Mutex<Option<BusThread>>>,
    report: Arc<RecoveryReport>,
    watched: Arc<WatchedTasks>,
}

/// Opening a bus has failed.
#[derive(Debug, thiserror::Error)]
pub enum OpenBusError {
    /// The journal could not be opened.
    #[error("cannot open the journal: {0}")]
    Journal(#[from] OpenError),
    /// The threads could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Attaching an agent has failed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The name is not a valid agent id.
    #[error("`{name}`: {source}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        source: BadAgentId,
    },
    /// The bus refuses the agent.
    #[error("`{agent}` cannot join: {source}")]
    Refused {
        /// The agent.
        agent: AgentId,
        /// Why.
        source: a2a_actors::InboxError,
    },
}

/// Settings of a bus that is to be started; made with [`Bus::builder`].
#[derive(Default)]
pub struct BusBuilder {
    settings: BusSettings,
    state_dir: Option<PathBuf>,
    retention: Retention,
    in_memory: bool,
}

/// Time that [`Bus::stop`] gives running handlers.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// Pause before a retry when the bus returns no `retry_after`.
const DEFAULT_RETRY_PAUSE: Duration = Duration::from_secs(1);

impl BusBuilder {
    /// Sets the folder of the journal. The default is `.openclaw` in the current folder.
    #[must_use]
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(folder.into());
        self
    }

    /// Keeps everything in memory: for tests and short-lived buses.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Sets the retention of the log. The default keeps all of it. Old days are removed at the
    /// start and at the end of each day.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets limits, deadlines and all other settings.
    #[must_use]
    pub fn settings(mut self, settings: BusSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Opens the journal, recovers its content and starts the bus.
    ///
    /// # Errors
    /// When the journal cannot be opened, or another process has it open.
    pub fn start(self) -> Result<Bus, OpenBusError> {
        let (journal, recovered): (Box<dyn Commit>, Recovered) = if self.in_memory {
            (Box::new(MemoryJournal::new()), Recovered { next_seq: 1, ..Recovered::default() })
        } else {
            let folder = self.state_dir.unwrap_or_else(|| PathBuf::from(".openclaw"));
            close_to_others(&folder);
            let now = Some(chrono::Utc::now());
            let options = Options { retention: self.retention, now, ..Options::new(folder) };
            let (journal, recovered) = Journal::open(&options)?;
            (Box::new(journal), recovered)
        };
        let report = Arc::new(recovered.report.clone());
        let (system, thread) = BusSystem::start(self.settings, journal, recovered)?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        Ok(Bus { system, thread, report, watched: Arc::default() })
    }
}

/// Removes other users' permissions on the state folder, which older versions left open. Logs the
/// change; a failure is logged and does not prevent the start.
fn close_to_others(state_dir: &Path) {
    match a2a_journal::close_to_others(state_dir) {
        Ok(changed) => {
            if let Some(first) = changed.first() {
                tracing::warn!(
                    changed = changed.len(),
                    first = %first.path.display(),
                    mode = format!("{:03o}", first.mode & 0o777),
                    "other users could read the state folder; folders are 0700 and files 0600 now"
                );
            }
        }
        Err(error) => {
            tracing::warn!(%error, "other users may read the state folder; see openclaw-a2a doctor");
        }
    }
}

impl Bus {
    /// Starts building a bus with the default settings.
    #[must_use]
    pub fn builder() -> BusBuilder {
        BusBuilder::default()
    }

    /// Attaches an agent: `handler` gets its messages, one at a time.
    ///
    /// A second handler under the same name is a second session. Conversations stay with the
    /// session they began with; new ones go to the less busy session.
    ///
    /// # Errors
    /// When the name is not a valid id, is reserved, or is not listed in a closed directory.
    pub async fn attach<Args: Send + 'static>(
        &self,
        name: &str,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        self.attach_many(name, NonZeroUsize::MIN, handler).await
    }

    /// Attaches an agent whose handler runs up to `window` messages concurrently, started in order.
    ///
    /// The next message of a conversation may then start before the previous one is done.
    ///
    /// # Errors
    /// When the name is not a valid id, is reserved, or is not listed in a closed directory.
    pub async fn attach_many<Args: Send + 'static>(
        &self,
        name: &str,
        window: NonZeroUsize,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        self.attach_session(name, HandlerThread::Own, window, handler).await
    }

    /// Attaches a built-in agent whose code takes microseconds, never blocks and uses nothing but
    /// the bus.
    ///
    /// It runs on the thread of the bus, and its answer is committed together with the message it
    /// answers. A message that `at_once` answers needs no handler, unless the bus refuses the
    /// answer.
    pub(crate) async fn attach_quick<Args: Send + 'static>(
        &self,
        name: &str,
        window: NonZeroUsize,
        at_once: SyncAnswer,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        self.attach_session(name, HandlerThread::Bus(at_once), window, handler).await
    }

    async fn attach_session<Args: Send + 'static>(
        &self,
        name: &str,
        thread: HandlerThread,
        window: NonZeroUsize,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        let bad_name = |source| AttachError::BadName { name: name.to_owned(), source };
        let id: AgentId = name.parse().map_err(bad_name)?;
        let agent = Agent::new(id.clone(), self.system.clone(), Arc::clone(&self.watched));
        let runtime = handler::runtime(handler, thread, window, agent.clone());
        let attached = self.system.attach(id.clone(), runtime).await;
        agent.attached(attached.map_err(|source| AttachError::Refused { agent: id, source })?);
        Ok(agent)
    }

    /// Attaches an agent without a handler: it sends messages and watches tasks it requests
    /// ([`Agent::request_task`]). All other messages are acknowledged.
    ///
    /// # Errors
    /// When the name is not a valid id, is reserved, or is not listed in a closed directory.
    pub async fn connect(&self, name: &str) -> Result<Agent, AttachError> {
        self.attach(name, Handlers::new()).await
    }

    /// All agents in the directory.
    pub async fn agents(&self) -> Vec<AgentView> {
        self.system.agents().await
    }

    /// Dead letters: messages that no attempt could deliver.
    pub async fn dead_letters(&self) -> Vec<DeadLetterView> {
        self.system.dead_letters().await
    }

    /// Redelivers a dead letter with all its attempts; `false` when it does not exist.
    pub async fn retry_dead_letter(&self, delivery: &DeadLetterView) -> bool {
        self.system.retry_dead_letter(delivery.seq, delivery.agent_id.clone()).await
    }

    /// Drops a dead letter; `false` when it does not exist.
    pub async fn drop_dead_letter(&self, delivery: &DeadLetterView) -> bool {
        self.system.drop_dead_letter(delivery.seq, delivery.agent_id.clone()).await
    }

    /// What recovery found and repaired when the journal was opened.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.report
    }

    /// Stops the bus: refuses new messages, gives running handlers ten seconds, and writes
    /// everything to disk.
    pub async fn stop(&self) -> Stopped {
        self.stop_within(STOP_DEADLINE).await
    }

    /// Stops the bus like [`Bus::stop`], with another deadline for running handlers.
    pub async fn stop_within(&self, deadline: Duration) -> Stopped {
        let stopped = self.system.stop(deadline).await;
        self.watched.close();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        stopped
    }

    #[doc(hidden)]
    #[must_use]
    pub fn system(&self) -> &BusSystem {
        &self.system
    }
}
