//! Progress coalescer: publishes at most one progress snapshot of a task per interval.
//!
//! Each update is a complete snapshot, so a newer one replaces a pending one. Any other change of
//! the task publishes the pending snapshot with it.

use std::sync::Arc;
use std::time::Duration;

use a2a_policy::Now;
use a2a_policy::tasks::{AgentText, Pace, TaskTransition};
use a2a_protocol::task::{Message, Metadata, Part, Task, TaskState};
use a2a_protocol::{PROGRESS_EXTENSION, TaskId};
use actix::prelude::*;
use serde_json::Value;

use super::Service;
use super::live_task::{Followup, LiveTask};
use crate::AckHandle;

/// Progress of one task, as its agent last reported it.
#[derive(Debug, Default)]
pub(in crate::tasks) struct ProgressCoalescer {
    /// The newest snapshot, published or pending.
    newest: Option<Value>,
    pending: Option<PendingProgress>,
    /// When a snapshot was last published, as uptime of the service.
    last: Option<Duration>,
    /// The next change contains progress and nothing else.
    is_bare: bool,
    /// The current status message is from such a change.
    was_bare: bool,
    /// Bus messages whose snapshot is in the change being built.
    acks: Vec<AckHandle>,
}

/// A snapshot that is not published yet, with its bus message.
#[derive(Debug)]
pub(in crate::tasks) struct PendingProgress {
    pub(in crate::tasks) parts: Vec<Part>,
    pub(in crate::tasks) seq: u64,
    pub(in crate::tasks) bytes: usize,
    /// Acknowledgement of the bus message; `None` once acknowledged.
    pub(in crate::tasks) done: Option<AckHandle>,
}

impl ProgressCoalescer {
    /// Starts from the snapshot in the task's status.
    pub(in crate::tasks) fn of(task: &Task) -> Self {
        let shown = task.status.message.as_ref().and_then(|message| message.metadata.as_ref());
        let newest = shown.and_then(|metadata| metadata.get(PROGRESS_EXTENSION)).cloned();
        Self { newest, ..Self::default() }
    }

    /// Replaces the pending snapshot. The message of the one before is acknowledged, because it
    /// will never be published.
    fn replace(&mut self, snapshot: Option<Value>, pending: PendingProgress) {
        self.newest = snapshot.or_else(|| self.newest.take());
        self.acknowledge_pending();
        self.pending = Some(pending);
    }

    /// Acknowledges the message of the pending snapshot before that is published.
    fn acknowledge_pending(&mut self) {
        if let Some(done) = self.pending.as_mut().and_then(|pending| pending.done.take()) {
            done.handled();
        }
    }

    /// Acknowledgements that the change being built makes due.
    pub(super) fn take_acks(&mut self) -> Vec<AckHandle> {
        std::mem::take(&mut self.acks)
    }
}

fn in_metadata(snapshot: &Value) -> (String, Value) {
    (PROGRESS_EXTENSION.to_owned(), snapshot.clone())
}

impl LiveTask {
    /// Adds the newest snapshot to a status message; returns the event's metadata if the snapshot
    /// is new. A message without text of its own gets the text of the pending snapshot.
    pub(super) fn apply_progress(&mut self, output: &mut AgentText, now: Now) -> Option<Metadata> {
        let pending = self.progress.pending.take();
        let mut is_news = pending.is_some();
        if let Some(PendingProgress { parts, seq, bytes, done }) = pending {
            self.record_seq(seq);
            // Only published snapshots count against the limit of bytes per task.
            self.reply_bytes += bytes;
            self.progress.acks.extend(done);
            if output.is_empty() {
                output.parts = parts;
            }
        }
        if let Some(snapshot) = output.progress.take() {
            self.progress.newest = Some(snapshot);
            is_news = true;
        }
        let newest = self.progress.newest.as_ref()?;
        if !output.is_empty() {
            output.metadata.get_or_insert_default().extend([in_metadata(newest)]);
        }
        if !is_news {
            return None;
        }
        self.progress.last = Some(now.uptime);
        Some(Metadata::from_iter([in_metadata(newest)]))
    }

    /// The message of the replaced status, if it belongs into the history. Of consecutive bare
    /// progress messages only the last does: all of them would push out the first messages.
    pub(super) fn archive_message(&mut self, before: Option<Arc<Message>>) -> Option<Arc<Message>> {
        let is_bare = std::mem::take(&mut self.progress.is_bare);
        let was_bare = std::mem::replace(&mut self.progress.was_bare, is_bare);
        before.filter(|_| !(is_bare && was_bare))
    }
}

impl Service {
    /// Publishes a snapshot at once, or keeps it until the interval has passed. Its message is
    /// acknowledged once the snapshot is committed or replaced by a newer one.
    pub(super) fn on_progress(
        &mut self,
        id: TaskId,
        output: AgentText,
        pending: PendingProgress,
        ctx: &mut Context<Self>,
    ) {
        let (now, interval) = (self.clock.now(), self.settings.progress_interval);
        let Some(live) = self.live.get_mut(&id) else { return };
        // A crash may redeliver a replaced snapshot after the newer one that is in the task.
        let stale = live.progress.last.is_none()
            && live.stored.applied_seqs.iter().any(|seq| *seq > pending.seq);
        // An interrupted task continues with the client's answer, not with progress.
        if stale || live.state() != TaskState::Working {
            if let Some(done) = pending.done {
                done.handled();
            }
            return;
        }
        let is_armed = live.progress.pending.is_some();
        let too_much = live.reply_bytes + pending.bytes > self.settings.task_bytes / 2;
        live.progress.replace(output.progress, pending);
        if too_much {
            // Progress may use half of the task's bytes. Beyond that a snapshot is published only
            // with another change, at the latest with the end.
            live.progress.acknowledge_pending();
            return;
        }
        match Pace::of(live.progress.last, now.uptime, interval) {
            Pace::Now => self.flush_progress(id),
            // A flush timer is already armed for the pending snapshot.
            Pace::Until(_) if is_armed => {}
            Pace::Until(at) => {
                ctx.run_later(at.saturating_sub(now.uptime), move |service, _| {
                    service.flush_progress_if_due(id);
                });
            }
        }
    }

    /// Publishes the pending snapshot if the interval has passed. Otherwise the snapshot is newer
    /// than this timer and has a later one.
    fn flush_progress_if_due(&mut self, id: TaskId) {
        let (now, interval) = (self.clock.now(), self.settings.progress_interval);
        let Some(live) = self.live.get(&id) else { return };
        if Pace::of(live.progress.last, now.uptime, interval) == Pace::Now {
            self.flush_progress(id);
        }
    }

    fn flush_progress(&mut self, id: TaskId) {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else { return };
        if live.progress.pending.is_none() || live.state() != TaskState::Working {
            return;
        }
        live.progress.is_bare = true;
        if let Some(event) = live.advance(TaskTransition::Work, AgentText::default(), now) {
            self.change(id, vec![event], Followup::default());
        }
    }
}
