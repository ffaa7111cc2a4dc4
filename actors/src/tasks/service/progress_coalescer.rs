//! What an agent last said about the progress of one task, and what of it waits to be shown.
//!
//! Each word of it is a snapshot. One that comes too soon after the last is held; a newer one takes
//! its place, and whatever happens to the task first takes it along.

use std::sync::Arc;
use std::time::Duration;

use a2a_policy::Now;
use a2a_policy::tasks::Said;
use a2a_protocol::PROGRESS_EXTENSION;
use a2a_protocol::task::{Message, Metadata, Part, Task};
use serde_json::Value;

use super::live_task::LiveTask;
use crate::Ticket;

/// How far a task is, as far as its agent says.
#[derive(Debug, Default)]
pub(in crate::tasks) struct ProgressCoalescer {
    /// The newest snapshot, shown or not.
    newest: Option<Value>,
    held: Option<PendingProgress>,
    /// When a snapshot was last shown, since the start of the service.
    pub(in crate::tasks) last: Option<Duration>,
    /// What is shown next is nothing but progress.
    is_bare: bool,
    /// What is shown now is.
    was_bare: bool,
    /// Messages of the bus whose snapshot is in the change that is being made.
    acks: Vec<Ticket>,
}

/// A snapshot that is not shown yet, and what came with it.
#[derive(Debug)]
pub(in crate::tasks) struct PendingProgress {
    pub(in crate::tasks) parts: Vec<Part>,
    pub(in crate::tasks) seq: u64,
    pub(in crate::tasks) bytes: usize,
    /// Told when it is durable; nobody, when it was told already.
    pub(in crate::tasks) done: Option<Ticket>,
}

impl ProgressCoalescer {
    /// As the task shows it.
    pub(in crate::tasks) fn of(task: &Task) -> Self {
        let said = task.status.message.as_ref().and_then(|message| message.metadata.as_ref());
        let newest = said.and_then(|metadata| metadata.get(PROGRESS_EXTENSION)).cloned();
        Self { newest, ..Self::default() }
    }

    pub(in crate::tasks) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Takes a snapshot that waits. The one before is told that it is done with: a newer one of the
    /// same things is here, and it would never be shown.
    pub(in crate::tasks) fn hold(&mut self, snapshot: Option<Value>, held: PendingProgress) {
        self.newest = snapshot.or_else(|| self.newest.take());
        self.settle();
        self.held = Some(held);
    }

    /// Whoever sent what is held need not wait for it.
    pub(in crate::tasks) fn settle(&mut self) {
        if let Some(done) = self.held.as_mut().and_then(|held| held.done.take()) {
            done.handled();
        }
    }

    /// What is shown next is what is held, and nothing else.
    pub(in crate::tasks) fn show_held(&mut self) {
        self.is_bare = true;
    }

    /// Those who are told when the change that is being made is durable.
    pub(in crate::tasks) fn take_acks(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.acks)
    }
}

fn in_metadata(snapshot: &Value) -> (String, Value) {
    (PROGRESS_EXTENSION.to_owned(), snapshot.clone())
}

impl LiveTask {
    /// Puts the newest snapshot into what is said; the metadata of the event, if the snapshot is
    /// news. What says nothing else gets the words that came with it.
    pub(in crate::tasks) fn apply_progress(
        &mut self,
        said: &mut Said,
        now: Now,
    ) -> Option<Metadata> {
        let held = self.progress.held.take();
        let mut is_news = held.is_some();
        if let Some(PendingProgress { parts, seq, bytes, done }) = held {
            self.note(seq);
            // What was never shown costs nothing; this is.
            self.reply_bytes += bytes;
            self.progress.acks.extend(done);
            if said.is_empty() {
                said.parts = parts;
            }
        }
        if let Some(snapshot) = said.progress.take() {
            self.progress.newest = Some(snapshot);
            is_news = true;
        }
        let newest = self.progress.newest.as_ref()?;
        if !said.is_empty() {
            said.metadata.get_or_insert_default().extend([in_metadata(newest)]);
        }
        if !is_news {
            return None;
        }
        self.progress.last = Some(now.uptime);
        Some(Metadata::from_iter([in_metadata(newest)]))
    }

    /// Where the message of the status before goes: into the history, unless it was nothing but
    /// progress and nothing but progress follows. A bar that moves would fill the history, and the
    /// first that was said would fall out of it.
    pub(in crate::tasks) fn archive_message(
        &mut self,
        before: Option<Arc<Message>>,
    ) -> Option<Arc<Message>> {
        let is_bare = std::mem::take(&mut self.progress.is_bare);
        let was_bare = std::mem::replace(&mut self.progress.was_bare, is_bare);
        before.filter(|_| !(is_bare && was_bare))
    }
}
