//! Agent replies: applies the messages that an agent, or the bus, sends about a task.

use std::sync::Arc;

use a2a_policy::Now;
use a2a_policy::tasks::{AgentText, AgentUpdate, ArtifactPiece, TaskTransition};
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::TaskState;
use a2a_protocol::{AgentId, CorrelationId, MessageId, TaskId};
use a2a_taskdb::Write;
use actix::prelude::*;
use chrono::{DateTime, Utc};

use super::live_task::{AgentAction, Followup, LiveTask, agent_message};
use super::progress_coalescer::PendingProgress;
use super::store_queue::PendingWrite;
use super::write_behind::WriteBehindPermit;
use super::{Service, TaskReply};
use crate::AckHandle;
use crate::bus::notice;

/// A bus message about a task.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct AgentReply {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) sender: AgentId,
    pub(in crate::tasks) correlation: CorrelationId,
    /// A `task_response`, not a status update.
    pub(in crate::tasks) answers: bool,
    /// A response that ends the task: recovery searches the journal for it after a crash.
    pub(in crate::tasks) ends: bool,
    pub(in crate::tasks) update: AgentUpdate,
    /// Sequence number of the message.
    pub(in crate::tasks) seq: u64,
    pub(in crate::tasks) id: MessageId,
    /// When the bus accepted it.
    pub(in crate::tasks) accepted: DateTime<Utc>,
    /// Its size.
    pub(in crate::tasks) bytes: usize,
    /// Acknowledges it once its change is committed.
    pub(in crate::tasks) done: AckHandle,
}

impl Handler<AgentReply> for Service {
    type Result = ();

    fn handle(&mut self, reply: AgentReply, ctx: &mut Self::Context) {
        let AgentReply {
            task: id,
            sender,
            correlation,
            answers,
            ends,
            update,
            seq,
            bytes,
            done,
            ..
        } = reply;
        // The ledger only lets the assignee respond, which may be an agent that the task was handed
        // to, in any conversation. Notices of the bus itself are trusted as well.
        let is_vouched_for =
            (answers && self.bus.keeps_ledger()) || sender.as_str() == notice::SYSTEM;
        // The task's own agent may report in any conversation, as the ledger of the bus allows.
        let applies = |live: &&mut LiveTask| {
            let is_related = live.stored.agent == sender || live.stored.correlation == correlation;
            (is_vouched_for || is_related)
                && !live.is_over()
                && !live.stored.applied_seqs.contains(&seq)
        };
        let Some(live) = self.live.get_mut(&id).filter(applies) else {
            // The task has ended, the message belongs to another conversation, or it is a
            // redelivery after a crash: acknowledge it without effect.
            match self.live.get_mut(&id).filter(|live| live.has_unwritten()) {
                Some(live) => live.late_acks.push(done),
                None => done.handled(),
            }
            return;
        };
        let _span =
            tracing::debug_span!("task", trace = %live.stored.trace().id(), task = %id).entered();
        if update.is_only_progress() {
            let AgentUpdate::Works { text: mut output, .. } = update else { return };
            let parts = std::mem::take(&mut output.parts);
            let pending = PendingProgress { parts, seq, bytes, done: Some(done) };
            return self.on_progress(id, output, pending, ctx);
        }
        live.reply_bytes += bytes;
        if live.reply_bytes > self.settings.task_bytes {
            let limit = self.settings.task_bytes;
            let why = format!("the agent said more about this task than the {limit} bytes it may");
            done.handled();
            self.fail(id, &why, true);
            return;
        }
        if let AgentUpdate::Completed { direct: true, text: output, artifacts, .. } = &update
            && artifacts.is_empty()
            && !output.is_empty()
            && live.is_hidden()
            && live.subscribers.none_has_snapshot()
            && live.changes.is_empty()
        {
            let output = AgentText { id: Some(reply.id), ..output.clone() };
            self.answer_directly(id, output, done, ctx);
            return;
        }
        let mut now = self.clock.now();
        if live.is_only_in_journal() {
            // The time of the bus, not of this handler: a replay after a crash must produce the
            // same task.
            now.utc = reply.accepted.max(live.stored.task.status.timestamp.to_utc());
        }
        // The task was dispatched before a crash, and the store lacks that. An agent that asks a
        // question has the request.
        let is_unrecorded = live.dispatches == 0 && live.state() == TaskState::Submitted;
        let begins = is_unrecorded && matches!(update, AgentUpdate::Asks { .. });
        let started = begins.then(|| live.start_turn(now)).flatten();
        let (mut events, action) = apply_reply(live, update, reply.id, now);
        if events.is_empty() {
            done.handled();
            return;
        }
        events.splice(..0, started);
        live.record_seq(seq);
        let (over, interrupted) = (live.is_over(), live.state().is_interrupted());
        let followup = Followup { acks: vec![done], action, ..Followup::default() };
        match (over && ends).then(|| self.write_behind_permit(id)) {
            Some(Some(permit)) => self.end_before_commit(id, events, followup, permit, ctx),
            Some(None) => self.end_with_next(id, events, followup, ctx),
            None => self.change(id, events, followup),
        }
        if over || interrupted {
            self.release_lane(id);
        }
    }
}

impl Service {
    /// A permit to reply before the commit, for a task that the journal can replay.
    fn write_behind_permit(&self, id: TaskId) -> Option<WriteBehindPermit> {
        let live = self.live.get(&id)?;
        live.is_only_in_journal().then(|| self.write_behind.acquire()).flatten()
    }

    /// Ends a task that exists only in the journal: its waiters get the reply before the commit.
    fn end_before_commit(
        &mut self,
        id: TaskId,
        events: Vec<StreamEvent>,
        followup: Followup,
        permit: WriteBehindPermit,
        ctx: &mut Context<Self>,
    ) {
        let Some(write) = self.build_write(id, events, followup) else { return };
        if let Some(live) = self.live.get_mut(&id) {
            live.write_behind = Some(permit);
            for (_, waiter) in live.waiters.drain(..) {
                let _ = waiter.send(Ok(TaskReply::Task(Arc::clone(&live.stored.task))));
            }
        }
        self.write_batched(write, PendingWrite::Change(id), ctx);
    }

    /// Ends a task with an answer that the journal has. A crash replays the answer and all that
    /// follows from it, so the next task of the lane is dispatched before the commit, provided
    /// that the store has it as queued. One transaction writes the end and the next start.
    fn end_with_next(
        &mut self,
        id: TaskId,
        events: Vec<StreamEvent>,
        followup: Followup,
        ctx: &mut Context<Self>,
    ) {
        let (mut all, mut next) = self.build_change(id, events, followup);
        let lane = self.live.get(&id).map(|live| live.lane.clone());
        next.extend(lane.and_then(|lane| self.scheduler.queues.leave(&lane, id)));
        let is_queued = |id: &TaskId| self.live.get(id).is_some_and(LiveTask::is_queued_in_store);
        let (ready, mut others): (Vec<_>, Vec<_>) = next.into_iter().partition(is_queued);
        for &id in &ready {
            let now = self.clock.now();
            let Some(live) = self.live.get_mut(&id) else { continue };
            let Some(event) = live.start_turn(now) else { continue };
            let (writes, more) = self.build_change(id, vec![event], Followup::default());
            all.extend(writes);
            others.extend(more);
        }
        self.write_all(all);
        ready.into_iter().for_each(|id| self.dispatch(id, ctx));
        others.into_iter().for_each(|id| self.start_next(Some(id)));
    }

    /// Replaces a hidden task by the agent's plain message.
    fn answer_directly(
        &mut self,
        id: TaskId,
        output: AgentText,
        done: AckHandle,
        ctx: &mut Context<Self>,
    ) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let Some(mut message) = agent_message(output, &live.stored.task) else { return };
        message.task_id = None;
        let message = Box::new(message);
        live.replace_with(message.clone());
        let permit = self.write_behind_permit(id);
        let replied = permit.is_some();
        if let Some((permit, live)) = permit.zip(self.live.get_mut(&id)) {
            live.write_behind = Some(permit);
            for (_, waiter) in live.waiters.drain(..) {
                let _ = waiter.send(Ok(TaskReply::Message(message.clone())));
            }
        }
        let write = self.answer_deferred(id, &message);
        let write = write.unwrap_or_else(|| Write::Answer { id, message });
        let pending = PendingWrite::Answer { task: id, acks: vec![done] };
        if replied {
            self.write_batched(write, pending, ctx);
        } else {
            self.write(write, pending);
        }
        self.release_lane(id);
    }
}

/// Applies a reply to the task; returns its events, none when it changes nothing.
fn apply_reply(
    live: &mut LiveTask,
    update: AgentUpdate,
    id: MessageId,
    now: Now,
) -> (Vec<StreamEvent>, AgentAction) {
    let mut events = Vec::new();
    let mut action = AgentAction::None;
    let advance = |live: &mut LiveTask, step, output| {
        live.advance(step, AgentText { id: Some(id), ..output }, now)
    };
    match update {
        AgentUpdate::Works { text: output, pieces } => {
            let has_pieces = !pieces.is_empty();
            events.extend(pieces.into_iter().map(|piece| live.apply_artifact(piece)));
            // Text beside an artifact is for the journal only: the artifact has its own event.
            if !output.is_empty() && (!has_pieces || output.progress.is_some()) {
                events.extend(advance(live, TaskTransition::Work, output));
            }
        }
        AgentUpdate::Asks { text: output, credentials } => {
            let step =
                if credentials { TaskTransition::AskForCredentials } else { TaskTransition::Ask };
            events.extend(advance(live, step, output));
        }
        AgentUpdate::Completed { text: output, artifacts, summary, .. } => {
            let summary = summary.filter(|_| live.stored.task.artifacts.is_empty());
            for artifact in artifacts.into_iter().chain(summary) {
                let piece = ArtifactPiece { artifact, append: false, last_chunk: true };
                events.push(live.apply_artifact(piece));
            }
            events.extend(advance(live, TaskTransition::Complete, output));
        }
        AgentUpdate::Failed(output) => events.extend(advance(live, TaskTransition::Fail, output)),
        AgentUpdate::Rejected(output) => {
            events.extend(advance(live, TaskTransition::Reject, output))
        }
        AgentUpdate::Cancelled(output) => {
            events.extend(advance(live, TaskTransition::Cancel, output))
        }
        AgentUpdate::Unreadable(why) => {
            let output = AgentText::plain(format!("the agent's answer cannot be read: {why}"));
            events.extend(advance(live, TaskTransition::Fail, output));
            action = AgentAction::Cancel(why);
        }
    }
    (events, action)
}
