//! Bars of the task-progress extension, for an agent at work: kept here, sent as snapshots at a pace
//! that leaves the agent room for everything else it has to say.

mod pace;
mod trackers;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use a2a_actors::Delivery;
use a2a_protocol::{MessageId, TaskId, TrackerStatus};

use super::{Agent, BuildError, SendError, Sent, StatusReport};
use pace::Pace;
use trackers::Trackers;

/// How long to wait before trying again when the bus does not say.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The bars of a task that an agent works on; made with [`Agent::progress`].
///
/// The methods note what is new and return at once. In the background snapshots of all bars go to
/// whoever asked for the task: the first at once, then at most one a second for a task, and in the
/// long run one every two seconds for all tasks of the agent together, which is half of what the bus
/// takes from one agent to another. What changes in between is in the next one, and what is new
/// when the agent answers the task goes out before the answer. A bar that is done or has failed is in
/// one snapshot and in none after that.
///
/// A2A clients see them if they have activated the extension
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
    /// Held while a snapshot is on its way, so that none overtakes another.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    trackers: Trackers,
    /// There is something that nobody was told.
    is_new: bool,
    /// Somebody waits for the moment to send.
    is_waiting: bool,
    /// Nothing more is sent: the task has ended.
    is_over: bool,
    /// When the last snapshot went.
    last: Option<Duration>,
}

/// The bars of all tasks that an agent works on.
#[derive(Default)]
pub(super) struct Board {
    /// By the message that asks for the task.
    bars: Mutex<HashMap<MessageId, Weak<Bars>>>,
    pace: Mutex<Pace>,
}

impl Board {
    fn bars(&self) -> MutexGuard<'_, HashMap<MessageId, Weak<Bars>>> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bars of the task with this id; one that was asked about again may have several.
    fn of_task(&self, task: TaskId) -> impl Iterator<Item = Arc<Bars>> {
        // Looked at outside the lock: whoever drops the last of them takes it.
        let all: Vec<_> = self.bars().values().filter_map(Weak::upgrade).collect();
        all.into_iter().filter(move |bars| bars.delivery.message.body.task_id() == Some(task))
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        let mut all = self.agent.board().bars();
        let id = self.delivery.message.message_id;
        // It may have been made anew already.
        if all.get(&id).is_some_and(|bars| bars.strong_count() == 0) {
            all.remove(&id);
        }
    }
}

impl Agent {
    /// The bars of the task of a delivery; asked again for the same delivery, the same bars.
    ///
    /// To be used where Tokio runs, as every handler does.
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

    /// Sends what is new about the progress of a task before its agent answers it.
    pub(super) async fn flush_progress(&self, task: TaskId) {
        for bars in self.board().of_task(task) {
            bars.flush().await;
        }
    }
}

impl ProgressBars {
    /// A bar has moved, or begins. Without a `total` nobody knows how far it goes.
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

    /// What a bar stands for is done; it is full, if its total is known.
    ///
    /// # Errors
    /// When the name is too long.
    pub fn done(&self, id: &str) -> Result<(), BuildError> {
        self.change(|trackers, now| trackers.end(id, TrackerStatus::Completed, None, now))
    }

    /// What a bar stands for has failed; the task may go on.
    ///
    /// # Errors
    /// When the name or the message is too long.
    pub fn failed(&self, id: &str, message: impl Into<String>) -> Result<(), BuildError> {
        let message = Some(message.into());
        self.change(|trackers, now| trackers.end(id, TrackerStatus::Failed, message, now))
    }

    /// One bar for everything, for clients that show only one. They need not believe it.
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

    /// Sends what is new now, whatever the pace, and waits until the bus has taken it. Answering
    /// the task does this by itself.
    pub async fn flush(&self) {
        self.0.flush().await;
    }

    /// Notes something new if it keeps the rules, and sees to it that it is sent.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends snapshots at the agent's pace until nothing is new.
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
                // Others may have spoken meanwhile.
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
            // Never for long: what ends the task is worth more than its last bar.
            let wait = error.retry_after().unwrap_or(TRY_AGAIN);
            if wait <= TRY_AGAIN {
                tokio::time::sleep(wait).await;
                let _ = self.send().await;
            }
        }
    }

    /// Sends a snapshot of what is new.
    ///
    /// # Errors
    /// When it may be tried again.
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
                // The task has ended, or this agent may not speak of it.
                tracing::debug!(%error, "progress is not sent any more");
                state.is_over = true;
            }
        }
        Ok(())
    }
}

/// A clock for the pace: since the first look at it.
fn since_start() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
