//! Message sequences against the ledger.

use a2a_protocol::{AgentId, AssignmentState, Envelope, Kind, Outcome, ReviewState, TaskId};
use chrono::{DateTime, TimeDelta};
use serde_json::{Value, json};

use super::*;
use crate::{Now, WorkProgress};

const TASK: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000003";
const OTHER: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000004";

fn now() -> Now {
    Now { utc: DateTime::UNIX_EPOCH + TimeDelta::days(20_000), uptime: Default::default() }
}

fn task(text: &str) -> TaskId {
    text.parse().unwrap()
}

/// A message of `kind` from one agent to another about `TASK`, with these payload fields changed.
fn message(kind: Kind, from: &str, to: &str, change: &Value) -> Envelope {
    let mut message = serde_json::to_value(kind.example_message()).unwrap();
    message["from"] = json!({ "agentId": from });
    message["to"] = json!({ "agentId": to });
    message["payload"]["taskId"] = TASK.into();
    message["payload"].as_object_mut().unwrap().remove("deadline");
    for (field, value) in change.as_object().unwrap() {
        message["payload"][field] = value.clone();
    }
    Envelope::parse(message.to_string().as_bytes()).unwrap()
}

struct LedgerHarness {
    ledger: Ledger,
    record: u64,
}

impl LedgerHarness {
    fn new() -> Self {
        let settings = LedgerSettings { max_open: 3, max_ended: 2, ..LedgerSettings::default() };
        Self { ledger: Ledger::new(settings), record: 0 }
    }

    /// Sends a message; returns the state of the task, or the outcome of the refusal.
    fn send(&mut self, message: &Envelope) -> Result<AssignmentState, Outcome> {
        self.send_with_senior(message, None).map_err(|refusal| refusal.outcome())
    }

    fn send_with_senior(
        &mut self,
        message: &Envelope,
        senior: Option<&AgentId>,
    ) -> Result<AssignmentState, LedgerRefusal> {
        self.record += 1;
        if let Some(change) = self.ledger.check(message, senior, now())? {
            self.ledger.apply(change, self.record);
        }
        Ok(self.task().state)
    }

    fn request(&mut self, from: &str, to: &str) -> Result<AssignmentState, Outcome> {
        self.send(&message(Kind::TaskRequest, from, to, &json!({})))
    }

    fn answer(&mut self, from: &str, action: &str) -> Result<AssignmentState, Outcome> {
        let body = json!({ "action": action, "reason": "because", "result": {} });
        self.send(&message(Kind::TaskResponse, from, "roman", &body))
    }

    fn report(&mut self, from: &str, status: &str) -> Result<AssignmentState, Outcome> {
        let body = json!({ "status": status, "blockedBy": "the weather" });
        self.send(&message(Kind::StatusUpdate, from, "roman", &body))
    }

    fn ask_review(&mut self, from: &str, reviewer: &str) -> Result<AssignmentState, Outcome> {
        let body = json!({ "authorAgent": "tim" });
        self.send(&message(Kind::ReviewRequest, from, reviewer, &body))
    }

    fn verdict(&mut self, from: &str, verdict: &str) -> Result<AssignmentState, Outcome> {
        self.send(&verdict_of(from, verdict))
    }

    fn task(&self) -> &Assignment {
        self.ledger.get(&task(TASK)).unwrap()
    }

    fn review(&self) -> (ReviewState, String, u32) {
        let review = self.task().review.clone().unwrap();
        (review.state, review.reviewer.to_string(), review.round)
    }
}

fn verdict_of(from: &str, verdict: &str) -> Envelope {
    let next = match verdict {
        "approved" => "push_and_close",
        "changes_requested" => "send_back_to_worker",
        _ => "escalate_to_senior",
    };
    let tasks = json!([{ "title": "Then the router", "assignTo": "T3" }]);
    let body = json!({ "verdict": verdict, "nextAction": next, "nextTasks": tasks });
    message(Kind::ReviewResponse, from, "tim", &body)
}

use AssignmentState::*;
use Outcome::{IllegalTransition, NotAssignee, UnknownTask};

#[test]
fn text_is_bounded_and_oldest_ended_are_evicted_first() {
    let mut ledger =
        Ledger::new(LedgerSettings { max_text_bytes: 1_000, ..LedgerSettings::default() });
    let task = |n: u64, state, chars| {
        let id = format!("0192a4c8-7e1a-7000-9000-{n:012x}");
        let stored = serde_json::json!({
            "correlationId": id, "requester": "roman", "assignee": "tim", "state": state,
            "record": n, "version": 1, "changed": n, "reason": "x".repeat(chars),
        });
        Assignment::from_stored(id.parse().unwrap(), &stored.to_string()).unwrap()
    };
    for n in 1..=3 {
        ledger.restore(task(n, "completed", 400));
    }
    ledger.restore(task(4, "blocked", 400));
    assert_eq!((ledger.evict_oldest().len(), ledger.open()), (2, 1));
    assert!(ledger.check_text().is_ok());
    ledger.restore(task(5, "blocked", 600));
    assert_eq!(ledger.evict_oldest().len(), 1);
    let full = ledger.check_text().unwrap_err();
    assert_eq!((full.outcome(), ledger.open()), (a2a_protocol::Outcome::QueueFull, 2));
    assert!(full.to_string().contains("1000 bytes"), "{full}");
}

#[test]
fn task_is_requested_accepted_worked_on_and_completed() {
    let mut harness = LedgerHarness::new();
    assert_eq!(harness.request("roman", "tim"), Ok(Requested));
    assert_eq!(harness.answer("tim", "accepted"), Ok(Accepted));
    assert_eq!(harness.report("tim", "in_progress"), Ok(Working));
    assert_eq!(harness.report("tim", "in_progress"), Ok(Working));
    assert_eq!(harness.report("tim", "blocked"), Ok(Blocked));
    assert_eq!(harness.task().reason.as_deref(), Some("the weather"));
    assert_eq!(harness.report("tim", "completed"), Ok(Blocked), "only an answer ends a task");
    assert_eq!(harness.report("roman", "in_progress"), Ok(Blocked), "a word of the requester");
    assert_eq!(harness.answer("tim", "completed"), Ok(Completed));
    assert_eq!(harness.task().version, 5);
    assert_eq!(harness.report("tim", "completed"), Ok(Completed));
    assert_eq!(harness.ledger.open(), 0);
}

#[test]
fn illegal_message_is_refused_and_changes_nothing() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    let before = harness.task().clone();
    assert_eq!(harness.answer("tony", "accepted"), Err(NotAssignee));
    assert_eq!(harness.answer("roman", "completed"), Err(NotAssignee));
    assert_eq!(harness.report("tony", "in_progress"), Err(NotAssignee));
    assert_eq!(harness.request("roman", "tim"), Err(IllegalTransition));
    assert_eq!(harness.request("tony", "tim"), Err(NotAssignee));
    assert_eq!(harness.verdict("tony", "approved"), Err(IllegalTransition));
    assert_eq!(harness.ask_review("tony", "xavier"), Err(NotAssignee));
    let stranger = message(Kind::TaskResponse, "tim", "roman", &json!({ "taskId": OTHER }));
    assert_eq!(harness.send(&stranger), Err(UnknownTask));
    let stranger = message(Kind::StatusUpdate, "tim", "roman", &json!({ "taskId": OTHER }));
    assert_eq!(harness.send(&stranger), Err(UnknownTask));
    assert_eq!(*harness.task(), before);

    harness.answer("tim", "completed").unwrap();
    for action in ["accepted", "declined", "completed", "failed", "blocked"] {
        assert_eq!(harness.answer("tim", action), Err(IllegalTransition), "{action}");
    }
    assert_eq!(harness.report("tim", "in_progress"), Err(IllegalTransition));
    assert_eq!(harness.request("roman", "tim"), Err(IllegalTransition), "done is done");
}

#[test]
fn a_refusal_names_what_would_be_possible() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    assert_eq!(harness.answer("tim", "accepted"), Ok(Accepted));
    assert_eq!(harness.answer("tim", "accepted"), Ok(Accepted), "said again after a crash");
    assert_eq!(harness.report("tim", "in_progress"), Ok(Working));
    assert_eq!(harness.answer("tim", "accepted"), Ok(Working), "and does not set it back");
    let decline = json!({ "action": "declined", "reason": "no" });
    let decline = message(Kind::TaskResponse, "tim", "roman", &decline);
    let refused = harness.ledger.check(&decline, None, now()).unwrap_err().to_string();
    assert_eq!(
        refused,
        format!(
            "task {TASK} is working: `declined` is not possible now; possible are accepted, completed, failed, blocked"
        )
    );
    let elsewhere = message(Kind::TaskResponse, "tim", "tony", &json!({ "action": "completed" }));
    let refused = harness.ledger.check(&elsewhere, None, now()).unwrap_err().to_string();
    assert!(refused.contains("for `roman`"), "{refused}");
}

#[test]
fn declined_or_failed_task_can_be_requested_again_from_any_agent() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    assert_eq!(harness.answer("tim", "declined"), Ok(Declined));
    assert_eq!(harness.task().reason.as_deref(), Some("because"));
    assert_eq!(harness.request("tim", "tony"), Err(NotAssignee), "it is not tim's any more");
    assert_eq!(harness.request("roman", "tony"), Ok(Requested));
    assert_eq!((harness.task().assignee.as_str(), &harness.task().reason), ("tony", &None));
    assert_eq!(harness.answer("tim", "accepted"), Err(NotAssignee));
    assert_eq!(harness.answer("tony", "failed"), Ok(Failed));
    assert_eq!(harness.request("roman", "tim"), Ok(Requested));
}

#[test]
fn assignee_delegates_task_and_no_request_is_progress() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    harness.answer("tim", "accepted").unwrap();
    let on = message(Kind::TaskRequest, "tim", "tony", &json!({}));
    let change = harness.ledger.check(&on, None, now()).unwrap().unwrap();
    assert_eq!(change.progress, WorkProgress::None);
    assert_eq!(harness.send(&on), Ok(Requested));
    let task = harness.task();
    assert_eq!((task.assignee.as_str(), task.handed_on_by[0].as_str()), ("tony", "tim"));
    assert_eq!(harness.answer("tony", "completed"), Ok(Completed));
}

#[test]
fn work_is_reviewed_sent_back_escalated_and_approved() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    harness.answer("tim", "completed").unwrap();
    assert_eq!(harness.ask_review("tim", "ann"), Ok(Completed));
    assert_eq!(harness.ask_review("tim", "ann"), Err(IllegalTransition), "asked already");
    assert_eq!(harness.verdict("tony", "approved"), Err(NotAssignee));
    assert_eq!(harness.verdict("ann", "changes_requested"), Ok(Reopened));
    assert_eq!(harness.verdict("ann", "approved"), Err(IllegalTransition), "no verdict is owed");
    assert_eq!(harness.report("tim", "in_progress"), Ok(Working));
    assert_eq!(harness.answer("tim", "completed"), Ok(Completed));
    assert_eq!(harness.ask_review("tim", "ann"), Ok(Completed));
    let xavier = "xavier".parse().unwrap();
    harness.send_with_senior(&verdict_of("ann", "escalated"), Some(&xavier)).unwrap();
    assert_eq!(harness.review(), (ReviewState::Escalated, "xavier".into(), 2));
    assert_eq!(harness.verdict("ann", "approved"), Err(NotAssignee), "it is xavier's now");
    assert_eq!(harness.verdict("xavier", "approved"), Ok(Completed));
    assert_eq!(harness.ask_review("tim", "ann"), Err(IllegalTransition), "an approval stands");
    assert_eq!(harness.answer("tim", "completed"), Err(IllegalTransition));
}

#[test]
fn a_review_can_be_given_to_another_reviewer() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    harness.ask_review("tim", "ann").unwrap();
    harness.ask_review("tim", "tony").unwrap();
    assert_eq!(harness.review(), (ReviewState::Pending, "tony".into(), 2));
    assert_eq!(harness.verdict("ann", "approved"), Err(NotAssignee));
}

#[test]
fn unrequested_work_can_be_reviewed_and_completes_on_approval() {
    let mut harness = LedgerHarness::new();
    assert_eq!(harness.ask_review("tim", "ann"), Ok(Working));
    assert!(harness.task().unrequested);
    assert_eq!(harness.verdict("ann", "approved"), Ok(Completed));
}

#[test]
fn an_approval_proposes_tasks_that_a_request_starts() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    harness.ask_review("tim", "ann").unwrap();
    harness.verdict("ann", "approved").unwrap();
    assert_eq!(harness.task().proposed[0].title, "Then the router");
    let start = json!({ "taskId": OTHER, "title": "Then the router" });
    harness.send(&message(Kind::TaskRequest, "stranger", "tony", &start)).unwrap();
    assert_eq!(harness.task().proposed[0].started, None, "a stranger starts a task of its own");
    let start =
        json!({ "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000005", "title": "Then the router" });
    harness.send(&message(Kind::TaskRequest, "ann", "tony", &start)).unwrap();
    assert!(harness.task().proposed[0].started.is_some());
}

#[test]
fn dead_lettered_request_fails_task_only_if_current() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    let id = task(TASK);
    assert!(harness.ledger.fail_undelivered(&id, 7, "gone", now()).is_none(), "another record");
    let change = harness.ledger.fail_undelivered(&id, 1, "gone", now()).unwrap();
    harness.ledger.apply(change, 9);
    assert_eq!((harness.task().state, harness.task().record), (Failed, 1));
    let again = harness.ledger.ask_again(&id, 1, now()).unwrap();
    harness.ledger.apply(again, 10);
    assert_eq!(harness.answer("tim", "completed"), Ok(Completed));
}

#[test]
fn requester_cancels_task_and_late_responses_are_refused() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    let (id, tim, roman) = (task(TASK), "tim".parse().unwrap(), "roman".parse().unwrap());
    let refused = harness.ledger.cancel(&id, Some(&tim), "no", now()).unwrap_err();
    assert_eq!(refused.outcome(), NotAssignee);
    let change = harness.ledger.cancel(&id, Some(&roman), "changed my mind", now()).unwrap();
    harness.ledger.apply(change, 2);
    assert_eq!(harness.answer("tim", "completed"), Err(IllegalTransition));
    assert_eq!(
        harness.ledger.cancel(&id, None, "again", now()).unwrap_err().outcome(),
        IllegalTransition
    );
}

#[test]
fn deadlines_come_due_once_and_one_that_had_passed_never() {
    let mut harness = LedgerHarness::new();
    let at = |minutes| (now().utc + TimeDelta::minutes(minutes)).to_rfc3339();
    harness
        .send(&message(Kind::TaskRequest, "roman", "tim", &json!({ "deadline": at(5) })))
        .unwrap();
    let past = json!({ "taskId": OTHER, "deadline": at(-5) });
    harness.send(&message(Kind::TaskRequest, "roman", "tim", &past)).unwrap();
    assert!(harness.ledger.due(now(), 9).is_empty());
    let later = Now { utc: now().utc + TimeDelta::minutes(6), ..now() };
    assert_eq!(harness.ledger.due(later, 9), [task(TASK)]);
    let change = harness.ledger.overdue(&task(TASK), later).unwrap();
    harness.ledger.apply(change, 3);
    assert!(harness.ledger.due(later, 9).is_empty() && harness.task().overdue);
    assert_eq!(harness.answer("tim", "completed"), Ok(Completed), "late work still counts");
}

#[test]
fn undo_restores_task_unless_a_later_change_exists() {
    let mut harness = LedgerHarness::new();
    let request = message(Kind::TaskRequest, "roman", "tim", &json!({}));
    let change = harness.ledger.check(&request, None, now()).unwrap().unwrap();
    let (undo, _) = harness.ledger.apply(change, 1);
    harness.ledger.undo(undo);
    assert!(harness.ledger.get(&task(TASK)).is_none());
    harness.request("roman", "tim").unwrap();
    let accept = message(Kind::TaskResponse, "tim", "roman", &json!({ "action": "accepted" }));
    let change = harness.ledger.check(&accept, None, now()).unwrap().unwrap();
    let (undo, _) = harness.ledger.apply(change, 2);
    harness.answer("tim", "completed").unwrap();
    harness.ledger.undo(undo);
    assert_eq!(harness.task().state, Completed);
}

#[test]
fn undo_of_stacked_changes_works_in_either_order() {
    for oldest_first in [true, false] {
        let mut harness = LedgerHarness::new();
        harness.request("roman", "tim").unwrap();
        let before = harness.task().clone();
        let mut undos = Vec::new();
        let done = message(Kind::TaskResponse, "tim", "roman", &json!({ "action": "completed" }));
        let review = message(Kind::ReviewRequest, "roman", "ann", &json!({ "authorAgent": "tim" }));
        for output in [done, review] {
            let change = harness.ledger.check(&output, None, now()).unwrap().unwrap();
            undos.push(harness.ledger.apply(change, 9).0);
        }
        if !oldest_first {
            undos.reverse();
        }
        undos.into_iter().for_each(|undo| harness.ledger.undo(undo));
        assert_eq!(*harness.task(), before, "oldest first: {oldest_first}");
        assert_eq!(harness.answer("tim", "completed"), Ok(Completed), "it can be said again");
    }
}

#[test]
fn task_requested_again_has_the_new_deadline() {
    let mut harness = LedgerHarness::new();
    let at = |minutes| (now().utc + TimeDelta::minutes(minutes)).to_rfc3339();
    let id = task(TASK);
    harness
        .send(&message(Kind::TaskRequest, "roman", "tim", &json!({ "deadline": at(5) })))
        .unwrap();
    let later = Now { utc: now().utc + TimeDelta::minutes(6), ..now() };
    let expired = harness.ledger.fail_undelivered(&id, 1, "too late", later).unwrap();
    harness.ledger.apply(expired, 1);
    let again = harness.ledger.ask_again(&id, 1, later).unwrap();
    harness.ledger.apply(again, 1);
    assert_eq!((harness.task().state, harness.task().deadline), (Requested, None));
    assert!(harness.ledger.due(later, 9).is_empty(), "what has passed is not due again");
    harness.answer("tim", "declined").unwrap();
    let anew = message(Kind::TaskRequest, "roman", "tim", &json!({ "deadline": at(9) }));
    let change = harness.ledger.check(&anew, None, later).unwrap().unwrap();
    harness.ledger.apply(change, 2);
    assert_eq!(harness.task().deadline, Some(now().utc + TimeDelta::minutes(9)));
}

#[test]
fn only_a_verdict_that_decides_is_an_end() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    harness.ask_review("tim", "ann").unwrap();
    for (verdict, progress) in [
        ("escalated", WorkProgress::Moves),
        ("changes_requested", WorkProgress::Ends),
        ("approved", WorkProgress::Ends),
    ] {
        let change = harness.ledger.check(&verdict_of("ann", verdict), None, now());
        assert_eq!(change.unwrap().unwrap().progress, progress, "{verdict}");
    }
}

#[test]
fn ledger_is_bounded_and_restores_from_json() {
    let mut harness = LedgerHarness::new();
    let ids: Vec<String> =
        (0..6).map(|n| format!("0192a4c8-7e1a-7b3c-9d4e-0000000001{n:02}")).collect();
    let mut forgotten = Vec::new();
    for id in &ids[..3] {
        let body = json!({ "taskId": id });
        for kind in [Kind::TaskRequest, Kind::TaskResponse] {
            let (from, to) =
                if kind == Kind::TaskRequest { ("roman", "tim") } else { ("tim", "roman") };
            let change = harness
                .ledger
                .check(&message(kind, from, to, &body), None, now())
                .unwrap()
                .unwrap();
            forgotten.extend(harness.ledger.apply(change, 1).1);
        }
    }
    assert_eq!(forgotten, [task(&ids[0])], "two ended tasks are remembered");
    for id in &ids[3..] {
        let open = message(Kind::TaskRequest, "roman", "tim", &json!({ "taskId": id }));
        let change = harness.ledger.check(&open, None, now()).unwrap().unwrap();
        harness.ledger.apply(change, 1);
    }
    let refused = harness.request("roman", "tim");
    assert_eq!(refused, Err(Outcome::QueueFull), "three may be open");
    let mut again = Ledger::new(LedgerSettings::default());
    for task in harness.ledger.latest(None) {
        again.restore(Assignment::from_stored(task.task_id, &task.to_stored()).unwrap());
    }
    assert_eq!(again.open(), 3);
    for task in harness.ledger.latest(None) {
        assert_eq!(again.get(&task.task_id), Some(task));
    }
}

/// The time after so many minutes.
fn after(minutes: i64) -> Now {
    Now { utc: now().utc + TimeDelta::minutes(minutes), ..now() }
}

/// Marks what is overdue, as the bus does.
fn mark(ledger: &mut Ledger, now: Now) -> Vec<TaskId> {
    let due = ledger.due(now, 9);
    for id in &due {
        let change = ledger.overdue(id, now).unwrap();
        ledger.apply(change, 1);
    }
    due
}

#[test]
fn task_without_activity_is_overdue_once_per_silence() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    harness.answer("tim", "accepted").unwrap();
    assert_eq!(mark(&mut harness.ledger, after(59)), []);
    assert_eq!(harness.ledger.next_deadline(), Some(after(60).utc));
    assert_eq!(mark(&mut harness.ledger, after(60)), [task(TASK)]);
    assert!(harness.task().overdue);
    assert_eq!(harness.ledger.overdue_count(), 1);
    assert_eq!(mark(&mut harness.ledger, after(10_000)), [], "only once");
    // A restart changes nothing about that.
    let mut again = Ledger::new(LedgerSettings::default());
    again.restore(Assignment::from_stored(task(TASK), &harness.task().to_stored()).unwrap());
    assert_eq!((mark(&mut again, after(10_000)), again.overdue_count()), (vec![], 1));
    // Any activity clears the mark, even if the state stays.
    let activity = json!({ "status": "in_progress" });
    let activity = message(Kind::StatusUpdate, "tim", "roman", &activity);
    let change = harness.ledger.check(&activity, None, after(70)).unwrap().unwrap();
    harness.ledger.apply(change, 2);
    assert_eq!((harness.task().overdue, harness.ledger.overdue_count()), (false, 0));
    assert_eq!(mark(&mut harness.ledger, after(129)), []);
    assert_eq!(mark(&mut harness.ledger, after(130)), [task(TASK)], "once per silence");
    assert_eq!(harness.answer("tim", "completed"), Ok(Completed));
    assert_eq!((harness.task().overdue, harness.ledger.overdue_count()), (false, 0));
}

#[test]
fn activity_without_change_is_rarely_persisted() {
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    harness.report("tim", "in_progress").unwrap();
    let activity = message(Kind::StatusUpdate, "tim", "roman", &json!({ "status": "in_progress" }));
    assert!(harness.ledger.check(&activity, None, after(14)).unwrap().is_none());
    harness.ledger.note_activity(&activity, after(14));
    assert_eq!(harness.ledger.next_deadline(), Some(after(74).utc));
    let stranger =
        message(Kind::StatusUpdate, "tony", "roman", &json!({ "status": "in_progress" }));
    harness.ledger.note_activity(&stranger, after(30));
    assert_eq!(harness.ledger.next_deadline(), Some(after(74).utc), "only the assignee has news");
    assert!(harness.ledger.check(&activity, None, after(15)).unwrap().is_some(), "for a restart");
    assert_eq!(mark(&mut harness.ledger, after(74)), [task(TASK)]);
}

#[test]
fn a_deadline_ahead_counts_and_a_blocked_task_waits() {
    let mut harness = LedgerHarness::new();
    let deadline = json!({ "deadline": after(600).utc.to_rfc3339() });
    harness.send(&message(Kind::TaskRequest, "roman", "tim", &deadline)).unwrap();
    assert_eq!(harness.ledger.next_deadline(), Some(after(600).utc));
    let mut harness = LedgerHarness::new();
    harness.request("roman", "tim").unwrap();
    harness.report("tim", "blocked").unwrap();
    assert_eq!(harness.ledger.next_deadline(), None);
    let settings = LedgerSettings { overdue_after: None, ..LedgerSettings::default() };
    let mut off = Ledger::new(settings);
    let asked = message(Kind::TaskRequest, "roman", "tim", &json!({}));
    let change = off.check(&asked, None, now()).unwrap().unwrap();
    off.apply(change, 1);
    assert_eq!(off.next_deadline(), None);
}

#[test]
fn due_assignments_are_returned_in_batches() {
    let mut ledger = Ledger::new(LedgerSettings::default());
    for n in 0..20 {
        let id = json!({ "taskId": format!("0192a4c8-7e1a-7b3c-9d4e-0000000002{n:02}") });
        let asked = message(Kind::TaskRequest, "roman", "tim", &id);
        let change = ledger.check(&asked, None, now()).unwrap().unwrap();
        ledger.apply(change, 1);
    }
    let sizes: Vec<_> = (0..4).map(|_| mark(&mut ledger, after(61)).len()).collect();
    assert_eq!(sizes, [9, 9, 2, 0]);
}
