//! Row 16: an answer that fits no task is refused with its own outcome, and the task stays as it
//! was.

use a2a_protocol::{AssignmentState, Code, Outcome};
use openclaw_a2a::{
    Agent, Assignment, Bus, Delivery, NewReview, ReviewAnswer, StatusReport, TaskAnswer,
};
use serde_json::{Value, json};

use crate::scenarios::*;
use crate::server::{Server, message, new_id};

/// Roman asked tony, who has accepted.
async fn accepted(bus: &Bus) -> (Agent, Agent, Delivery, Assignment) {
    let (roman, _) = listener(bus, "roman").await;
    let (tony, mut tony_inbox) = listener(bus, "tony").await;
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();
    let delivery = next(&mut tony_inbox).await;
    tony.accept(&delivery).await.unwrap();
    let task = task(bus, asked.task_id().unwrap()).await;
    assert_eq!(task.state, AssignmentState::Accepted);
    (roman, tony, delivery, task)
}

#[tokio::test]
async fn an_unknown_type_and_another_types_payload_are_invalid() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (_roman, tony, delivery, before) = accepted(&bus).await;
    let done = serde_json::to_value(tony.write(&delivery, TaskAnswer::completed("Done")).unwrap());
    let done = done.unwrap();
    let with = |kind: &str, payload: &Value| {
        let mut message = done.clone();
        message["messageId"] = json!(new_id());
        message["type"] = json!(kind);
        message["payload"] = payload.clone();
        message.to_string()
    };
    for (kind, path, code) in [
        ("task_finished", "/type", Code::NotAllowed),
        ("TASK_RESPONSE", "/type", Code::NotAllowed),
        ("status_update", "/payload/status", Code::Missing),
        ("review_response", "/payload/verdict", Code::Missing),
    ] {
        let refused = tony.send_json(with(kind, &done["payload"]).as_bytes()).await;
        assert_eq!(refused.outcome, Outcome::Invalid, "{kind}");
        assert!(refused.errors.iter().any(|e| e.path == path && e.code == code), "{refused:?}");
    }
    let verdict = json!({
        "taskId": before.task_id, "verdict": "approved", "branch": "b", "worktree": "w",
        "nextAction": "send_back_to_worker"
    });
    let contradiction = tony.send_json(with("review_response", &verdict).as_bytes()).await;
    assert_eq!(contradiction.outcome, Outcome::Invalid);
    assert_eq!(contradiction.errors[0].code, Code::Mismatch);
    assert_eq!(task(&bus, before.task_id).await, before);
    bus.stop().await;
}

#[tokio::test]
async fn foreign_task_cannot_be_answered_reported_on_or_ended() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _tony, delivery, before) = accepted(&bus).await;
    let (sandy, _) = listener(&bus, "sandy").await;
    let answers = [
        TaskAnswer::accepted(),
        TaskAnswer::completed("Done"),
        TaskAnswer::failed("No"),
        TaskAnswer::declined("No"),
        TaskAnswer::blocked("No"),
    ];
    for answer in answers {
        for by in [&sandy, &roman] {
            let refused = by.send(by.write(&delivery, answer.clone()).unwrap()).await;
            assert_eq!(refused.outcome, Outcome::NotAssignee, "{refused:?}");
        }
    }
    let report = sandy.report(&delivery, "Going well").await.unwrap_err();
    assert_eq!(report.outcome(), Some(Outcome::NotAssignee));
    let review = NewReview::new(before.task_id, "Review", "b", "w", ["a.rs"]).author("tony");
    let review = sandy.send_review_request("roman", review).await.unwrap_err();
    assert_eq!(review.outcome(), Some(Outcome::NotAssignee));
    let mut own = sandy.write("roman", small_task()).unwrap();
    own.body = delivery.message.body.clone();
    assert_eq!(sandy.send(own).await.outcome, Outcome::NotAssignee, "nor asks for it again");
    // The requester may write about it, which changes nothing.
    let asks = StatusReport::in_progress("How is it going?").for_task(before.task_id);
    roman.send_status_update("tony", asks).await.unwrap();
    assert_eq!(task(&bus, before.task_id).await, before);
    bus.stop().await;
}

#[tokio::test]
async fn what_cannot_follow_is_an_illegal_transition_and_completing_twice_is_too() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, tony, delivery, before) = accepted(&bus).await;
    let declined = tony.decline(&delivery, "Changed my mind").await.unwrap_err();
    assert_eq!(declined.outcome(), Some(Outcome::IllegalTransition), "it was taken already");
    assert!(declined.to_string().contains("possible are"), "{declined}");
    assert_eq!(task(&bus, before.task_id).await, before);

    tony.complete(&delivery, "Done").await.unwrap();
    let completed = task(&bus, before.task_id).await;
    assert_eq!(completed.state, AssignmentState::Completed);
    for answer in [
        TaskAnswer::completed("Done again"),
        TaskAnswer::failed("Or not"),
        TaskAnswer::accepted(),
        TaskAnswer::blocked("Hm"),
    ] {
        let refused = tony.send_task_response(&delivery, answer).await.unwrap_err();
        assert_eq!(refused.outcome(), Some(Outcome::IllegalTransition));
    }
    let report = tony.report(&delivery, "Going on").await.unwrap_err();
    assert_eq!(report.outcome(), Some(Outcome::IllegalTransition));
    let mut again = roman.write("tony", small_task()).unwrap();
    again.body = delivery.message.body.clone();
    assert_eq!(roman.send(again).await.outcome, Outcome::IllegalTransition);
    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(task(&bus, before.task_id).await, completed);
    bus.stop().await;
}

#[tokio::test]
async fn answers_to_unrequested_tasks_are_unknown_task() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let (_roman, mut incoming) = listener(&bus, "roman").await;
    let task = uuid::Uuid::now_v7().try_into().unwrap();
    let done = TaskAnswer::completed("Done").for_task(task);
    let refused = tony.send_task_response("roman", done).await.unwrap_err();
    assert_eq!(refused.outcome(), Some(Outcome::UnknownTask));
    let report = StatusReport::in_progress("Going well").for_task(task);
    let refused = tony.send_status_update("roman", report).await.unwrap_err();
    assert_eq!(refused.outcome(), Some(Outcome::UnknownTask));
    assert!(bus.task(task).await.is_none());

    // A verdict on work that was never shown.
    let shown = NewReview::new(task, "Review", "b", "w", ["a.rs"]);
    let roman = bus.connect("roman").await.unwrap();
    let request = roman.post(roman.write("tony", shown).unwrap()).await.unwrap();
    let request = (request, next(&mut tony_inbox).await).1;
    let mut verdict = tony.write(&request, ReviewAnswer::approved()).unwrap();
    let a2a_protocol::Body::ReviewResponse(body) = &mut verdict.body else { panic!("a verdict") };
    body.task_id = uuid::Uuid::now_v7().try_into().unwrap();
    assert_eq!(tony.send(verdict).await.outcome, Outcome::UnknownTask);
    assert!(incoming.try_recv().is_err());
    bus.stop().await;
}

#[test]
fn the_ledgers_refusals_have_their_status_over_http() {
    let folder = folder();
    let server = Server::start(folder.path());
    for agent in ["roman", "tony", "sandy"] {
        assert!(server.inbox(agent, "").is_empty());
    }
    let task = new_id();
    let mut request = message("roman", "tony", "");
    request["type"] = json!("task_request");
    request["payload"] = json!({
        "taskId": task, "title": "Build it", "description": "All of it",
        "taskType": "implementation", "complexity": "low"
    });
    server.accepted(&request);
    let answer = |from: &str, task: &str, action: &str| {
        let mut sent = message(from, "roman", "");
        sent["type"] = json!("task_response");
        sent["payload"] = json!({"taskId": task, "action": action, "reason": "Because"});
        server.send(&sent)
    };
    let says = |answer: crate::server::Answer, status: u16, code: &str| {
        assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{answer:?}");
        assert_eq!(answer.content_type, "application/problem+json");
    };
    says(answer("tony", &new_id(), "completed"), 404, "unknown_task");
    says(answer("sandy", &task, "completed"), 403, "not_assignee");
    assert_eq!(answer("tony", &task, "completed").status, 202);
    says(answer("tony", &task, "completed"), 409, "illegal_transition");
    let received = server.inbox("roman", "wait=10s&limit=10");
    assert_eq!(received.len(), 1, "roman hears of the one that counted");
}
