//! Conversations against the ledger: each line a message and what comes of it.

use a2a_protocol::{Envelope, Kind, Outcome, ReviewState, TaskId, TaskState};
use chrono::{DateTime, TimeDelta};
use serde_json::{Value, json};

use super::*;

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

struct Talk {
    ledger: Ledger,
    record: u64,
}

impl Talk {
    fn new() -> Self {
        let settings = LedgerSettings { max_open: 3, max_ended: 2, ..LedgerSettings::default() };
        Self { ledger: Ledger::new(settings), record: 0 }
    }

    /// Says something; the outcome of a refusal, or the state the task is in then.
    fn say(&mut self, message: &Envelope) -> Result<TaskState, Outcome> {
        self.say_to_senior(message, None).map_err(|refusal| refusal.outcome())
    }

    fn say_to_senior(
        &mut self,
        message: &Envelope,
        senior: Option<&AgentId>,
    ) -> Result<TaskState, LedgerRefusal> {
        self.record += 1;
        if let Some(change) = self.ledger.check(message, senior, now())? {
            self.ledger.apply(change, self.record);
        }
        Ok(self.task().state)
    }

    fn request(&mut self, from: &str, to: &str) -> Result<TaskState, Outcome> {
        self.say(&message(Kind::TaskRequest, from, to, &json!({})))
    }

    fn answer(&mut self, from: &str, action: &str) -> Result<TaskState, Outcome> {
        let body = json!({ "action": action, "reason": "because", "result": {} });
        self.say(&message(Kind::TaskResponse, from, "roman", &body))
    }

    fn report(&mut self, from: &str, status: &str) -> Result<TaskState, Outcome> {
        let body = json!({ "status": status, "blockedBy": "the weather" });
        self.say(&message(Kind::StatusUpdate, from, "roman", &body))
    }

    fn ask_review(&mut self, from: &str, reviewer: &str) -> Result<TaskState, Outcome> {
        let body = json!({ "authorAgent": "tim" });
        self.say(&message(Kind::ReviewRequest, from, reviewer, &body))
    }

    fn verdict(&mut self, from: &str, verdict: &str) -> Result<TaskState, Outcome> {
        self.say(&verdict_of(from, verdict))
    }

    fn task(&self) -> &Task {
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

use Outcome::{IllegalTransition, NotAssignee, UnknownTask};
use TaskState::*;

#[test]
fn text_in_tasks_is_bounded_the_oldest_ended_are_forgotten_first() {
    let mut ledger =
        Ledger::new(LedgerSettings { max_text_bytes: 1_000, ..LedgerSettings::default() });
    let task = |n: u64, state, chars| {
        let id = format!("0192a4c8-7e1a-7000-9000-{n:012x}");
        let kept = serde_json::json!({
            "correlationId": id, "requester": "roman", "assignee": "tim", "state": state,
            "record": n, "version": 1, "changed": n, "reason": "x".repeat(chars),
        });
        Task::from_kept(id.parse().unwrap(), &kept.to_string()).unwrap()
    };
    for n in 1..=3 {
        ledger.restore(task(n, "completed", 400));
    }
    ledger.restore(task(4, "blocked", 400));
    assert_eq!((ledger.forget_the_oldest().len(), ledger.open()), (2, 1));
    assert!(ledger.check_text().is_ok());
    ledger.restore(task(5, "blocked", 600));
    assert_eq!(ledger.forget_the_oldest().len(), 1);
    let full = ledger.check_text().unwrap_err();
    assert_eq!((full.outcome(), ledger.open()), (a2a_protocol::Outcome::QueueFull, 2));
    assert!(full.to_string().contains("1000 bytes"), "{full}");
}

#[test]
fn a_task_is_asked_for_taken_worked_on_and_done() {
    let mut talk = Talk::new();
    assert_eq!(talk.request("roman", "tim"), Ok(Requested));
    assert_eq!(talk.answer("tim", "accepted"), Ok(Accepted));
    assert_eq!(talk.report("tim", "in_progress"), Ok(Working));
    assert_eq!(talk.report("tim", "in_progress"), Ok(Working));
    assert_eq!(talk.report("tim", "blocked"), Ok(Blocked));
    assert_eq!(talk.task().reason.as_deref(), Some("the weather"));
    assert_eq!(talk.report("tim", "completed"), Ok(Blocked), "only an answer ends a task");
    assert_eq!(talk.report("roman", "in_progress"), Ok(Blocked), "a word of the requester");
    assert_eq!(talk.answer("tim", "completed"), Ok(Completed));
    assert_eq!(talk.task().version, 5);
    assert_eq!(talk.report("tim", "completed"), Ok(Completed));
    assert_eq!(talk.ledger.open(), 0);
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    let before = talk.task().clone();
    assert_eq!(talk.answer("tony", "accepted"), Err(NotAssignee));
    assert_eq!(talk.answer("roman", "completed"), Err(NotAssignee));
    assert_eq!(talk.report("tony", "in_progress"), Err(NotAssignee));
    assert_eq!(talk.request("roman", "tim"), Err(IllegalTransition));
    assert_eq!(talk.request("tony", "tim"), Err(NotAssignee));
    assert_eq!(talk.verdict("tony", "approved"), Err(IllegalTransition));
    assert_eq!(talk.ask_review("tony", "xavier"), Err(NotAssignee));
    let stranger = message(Kind::TaskResponse, "tim", "roman", &json!({ "taskId": OTHER }));
    assert_eq!(talk.say(&stranger), Err(UnknownTask));
    let stranger = message(Kind::StatusUpdate, "tim", "roman", &json!({ "taskId": OTHER }));
    assert_eq!(talk.say(&stranger), Err(UnknownTask));
    assert_eq!(*talk.task(), before);

    talk.answer("tim", "completed").unwrap();
    for action in ["accepted", "declined", "completed", "failed", "blocked"] {
        assert_eq!(talk.answer("tim", action), Err(IllegalTransition), "{action}");
    }
    assert_eq!(talk.report("tim", "in_progress"), Err(IllegalTransition));
    assert_eq!(talk.request("roman", "tim"), Err(IllegalTransition), "done is done");
}

#[test]
fn a_refusal_names_what_would_be_possible() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    assert_eq!(talk.answer("tim", "accepted"), Ok(Accepted));
    assert_eq!(talk.answer("tim", "accepted"), Ok(Accepted), "said again after a crash");
    assert_eq!(talk.report("tim", "in_progress"), Ok(Working));
    assert_eq!(talk.answer("tim", "accepted"), Ok(Working), "and does not set it back");
    let decline = json!({ "action": "declined", "reason": "no" });
    let decline = message(Kind::TaskResponse, "tim", "roman", &decline);
    let refused = talk.ledger.check(&decline, None, now()).unwrap_err().to_string();
    assert_eq!(
        refused,
        format!(
            "task {TASK} is working: `declined` is not possible now; possible are accepted, completed, failed, blocked"
        )
    );
    let elsewhere = message(Kind::TaskResponse, "tim", "tony", &json!({ "action": "completed" }));
    let refused = talk.ledger.check(&elsewhere, None, now()).unwrap_err().to_string();
    assert!(refused.contains("for `roman`"), "{refused}");
}

#[test]
fn a_declined_or_failed_task_can_be_asked_for_again_of_anybody() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    assert_eq!(talk.answer("tim", "declined"), Ok(Declined));
    assert_eq!(talk.task().reason.as_deref(), Some("because"));
    assert_eq!(talk.request("tim", "tony"), Err(NotAssignee), "it is not tim's any more");
    assert_eq!(talk.request("roman", "tony"), Ok(Requested));
    assert_eq!((talk.task().assignee.as_str(), &talk.task().reason), ("tony", &None));
    assert_eq!(talk.answer("tim", "accepted"), Err(NotAssignee));
    assert_eq!(talk.answer("tony", "failed"), Ok(Failed));
    assert_eq!(talk.request("roman", "tim"), Ok(Requested));
}

#[test]
fn an_assignee_hands_a_task_on_and_no_asking_is_progress() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    talk.answer("tim", "accepted").unwrap();
    let on = message(Kind::TaskRequest, "tim", "tony", &json!({}));
    let change = talk.ledger.check(&on, None, now()).unwrap().unwrap();
    assert_eq!(change.progress, Progress::None);
    assert_eq!(talk.say(&on), Ok(Requested));
    let task = talk.task();
    assert_eq!((task.assignee.as_str(), task.handed_on_by[0].as_str()), ("tony", "tim"));
    assert_eq!(talk.answer("tony", "completed"), Ok(Completed));
}

#[test]
fn work_is_reviewed_sent_back_escalated_and_approved() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    talk.answer("tim", "completed").unwrap();
    assert_eq!(talk.ask_review("tim", "ann"), Ok(Completed));
    assert_eq!(talk.ask_review("tim", "ann"), Err(IllegalTransition), "asked already");
    assert_eq!(talk.verdict("tony", "approved"), Err(NotAssignee));
    assert_eq!(talk.verdict("ann", "changes_requested"), Ok(Reopened));
    assert_eq!(talk.verdict("ann", "approved"), Err(IllegalTransition), "no verdict is owed");
    assert_eq!(talk.report("tim", "in_progress"), Ok(Working));
    assert_eq!(talk.answer("tim", "completed"), Ok(Completed));
    assert_eq!(talk.ask_review("tim", "ann"), Ok(Completed));
    let xavier = "xavier".parse().unwrap();
    talk.say_to_senior(&verdict_of("ann", "escalated"), Some(&xavier)).unwrap();
    assert_eq!(talk.review(), (ReviewState::Escalated, "xavier".into(), 2));
    assert_eq!(talk.verdict("ann", "approved"), Err(NotAssignee), "it is xavier's now");
    assert_eq!(talk.verdict("xavier", "approved"), Ok(Completed));
    assert_eq!(talk.ask_review("tim", "ann"), Err(IllegalTransition), "an approval stands");
    assert_eq!(talk.answer("tim", "completed"), Err(IllegalTransition));
}

#[test]
fn a_review_can_be_given_to_another_reviewer() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    talk.ask_review("tim", "ann").unwrap();
    talk.ask_review("tim", "tony").unwrap();
    assert_eq!(talk.review(), (ReviewState::Pending, "tony".into(), 2));
    assert_eq!(talk.verdict("ann", "approved"), Err(NotAssignee));
}

#[test]
fn work_nobody_asked_for_can_be_reviewed_and_is_done_with_its_approval() {
    let mut talk = Talk::new();
    assert_eq!(talk.ask_review("tim", "ann"), Ok(Working));
    assert!(talk.task().unrequested);
    assert_eq!(talk.verdict("ann", "approved"), Ok(Completed));
}

#[test]
fn an_approval_proposes_tasks_that_a_request_starts() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    talk.ask_review("tim", "ann").unwrap();
    talk.verdict("ann", "approved").unwrap();
    assert_eq!(talk.task().proposed[0].title, "Then the router");
    let start = json!({ "taskId": OTHER, "title": "Then the router" });
    talk.say(&message(Kind::TaskRequest, "stranger", "tony", &start)).unwrap();
    assert_eq!(talk.task().proposed[0].started, None, "a stranger starts a task of its own");
    let start =
        json!({ "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000005", "title": "Then the router" });
    talk.say(&message(Kind::TaskRequest, "ann", "tony", &start)).unwrap();
    assert!(talk.task().proposed[0].started.is_some());
}

#[test]
fn a_dead_request_fails_the_task_and_only_the_one_that_counts() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    let id = task(TASK);
    assert!(talk.ledger.give_up(&id, 7, "gone", now()).is_none(), "another record");
    let change = talk.ledger.give_up(&id, 1, "gone", now()).unwrap();
    talk.ledger.apply(change, 9);
    assert_eq!((talk.task().state, talk.task().record), (Failed, 1));
    let again = talk.ledger.ask_again(&id, 1, now()).unwrap();
    talk.ledger.apply(again, 10);
    assert_eq!(talk.answer("tim", "completed"), Ok(Completed));
}

#[test]
fn who_asked_can_call_it_off_and_late_answers_are_refused() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    let (id, tim, roman) = (task(TASK), "tim".parse().unwrap(), "roman".parse().unwrap());
    let refused = talk.ledger.cancel(&id, Some(&tim), "no", now()).unwrap_err();
    assert_eq!(refused.outcome(), NotAssignee);
    let change = talk.ledger.cancel(&id, Some(&roman), "changed my mind", now()).unwrap();
    talk.ledger.apply(change, 2);
    assert_eq!(talk.answer("tim", "completed"), Err(IllegalTransition));
    assert_eq!(
        talk.ledger.cancel(&id, None, "again", now()).unwrap_err().outcome(),
        IllegalTransition
    );
}

#[test]
fn deadlines_come_due_once_and_one_that_had_passed_never() {
    let mut talk = Talk::new();
    let at = |minutes| (now().utc + TimeDelta::minutes(minutes)).to_rfc3339();
    talk.say(&message(Kind::TaskRequest, "roman", "tim", &json!({ "deadline": at(5) }))).unwrap();
    let past = json!({ "taskId": OTHER, "deadline": at(-5) });
    talk.say(&message(Kind::TaskRequest, "roman", "tim", &past)).unwrap();
    assert!(talk.ledger.due(now(), 9).is_empty());
    let later = Now { utc: now().utc + TimeDelta::minutes(6), ..now() };
    assert_eq!(talk.ledger.due(later, 9), [task(TASK)]);
    let change = talk.ledger.overdue(&task(TASK), later).unwrap();
    talk.ledger.apply(change, 3);
    assert!(talk.ledger.due(later, 9).is_empty() && talk.task().overdue);
    assert_eq!(talk.answer("tim", "completed"), Ok(Completed), "late work still counts");
}

#[test]
fn what_was_not_durable_is_taken_back_unless_something_came_after_it() {
    let mut talk = Talk::new();
    let request = message(Kind::TaskRequest, "roman", "tim", &json!({}));
    let change = talk.ledger.check(&request, None, now()).unwrap().unwrap();
    let (undo, _) = talk.ledger.apply(change, 1);
    talk.ledger.undo(undo);
    assert!(talk.ledger.get(&task(TASK)).is_none());
    talk.request("roman", "tim").unwrap();
    let accept = message(Kind::TaskResponse, "tim", "roman", &json!({ "action": "accepted" }));
    let change = talk.ledger.check(&accept, None, now()).unwrap().unwrap();
    let (undo, _) = talk.ledger.apply(change, 2);
    talk.answer("tim", "completed").unwrap();
    talk.ledger.undo(undo);
    assert_eq!(talk.task().state, Completed);
}

#[test]
fn changes_that_stood_on_each_other_are_all_taken_back_in_either_order() {
    for oldest_first in [true, false] {
        let mut talk = Talk::new();
        talk.request("roman", "tim").unwrap();
        let before = talk.task().clone();
        let mut undos = Vec::new();
        let done = message(Kind::TaskResponse, "tim", "roman", &json!({ "action": "completed" }));
        let review = message(Kind::ReviewRequest, "roman", "ann", &json!({ "authorAgent": "tim" }));
        for said in [done, review] {
            let change = talk.ledger.check(&said, None, now()).unwrap().unwrap();
            undos.push(talk.ledger.apply(change, 9).0);
        }
        if !oldest_first {
            undos.reverse();
        }
        undos.into_iter().for_each(|undo| talk.ledger.undo(undo));
        assert_eq!(*talk.task(), before, "oldest first: {oldest_first}");
        assert_eq!(talk.answer("tim", "completed"), Ok(Completed), "it can be said again");
    }
}

#[test]
fn a_task_asked_for_again_has_the_deadline_of_the_new_request() {
    let mut talk = Talk::new();
    let at = |minutes| (now().utc + TimeDelta::minutes(minutes)).to_rfc3339();
    let id = task(TASK);
    talk.say(&message(Kind::TaskRequest, "roman", "tim", &json!({ "deadline": at(5) }))).unwrap();
    let later = Now { utc: now().utc + TimeDelta::minutes(6), ..now() };
    let expired = talk.ledger.give_up(&id, 1, "too late", later).unwrap();
    talk.ledger.apply(expired, 1);
    let again = talk.ledger.ask_again(&id, 1, later).unwrap();
    talk.ledger.apply(again, 1);
    assert_eq!((talk.task().state, talk.task().deadline), (Requested, None));
    assert!(talk.ledger.due(later, 9).is_empty(), "what has passed is not due again");
    talk.answer("tim", "declined").unwrap();
    let anew = message(Kind::TaskRequest, "roman", "tim", &json!({ "deadline": at(9) }));
    let change = talk.ledger.check(&anew, None, later).unwrap().unwrap();
    talk.ledger.apply(change, 2);
    assert_eq!(talk.task().deadline, Some(now().utc + TimeDelta::minutes(9)));
}

#[test]
fn only_a_verdict_that_decides_is_an_end() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    talk.ask_review("tim", "ann").unwrap();
    for (verdict, progress) in [
        ("escalated", Progress::Moves),
        ("changes_requested", Progress::Ends),
        ("approved", Progress::Ends),
    ] {
        let change = talk.ledger.check(&verdict_of("ann", verdict), None, now());
        assert_eq!(change.unwrap().unwrap().progress, progress, "{verdict}");
    }
}

#[test]
fn what_it_remembers_is_bounded_and_survives_as_json() {
    let mut talk = Talk::new();
    let ids: Vec<String> =
        (0..6).map(|n| format!("0192a4c8-7e1a-7b3c-9d4e-0000000001{n:02}")).collect();
    let mut forgotten = Vec::new();
    for id in &ids[..3] {
        let body = json!({ "taskId": id });
        for kind in [Kind::TaskRequest, Kind::TaskResponse] {
            let (from, to) =
                if kind == Kind::TaskRequest { ("roman", "tim") } else { ("tim", "roman") };
            let change =
                talk.ledger.check(&message(kind, from, to, &body), None, now()).unwrap().unwrap();
            forgotten.extend(talk.ledger.apply(change, 1).1);
        }
    }
    assert_eq!(forgotten, [task(&ids[0])], "two ended tasks are remembered");
    for id in &ids[3..] {
        let open = message(Kind::TaskRequest, "roman", "tim", &json!({ "taskId": id }));
        let change = talk.ledger.check(&open, None, now()).unwrap().unwrap();
        talk.ledger.apply(change, 1);
    }
    let refused = talk.request("roman", "tim");
    assert_eq!(refused, Err(Outcome::QueueFull), "three may be open");
    let mut again = Ledger::new(LedgerSettings::default());
    for task in talk.ledger.latest(None) {
        again.restore(Task::from_kept(task.task_id, &task.to_kept()).unwrap());
    }
    assert_eq!(again.open(), 3);
    for task in talk.ledger.latest(None) {
        assert_eq!(again.get(&task.task_id), Some(task));
    }
}

/// So many minutes after the first moment.
fn after(minutes: i64) -> Now {
    Now { utc: now().utc + TimeDelta::minutes(minutes), ..now() }
}

/// What the bus does at a moment: it marks what is overdue.
fn mark(ledger: &mut Ledger, now: Now) -> Vec<TaskId> {
    let due = ledger.due(now, 9);
    for id in &due {
        let change = ledger.overdue(id, now).unwrap();
        ledger.apply(change, 1);
    }
    due
}

#[test]
fn a_task_without_news_is_overdue_once_for_each_silence() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    talk.answer("tim", "accepted").unwrap();
    assert_eq!(mark(&mut talk.ledger, after(59)), []);
    assert_eq!(talk.ledger.next_deadline(), Some(after(60).utc));
    assert_eq!(mark(&mut talk.ledger, after(60)), [task(TASK)]);
    assert!(talk.task().overdue);
    assert_eq!(talk.ledger.overdue_count(), 1);
    assert_eq!(mark(&mut talk.ledger, after(10_000)), [], "only once");
    // A restart changes nothing about that.
    let mut again = Ledger::new(LedgerSettings::default());
    again.restore(Task::from_kept(task(TASK), &talk.task().to_kept()).unwrap());
    assert_eq!((mark(&mut again, after(10_000)), again.overdue_count()), (vec![], 1));
    // Any news takes the mark away, even news that leaves the state as it is.
    let news = json!({ "status": "in_progress" });
    let news = message(Kind::StatusUpdate, "tim", "roman", &news);
    let change = talk.ledger.check(&news, None, after(70)).unwrap().unwrap();
    talk.ledger.apply(change, 2);
    assert_eq!((talk.task().overdue, talk.ledger.overdue_count()), (false, 0));
    assert_eq!(mark(&mut talk.ledger, after(129)), []);
    assert_eq!(mark(&mut talk.ledger, after(130)), [task(TASK)], "once per silence");
    assert_eq!(talk.answer("tim", "completed"), Ok(Completed));
    assert_eq!((talk.task().overdue, talk.ledger.overdue_count()), (false, 0));
}

#[test]
fn news_that_changes_nothing_is_noted_and_seldom_written() {
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    talk.report("tim", "in_progress").unwrap();
    let news = message(Kind::StatusUpdate, "tim", "roman", &json!({ "status": "in_progress" }));
    assert!(talk.ledger.check(&news, None, after(14)).unwrap().is_none());
    talk.ledger.note_news(&news, after(14));
    assert_eq!(talk.ledger.next_deadline(), Some(after(74).utc));
    let stranger =
        message(Kind::StatusUpdate, "tony", "roman", &json!({ "status": "in_progress" }));
    talk.ledger.note_news(&stranger, after(30));
    assert_eq!(talk.ledger.next_deadline(), Some(after(74).utc), "only the assignee has news");
    assert!(talk.ledger.check(&news, None, after(15)).unwrap().is_some(), "for a restart");
    assert_eq!(mark(&mut talk.ledger, after(74)), [task(TASK)]);
}

#[test]
fn a_deadline_ahead_counts_and_a_blocked_task_waits() {
    let mut talk = Talk::new();
    let deadline = json!({ "deadline": after(600).utc.to_rfc3339() });
    talk.say(&message(Kind::TaskRequest, "roman", "tim", &deadline)).unwrap();
    assert_eq!(talk.ledger.next_deadline(), Some(after(600).utc));
    let mut talk = Talk::new();
    talk.request("roman", "tim").unwrap();
    talk.report("tim", "blocked").unwrap();
    assert_eq!(talk.ledger.next_deadline(), None);
    let settings = LedgerSettings { overdue_after: None, ..LedgerSettings::default() };
    let mut off = Ledger::new(settings);
    let asked = message(Kind::TaskRequest, "roman", "tim", &json!({}));
    let change = off.check(&asked, None, now()).unwrap().unwrap();
    off.apply(change, 1);
    assert_eq!(off.next_deadline(), None);
}

#[test]
fn what_is_overdue_at_once_is_taken_in_pieces() {
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
