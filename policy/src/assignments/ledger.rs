//! The task ledger: who owes whom which work, and how far it is.
//!
//! A message is checked against it before it is admitted ([`Ledger::check`]) and changes it
//! only when it is ([`Ledger::apply`]); what turns out not to be durable is taken back
//! ([`Ledger::undo`]). What may follow what stands in one table (`table`).

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use a2a_protocol::{AgentId, CorrelationId, Envelope, TaskId, TaskState};
use chrono::{DateTime, TimeDelta, Utc};

use crate::{Now, WorkProgress};

use super::{Assignment, LedgerRefusal, Transition};

/// How much the ledger remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerSettings {
    /// Whether tasks are kept count of at all; without it answers are not checked.
    pub enabled: bool,
    /// Tasks that may be open at once; beyond that no new ones are taken.
    pub max_open: usize,
    /// Ended tasks that are remembered; beyond that the oldest are forgotten.
    pub max_ended: usize,
    /// Bytes of text in all tasks, such as reasons and proposals; beyond that the oldest ended tasks
    /// are forgotten, and where none is left no new tasks are taken.
    pub max_text_bytes: usize,
    /// After so long without news an open task is overdue; `None` leaves it to deadlines.
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

/// How many changes that could not be taken back yet are remembered; a full disk makes them.
const MAX_SKIPPED: usize = 100_000;

/// What a message does to the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The task as it is then.
    pub task: Box<Assignment>,
    /// The task whose proposal this one starts.
    pub parent: Option<Box<Assignment>>,
    /// What it means for the breaker.
    pub progress: WorkProgress,
    /// It asks the assignee anew: its record is the one that counts.
    pub(super) asks: bool,
}

/// How to take a change back.
#[derive(Debug)]
pub struct Undo(Vec<PriorState>);

/// What a task was before a change.
#[derive(Debug)]
struct PriorState {
    task_id: TaskId,
    /// Which change is taken back.
    version: u64,
    before: Option<Box<Assignment>>,
}

/// Every task that is open, and the latest that ended.
#[derive(Debug, Default)]
pub struct Ledger {
    pub(super) settings: LedgerSettings,
    /// Boxed: a task is large, and it is moved about more often than it is read.
    tasks: HashMap<TaskId, Box<Assignment>>,
    /// Bytes of text in all of them.
    pub(super) text_bytes: usize,
    /// All of them, by when they changed last.
    latest: BTreeSet<(DateTime<Utc>, TaskId)>,
    /// In the order in which they ended.
    ended: BTreeSet<(DateTime<Utc>, TaskId)>,
    /// When each open task is overdue, by [`Ledger::due_at`].
    deadlines: BTreeSet<(DateTime<Utc>, TaskId)>,
    /// News of open tasks that changed nothing, since their last change. Not kept: after a restart
    /// the silence is counted from the last change.
    activity: HashMap<TaskId, DateTime<Utc>>,
    /// How many open tasks are marked overdue.
    overdue: usize,
    /// Changes that were to be taken back when others stood on top of them: what was before.
    deferred_undos: HashMap<(TaskId, u64), Option<Box<Assignment>>>,
    /// Tasks with proposals nobody has started, by conversation.
    pub(super) proposing: HashMap<CorrelationId, Vec<TaskId>>,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(settings: LedgerSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// A task that is open, or ended not long ago.
    #[must_use]
    pub fn get(&self, id: &TaskId) -> Option<&Assignment> {
        self.tasks.get(id).map(Box::as_ref)
    }

    /// The tasks it remembers, those that changed last first; only those behind a place if one is
    /// given.
    pub fn latest(
        &self,
        behind: Option<(DateTime<Utc>, TaskId)>,
    ) -> impl Iterator<Item = &Assignment> {
        let end = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let places = self.latest.range((Bound::Unbounded, end)).rev();
        places.filter_map(|(_, id)| self.get(id))
    }

    /// The tasks of a conversation.
    pub fn of_conversation(
        &self,
        conversation: CorrelationId,
    ) -> impl Iterator<Item = &Assignment> {
        let tasks = self.tasks.values().map(Box::as_ref);
        tasks.filter(move |task| task.correlation_id == conversation)
    }

    /// How many tasks are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.tasks.len() - self.ended.len()
    }

    /// Puts a change into force; `record` is the number of the message's record.
    ///
    /// Returns how to take it back, and the tasks that are forgotten to make room.
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

    /// Takes a change back that could not be made durable; what came after it stands.
    pub fn undo(&mut self, undo: Undo) {
        for PriorState { task_id, version, before } in undo.0.into_iter().rev() {
            if self.tasks.get(&task_id).is_some_and(|task| task.version == version) {
                self.revert(task_id, before);
            } else if self.deferred_undos.len() < MAX_SKIPPED {
                // Something came after it; if that is taken back as well, this follows.
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

    /// Puts a task back that was known before a restart.
    pub fn restore(&mut self, task: Assignment) {
        self.put(Box::new(task));
    }

    /// The bus gives the task up, if it still waits on the request that is record `record`.
    #[must_use]
    pub fn abandon(&self, id: &TaskId, record: u64, reason: &str, now: Now) -> Option<Change> {
        let task = self.get(id).filter(|task| task.record == record)?;
        let mut change = self.transition(task, Transition::Abandon, now)?;
        change.task.reason = Some(clip(reason));
        Some(change)
    }

    /// A request that had been given up is delivered once more.
    #[must_use]
    pub fn ask_again(&self, id: &TaskId, record: u64, now: Now) -> Option<Change> {
        let task = self.get(id).filter(|task| task.record == record)?;
        let mut change = self.transition(task, Transition::AskAgain, now)?;
        let deadline = task.deadline;
        change.task.set_deadline(deadline, now);
        Some(change)
    }

    /// Whoever asked for the task, or a person, calls it off.
    ///
    /// # Errors
    /// When there is no such task, it is not `by`'s to call off, or it has ended.
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
                LedgerRefusal::NotYours { task: id, agent, what: "call this task off" }
            } else {
                LedgerRefusal::UnknownTask { task: id }
            });
        }
        let illegal = || LedgerRefusal::illegal(task, "it cannot be called off");
        let mut change = self.transition(task, Transition::Cancel, now).ok_or_else(illegal)?;
        change.task.reason = Some(clip(reason));
        Ok(change)
    }

    /// Open tasks that are overdue and not marked yet: the first `most` of them.
    #[must_use]
    pub fn due(&self, now: Now, most: usize) -> Vec<TaskId> {
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now.utc);
        due.map(|(_, id)| *id).take(most).collect()
    }

    /// How many open tasks are marked overdue.
    #[must_use]
    pub const fn overdue_count(&self) -> usize {
        self.overdue
    }

    /// Notes a message of the assignee that changes nothing about the task: the silence begins
    /// anew. See [`Ledger::check`] for when such news is a change.
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

    /// When a task is overdue that is not marked yet: at its deadline while that lies ahead of the
    /// last news, otherwise when there was no news for the time of the settings. A blocked task
    /// waits for the one who asked, who was told; only its deadline counts.
    fn due_at(&self, task: &Assignment) -> Option<DateTime<Utc>> {
        if task.state.is_ended() || task.overdue {
            return None;
        }
        let activity =
            self.activity.get(&task.task_id).copied().unwrap_or(task.changed).max(task.changed);
        if let Some(deadline) = task.deadline.filter(|at| *at > activity) {
            return Some(deadline);
        }
        let silence = self.settings.overdue_after.filter(|_| task.state != TaskState::Blocked)?;
        activity.checked_add_signed(TimeDelta::from_std(silence).ok()?)
    }

    /// When the next deadline passes.
    #[must_use]
    pub fn next_deadline(&self) -> Option<DateTime<Utc>> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The deadline passed, or there was no news for too long: the task goes on, marked. The next
    /// news takes the mark away.
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
            TaskState::Declined => WorkProgress::Declines,
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

/// Reasons are kept for people, not for ever more of them.
pub(super) fn clip(reason: &str) -> String {
    reason.chars().take(500).collect()
}
