//! A running bus in this process: open the journal, start, attach agents, stop.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2a_actors::{
    AgentView, BusSettings, BusSystem, BusThread, DeadLetterView, StartError, Stopped,
};
use a2a_journal::{
    Commit, Journal, MemoryJournal, OpenError, Options, Recovered, RecoveryReport, Retention,
};
use a2a_protocol::{AgentId, BadAgentId};

use crate::agent::Agent;
use crate::feed::Watched;
use crate::handler::{self, AtOnce, Handler, Place};
use crate::handlers::Handlers;

/// A running bus in this process.
///
/// Clones are handles to the same bus. It runs until [`Bus::stop`].
#[derive(Clone)]
pub struct Bus {
    pub(crate) system: BusSystem,
    thread: Arc<Mutex<Option<BusThread>>>,
    report: Arc<RecoveryReport>,
    watched: Arc<Watched>,
}

/// The bus could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenBusError {
    /// Its journal.
    #[error("cannot open the journal: {0}")]
    Journal(#[from] OpenError),
    /// Its threads.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// An agent could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Its name is none.
    #[error("`{name}`: {source}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        source: BadAgentId,
    },
    /// The bus does not take it.
    #[error("`{agent}` cannot join: {source}")]
    Refused {
        /// The agent.
        agent: AgentId,
        /// Why.
        source: a2a_actors::InboxError,
    },
}

/// Says how a bus is to run.
#[derive(Default)]
pub struct BusBuilder {
    settings: BusSettings,
    state_dir: Option<PathBuf>,
    retention: Retention,
    in_memory: bool,
}

/// How long handlers may go on when the bus stops.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

impl BusBuilder {
    /// Where the journal is kept; `.openclaw` in the current folder otherwise.
    #[must_use]
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(folder.into());
        self
    }

    /// Keeps nothing: for tests and throw-away buses.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// How long the log is kept; all of it otherwise. What is too old is removed at the start
    /// and when a day has ended.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Limits, deadlines and everything else that can be set.
    #[must_use]
    pub fn settings(mut self, settings: BusSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Opens the journal, recovers what is in it and starts the bus.
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

/// Takes other users' rights to what the state folder holds, which an older version gave them, and
/// says so. A failure is said, too, and keeps nothing from starting.
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
    /// A bus with the default settings, to be changed and started.
    #[must_use]
    pub fn builder() -> BusBuilder {
        BusBuilder::default()
    }

    /// Brings an agent in: from now on `handler` gets its messages, one at a time.
    ///
    /// A second handler under the same name is a second session: conversations stay with
    /// the session they began with, new ones go to the one with less to do.
    ///
    /// # Errors
    /// When the name is none, reserved, or not listed in a closed directory.
    pub async fn attach<Args: Send + 'static>(
        &self,
        name: &str,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        self.attach_many(name, NonZeroUsize::MIN, handler).await
    }

    /// The same for a handler that takes up to `window` messages at once, begun in their order.
    /// What one conversation says next may then be handled while the first is still at work.
    ///
    /// # Errors
    /// When the name is none, reserved, or not listed in a closed directory.
    pub async fn attach_many<Args: Send + 'static>(
        &self,
        name: &str,
        window: NonZeroUsize,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        self.bring_in(name, Place::Own, window, handler).await
    }

    /// The same for code of our own that answers in a few microseconds, never blocks and touches
    /// nothing but the bus: it runs where the bus does, nobody is woken for it, and its answer goes
    /// to the disk together with what it answers. What `at_once` answers needs no handler, unless
    /// the bus does not take the answer.
    pub async fn attach_quick<Args: Send + 'static>(
        &self,
        name: &str,
        window: NonZeroUsize,
        at_once: AtOnce,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        self.bring_in(name, Place::OfTheBus(at_once), window, handler).await
    }

    async fn bring_in<Args: Send + 'static>(
        &self,
        name: &str,
        place: Place,
        window: NonZeroUsize,
        handler: impl Handler<Args>,
    ) -> Result<Agent, AttachError> {
        let bad_name = |source| AttachError::BadName { name: name.to_owned(), source };
        let id: AgentId = name.parse().map_err(bad_name)?;
        let agent = Agent::new(id.clone(), self.system.clone(), Arc::clone(&self.watched));
        let runtime = handler::runtime(handler, place, window, agent.clone());
        let attached = self.system.attach(id.clone(), runtime).await;
        agent.attached(attached.map_err(|source| AttachError::Refused { agent: id, source })?);
        Ok(agent)
    }

    /// Brings an agent in that has no code for what it gets: it sends, and watches the tasks
    /// it asked for ([`Agent::request_task`]). Everything else is acknowledged.
    ///
    /// # Errors
    /// When the name is none, reserved, or not listed in a closed directory.
    pub async fn connect(&self, name: &str) -> Result<Agent, AttachError> {
        self.attach(name, Handlers::new()).await
    }

    /// Everyone the bus knows.
    pub async fn agents(&self) -> Vec<AgentView> {
        self.system.agents().await
    }

    /// Messages that were given up after their last attempt.
    pub async fn dead_letters(&self) -> Vec<DeadLetterView> {
        self.system.dead_letters().await
    }

    /// Sends a dead letter again; `false` when there is none.
    pub async fn retry_dead_letter(&self, delivery: &DeadLetterView) -> bool {
        self.system.retry_dead_letter(delivery.seq, delivery.agent_id.clone()).await
    }

    /// Throws a dead letter away; `false` when there is none.
    pub async fn drop_dead_letter(&self, delivery: &DeadLetterView) -> bool {
        self.system.drop_dead_letter(delivery.seq, delivery.agent_id.clone()).await
    }

    /// What was found and repaired when the journal was opened.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.report
    }

    /// Stops the bus: no new work, handlers may finish for ten seconds, everything is written.
    pub async fn stop(&self) -> Stopped {
        self.stop_within(STOP_DEADLINE).await
    }

    /// Stops the bus, giving handlers until `deadline`.
    pub async fn stop_within(&self, deadline: Duration) -> Stopped {
        let stopped = self.system.stop(deadline).await;
        self.watched.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
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
