//! Assignments: ledger changes, deadlines and cancellation.
//!
//! The ledger of `policy` decides; here its changes become records, timers and notices.

use std::sync::Arc;
use std::time::Duration;

use a2a_journal::{EventRecord, Fact, Record};
use a2a_policy::{Assignment, Caller, Change, LedgerRefusal, Now, QueueEntry, Undo};
use a2a_protocol::{AgentId, AssignmentState, Body, Event, TaskId};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::Router;
use crate::bus::commit::effects::OnCommit;
use crate::bus::commit::writer::Append;
use crate::bus::context::Clock;
use crate::bus::mailbox::CancelRunning;
use crate::bus::message::{StoredMessage, Submission};
use crate::bus::notice;

/// Longest wait before deadlines are checked again: the wall clock may jump.
const MAX_DEADLINE_WAIT: Duration = Duration::from_secs(60);
/// Overdue tasks marked in one turn of the router; each takes three records.
const OVERDUE_BATCH: usize = 100;

/// Records that an operator deleted an A2A task. The reply comes when that is durable; `None` when
/// nothing can be written.
#[derive(Message)]
#[rtype(result = "Option<oneshot::Receiver<()>>")]
pub(crate) struct RecordDeleted {
    pub(crate) task: TaskId,
    pub(crate) reason: String,
}

impl Handler<RecordDeleted> for Router {
    type Result = MessageResult<RecordDeleted>;

    fn handle(&mut self, deleted: RecordDeleted, _: &mut Self::Context) -> Self::Result {
        if self.unavailable().is_some() {
            return MessageResult(None);
        }
        let (done, durable) = oneshot::channel();
        let known = self.ledger.as_ref().and_then(|ledger| ledger.get(&deleted.task));
        let record = Record::Event(EventRecord {
            of: known.map(|task| task.record),
            reason: Some(deleted.reason),
            ..self.bus.event(Event::Deleted)
        });
        self.bus.append(Append { record, on_commit: OnCommit::Notify(done) });
        MessageResult(Some(durable))
    }
}

/// Cancels a task in the name of its requester, or of an operator without `by`. The reply comes
/// when that is durable.
#[derive(Message)]
#[rtype(result = "Result<oneshot::Receiver<()>, LedgerRefusal>")]
pub(crate) struct CancelTask {
    pub(crate) task: TaskId,
    pub(crate) by: Option<AgentId>,
    pub(crate) reason: String,
}

impl Handler<CancelTask> for Router {
    type Result = Result<oneshot::Receiver<()>, LedgerRefusal>;

    fn handle(&mut self, request: CancelTask, ctx: &mut Self::Context) -> Self::Result {
        let CancelTask { task: id, by, reason } = request;
        let now = self.bus.clock.now();
        let unknown = LedgerRefusal::UnknownTask { task: id };
        let ledger = self.ledger.as_ref().ok_or(unknown)?;
        let change = ledger.cancel(&id, by.as_ref(), &reason, now)?;
        let task = change.task.clone();
        let facts = self.change_ledger(change, task.record, ctx).1;
        let withdrawn = self.withdraw(&task.assignee, task.record);
        let discarded = withdrawn.is_none() && self.discard_uncommitted(&task);
        let unseen = withdrawn.is_some() || discarded;
        let (done, durable) = oneshot::channel();
        let record = Record::Event(EventRecord {
            of: Some(task.record),
            // With the agent's name the record settles the delivery too; a running attempt
            // continues.
            agent_id: unseen.then(|| task.assignee.clone()),
            message_id: withdrawn.as_ref().map(|entry| entry.item.message.message_id),
            reason: Some(reason.clone()),
            facts,
            ..self.bus.event(Event::Cancelled)
        });
        self.bus.append(Append { record, on_commit: OnCommit::Notify(done) });
        let who = by.as_ref().map_or("a person", AgentId::as_str);
        let text = format!("Task {id} was cancelled by {who}: {reason}");
        if !unseen {
            self.cancel_running(&task);
            self.notify_party(&task.assignee, &task, (Event::Cancelled, &text), now, ctx);
        }
        if by.is_none() {
            self.notify_party(&task.requester, &task, (Event::Cancelled, &text), now, ctx);
        }
        Ok(durable)
    }
}

impl Router {
    /// Applies a change. Returns its reversal, and the facts to recover it from.
    pub(super) fn change_ledger(
        &mut self,
        change: Change,
        record: u64,
        ctx: &mut Context<Self>,
    ) -> (Option<Undo>, Vec<Fact>) {
        let Some(ledger) = &mut self.ledger else { return (None, Vec::new()) };
        let (id, parent) = (change.task.task_id, change.parent.as_ref().map(|task| task.task_id));
        let (undo, forgotten) = ledger.apply(change, record);
        let kept = [Some(id), parent].into_iter().flatten().filter_map(|id| ledger.get(&id));
        let mut facts: Vec<_> = kept.map(|task| fact(&task.task_id, Some(task))).collect();
        facts.extend(forgotten.iter().map(|id| fact(id, None)));
        self.schedule_deadline(ctx);
        (Some(undo), facts)
    }

    /// Fails the task that a dead-lettered message requested.
    pub(super) fn fail_assignment(
        &mut self,
        entry: &QueueEntry<Arc<StoredMessage>>,
        reason: &str,
        now: Now,
        ctx: &mut Context<Self>,
    ) -> Vec<Fact> {
        let Body::TaskRequest(body) = &entry.item.message.body else { return Vec::new() };
        let ledger = self.ledger.as_ref();
        let change = ledger
            .and_then(|ledger| ledger.fail_undelivered(&body.task_id, entry.seq, reason, now));
        let Some(change) = change else { return Vec::new() };
        let task = change.task.clone();
        let facts = self.change_ledger(change, entry.seq, ctx).1;
        if task.requester != entry.by {
            // The task was handed on; its first requester is notified as well.
            let text =
                format!("Task {} was not handled by {}: {reason}", task.task_id, task.assignee);
            self.notify_party(&task.requester, &task, (Event::DeadLetter, &text), now, ctx);
        }
        facts
    }

    /// Reopens the task of a dead letter that is redelivered; `None` when its state does not allow
    /// that.
    pub(super) fn reopen_assignment(
        &mut self,
        entry: &QueueEntry<Arc<StoredMessage>>,
        ctx: &mut Context<Self>,
    ) -> Option<Vec<Fact>> {
        let Body::TaskRequest(body) = &entry.item.message.body else { return Some(Vec::new()) };
        let now = self.bus.clock.now();
        let Some(ledger) = &self.ledger else { return Some(Vec::new()) };
        if ledger.get(&body.task_id).is_none() {
            return Some(Vec::new()); // evicted from the ledger
        }
        let change = ledger.ask_again(&body.task_id, entry.seq, now)?;
        Some(self.change_ledger(change, entry.seq, ctx).1)
    }

    /// Whether a message requests a task that was cancelled meanwhile.
    pub(super) fn is_cancelled(&self, entry: &QueueEntry<Arc<StoredMessage>>) -> bool {
        let Body::TaskRequest(body) = &entry.item.message.body else { return false };
        let task = self.ledger.as_ref().and_then(|ledger| ledger.get(&body.task_id));
        task.is_some_and(|task| {
            task.state == AssignmentState::Cancelled && task.record == entry.seq
        })
    }

    /// Settles a cancelled delivery whose attempt ended with the process.
    pub(super) fn settle_cancelled(&self, agent: AgentId, entry: &QueueEntry<Arc<StoredMessage>>) {
        let record = Record::Event(EventRecord {
            of: Some(entry.seq),
            message_id: Some(entry.item.message.message_id),
            agent_id: Some(agent),
            ..self.bus.event(Event::Cancelled)
        });
        self.bus.append(Append { record, on_commit: OnCommit::Nothing });
    }

    /// Sets the timer for the next deadline, unless it fires no later already.
    pub(super) fn schedule_deadline(&mut self, ctx: &mut Context<Self>) {
        let Some(next) = self.ledger.as_ref().and_then(|ledger| ledger.next_deadline()) else {
            return;
        };
        match self.deadline {
            Some((_, at)) if at <= next => return,
            Some((timer, _)) => drop(ctx.cancel_future(timer)),
            None => {}
        }
        let wait = (next - self.bus.clock.now().utc).to_std().unwrap_or_default();
        let wait = wait.min(MAX_DEADLINE_WAIT) + Duration::from_millis(1);
        let timer = ctx.run_later(wait, |router, ctx| {
            router.deadline = None;
            router.process_deadlines(ctx);
            router.schedule_deadline(ctx);
        });
        self.deadline = Some((timer, next));
    }

    fn process_deadlines(&mut self, ctx: &mut Context<Self>) {
        let now = self.bus.clock.now();
        let due =
            self.ledger.as_ref().map(|ledger| ledger.due(now, OVERDUE_BATCH)).unwrap_or_default();
        for id in due {
            let task = self.ledger.as_ref().and_then(|ledger| ledger.get(&id)).cloned();
            let Some(task) = task else { continue };
            let missed = task.deadline.is_some_and(|at| at > task.changed && at <= now.utc);
            let waiting = (missed && task.state == AssignmentState::Requested)
                .then(|| self.withdraw(&task.assignee, task.record))
                .flatten();
            match waiting {
                Some(entry) => {
                    let reason = "its deadline passed before its assignee received it".to_owned();
                    self.dead_letter(
                        Event::Expired,
                        &task.assignee,
                        entry,
                        reason,
                        OnCommit::Nothing,
                        ctx,
                    );
                }
                None => self.mark_overdue(&task, missed, now, ctx),
            }
        }
    }

    fn mark_overdue(&mut self, task: &Assignment, missed: bool, now: Now, ctx: &mut Context<Self>) {
        let ledger = self.ledger.as_ref();
        let Some(change) = ledger.and_then(|ledger| ledger.overdue(&task.task_id, now)) else {
            return;
        };
        let facts = self.change_ledger(change, task.record, ctx).1;
        let record = Record::Event(EventRecord {
            of: Some(task.record),
            reason: Some(match missed {
                true => format!("the deadline of task {} passed", task.task_id),
                false => format!("there was no news of task {} for too long", task.task_id),
            }),
            facts,
            ..self.bus.event(Event::Overdue)
        });
        self.bus.append(Append { record, on_commit: OnCommit::Nothing });
        self.bus.stats.overdue.add(1);
        let (id, state, assignee) = (task.task_id, task.state, &task.assignee);
        let text = match missed {
            true => format!(
                "The deadline of task {id} has passed; it is {state} and still with {assignee}. Its answer counts when it comes."
            ),
            false => format!(
                "There was no news of task {id} since {}; it is {state} and still with {assignee}. Answer it (task_response), report on it (status_update with its taskId), or cancel it.",
                task.changed.format("%Y-%m-%d %H:%M:%S UTC")
            ),
        };
        for agent in [&task.requester, &task.assignee] {
            self.notify_party(agent, task, (Event::Overdue, &text), now, ctx);
        }
    }

    /// Sends a notice about a task.
    fn notify_party(
        &mut self,
        agent: &AgentId,
        task: &Assignment,
        (event, text): (Event, &str),
        now: Now,
        ctx: &mut Context<Self>,
    ) {
        let about = notice::About {
            conversation: task.correlation_id,
            task: Some(task.task_id),
            event,
            message: None,
        };
        if self.directory.contains(agent)
            && let Some(notice) = notice::notice(agent, about, text, text, now)
        {
            self.route(&Caller::Bus, Submission::from_message(notice, Clock::instant()), None, ctx);
        }
    }

    /// Takes a message that is not in flight out of the inboxes of `agent`.
    fn withdraw(&mut self, agent: &AgentId, seq: u64) -> Option<QueueEntry<Arc<StoredMessage>>> {
        let key = self.directory.key(agent)?;
        let mailboxes = &self.bus.mailboxes;
        self.sessions[key.index()].all().filter_map(|number| mailboxes.get(number)).find_map(
            |mailbox| {
                let entry = mailbox.inbox.borrow_mut().withdraw(seq)?;
                mailbox.capacity.free(entry.bytes);
                Some(entry)
            },
        )
    }

    /// Discards the request for a task while it is being committed and thus not delivered, unless
    /// an agent takes messages before their commit.
    fn discard_uncommitted(&self, task: &Assignment) -> bool {
        let Some(key) = self.directory.key(&task.assignee) else { return false };
        let mailboxes = &self.bus.mailboxes;
        let mut all = self.sessions[key.index()].all().filter_map(|number| mailboxes.get(number));
        let is_on_its_way = task.record > self.bus.journal_status.delivered_seq.get();
        let is_discarded = is_on_its_way && !all.any(|mailbox| mailbox.takes_uncommitted());
        if is_discarded {
            mailboxes.discard_on_commit(task.record);
        }
        is_discarded
    }

    /// Notifies the agent's code that its task was cancelled.
    fn cancel_running(&self, task: &Assignment) {
        let Some(key) = self.directory.key(&task.assignee) else { return };
        let mailboxes = &self.bus.mailboxes;
        for mailbox in self.sessions[key.index()].all().filter_map(|number| mailboxes.get(number)) {
            mailbox.send(CancelRunning(task.record));
        }
    }
}

fn fact(id: &TaskId, task: Option<&Assignment>) -> Fact {
    Fact { key: Assignment::key(id).into(), value: task.map(|task| task.to_stored().into()) }
}
