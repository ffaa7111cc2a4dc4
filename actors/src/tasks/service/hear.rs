//! An agent answers.

use a2a_policy::Now;
use a2a_policy::tasks::{ArtifactPiece, Heard, Said, Step};
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::TaskState;
use a2a_protocol::{AgentId, CorrelationId, MessageId, TaskId};
use a2a_taskdb::Write;
use actix::prelude::*;
use chrono::{DateTime, Utc};

use super::{Awaited, Begun, Service, Wake};
use crate::Ticket;
use crate::bus::notice;
use crate::tasks::service::entry::{Entry, Then, agent_message};
use crate::tasks::service::gauge::Held;

/// What an agent, or the bus, says about a task.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Hear {
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

impl Handler<Hear> for Service {
    type Result = ();

    fn handle(&mut self, hear: Hear, ctx: &mut Self::Context) {
        let Hear { task: id, sender, correlation, answers, ends, heard, seq, bytes, done, .. } =
            hear;
        // Whoever answers has the task in its hands, else the ledger would have refused it: its
        // agent may have handed it on, in whatever conversation. The same holds for the bus itself.
        let vouched_for = (answers && self.bus.keeps_ledger()) || sender.as_str() == notice::SYSTEM;
        // Its agent may speak of it in any conversation, as the ledger of the bus allows.
        let concerned = |entry: &&mut Entry| {
            let is_of_it = entry.stored.agent == sender || entry.stored.correlation == correlation;
            (vouched_for || is_of_it) && !entry.is_over() && !entry.stored.heard.contains(&seq)
        };
        let Some(entry) = self.entries.get_mut(&id).filter(concerned) else {
            // The task has ended, this belongs to another conversation, or it is in the task
            // already and a crash kept that from being acknowledged: it changes nothing.
            match self.entries.get_mut(&id).filter(|entry| entry.is_on_its_way()) {
                Some(entry) => entry.late.push(done),
                None => done.handled(),
            }
            return;
        };
        let _span =
            tracing::debug_span!("task", trace = %entry.stored.trace().id(), task = %id).entered();
        if heard.is_only_progress() {
            let Heard::Works { mut said, .. } = heard else { return };
            let parts = std::mem::take(&mut said.parts);
            let held = Held { parts, seq, bytes, done: Some(done) };
            return self.progressed(id, said, held, ctx);
        }
        entry.heard_bytes += bytes;
        if entry.heard_bytes > self.settings.task_bytes {
            let limit = self.settings.task_bytes;
            let why = format!("the agent said more about this task than the {limit} bytes it may");
            done.handled();
            self.fail(id, &why, true);
            return;
        }
        if let Heard::Completed { direct: true, said, artifacts, .. } = &heard
            && artifacts.is_empty()
            && !said.is_empty()
            && entry.unseen
            && entry.watchers.nobody_greeted()
            && entry.changes.is_empty()
        {
            let said = Said { id: Some(hear.id), ..said.clone() };
            self.answer_directly(id, said, done, ctx);
            return;
        }
        let mut now = self.clock.now();
        if entry.is_the_journals() {
            // When the bus took it, not when it came here: heard again after a crash it says the same.
            now.utc = hear.accepted.max(entry.stored.task.status.timestamp.to_utc());
        }
        // Handed over before a crash, and the store does not know it: whoever asks has it.
        let unknown_to_store = entry.turn == 0 && entry.state() == TaskState::Submitted;
        let begins = unknown_to_store && matches!(heard, Heard::Asks { .. });
        let begun = begins.then(|| entry.begin_turn(now)).flatten();
        let (mut events, then) = take_in(entry, heard, hear.id, now);
        if events.is_empty() {
            done.handled();
            return;
        }
        events.splice(..0, begun);
        entry.note(seq);
        let (over, rests) = (entry.is_over(), entry.state().is_interrupted());
        let wake = Wake { acks: vec![done], then, ..Wake::default() };
        match (over && ends).then(|| self.tell_ahead(id)) {
            Some(Some(ahead)) => self.end_ahead(id, events, wake, ahead, ctx),
            Some(None) => self.end_by_answer(id, events, wake, ctx),
            None => self.change(id, events, wake),
        }
        if over || rests {
            self.free_place(id);
        }
    }
}

impl Service {
    /// The agent means its answer as a plain message, and nobody has seen the task yet.
    fn answer_directly(&mut self, id: TaskId, said: Said, done: Ticket, ctx: &mut Context<Self>) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(mut message) = agent_message(said, &entry.stored.task) else { return };
        message.task_id = None;
        let message = Box::new(message);
        entry.answer = Some(message.clone());
        let ahead = self.tell_ahead(id);
        let told = ahead.is_some();
        if let Some((ahead, entry)) = ahead.zip(self.entries.get_mut(&id)) {
            entry.told = Some(ahead);
            for (_, waiter) in entry.waiters.drain(..) {
                let _ = waiter.send(Ok(Begun::Message(message.clone())));
            }
        }
        let write = self.answer_unborn(id, &message);
        let write = write.unwrap_or_else(|| Write::Answer { id, message });
        let awaited = Awaited::Answer { task: id, acks: vec![done] };
        if told {
            self.write_soon(write, awaited, ctx);
        } else {
            self.write(write, awaited);
        }
        self.free_place(id);
    }
}

/// What the words mean for the task: its events, none when they change nothing.
fn take_in(entry: &mut Entry, heard: Heard, id: MessageId, now: Now) -> (Vec<StreamEvent>, Then) {
    let mut events = Vec::new();
    let mut then = Then::Nothing;
    let end =
        |entry: &mut Entry, step, said| entry.advance(step, Said { id: Some(id), ..said }, now);
    match heard {
        Heard::Works { said, pieces } => {
            let only_pieces = !pieces.is_empty();
            events.extend(pieces.into_iter().map(|piece| entry.take_piece(piece)));
            // The words beside a piece are for the log; a piece speaks for itself.
            if !said.is_empty() && (!only_pieces || said.progress.is_some()) {
                events.extend(end(entry, Step::TaskHandle, said));
            }
        }
        Heard::Asks { said, credentials } => {
            let step = if credentials { Step::AskForCredentials } else { Step::Ask };
            events.extend(end(entry, step, said));
        }
        Heard::Completed { said, artifacts, summary, .. } => {
            let summary = summary.filter(|_| entry.stored.task.artifacts.is_empty());
            for artifact in artifacts.into_iter().chain(summary) {
                let piece = ArtifactPiece { artifact, append: false, last_chunk: true };
                events.push(entry.take_piece(piece));
            }
            events.extend(end(entry, Step::Complete, said));
        }
        Heard::Failed(said) => events.extend(end(entry, Step::Fail, said)),
        Heard::Rejected(said) => events.extend(end(entry, Step::Reject, said)),
        Heard::Cancelled(said) => events.extend(end(entry, Step::Cancel, said)),
        Heard::Unreadable(why) => {
            let said = Said::plainly(format!("the agent's answer cannot be read: {why}"));
            events.extend(end(entry, Step::Fail, said));
            then = Then::CallOff(why);
        }
    }
    (events, then)
}
