//! What an agent's author uses, through the public API.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use a2a_protocol::{Body, Code, Kind, Outcome, PROGRESS_EXTENSION, Progress};
use futures_util::StreamExt;
use openclaw_a2a::{
    Agent, Announcement, Broadcast, Bus, BusSettings, Complexity, Delivery, FollowUp, Handlers,
    Knowledge, KnowledgeShare, NewReview, NewTask, Priority, RateSettings, RetryPolicy,
    ReviewAnswer, ReviewRequest, ReviewResponse, Scope, SendError, Severity, Status, StatusReport,
    StatusUpdate, TaskAnswer, TaskError, TaskHandle, TaskRequest, TaskResponse, TaskType,
    TaskUpdate, Urgency, parse_message,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::listener::{SOON, listener, next};

/// Drafts that are wrong, and messages that the bus refuses.
mod errors;
/// One handler for each kind of message.
mod handlers;
/// The handle on a task that was asked for.
mod work;

/// Few attempts, and without limits that a test could reach by accident.
fn settings() -> BusSettings {
    let n = |n: u32| std::num::NonZeroU32::new(n).unwrap();
    BusSettings {
        retry: RetryPolicy {
            attempts: 2,
            initial_backoff: Duration::from_millis(1),
            max_backoff: Duration::from_millis(1),
        },
        rates: RateSettings {
            per_agent_per_minute: n(60_000),
            agent_burst: n(10_000),
            per_pair_per_minute: n(60_000),
            pair_burst: n(10_000),
            ..RateSettings::default()
        },
        ..BusSettings::default()
    }
}

fn start() -> Bus {
    Bus::builder().in_memory().settings(settings()).start().unwrap()
}

async fn update(work: &mut TaskHandle) -> Option<TaskUpdate> {
    tokio::time::timeout(SOON, work.next()).await.expect("in time")
}

fn json_of(delivery: &Delivery) -> Value {
    serde_json::to_value(delivery.message.as_ref()).unwrap()
}

fn small_task() -> NewTask {
    NewTask::new("Count the kinds", "How many kinds of message are there?")
}

#[tokio::test]
async fn task_request_arrives_with_the_whole_message() {
    let bus = start();
    let (_tim, mut inbox) = listener(&bus, "tim").await;
    let roman = bus.connect("roman").await.unwrap();
    let conversation = "0192a4c8-7e1a-7b3c-9d4e-000000000002".parse().unwrap();
    let task = small_task()
        .task_type(TaskType::Research)
        .complexity(Complexity::Trivial)
        .deadline("2036-02-22T00:00:00Z")
        .branch("roman/kinds")
        .worktree("worktrees/kinds")
        .related_files(["docs/protocol.md"])
        .context("ticket", 7)
        .criterion("It is a number")
        .criterion("It is right")
        .priority(Priority::High)
        .in_conversation(conversation);
    let sent = roman.send_task_request("tim", task).await.unwrap();
    let delivery = next(&mut inbox).await;
    assert_eq!((sent.outcome(), sent.seq()), (Outcome::Delivered, Some(delivery.seq)));
    assert_eq!(sent.message_id(), delivery.message.message_id);
    assert_eq!(
        (sent.correlation_id(), conversation),
        (conversation, delivery.message.correlation_id)
    );
    assert_eq!(sent.recipients()[0].agent_id.as_str(), "tim");
    assert_eq!(sent.receipt().outcome, Outcome::Delivered);
    let json = json_of(&delivery);
    assert_eq!((&json["from"], &json["priority"]), (&json!({"agentId": "roman"}), &json!("high")));
    assert_eq!(
        json["payload"],
        json!({
            "taskId": sent.task_id().unwrap(),
            "title": "Count the kinds",
            "description": "How many kinds of message are there?",
            "taskType": "research",
            "complexity": "trivial",
            "deadline": "2036-02-22T00:00:00Z",
            "context": {
                "branch": "roman/kinds", "worktree": "worktrees/kinds",
                "relatedFiles": ["docs/protocol.md"], "ticket": 7
            },
            "acceptanceCriteria": ["It is a number", "It is right"]
        })
    );
    assert_eq!(parse_message(&delivery.bytes).as_ref(), Ok(delivery.message.as_ref()));
    bus.stop().await;
}

#[tokio::test]
async fn answers_and_status_updates_stay_in_the_conversation_and_on_the_task() {
    let bus = start();
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let asked = roman.send_task_request("tim", small_task()).await.unwrap();
    let delivery = next(&mut tim_inbox).await;

    tim.accept(&delivery).await.unwrap();
    let trackers = br#"{"trackers": [{"id": "kinds", "progress": 5, "total": 7}]}"#;
    let status = StatusReport::in_progress("Five found")
        .estimated_completion("2036-02-22T00:00:00Z")
        .trackers(Progress::parse(trackers).unwrap())
        .extension("https://example.org/cost/v1", json!({"tokens": 12}));
    tim.send_status_update(&delivery, status).await.unwrap();
    tim.send_status_update(&delivery, StatusReport::blocked("Stuck", "No network")).await.unwrap();
    let done = TaskAnswer::completed("Seven")
        .branch("tim/kinds")
        .worktree("worktrees/kinds")
        .files_changed(["KINDS.md"])
        .next_step("Review it")
        .next_step("Merge it")
        .field("kinds", 7);
    tim.send_task_response(&delivery, done).await.unwrap();

    let task = asked.task_id().unwrap();
    let mut payloads = Vec::new();
    for _ in 0..4 {
        let delivery = next(&mut inbox).await;
        assert_eq!(delivery.message.correlation_id, asked.correlation_id());
        payloads.push(json_of(&delivery)["payload"].clone());
    }
    assert_eq!(payloads[0], json!({"taskId": task, "action": "accepted"}));
    assert_eq!(payloads[1]["metadata"]["https://example.org/cost/v1"]["tokens"], 12);
    assert_eq!(payloads[1]["metadata"][PROGRESS_EXTENSION]["trackers"][0]["total"], 7.0);
    assert_eq!(payloads[1]["estimatedCompletion"], "2036-02-22T00:00:00Z");
    assert_eq!(
        payloads[2],
        json!({"taskId": task, "status": "blocked", "progress": "Stuck", "blockedBy": "No network"})
    );
    assert_eq!(
        payloads[3],
        json!({"taskId": task, "action": "completed", "result": {
            "summary": "Seven", "branch": "tim/kinds", "worktree": "worktrees/kinds",
            "filesChanged": ["KINDS.md"], "nextSteps": ["Review it", "Merge it"], "kinds": 7
        }})
    );

    tim.send_status_update("roman", StatusReport::paused("Lunch")).await.unwrap();
    let general = next(&mut inbox).await;
    assert_eq!(json_of(&general)["payload"], json!({"status": "paused", "progress": "Lunch"}));
    assert_ne!(general.message.correlation_id, asked.correlation_id());
    bus.stop().await;
}

#[tokio::test]
async fn task_can_be_answered_by_its_id_without_the_delivery() {
    let bus = start();
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let asked = roman.send_task_request("tim", small_task()).await.unwrap();
    next(&mut tim_inbox).await;
    let answer = TaskAnswer::declined("No time")
        .for_task(asked.task_id().unwrap())
        .in_conversation(asked.correlation_id());
    tim.send_task_response("roman", answer).await.unwrap();
    let delivery = next(&mut inbox).await;
    assert_eq!(delivery.message.correlation_id, asked.correlation_id());
    assert_eq!(json_of(&delivery)["payload"]["reason"], "No time");
    bus.stop().await;
}

#[tokio::test]
async fn a_review_is_asked_for_and_given() {
    let bus = start();
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let roman = bus.connect("roman").await.unwrap();
    let asked = roman.send_task_request("tim", small_task()).await.unwrap();
    let task = next(&mut tim_inbox).await;
    tim.complete(&task, "Done").await.unwrap();
    let review =
        NewReview::new(asked.task_id().unwrap(), "Kinds", "tim/kinds", "worktrees/kinds", ["a.rs"])
            .author_tier("T3-Staff")
            .review_level("T2+")
            .prior_notes("Better names")
            .in_conversation(asked.correlation_id());
    tim.send_review_request("tony", review).await.unwrap();
    let request = next(&mut tony_inbox).await;
    assert_eq!(
        json_of(&request)["payload"],
        json!({
            "taskId": asked.task_id(), "title": "Kinds", "branch": "tim/kinds",
            "worktree": "worktrees/kinds", "filesForReview": ["a.rs"], "authorAgent": "tim",
            "authorTier": "T3-Staff", "reviewLevel": "T2+", "priorReviewNotes": "Better names"
        })
    );
    let verdict = ReviewAnswer::changes_requested()
        .fixed("a.rs", "A typo")
        .concern("a.rs", Severity::Suggestion, "Long")
        .concern_at("a.rs", 23, Severity::MustFix, "Wrong")
        .next_task("Fix it")
        .next_task(FollowUp::new("Ship it").assign_to("tony").after("Fix it"));
    let sent = tony.send_review_response(&request, verdict).await.unwrap();
    assert_eq!(sent.correlation_id(), asked.correlation_id());
    assert_eq!(
        json_of(&next(&mut tim_inbox).await)["payload"],
        json!({
            "taskId": asked.task_id(), "verdict": "changes_requested", "branch": "tim/kinds",
            "worktree": "worktrees/kinds",
            "reviewerFixes": [{"file": "a.rs", "description": "A typo"}],
            "unresolvedConcerns": [
                {"file": "a.rs", "severity": "suggestion", "description": "Long"},
                {"file": "a.rs", "line": 23, "severity": "must_fix", "description": "Wrong"}
            ],
            "nextAction": "send_back_to_worker",
            "nextTasks": [
                {"title": "Fix it"},
                {"title": "Ship it", "assignTo": "tony", "dependencies": ["Fix it"]}
            ]
        })
    );
    bus.stop().await;
}

/// The next step that a verdict states; nothing of it is sent.
#[tokio::test]
async fn no_verdict_contradicts_what_happens_next() {
    let bus = start();
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let tim = bus.connect("tim").await.unwrap();
    let task = tim.write("tony", small_task()).unwrap();
    let Body::TaskRequest(task) = task.body else { panic!("a task") };
    let review = NewReview::new(task.task_id, "Kinds", "b", "w", ["a.rs"]).author("roman");
    tim.send_review_request("tony", review).await.unwrap();
    let delivery = next(&mut tony_inbox).await;
    for (verdict, words) in [
        (ReviewAnswer::approved(), ("approved", "push_and_close")),
        (ReviewAnswer::changes_requested(), ("changes_requested", "send_back_to_worker")),
        (ReviewAnswer::escalated(), ("escalated", "escalate_to_senior")),
        (ReviewAnswer::approved().then_escalate(), ("approved", "escalate_to_senior")),
    ] {
        let message = serde_json::to_value(tony.write(&delivery, verdict).unwrap()).unwrap();
        let payload = &message["payload"];
        assert_eq!(
            (&payload["verdict"], &payload["nextAction"]),
            (&words.0.into(), &words.1.into())
        );
    }
    bus.stop().await;
}

#[tokio::test]
async fn knowledge_and_announcements_reach_those_they_are_for() {
    let bus = start();
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let roman = bus.connect("roman").await.unwrap();
    let news = Knowledge::new("sled", "It lies", "review").relevant_to(["tim"]).action("Sync");
    let sent = roman.share_knowledge(news.also_to("tony")).await.unwrap();
    assert_eq!(sent.recipients().len(), 2);
    assert_eq!(sent.task_id(), None);
    assert_eq!(
        json_of(&next(&mut tim_inbox).await)["payload"],
        json!({
            "topic": "sled", "discovery": "It lies", "relevantTo": ["tim"], "source": "review",
            "actionable": true, "suggestedAction": "Sync"
        })
    );
    assert_eq!(json_of(&next(&mut tony_inbox).await)["to"]["agentId"], "tony");
    let quiet = roman.write((), Knowledge::new("sled", "It lies", "review")).unwrap();
    assert_eq!(serde_json::to_value(&quiet).unwrap()["payload"]["actionable"], false);

    let freeze =
        Announcement::new(Scope::Org, "freeze", "No merges").urgency(Urgency::ActionRequired);
    roman.broadcast(freeze).await.unwrap();
    assert_eq!(
        json_of(&next(&mut tim_inbox).await)["payload"],
        json!({
            "scope": "org", "topic": "freeze", "message": "No merges", "urgency": "action_required"
        })
    );
    bus.stop().await;
}
