//! An agent answers.

use a2a_policy::Now;
use a2a_policy::tasks::{ArtifactPiece, Heard, Said, Step};
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::TaskState;
use a2a_protocol::{AgentId, CorrelationId, MessageId, TaskId};
use a2a_taskdb::Write;
use actix::prelude::*;
use chrono::{DateTime, Utc};

use super::{Followup, PendingWrite, Service, TaskReply};
use crate::Ticket;
use crate::bus::notice;
use crate::tasks::service::live_task::{AgentAction, LiveTask, agent_message};
use crate::tasks::service::progress_coalescer::PendingProgress;

/// What an agent, or the bus, says about a task.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct AgentReply {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) sender: AgentId,
    pub(in crate::tasks) correlation: CorrelationId,
    /// It is an answer, not a report.
    pub(in crate::tasks) answers: bool,
    /// It is an answer that says of itself that the task is over: after a crash it is looked for.
    pub(in crate::tasks) ends: bool,
    pub(in crate::tasks) heard: Heard,
    /// The number of the message.
    pub(in crate::tasks) seq: u64,
    /// Its id.
    pub(in crate::tasks) id: MessageId,
    /// When the bus took it.
    pub(in crate::tasks) accepted: DateTime<Utc>,
    /// How much it said.
    pub(in crate::tasks) bytes: usize,
    /// Told when what it means is durable.
    pub(in crate::tasks) done: Ticket,
}

impl Handler<AgentReply> for Service {
    type Result = ();

    fn handle(&mut self, hear: AgentReply, ctx: &mut Self::Context) {
        let AgentReply {
            task: id,
            sender,
            correlation,
            answers,
            ends,
            heard,
            seq,
            bytes,
            done,
            ..
        } = hear;
        // Whoever answers has the task in its hands, else the ledger would have refused it: its
        // agent may have handed it on, in whatever conversation. The same holds for the bus itself.
        let vouched_for = (answers && self.bus.keeps_ledger()) || sender.as_str() == notice::SYSTEM;
        // Its agent may speak of it in any conversation, as the ledger of the bus allows.
        let concerned = |live: &&mut LiveTask| {
            let is_of_it = live.stored.agent == sender || live.stored.correlation == correlation;
            (vouched_for || is_of_it) && !live.is_over() && !live.stored.heard.contains(&seq)
        };
        let Some(live) = self.live.get_mut(&id).filter(concerned) else {
            // The task has ended, this belongs to another conversation, or it is in the task
            // already and a crash kept that from being acknowledged: it changes nothing.
            match self.live.get_mut(&id).filter(|live| live.has_unwritten()) {
                Some(live) => live.late_acks.push(done),
                None => done.handled(),
            }
            return;
        };
        let _span =
            tracing::debug_span!("task", trace = %live.stored.trace().id(), task = %id).entered();
        if heard.is_only_progress() {
            let Heard::Works { mut said, .. } = heard else { return };
            let parts = std::mem::take(&mut said.parts);
            let held = PendingProgress { parts, seq, bytes, done: Some(done) };
            return self.on_progress(id, said, held, ctx);
        }
        live.reply_bytes += bytes;
        if live.reply_bytes > self.settings.task_bytes {
            let limit = self.settings.task_bytes;
            let why = format!("the agent said more about this task than the {limit} bytes it may");
            done.handled();
            self.fail(id, &why, true);
            return;
        }
        if let Heard::Completed { direct: true, said, artifacts, .. } = &heard
            && artifacts.is_empty()
            && !said.is_empty()
            && live.unseen
            && live.watchers.none_notified()
            && live.changes.is_empty()
        {
            let said = Said { id: Some(hear.id), ..said.clone() };
            self.answer_directly(id, said, done, ctx);
            return;
        }
        let mut now = self.clock.now();
        if live.is_only_in_journal() {
            // When the bus took it, not when it came here: heard again after a crash it says the same.
            now.utc = hear.accepted.max(live.stored.task.status.timestamp.to_utc());
        }
        // Handed over before a crash, and the store does not know it: whoever asks has it.
        let unknown_to_store = live.dispatches == 0 && live.state() == TaskState::Submitted;
        let begins = unknown_to_store && matches!(heard, Heard::Asks { .. });
        let begun = begins.then(|| live.start_turn(now)).flatten();
        let (mut events, then) = apply_reply(live, heard, hear.id, now);
        if events.is_empty() {
            done.handled();
            return;
        }
        events.splice(..0, begun);
        live.note(seq);
        let (over, rests) = (live.is_over(), live.state().is_interrupted());
        let wake = Followup { acks: vec![done], then, ..Followup::default() };
        match (over && ends).then(|| self.write_behind_permit(id)) {
            Some(Some(ahead)) => self.end_write_behind(id, events, wake, ahead, ctx),
            Some(None) => self.end_by_answer(id, events, wake, ctx),
            None => self.change(id, events, wake),
        }
        if over || rests {
            self.release_lane(id);
        }
    }
}

impl Service {
    /// The agent means its answer as a plain message, and nobody has seen the task yet.
    fn answer_directly(&mut self, id: TaskId, said: Said, done: Ticket, ctx: &mut Context<Self>) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let Some(mut message) = agent_message(said, &live.stored.task) else { return };
        message.task_id = None;
        let message = Box::new(message);
        live.answer = Some(message.clone());
        let ahead = self.write_behind_permit(id);
        let told = ahead.is_some();
        if let Some((ahead, live)) = ahead.zip(self.live.get_mut(&id)) {
            live.told = Some(ahead);
            for (_, waiter) in live.waiters.drain(..) {
                let _ = waiter.send(Ok(TaskReply::Message(message.clone())));
            }
        }
        let write = self.answer_deferred(id, &message);
        let write = write.unwrap_or_else(|| Write::Answer { id, message });
        let awaited = PendingWrite::Answer { task: id, acks: vec![done] };
        if told {
            self.write_batched(write, awaited, ctx);
        } else {
            self.write(write, awaited);
        }
        self.release_lane(id);
    }
}

/// What the words mean for the task: its events, none when they change nothing.
fn apply_reply(
    live: &mut LiveTask,
    heard: Heard,
    id: MessageId,
    now: Now,
) -> (Vec<StreamEvent>, AgentAction) {
    let mut events = Vec::new();
    let mut then = AgentAction::None;
    let end =
        |live: &mut LiveTask, step, said| live.advance(step, Said { id: Some(id), ..said }, now);
    match heard {
        Heard::Works { said, pieces } => {
            let only_pieces = !pieces.is_empty();
            events.extend(pieces.into_iter().map(|piece| live.apply_artifact(piece)));
            // The words beside a piece are for the log; a piece speaks for itself.
            if !said.is_empty() && (!only_pieces || said.progress.is_some()) {
                events.extend(end(live, Step::TaskHandle, said));
            }
        }
        Heard::Asks { said, credentials } => {
            let step = if credentials { Step::AskForCredentials } else { Step::Ask };
            events.extend(end(live, step, said));
        }
        Heard::Completed { said, artifacts, summary, .. } => {
            let summary = summary.filter(|_| live.stored.task.artifacts.is_empty());
            for artifact in artifacts.into_iter().chain(summary) {
                let piece = ArtifactPiece { artifact, append: false, last_chunk: true };
                events.push(live.apply_artifact(piece));
            }
            events.extend(end(live, Step::Complete, said));
        }
        Heard::Failed(said) => events.extend(end(live, Step::Fail, said)),
        Heard::Rejected(said) => events.extend(end(live, Step::Reject, said)),
        Heard::Cancelled(said) => events.extend(end(live, Step::Cancel, said)),
        Heard::Unreadable(why) => {
            let said = Said::plainly(format!("the agent's answer cannot be read: {why}"));
            events.extend(end(live, Step::Fail, said));
            then = AgentAction::Cancel(why);
        }
    }
    (events, then)
}
