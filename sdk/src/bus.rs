//! A running bus in this process: open the journal, start, attach agents, stop.

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

use crate::agent::Agent;
use crate::handler::{self, Handler, InlineAnswer, RunsOn};
use crate::handlers::Handlers;
use crate::task_watch::TaskWatches;

/// A running bus in this process.
///
/// Clones are handles to the same bus. It runs until [`Bus::stop`].
#[derive(Clone)]
pub struct Bus {
    pub(crate) system: BusSystem,
    thread: Arc<Mutex<Option<BusThread>>>,
    report: Arc<RecoveryReport>,
    watched: Arc<TaskWatches>,
}

/// The bus could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenBusError {
    /// The journal could not be opened.
    #[error("cannot open the journal: {0}")]
    Journal(#[from] OpenError),
    /// A thread could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// An agent could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The name is not a valid agent id.
    #[error("`{name}`: {source}")]
    BadName {
        /// The name.
        name: String,
        /// The violated rule.
        source: BadAgentId,
    },
    /// The bus refused the session.
    #[error("`{agent}` cannot join: {source}")]
    Refused {
        /// The agent.
        agent: AgentId,
        /// The reason.
        source: a2a_actors::InboxError,
    },
}

/// Settings of a bus that is to be started.
#[derive(Default)]
pub struct BusBuilder {
    settings: BusSettings,
    state_dir: Option<PathBuf>,
    retention: Retention,
    in_memory: bool,
}

/// Deadline of handlers when the bus stops.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

impl BusBuilder {
    /// Folder of the journal; `.openclaw` in the current folder by default.
    #[must_use]
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(folder.into());
        self
    }

    /// Keeps the journal in memory: for tests and throw-away buses.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// How long the log is kept; for ever by default. Older segments are removed at the start and
    /// when a day has ended.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Limits, deadlines and all other settings.
    #[must_use]
    pub fn settings(mut self, settings: BusSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Opens the journal, recovers its state and starts the bus.
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

/// Removes the permissions of other users from the state folder, which an older version granted,
/// and logs that. A failure is logged too and does not prevent the start.
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
    /// A builder with the default settings.
    #[must_use]
    pub fn builder() -> BusBuilder {
        BusBuilder::default()
    }

    /// Attaches an agent: from now on `handler` gets its messages, one at a time.
    ///
    /// A second handler under the same name is a second session: conversations stay with the
    /// session they began with, new ones go to the one with fewer messages in flight.
    ///
    /// # Errors
    /// When the name is not valid, reserved, or not listed in a closed directory.
    pub async fn attach<Args: Send + 'static>(
        &self,
        name: &str,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        self.attach_concurrent(name, NonZeroUsize::MIN, handler).await
    }

    /// Attaches an agent whose handler runs for up to `window` messages concurrently, started in
    /// message order. A later message of a conversation may then be handled while an earlier one is
    /// in flight.
    ///
    /// # Errors
    /// When the name is not valid, reserved, or not listed in a closed directory.
    pub async fn attach_concurrent<Args: Send + 'static>(
        &self,
        name: &str,
        window: NonZeroUsize,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        self.attach_on(name, RunsOn::HandlerThreads, window, handler).await
    }

    /// Attaches an agent with an inline handler: `inline` runs on the bus thread and must not
    /// block. Its answer and the message share one commit. Deliveries for which it returns `None`,
    /// and those whose answer the bus refuses, go to `handler`.
    ///
    /// `handler` runs on the bus thread too, so its CPU time delays every message. Both may get a
    /// message before it is durable and must have no effect outside the bus.
    ///
    /// # Errors
    /// When the name is not valid, reserved, or not listed in a closed directory.
    pub async fn attach_inline<Args: Send + 'static>(
        &self,
        name: &str,
        window: NonZeroUsize,
        inline: InlineAnswer,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        self.attach_on(name, RunsOn::BusThread(inline), window, handler).await
    }

    async fn attach_on<Args: Send + 'static>(
        &self,
        name: &str,
        runs_on: RunsOn,
        window: NonZeroUsize,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        let bad_name = |source| AttachError::BadName { name: name.to_owned(), source };
        let id: AgentId = name.parse().map_err(bad_name)?;
        let agent = Agent::new(id.clone(), self.system.clone(), Arc::clone(&self.watched));
        let runtime = handler::runtime(handler, runs_on, window, agent.clone());
        let attached = self.system.attach(id.clone(), runtime).await;
        agent.attached(attached.map_err(|source| AttachError::Refused { agent: id, source })?);
        Ok(agent)
    }

    /// Attaches an agent without a handler: it sends, and watches the tasks it requested
    /// ([`Agent::request_task`]). Messages that no [`TaskHandle`](crate::TaskHandle) watches are
    /// acknowledged and discarded.
    ///
    /// # Errors
    /// When the name is not valid, reserved, or not listed in a closed directory.
    pub async fn connect(&self, name: &str) -> Result<Agent, AttachError> {
        self.attach(name, Handlers::new()).await
    }

    /// Every agent of the directory.
    pub async fn agents(&self) -> Vec<AgentView> {
        self.system.agents().await
    }

    /// Dead letters: messages that failed their last attempt.
    pub async fn dead_letters(&self) -> Vec<DeadLetterView> {
        self.system.dead_letters().await
    }

    /// Retries a dead letter; `false` when there is none.
    pub async fn retry_dead_letter(&self, delivery: &DeadLetterView) -> bool {
        self.system.retry_dead_letter(delivery.seq, delivery.agent_id.clone()).await
    }

    /// Drops a dead letter; `false` when there is none.
    pub async fn drop_dead_letter(&self, delivery: &DeadLetterView) -> bool {
        self.system.drop_dead_letter(delivery.seq, delivery.agent_id.clone()).await
    }

    /// Recovery report: records restored and damage repaired when the journal was opened.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.report
    }

    /// Stops the bus: refuses new work, gives handlers ten seconds, commits everything.
    pub async fn stop(&self) -> Stopped {
        self.stop_within(STOP_DEADLINE).await
    }

    /// Stops the bus with another deadline for handlers.
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
