//! Progress bars of the task-progress extension: coalesces changes and sends snapshots within a
//! rate limit that leaves the agent capacity for its other messages.

mod pace;
mod trackers;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use a2a_actors::Delivery;
use a2a_protocol::{MessageId, TaskId, TrackerStatus};
use parking_lot::{Mutex, MutexGuard};

use super::{Agent, BuildError, SendError, Sent, StatusReport};
use pace::Pace;
use trackers::Trackers;

/// Pause before a retry when the bus names none.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Progress bars of one task; made with [`Agent::progress`].
///
/// Methods record a change and return at once. Snapshots of all bars go to the requester of the
/// task in the background: the first at once, then at most one a second for a task, and on average
/// one every two seconds for all tasks of the agent together, which is half of the rate limit from
/// one agent to another. Changes in between are coalesced, and pending ones are sent before the
/// agent answers the task. A completed or failed bar is in one more snapshot, then removed.
///
/// A2A clients receive them if they have activated the extension
/// (`https://a2a-protocol.org/extensions/task-progress/v1`); others read the text alone.
///
/// ```
/// # #[tokio::main(flavor = "multi_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use a2a_sdk::{Agent, Bus, Delivery, NewTask, TaskUpdate};
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
    /// Locked while a snapshot is sent, so that none overtakes another.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    trackers: Trackers,
    /// Changes are pending.
    is_new: bool,
    /// A flush is scheduled for the pending snapshot.
    is_waiting: bool,
    /// The task has ended: nothing more is sent.
    is_over: bool,
    /// When the last snapshot was sent.
    last: Option<Duration>,
}

/// The progress bars of all tasks that an agent works on.
#[derive(Default)]
pub(super) struct Board {
    /// By the id of the requesting message.
    bars: Mutex<HashMap<MessageId, Weak<Bars>>>,
    pace: Mutex<Pace>,
}

impl Board {
    fn bars(&self) -> MutexGuard<'_, HashMap<MessageId, Weak<Bars>>> {
        self.bars.lock()
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock()
    }

    /// The bars of the task with this id; a task that was requested again may have several.
    fn of_task(&self, task: TaskId) -> impl Iterator<Item = Arc<Bars>> {
        // Upgraded outside the lock: dropping the last reference takes the lock.
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
    /// The bars of the task of a delivery; the same bars for the same delivery.
    ///
    /// Requires a Tokio runtime, as every handler has.
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
    /// Creates or updates a progress bar; without `total` it is indeterminate.
    ///
    /// # Errors
    /// When the rules of the extension are broken: `progress` is negative or above `total`, the name
    /// or the message is too long, or there are more than 20 bars. Nothing has changed then.
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

    /// Completes a bar; it is full, if its total is known.
    ///
    /// # Errors
    /// When the name is too long.
    pub fn done(&self, id: &str) -> Result<(), BuildError> {
        self.change(|trackers, now| trackers.end(id, TrackerStatus::Completed, None, now))
    }

    /// Fails a bar; the task may continue.
    ///
    /// # Errors
    /// When the name or the message is too long.
    pub fn failed(&self, id: &str, message: impl Into<String>) -> Result<(), BuildError> {
        let message = Some(message.into());
        self.change(|trackers, now| trackers.end(id, TrackerStatus::Failed, message, now))
    }

    /// Sets the overall bar, for clients that show only one. They need not use it.
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

    /// Sends pending changes now, whatever the rate limit, and waits until the bus has accepted
    /// them. Answering the task does this by itself.
    pub async fn flush(&self) {
        self.0.flush().await;
    }

    /// Records a change if it keeps the rules, and schedules a flush.
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

    /// Sends snapshots at the agent's pace until nothing is pending.
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
            let wait = self.agent.board().pace().wait(last, since_start()).max(refused);
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
                refused = Duration::ZERO;
                // Other tasks may have sent meanwhile.
                continue;
            }
            if let Err(error) = self.send().await {
                refused = error.retry_after().unwrap_or(TRY_AGAIN);
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
            // Bounded: the answer to the task matters more than its last bar.
            let wait = error.retry_after().unwrap_or(TRY_AGAIN);
            if wait <= TRY_AGAIN {
                tokio::time::sleep(wait).await;
                let _ = self.send().await;
            }
        }
    }

    /// Sends a snapshot of the pending changes.
    ///
    /// # Errors
    /// When it may be retried.
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
        self.agent.board().pace().spend(since_start());
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
                // The task has ended, or this agent may not report on it.
                tracing::debug!(%error, "progress is not sent any more");
                state.is_over = true;
            }
        }
        Ok(())
    }
}

/// A clock for the pace, which starts at its first use.
fn since_start() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
