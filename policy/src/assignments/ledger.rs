//! Ledger state: applies and undoes changes, tracks deadlines, evicts ended assignments.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use a2a_protocol::{AgentId, AssignmentState, CorrelationId, Envelope, TaskId};
use chrono::{DateTime, TimeDelta, Utc};

use crate::{Now, WorkProgress};

use super::{Assignment, LedgerRefusal, Transition};

/// Limits of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerSettings {
    /// Whether the ledger is enabled; without it responses are not checked.
    pub enabled: bool,
    /// The maximum number of open assignments; further requests are refused.
    pub max_open: usize,
    /// The maximum number of ended assignments; beyond it the oldest are evicted.
    pub max_ended: usize,
    /// The maximum text in all assignments in bytes, such as reasons and proposals. Beyond it the
    /// oldest ended assignments are evicted, and if none is left new requests are refused.
    pub max_text_bytes: usize,
    /// The time without activity after which an open assignment is overdue; `None` uses deadlines
    /// only.
    pub overdue_after: Option<Duration>,
}

impl Default for LedgerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            max_open: 1_000_000,
            max_ended: 100_000,
            max_text_bytes: 256 << 20,
            overdue_after: Some(Duration::from_secs(60 * 60)),
        }
    }
}

/// The maximum number of deferred undos, which accumulate while the disk is full.
const MAX_SKIPPED: usize = 100_000;

/// The change one message makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The assignment after the change.
    pub task: Box<Assignment>,
    /// The assignment whose proposal this one starts.
    pub parent: Option<Box<Assignment>>,
    /// Its meaning for the circuit breaker.
    pub progress: WorkProgress,
    /// Whether the message is a request to the assignee: its record becomes the current one.
    pub(super) asks: bool,
}

/// The information to undo a change.
#[derive(Debug)]
pub struct Undo(Vec<PriorState>);

/// The state of an assignment before a change.
#[derive(Debug)]
struct PriorState {
    task_id: TaskId,
    /// The version whose change is undone.
    version: u64,
    before: Option<Box<Assignment>>,
}

/// All open assignments, and the latest ended ones.
#[derive(Debug, Default)]
pub struct Ledger {
    pub(super) settings: LedgerSettings,
    /// Boxed: an assignment is large and moved more often than read.
    tasks: HashMap<TaskId, Box<Assignment>>,
    /// The size of the text of all assignments in bytes.
    pub(super) text_bytes: usize,
    /// All assignments by time of the last change.
    latest: BTreeSet<(DateTime<Utc>, TaskId)>,
    /// The ended ones by time of the end.
    ended: BTreeSet<(DateTime<Utc>, TaskId)>,
    /// The time at which each open one becomes overdue, from [`Ledger::due_at`].
    deadlines: BTreeSet<(DateTime<Utc>, TaskId)>,
    /// The latest activity that changed nothing, since the last change. Not persistent: after a
    /// restart the time counts from the last change.
    activity: HashMap<TaskId, DateTime<Utc>>,
    /// The number of open assignments marked overdue.
    overdue: usize,
    /// Prior states whose undo waits, because a later change is on top of them.
    deferred_undos: HashMap<(TaskId, u64), Option<Box<Assignment>>>,
    /// Assignments with proposals that are not started, by conversation.
    pub(super) proposing: HashMap<CorrelationId, Vec<TaskId>>,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(settings: LedgerSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// An assignment that is open or still remembered.
    #[must_use]
    pub fn get(&self, id: &TaskId) -> Option<&Assignment> {
        self.tasks.get(id).map(Box::as_ref)
    }

    /// All assignments, the last changed first; with `behind` only those after that position.
    pub fn latest(
        &self,
        behind: Option<(DateTime<Utc>, TaskId)>,
    ) -> impl Iterator<Item = &Assignment> {
        let end = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let places = self.latest.range((Bound::Unbounded, end)).rev();
        places.filter_map(|(_, id)| self.get(id))
    }

    /// The assignments of a conversation.
    pub fn of_conversation(
        &self,
        conversation: CorrelationId,
    ) -> impl Iterator<Item = &Assignment> {
        let tasks = self.tasks.values().map(Box::as_ref);
        tasks.filter(move |task| task.correlation_id == conversation)
    }

    /// The number of open assignments.
    #[must_use]
    pub fn open(&self) -> usize {
        self.tasks.len() - self.ended.len()
    }

    /// Applies a change; `record` is the sequence number of the message's record.
    ///
    /// Returns how to undo it, and the assignments that were evicted.
    pub fn apply(&mut self, mut change: Change, record: u64) -> (Undo, Vec<TaskId>) {
        if change.asks {
            change.task.record = record;
        }
        let changed = change.parent.into_iter().chain([change.task]);
        let were = changed.map(|task| {
            let (task_id, version) = (task.task_id, task.version);
            PriorState { task_id, version, before: self.put(task) }
        });
        let undo = Undo(were.collect());
        (undo, self.evict_oldest())
    }

    /// Undoes a change that did not become durable; later changes stay.
    pub fn undo(&mut self, undo: Undo) {
        for PriorState { task_id, version, before } in undo.0.into_iter().rev() {
            if self.tasks.get(&task_id).is_some_and(|task| task.version == version) {
                self.revert(task_id, before);
            } else if self.deferred_undos.len() < MAX_SKIPPED {
                // A later change is on top; if that is undone as well, this follows.
                self.deferred_undos.insert((task_id, version), before);
            }
        }
    }

    fn revert(&mut self, id: TaskId, mut before: Option<Box<Assignment>>) {
        while let Some(task) = &before
            && let Some(earlier) = self.deferred_undos.remove(&(id, task.version))
        {
            before = earlier;
        }
        match before {
            Some(before) => drop(self.put(before)),
            None => drop(self.remove(&id)),
        }
    }

    /// Inserts an assignment that was recovered after a restart.
    pub fn restore(&mut self, task: Assignment) {
        self.put(Box::new(task));
    }

    /// Fails the assignment because its request, record `record`, became a dead letter. `None` when
    /// another request is current.
    #[must_use]
    pub fn fail_undelivered(
        &self,
        id: &TaskId,
        record: u64,
        reason: &str,
        now: Now,
    ) -> Option<Change> {
        let task = self.get(id).filter(|task| task.record == record)?;
        let mut change = self.transition(task, Transition::Abandon, now)?;
        change.task.reason = Some(clip(reason));
        Some(change)
    }

    /// Reopens the assignment because its dead letter is redelivered.
    #[must_use]
    pub fn ask_again(&self, id: &TaskId, record: u64, now: Now) -> Option<Change> {
        let task = self.get(id).filter(|task| task.record == record)?;
        let mut change = self.transition(task, Transition::AskAgain, now)?;
        let deadline = task.deadline;
        change.task.set_deadline(deadline, now);
        Some(change)
    }

    /// Cancels the assignment, on behalf of its requester or an operator (`by` is `None`).
    ///
    /// # Errors
    /// It is unknown, `by` is not its requester, or it has ended.
    pub fn cancel(
        &self,
        id: &TaskId,
        by: Option<&AgentId>,
        reason: &str,
        now: Now,
    ) -> Result<Change, LedgerRefusal> {
        let task = self.get(id).ok_or(LedgerRefusal::UnknownTask { task: *id })?;
        if let Some(by) = by.filter(|by| task.requester != **by) {
            let (id, agent) = (*id, task.requester.clone());
            return Err(if task.concerns(by) {
                LedgerRefusal::NotYours { task: id, agent, what: "cancel this task" }
            } else {
                LedgerRefusal::UnknownTask { task: id }
            });
        }
        let illegal = || LedgerRefusal::illegal(task, "it cannot be cancelled");
        let mut change = self.transition(task, Transition::Cancel, now).ok_or_else(illegal)?;
        change.task.reason = Some(clip(reason));
        Ok(change)
    }

    /// Open assignments that are overdue and not marked yet, at most `most` of them.
    #[must_use]
    pub fn due(&self, now: Now, most: usize) -> Vec<TaskId> {
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now.utc);
        due.map(|(_, id)| *id).take(most).collect()
    }

    /// The number of open assignments marked overdue.
    #[must_use]
    pub const fn overdue_count(&self) -> usize {
        self.overdue
    }

    /// Records a message of the assignee that changes nothing, which restarts the time without
    /// activity. [`Ledger::check`] decides when such a message is a change.
    pub fn note_activity(&mut self, message: &Envelope, now: Now) {
        let Some(id) = message.body.task_id() else { return };
        let Some(task) = self.tasks.get(&id) else { return };
        let is_news = task.assignee == message.from.agent_id && !task.state.is_ended();
        if !is_news || task.overdue {
            return;
        }
        if let Some(at) = self.due_at(task) {
            self.deadlines.remove(&(at, id));
        }
        self.activity.insert(id, now.utc);
        if let Some(at) = self.tasks.get(&id).and_then(|task| self.due_at(task)) {
            self.deadlines.insert((at, id));
        }
    }

    /// When an unmarked assignment becomes overdue: at its deadline, if that is later than the last
    /// activity; otherwise after the configured time without activity. A blocked assignment waits
    /// for its requester, which was notified, so only its deadline counts.
    fn due_at(&self, task: &Assignment) -> Option<DateTime<Utc>> {
        if task.state.is_ended() || task.overdue {
            return None;
        }
        let activity =
            self.activity.get(&task.task_id).copied().unwrap_or(task.changed).max(task.changed);
        if let Some(deadline) = task.deadline.filter(|at| *at > activity) {
            return Some(deadline);
        }
        let silence =
            self.settings.overdue_after.filter(|_| task.state != AssignmentState::Blocked)?;
        activity.checked_add_signed(TimeDelta::from_std(silence).ok()?)
    }

    /// The next time at which an assignment becomes overdue.
    #[must_use]
    pub fn next_deadline(&self) -> Option<DateTime<Utc>> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Marks an open assignment as overdue. The next activity clears the mark.
    #[must_use]
    pub fn overdue(&self, id: &TaskId, now: Now) -> Option<Change> {
        let task = self.get(id).filter(|task| !task.state.is_ended())?.clone();
        let mut change = changed(task, WorkProgress::None, now);
        change.task.overdue = true;
        Some(change)
    }

    pub(super) fn transition(
        &self,
        task: &Assignment,
        transition: Transition,
        now: Now,
    ) -> Option<Change> {
        let state = transition.after(task.state)?;
        let progress = match state {
            _ if state == task.state => WorkProgress::None,
            AssignmentState::Declined => WorkProgress::Declines,
            AssignmentState::Failed => WorkProgress::Fails,
            _ if state.is_ended() => WorkProgress::Ends,
            _ => WorkProgress::Moves,
        };
        Some(changed(Assignment { state, reason: None, ..task.clone() }, progress, now))
    }

    fn put(&mut self, task: Box<Assignment>) -> Option<Box<Assignment>> {
        let id = task.task_id;
        let before = self.remove(&id);
        if task.state.is_ended() {
            self.ended.insert((task.changed, id));
        } else if let Some(at) = self.due_at(&task) {
            self.deadlines.insert((at, id));
        }
        self.overdue += usize::from(task.overdue && !task.state.is_ended());
        if task.proposed.iter().any(|proposal| proposal.started.is_none()) {
            self.proposing.entry(task.correlation_id).or_default().push(id);
        }
        self.text_bytes += task.text_bytes();
        self.latest.insert((task.changed, id));
        self.tasks.insert(id, task);
        before
    }

    fn remove(&mut self, id: &TaskId) -> Option<Box<Assignment>> {
        let task = self.tasks.remove(id)?;
        self.text_bytes -= task.text_bytes();
        self.latest.remove(&(task.changed, *id));
        if task.state.is_ended() {
            self.ended.remove(&(task.changed, *id));
        } else if let Some(at) = self.due_at(&task) {
            self.deadlines.remove(&(at, *id));
        }
        self.activity.remove(id);
        self.overdue -= usize::from(task.overdue && !task.state.is_ended());
        if let Some(proposing) = self.proposing.get_mut(&task.correlation_id) {
            proposing.retain(|other| other != id);
            if proposing.is_empty() {
                self.proposing.remove(&task.correlation_id);
            }
        }
        Some(task)
    }

    pub(super) fn evict_oldest(&mut self) -> Vec<TaskId> {
        let mut forgotten = Vec::new();
        while (self.ended.len() > self.settings.max_ended
            || self.text_bytes > self.settings.max_text_bytes)
            && let Some((_, id)) = self.ended.first().copied()
        {
            self.remove(&id);
            forgotten.push(id);
        }
        forgotten
    }
}

pub(super) fn changed(mut task: Assignment, progress: WorkProgress, now: Now) -> Change {
    task.version += 1;
    task.changed = now.utc;
    task.overdue = false;
    Change { task: Box::new(task), parent: None, progress, asks: false }
}

/// Limits the length of a reason, which is for people.
pub(super) fn clip(reason: &str) -> String {
    reason.chars().take(500).collect()
}
