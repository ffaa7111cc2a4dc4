//! Progress bars of the task-progress extension: kept here, and sent as snapshots at a limited
//! rate, so that the agent's rate limit leaves capacity for its other messages.

mod pace;
mod trackers;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use a2a_actors::Delivery;
use a2a_protocol::{MessageId, TaskId, TrackerStatus};
use parking_lot::{Mutex, MutexGuard};

use super::{Agent, BuildError, DEFAULT_RETRY_PAUSE, SendError, Sent, StatusReport};
use pace::SnapshotRate;
use trackers::Trackers;

/// Progress bars of a task that an agent works on; made with [`Agent::progress`].
///
/// The methods record a change and return at once. Snapshots of all bars are sent to the requester
/// in the background: the first immediately, then at most one a second per task, and on average one
/// every two seconds for all tasks of the agent. That is half of the rate limit between two agents.
/// Changes in between are part of the next snapshot, and pending changes are sent before the answer
/// to the task. A bar that has ended is in one more snapshot.
///
/// A2A clients get the bars if they have activated the extension
/// (`https://a2a-protocol.org/extensions/task-progress/v1`), otherwise text only.
///
/// ```
/// # #[tokio::main(flavor = "multi_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use openclaw_a2a::{Agent, Bus, Delivery, NewTask, TaskUpdate};
///
/// async fn fetch(tim: Agent, delivery: Delivery) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     let bars = tim.progress(&delivery);
///     for file in 1..=40 {
///         bars.update("download", file.into(), Some(40.0), format!("{file} of 40 files"))?;
///         bars.update("index", (file / 10).into(), None, "indexing")?;
///     }
///     bars.done("download")?;
///     bars.failed("index", "the disk is full")?;
///     tim.complete(&delivery, "Fetched, not indexed.").await?;
///     Ok(())
/// }
///
/// let bus = Bus::builder().in_memory().start()?;
/// bus.attach("tim", fetch).await?;
/// let roman = bus.connect("roman").await?;
/// let mut work = roman.request_task("tim", NewTask::new("Fetch", "Fetch the files")).await?;
/// let mut last = None;
/// while let Some(update) = work.next().await {
///     if let TaskUpdate::Progress { report, .. } = update {
///         last = report.metadata.as_ref().and_then(|all| all.progress.clone());
///     }
/// }
/// let last = last.expect("at least one snapshot");
/// assert_eq!(last.trackers[0].progress, Some(40.0));
/// # bus.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ProgressBars(Arc<Bars>);

impl std::fmt::Debug for ProgressBars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgressBars")
            .field("delivery", &self.0.delivery.seq)
            .finish_non_exhaustive()
    }
}

struct Bars {
    agent: Agent,
    delivery: Delivery,
    state: Mutex<State>,
    /// Held while a snapshot is sent, so that snapshots keep their order.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    trackers: Trackers,
    /// There are changes that were not sent.
    is_new: bool,
    /// A background task is waiting to send.
    is_waiting: bool,
    /// The task has ended; nothing more is sent.
    is_over: bool,
    /// Time of the last snapshot.
    last: Option<Duration>,
}

/// Progress bars of all tasks of an agent.
#[derive(Default)]
pub(super) struct ProgressBoard {
    /// By the id of the message that requests the task.
    bars: Mutex<HashMap<MessageId, Weak<Bars>>>,
    rate: Mutex<SnapshotRate>,
}

impl ProgressBoard {
    fn bars(&self) -> MutexGuard<'_, HashMap<MessageId, Weak<Bars>>> {
        self.bars.lock()
    }

    fn rate(&self) -> MutexGuard<'_, SnapshotRate> {
        self.rate.lock()
    }

    /// Bars of a task. A task that was requested again may have several.
    fn of_task(&self, task: TaskId) -> impl Iterator<Item = Arc<Bars>> {
        // Collected first: dropping the last reference takes the lock.
        let all: Vec<_> = self.bars().values().filter_map(Weak::upgrade).collect();
        all.into_iter().filter(move |bars| bars.delivery.message.body.task_id() == Some(task))
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        let mut all = self.agent.board().bars();
        let id = self.delivery.message.message_id;
        // It may have been replaced already.
        if all.get(&id).is_some_and(|bars| bars.strong_count() == 0) {
            all.remove(&id);
        }
    }
}

impl Agent {
    /// Returns the progress bars for the task of a delivery; the same bars for the same delivery.
    ///
    /// Must be called within a Tokio runtime, as every handler is.
    #[must_use]
    pub fn progress(&self, delivery: &Delivery) -> ProgressBars {
        let mut all = self.board().bars();
        let known = all.entry(delivery.message.message_id).or_default();
        if let Some(bars) = known.upgrade() {
            return ProgressBars(bars);
        }
        let bars = Arc::new(Bars {
            agent: self.clone(),
            delivery: delivery.clone(),
            state: Mutex::default(),
            sending: tokio::sync::Mutex::default(),
        });
        *known = Arc::downgrade(&bars);
        ProgressBars(bars)
    }

    /// Sends pending progress of a task before its answer.
    pub(super) async fn flush_progress(&self, task: TaskId) {
        for bars in self.board().of_task(task) {
            bars.flush().await;
        }
    }
}

impl ProgressBars {
    /// Updates a bar, or adds it. Without a `total` its end is unknown.
    ///
    /// # Errors
    /// When the rules of the extension are violated: `progress` is negative or above `total`, the
    /// id or the message is too long, or there are more than 20 bars. Nothing is changed then.
    pub fn update(
        &self,
        id: &str,
        progress: f64,
        total: Option<f64>,
        message: impl Into<String>,
    ) -> Result<(), BuildError> {
        let message = message.into();
        self.change(|trackers, now| trackers.update(id, progress, total, message, now))
    }

    /// Marks a bar as completed, and fills it if its total is known.
    ///
    /// # Errors
    /// When the id is too long.
    pub fn done(&self, id: &str) -> Result<(), BuildError> {
        self.change(|trackers, now| trackers.end(id, TrackerStatus::Completed, None, now))
    }

    /// Marks a bar as failed; the task may continue.
    ///
    /// # Errors
    /// When the id or the message is too long.
    pub fn failed(&self, id: &str, message: impl Into<String>) -> Result<(), BuildError> {
        let message = Some(message.into());
        self.change(|trackers, now| trackers.end(id, TrackerStatus::Failed, message, now))
    }

    /// Sets an overall bar, for clients that show only one.
    ///
    /// # Errors
    /// When the message is too long.
    pub fn overall(
        &self,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), BuildError> {
        self.change(|trackers, _| trackers.overall(progress, total, message))
    }

    /// Sends pending changes now, regardless of the rate, and waits until the bus has accepted
    /// them. Answering the task does this automatically.
    pub async fn flush(&self) {
        self.0.flush().await;
    }

    /// Applies a change if it keeps the rules, and schedules a snapshot.
    fn change(
        &self,
        change: impl FnOnce(&mut Trackers, chrono::DateTime<chrono::Utc>),
    ) -> Result<(), BuildError> {
        let mut state = self.0.state();
        let mut trackers = state.trackers.clone();
        change(&mut trackers, chrono::Utc::now());
        trackers.snapshot().check()?;
        state.trackers = trackers;
        state.is_new = true;
        if !state.is_waiting && !state.is_over {
            state.is_waiting = true;
            tokio::spawn(Arc::clone(&self.0).send_in_time());
        }
        Ok(())
    }
}

impl Bars {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Sends snapshots at the agent's rate until there are no more changes.
    async fn send_in_time(self: Arc<Self>) {
        let mut refused = Duration::ZERO;
        loop {
            let last = {
                let mut state = self.state();
                if !state.is_new || state.is_over {
                    state.is_waiting = false;
                    return;
                }
                state.last
            };
            let wait = self.agent.board().rate().wait(last, since_start()).max(refused);
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
                refused = Duration::ZERO;
                // Other tasks may have sent meanwhile.
                continue;
            }
            if let Err(error) = self.send().await {
                refused = error.retry_after().unwrap_or(DEFAULT_RETRY_PAUSE);
            }
        }
    }

    async fn post(&self, report: StatusReport) -> Result<Sent, SendError> {
        let message = self.agent.write(&self.delivery, report)?;
        let ids = Sent::ids(&message);
        Sent::from_receipt(ids, self.agent.send(message).await)
    }

    async fn flush(&self) {
        if let Err(error) = self.send().await {
            // Bounded, because the answer that ends the task is more important than its last
            // snapshot.
            let wait = error.retry_after().unwrap_or(DEFAULT_RETRY_PAUSE);
            if wait <= DEFAULT_RETRY_PAUSE {
                tokio::time::sleep(wait).await;
                let _ = self.send().await;
            }
        }
    }

    /// Sends a snapshot of pending changes.
    ///
    /// # Errors
    /// When sending may be retried.
    async fn send(&self) -> Result<(), SendError> {
        let _turn = self.sending.lock().await;
        let (snapshot, text) = {
            let mut state = self.state();
            if !state.is_new || state.is_over {
                return Ok(());
            }
            state.is_new = false;
            state.last = Some(since_start());
            (state.trackers.snapshot(), state.trackers.in_words())
        };
        self.agent.board().rate().spend(since_start());
        let report = StatusReport::in_progress(text).trackers(snapshot.clone());
        let sent = self.post(report).await;
        let mut state = self.state();
        match sent {
            Ok(_) => state.trackers.forget_ended(&snapshot),
            Err(error) if error.is_temporary() => {
                state.is_new = true;
                return Err(error);
            }
            Err(error) => {
                // The task has ended, or this agent is not its assignee.
                tracing::debug!(%error, "progress is not sent any more");
                state.is_over = true;
            }
        }
        Ok(())
    }
}

/// Monotonic clock for the rate, starting at its first use.
fn since_start() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
