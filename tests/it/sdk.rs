//! What an agent's author uses, through the public API.

use std::sync::Arc;
use std::time::Duration;

use a2a_protocol::{Body, Code, Kind, Outcome, PROGRESS_EXTENSION, Progress};
use futures_util::StreamExt;
use openclaw_a2a::{
    Agent, Announcement, Broadcast, Bus, BusSettings, Complexity, FollowUp, Handlers, Knowledge,
    KnowledgeShare, Letter, NewReview, NewTask, Priority, RateSettings, RetryPolicy, ReviewAnswer,
    ReviewRequest, ReviewResponse, Scope, SendError, Severity, Status, StatusReport, StatusUpdate,
    TaskAnswer, TaskError, TaskRequest, TaskResponse, TaskType, TaskUpdate, Urgency, Work,
    parse_message,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const SOON: Duration = Duration::from_secs(20);

/// Quick to give up, and without limits that a test could reach by accident.
fn settings() -> BusSettings {
    let n = |n: u32| std::num::NonZeroU32::new(n).unwrap();
    BusSettings {
        retry: RetryPolicy {
            attempts: 2,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(1),
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

/// An agent that passes on whatever it gets.
async fn listener(bus: &Bus, name: &str) -> (Agent, UnboundedReceiver<Letter>) {
    let (heard, hears) = unbounded_channel();
    let agent = bus
        .attach(name, move |letter: Letter| {
            let heard = heard.clone();
            async move { heard.send(letter).map_err(|_| "the test has ended") }
        })
        .await
        .unwrap();
    (agent, hears)
}

async fn next<T>(hears: &mut UnboundedReceiver<T>) -> T {
    tokio::time::timeout(SOON, hears.recv()).await.expect("in time").unwrap()
}

async fn update(work: &mut Work) -> Option<TaskUpdate> {
    tokio::time::timeout(SOON, work.next()).await.expect("in time")
}

fn json_of(letter: &Letter) -> Value {
    serde_json::to_value(letter.message.as_ref()).unwrap()
}

fn small_task() -> NewTask {
    NewTask::new("Count the kinds", "How many kinds of message are there?")
}

#[tokio::test]
async fn a_task_request_arrives_with_everything_that_was_said() {
    let bus = start();
    let (_tim, mut hears) = listener(&bus, "tim").await;
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
    let letter = next(&mut hears).await;
    assert_eq!((sent.outcome(), sent.seq()), (Outcome::Delivered, Some(letter.seq)));
    assert_eq!(sent.message_id(), letter.message.message_id);
    assert_eq!(
        (sent.correlation_id(), conversation),
        (conversation, letter.message.correlation_id)
    );
    assert_eq!(sent.recipients()[0].agent_id.as_str(), "tim");
    assert_eq!(sent.receipt().outcome, Outcome::Delivered);
    let json = json_of(&letter);
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
    assert_eq!(parse_message(&letter.bytes).as_ref(), Ok(letter.message.as_ref()));
    bus.stop().await;
}

#[tokio::test]
async fn answers_and_status_updates_stay_in_the_conversation_and_on_the_task() {
    let bus = start();
    let (tim, mut tim_hears) = listener(&bus, "tim").await;
    let (roman, mut hears) = listener(&bus, "roman").await;
    let asked = roman.send_task_request("tim", small_task()).await.unwrap();
    let letter = next(&mut tim_hears).await;

    tim.accept(&letter).await.unwrap();
    let trackers = br#"{"trackers": [{"id": "kinds", "progress": 5, "total": 7}]}"#;
    let status = StatusReport::in_progress("Five found")
        .estimated_completion("2036-02-22T00:00:00Z")
        .trackers(Progress::parse(trackers).unwrap())
        .extension("https://example.org/cost/v1", json!({"tokens": 12}));
    tim.send_status_update(&letter, status).await.unwrap();
    tim.send_status_update(&letter, StatusReport::blocked("Stuck", "No network")).await.unwrap();
    let done = TaskAnswer::completed("Seven")
        .branch("tim/kinds")
        .worktree("worktrees/kinds")
        .files_changed(["KINDS.md"])
        .next_step("Review it")
        .next_step("Merge it")
        .field("kinds", 7);
    tim.send_task_response(&letter, done).await.unwrap();

    let task = asked.task_id().unwrap();
    let mut payloads = Vec::new();
    for _ in 0..4 {
        let letter = next(&mut hears).await;
        assert_eq!(letter.message.correlation_id, asked.correlation_id());
        payloads.push(json_of(&letter)["payload"].clone());
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
    let general = next(&mut hears).await;
    assert_eq!(json_of(&general)["payload"], json!({"status": "paused", "progress": "Lunch"}));
    assert_ne!(general.message.correlation_id, asked.correlation_id());
    bus.stop().await;
}

#[tokio::test]
async fn a_task_can_be_answered_by_its_id_when_the_letter_is_gone() {
    let bus = start();
    let (tim, mut tim_hears) = listener(&bus, "tim").await;
    let (roman, mut hears) = listener(&bus, "roman").await;
    let asked = roman.send_task_request("tim", small_task()).await.unwrap();
    next(&mut tim_hears).await;
    let answer = TaskAnswer::declined("No time")
        .for_task(asked.task_id().unwrap())
        .in_conversation(asked.correlation_id());
    tim.send_task_response("roman", answer).await.unwrap();
    let letter = next(&mut hears).await;
    assert_eq!(letter.message.correlation_id, asked.correlation_id());
    assert_eq!(json_of(&letter)["payload"]["reason"], "No time");
    bus.stop().await;
}

#[tokio::test]
async fn a_review_is_asked_for_and_given() {
    let bus = start();
    let (tim, mut tim_hears) = listener(&bus, "tim").await;
    let (tony, mut tony_hears) = listener(&bus, "tony").await;
    let roman = bus.connect("roman").await.unwrap();
    let asked = roman.send_task_request("tim", small_task()).await.unwrap();
    let task = next(&mut tim_hears).await;
    tim.complete(&task, "Done").await.unwrap();
    let review =
        NewReview::new(asked.task_id().unwrap(), "Kinds", "tim/kinds", "worktrees/kinds", ["a.rs"])
            .author_tier("T3-Staff")
            .review_level("T2+")
            .prior_notes("Better names")
            .in_conversation(asked.correlation_id());
    tim.send_review_request("tony", review).await.unwrap();
    let request = next(&mut tony_hears).await;
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
        json_of(&next(&mut tim_hears).await)["payload"],
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

/// What a verdict says should happen next; nothing of it is sent.
#[tokio::test]
async fn no_verdict_contradicts_what_happens_next() {
    let bus = start();
    let (tony, tim) = (bus.connect("tony").await.unwrap(), bus.connect("tim").await.unwrap());
    let task = tim.write("tony", small_task()).unwrap();
    let Body::TaskRequest(task) = task.body else { panic!("a task") };
    let review = NewReview::new(task.task_id, "Kinds", "b", "w", ["a.rs"]).author("roman");
    let letter = Letter {
        seq: 1,
        sender: tim.id().clone(),
        attempt: 1,
        message: Arc::new(tim.write("tony", review).unwrap()),
        bytes: Arc::new([]),
    };
    for (verdict, words) in [
        (ReviewAnswer::approved(), ("approved", "push_and_close")),
        (ReviewAnswer::changes_requested(), ("changes_requested", "send_back_to_worker")),
        (ReviewAnswer::escalated(), ("escalated", "escalate_to_senior")),
        (ReviewAnswer::approved().then_escalate(), ("approved", "escalate_to_senior")),
    ] {
        let message = serde_json::to_value(tony.write(&letter, verdict).unwrap()).unwrap();
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
    let (_tim, mut tim_hears) = listener(&bus, "tim").await;
    let (_tony, mut tony_hears) = listener(&bus, "tony").await;
    let roman = bus.connect("roman").await.unwrap();
    let news = Knowledge::new("sled", "It lies", "review").relevant_to(["tim"]).action("Sync");
    let sent = roman.share_knowledge(news.also_to("tony")).await.unwrap();
    assert_eq!(sent.recipients().len(), 2);
    assert_eq!(sent.task_id(), None);
    assert_eq!(
        json_of(&next(&mut tim_hears).await)["payload"],
        json!({
            "topic": "sled", "discovery": "It lies", "relevantTo": ["tim"], "source": "review",
            "actionable": true, "suggestedAction": "Sync"
        })
    );
    assert_eq!(json_of(&next(&mut tony_hears).await)["to"]["agentId"], "tony");
    let quiet = roman.write((), Knowledge::new("sled", "It lies", "review")).unwrap();
    assert_eq!(serde_json::to_value(&quiet).unwrap()["payload"]["actionable"], false);

    let freeze =
        Announcement::new(Scope::Org, "freeze", "No merges").urgency(Urgency::ActionRequired);
    roman.broadcast(freeze).await.unwrap();
    assert_eq!(
        json_of(&next(&mut tim_hears).await)["payload"],
        json!({
            "scope": "org", "topic": "freeze", "message": "No merges", "urgency": "action_required"
        })
    );
    bus.stop().await;
}

#[tokio::test]
async fn a_wrong_draft_is_never_sent_and_says_everything_that_is_wrong() {
    let bus = start();
    let (tim, mut hears) = listener(&bus, "tim").await;
    let roman = bus.connect("roman").await.unwrap();
    roman.send_task_request("tim", small_task()).await.unwrap();
    let letter = next(&mut hears).await;
    let long = "x".repeat(40_000);
    let trackers =
        serde_json::from_value(json!({"trackers": [{"id": "a", "progress": 3, "total": 1}]}));
    let tracker =
        format!("/payload/metadata/{}/trackers/0/progress", PROGRESS_EXTENSION.replace('/', "~1"));
    let task = letter.message.body.clone();
    let Body::TaskRequest(task) = task else { panic!("a task") };
    let cases: [(Result<_, _>, &str, Code); 14] = [
        (roman.write("tim", NewTask::new(" ", "d")), "/payload/title", Code::Blank),
        (roman.write("tim", NewTask::new("x".repeat(513), "d")), "/payload/title", Code::TooLong),
        (roman.write("t i m", small_task()), "/to/agentId", Code::BadAgentId),
        (roman.write((), small_task()), "/to", Code::Missing),
        (
            roman.write("tim", small_task().deadline("soon")),
            "/payload/deadline",
            Code::BadTimestamp,
        ),
        (
            roman.write("tim", small_task().deadline(Duration::MAX)),
            "/payload/deadline",
            Code::BadTimestamp,
        ),
        (
            roman.write("tim", small_task().context("branch", 7)),
            "/payload/context/branch",
            Code::WrongType,
        ),
        (tim.write(&letter, TaskAnswer::declined("\t")), "/payload/reason", Code::Blank),
        (tim.write(&letter, TaskAnswer::completed(long)), "/payload/result/summary", Code::TooLong),
        (tim.write("roman", TaskAnswer::accepted()), "/payload/taskId", Code::Missing),
        (tim.write(&letter, ReviewAnswer::approved()), "/payload/taskId", Code::Missing),
        (
            tim.write("roman", NewReview::new(task.task_id, "t", "b", "w", [""; 0])),
            "/payload/filesForReview",
            Code::TooFew,
        ),
        (tim.write(&letter, StatusReport::blocked("Stuck", "")), "/payload/blockedBy", Code::Blank),
        (
            tim.write(&letter, StatusReport::in_progress("p").trackers(trackers.unwrap())),
            &tracker,
            Code::Mismatch,
        ),
    ];
    for (written, path, code) in cases {
        let error = written.expect_err(path);
        let found: Vec<_> = error.violations().iter().map(|v| (v.path.as_str(), v.code)).collect();
        assert_eq!(found, [(path, code)], "{error}");
        assert!(error.to_string().contains(path), "{error}");
    }
    let news = Knowledge::new("", "", "s").relevant_to(["no one"]);
    let error = roman.share_knowledge(news).await.unwrap_err();
    let paths: Vec<_> = error.violations().iter().map(|v| v.path.as_str()).collect();
    assert_eq!(paths, ["/payload/discovery", "/payload/relevantTo/0", "/payload/topic"]);
    assert!(!error.is_temporary() && error.receipt().is_none() && error.retry_after().is_none());
    tim.complete(&letter, "Done").await.unwrap();
    assert!(hears.try_recv().is_err());
    bus.stop().await;
}

#[tokio::test]
async fn a_refusal_is_typed_says_what_to_do_and_carries_the_receipt() {
    let n = |n: u32| std::num::NonZeroU32::new(n).unwrap();
    let rates = RateSettings { pair_burst: n(2), per_pair_per_minute: n(60), ..settings().rates };
    let settings = BusSettings { rates, inbox_limit: 1, ..settings() };
    let bus = Bus::builder().in_memory().settings(settings).start().unwrap();
    bus.connect("tim").await.unwrap().detach();
    let (roman, tony) = (bus.connect("roman").await.unwrap(), bus.connect("tony").await.unwrap());

    let error = roman.send_task_request("nobody", small_task()).await.unwrap_err();
    assert!(matches!(error, SendError::UnknownRecipient(_)), "{error:?}");
    let receipt = error.receipt().unwrap();
    assert_eq!(receipt.outcome, Outcome::UnknownRecipient);
    assert_eq!(Some(error.to_string()), receipt.reason);
    assert!(!error.is_temporary());

    let sent = roman.write("tim", small_task()).unwrap();
    assert_eq!(roman.post(sent.clone()).await.unwrap().outcome(), Outcome::Queued);
    assert_eq!(roman.post(sent.clone()).await.unwrap().outcome(), Outcome::Duplicate);
    let mut other = roman.write("tim", small_task()).unwrap();
    other.message_id = sent.message_id;
    let error = roman.post(other).await.unwrap_err();
    assert!(matches!(error, SendError::Conflict(_)), "{error:?}");
    let error = tony.post(roman.write("tim", small_task()).unwrap()).await.unwrap_err();
    assert!(matches!(error, SendError::Forbidden(_)), "{error:?}");

    let error = tony.send_task_request("tim", small_task()).await.unwrap_err();
    assert!(matches!(error, SendError::QueueFull { .. }) && error.is_temporary(), "{error:?}");
    let error = loop {
        let error = roman.send_task_request("tim", small_task()).await.unwrap_err();
        if !matches!(error, SendError::QueueFull { .. }) {
            break error;
        }
    };
    assert!(
        matches!(error, SendError::RateLimited { retry_after: Some(_), .. })
            && error.is_temporary(),
        "{error:?}"
    );
    assert!(error.retry_after().is_some_and(|pause| pause <= Duration::from_secs(1)));

    let mut broken = roman.write("tim", small_task()).unwrap();
    broken.to = None;
    let error = roman.post(broken).await.unwrap_err();
    assert!(matches!(error, SendError::Invalid(_)), "{error:?}");
    assert!(error.violations()[0].path == "/to" && error.to_string().contains("/to"), "{error}");

    bus.stop().await;
    let error = roman.send_task_request("tim", small_task()).await.unwrap_err();
    assert!(matches!(error, SendError::Unavailable { .. }) && error.is_temporary(), "{error:?}");
}

#[tokio::test]
async fn a_handle_hears_acceptance_progress_and_the_result() {
    let bus = start();
    let (tim, mut tim_hears) = listener(&bus, "tim").await;
    let (roman, mut hears) = listener(&bus, "roman").await;
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let letter = next(&mut tim_hears).await;
    assert_eq!(Some(letter.seq), work.sent().seq());
    assert_eq!(work.correlation_id(), letter.message.correlation_id);

    tim.accept(&letter).await.unwrap();
    assert_eq!(update(&mut work).await, Some(TaskUpdate::Accepted));
    tim.report(&letter, "Half way").await.unwrap();
    let Some(TaskUpdate::Progress { status, text, report }) = update(&mut work).await else {
        panic!("no progress")
    };
    assert_eq!((status, text.as_str()), (Status::InProgress, "Half way"));
    assert_eq!(report.task_id, Some(work.task_id()));
    tim.block(&letter, "No network").await.unwrap();
    let blocked = TaskUpdate::Blocked { reason: "No network".into(), report: None };
    assert_eq!(update(&mut work).await, Some(blocked));
    tim.send_status_update(&letter, StatusReport::blocked("Still", "No power")).await.unwrap();
    let still = update(&mut work).await;
    assert!(matches!(still, Some(TaskUpdate::Blocked { reason, .. }) if reason == "No power"));
    let done = TaskAnswer::completed("Seven").branch("b").files_changed(["f"]).field("kinds", 7);
    tim.send_task_response(&letter, done).await.unwrap();
    let last = update(&mut work).await.unwrap();
    assert!(last.is_last() && matches!(last, TaskUpdate::Completed { .. }));
    assert_eq!(update(&mut work).await, None);
    let result = work.result().await.unwrap();
    assert_eq!((result.summary(), result.branch(), result.worktree()), ("Seven", Some("b"), None));
    assert_eq!((result.files_changed()[0].as_str(), result.next_steps().len()), ("f", 0));
    assert_eq!(result.result().unwrap().get::<u32>("kinds"), Some(7));
    assert_eq!(work.missed(), 0);

    // Whether a task that has ended may be talked about is the bus's decision.
    if tim.report(&letter, "By the way").await.is_ok() {
        let later = next(&mut hears).await;
        assert_eq!(json_of(&later)["payload"]["progress"], "By the way", "the end ends the handle");
    }
    bus.stop().await;
}

#[tokio::test]
async fn a_task_that_is_declined_or_fails_has_no_result() {
    let bus = start();
    bus.attach("tim", |tim: Agent, letter: Letter| async move {
        tim.decline(&letter, "Not my field").await.map(drop)
    })
    .await
    .unwrap();
    bus.attach("tony", |tony: Agent, letter: Letter| async move {
        tony.accept(&letter).await.map_err(|error| error.to_string())?;
        Err("the disk is full".to_owned())
    })
    .await
    .unwrap();
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let declined = TaskError::Declined { reason: "Not my field".into() };
    assert_eq!(work.result_within(SOON).await, Err(declined));
    let seen = update(&mut work).await;
    assert_eq!(seen, Some(TaskUpdate::Declined { reason: "Not my field".into() }));
    assert_eq!(update(&mut work).await, None);

    let work = roman.request_task("tony", small_task()).await.unwrap();
    let updates: Vec<_> = tokio::time::timeout(SOON, work.collect()).await.unwrap();
    let failed = TaskUpdate::Failed { reason: "the disk is full".into() };
    assert_eq!(updates, [TaskUpdate::Accepted, failed]);
    bus.stop().await;
}

#[tokio::test]
async fn a_request_that_becomes_a_dead_letter_ends_the_handle() {
    let bus = start();
    bus.attach("tim", |letter: Letter| async move {
        assert!(letter.attempt > 99, "always");
    })
    .await
    .unwrap();
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let error = work.result_within(SOON).await.unwrap_err();
    assert!(matches!(&error, TaskError::Undelivered { reason } if reason.contains("dead letter")));
    assert!(matches!(update(&mut work).await, Some(TaskUpdate::Undelivered { .. })));
    assert_eq!(update(&mut work).await, None);
    bus.stop().await;
}

#[tokio::test]
async fn waiting_can_time_out_and_the_result_still_comes() {
    let bus = start();
    let (tim, mut tim_hears) = listener(&bus, "tim").await;
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let letter = next(&mut tim_hears).await;
    let limit = Duration::from_millis(1);
    assert_eq!(work.result_within(limit).await, Err(TaskError::TimedOut { waited: limit }));
    tim.complete(&letter, "Late").await.unwrap();
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "Late");
    bus.stop().await;
}

#[tokio::test]
async fn without_its_handle_a_task_is_the_handlers_again() {
    let bus = start();
    let (tim, mut tim_hears) = listener(&bus, "tim").await;
    let (roman, mut hears) = listener(&bus, "roman").await;
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let letter = next(&mut tim_hears).await;
    tim.accept(&letter).await.unwrap();
    assert_eq!(update(&mut work).await, Some(TaskUpdate::Accepted));
    let task = work.task_id();
    drop(work);
    tim.complete(&letter, "Done").await.unwrap();
    let rest = next(&mut hears).await;
    assert_eq!(json_of(&rest)["payload"]["taskId"], json!(task));
    assert_eq!(json_of(&rest)["payload"]["action"], "completed");
    bus.stop().await;
}

#[tokio::test]
async fn two_tasks_of_one_agent_do_not_mix_and_strangers_have_no_say() {
    let bus = start();
    let (tim, mut tim_hears) = listener(&bus, "tim").await;
    let tony = bus.connect("tony").await.unwrap();
    let (roman, mut hears) = listener(&bus, "roman").await;
    let mut first = roman.request_task("tim", small_task()).await.unwrap();
    let mut second = roman.clone().request_task("tim", small_task()).await.unwrap();
    let (one, two) = (next(&mut tim_hears).await, next(&mut tim_hears).await);

    let forged = StatusReport::in_progress("I know better").for_task(first.task_id());
    // If the bus lets a stranger talk about the task at all, it is not to the handle.
    if tony.send_status_update("roman", forged).await.is_ok() {
        assert_eq!(next(&mut hears).await.sender, *tony.id());
    }

    tim.report(&two, "Second").await.unwrap();
    tim.complete(&two, "Two").await.unwrap();
    tim.report(&one, "First").await.unwrap();
    tim.complete(&one, "One").await.unwrap();
    for (work, text, summary) in [(&mut first, "First", "One"), (&mut second, "Second", "Two")] {
        let progress = update(work).await;
        assert!(matches!(progress, Some(TaskUpdate::Progress { text: t, .. }) if t == text));
        assert_eq!(work.result_within(SOON).await.unwrap().summary(), summary);
    }
    assert!(hears.try_recv().is_err());
    bus.stop().await;
}

#[tokio::test]
async fn reviews_go_to_the_handler_even_of_a_task_that_is_watched() {
    let bus = start();
    let (tim, mut tim_hears) = listener(&bus, "tim").await;
    let (roman, mut hears) = listener(&bus, "roman").await;
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let letter = next(&mut tim_hears).await;
    let review = NewReview::new(work.task_id(), "Kinds", "b", "w", ["a.rs"]);
    tim.send_review_request(&letter, review).await.unwrap();
    let request = next(&mut hears).await;
    assert_eq!(request.message.kind(), Kind::ReviewRequest);
    assert_eq!(request.message.correlation_id, work.correlation_id());
    tim.complete(&letter, "Done").await.unwrap();
    work.result_within(SOON).await.unwrap();
    bus.stop().await;
}

#[tokio::test]
async fn a_handler_that_waits_for_its_own_agents_answer_is_told_so() {
    let bus = start();
    let (tony, mut tony_hears) = listener(&bus, "tony").await;
    let (told, mut tells) = unbounded_channel();
    let manager = move |tim: Agent, letter: Letter| {
        let told: UnboundedSender<_> = told.clone();
        async move {
            let mut work = tim.request_task("tony", small_task()).await?;
            told.send(work.result().await.map(drop)).unwrap();
            assert_eq!(work.next().await, None);
            tokio::spawn(async move {
                let result = work.result().await;
                told.send(result.clone().map(drop)).unwrap();
                tim.complete(&letter, result.unwrap().summary()).await.unwrap();
            });
            Ok::<(), SendError>(())
        }
    };
    bus.attach("tim", Handlers::new().on_task_request(move |me, letter, _| manager(me, letter)))
        .await
        .unwrap();
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    assert_eq!(next(&mut tells).await, Err(TaskError::InsideHandler));
    let letter = next(&mut tony_hears).await;
    tony.complete(&letter, "By Tony").await.unwrap();
    assert_eq!(next(&mut tells).await, Ok(()));
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "By Tony");
    bus.stop().await;
}

#[tokio::test]
async fn stopping_the_bus_ends_the_waiting() {
    let bus = start();
    let (_tim, mut tim_hears) = listener(&bus, "tim").await;
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    next(&mut tim_hears).await;
    let waiting = tokio::spawn(async move { (work.result().await, work.next().await) });
    bus.stop().await;
    let (result, update) = waiting.await.unwrap();
    assert_eq!((result, update), (Err(TaskError::Stopped), None));
}

#[tokio::test]
async fn an_answer_may_come_to_another_session_of_the_same_agent() {
    let bus = start();
    let (tim, mut tim_hears) = listener(&bus, "tim").await;
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let letter = next(&mut tim_hears).await;
    roman.detach();
    tim.complete(&letter, "Done").await.unwrap();
    let _again = bus.connect("roman").await.unwrap();
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "Done");
    bus.stop().await;
}

/// Notes the kind of what it gets, and whether the payload is the letter's own.
fn note<B: Into<Body>>(
    heard: &UnboundedSender<(Kind, bool)>,
) -> impl Fn(Agent, Letter, B) -> std::future::Ready<()> + Send + Sync + 'static {
    let heard = heard.clone();
    move |_, letter, body| {
        let own = body.into() == letter.message.body;
        heard.send((letter.message.kind(), own)).unwrap();
        std::future::ready(())
    }
}

fn unreachable_kind(letter: &Letter) {
    panic!("{} has a handler of its own", letter.message.kind());
}

#[tokio::test]
async fn each_kind_has_its_handler() {
    let bus = start();
    let (heard, mut hears) = unbounded_channel();
    let handlers = Handlers::new()
        .on_task_request(note::<TaskRequest>(&heard))
        .on_task_response(note::<TaskResponse>(&heard))
        .on_status_update(note::<StatusUpdate>(&heard))
        .on_knowledge_share(note::<KnowledgeShare>(&heard))
        .on_review_request(note::<ReviewRequest>(&heard))
        .on_review_response(note::<ReviewResponse>(&heard))
        .on_broadcast(note::<Broadcast>(&heard))
        .otherwise(|letter: Letter| async move { unreachable_kind(&letter) });
    let tim = bus.attach("tim", handlers).await.unwrap();
    let (roman, mut roman_hears) = listener(&bus, "roman").await;

    let sent = roman.send_task_request("tim", small_task()).await.unwrap();
    tim.send_task_request("roman", small_task()).await.unwrap();
    let task = next(&mut roman_hears).await;
    roman.report(&task, "Half way").await.unwrap();
    roman.complete(&task, "Done").await.unwrap();
    roman.share_knowledge(Knowledge::new("t", "d", "s").relevant_to(["tim"])).await.unwrap();
    let review = NewReview::new(sent.task_id().unwrap(), "t", "b", "w", ["f"]);
    roman.send_review_request("tim", review.clone()).await.unwrap();
    tim.send_review_request("roman", review).await.unwrap();
    let request = next(&mut roman_hears).await;
    roman.send_review_response(&request, ReviewAnswer::approved()).await.unwrap();
    roman.broadcast(Announcement::new(Scope::Org, "t", "m")).await.unwrap();
    for kind in [
        Kind::TaskRequest,
        Kind::StatusUpdate,
        Kind::TaskResponse,
        Kind::KnowledgeShare,
        Kind::ReviewRequest,
        Kind::ReviewResponse,
        Kind::Broadcast,
    ] {
        assert_eq!(next(&mut hears).await, (kind, true));
    }
    bus.stop().await;
}

#[tokio::test]
async fn what_no_handler_takes_goes_to_otherwise_or_is_acknowledged() {
    let bus = start();
    let (told, mut tells) = unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let handlers = Handlers::new()
        .on_broadcast(move |_, _, _| {
            let opened = Arc::clone(&opened);
            async move { opened.add_permits(1) }
        })
        .otherwise(move |letter: Letter| {
            let told = told.clone();
            async move { told.send(letter.message.kind()).map_err(|_| "the test has ended") }
        });
    bus.attach("tim", handlers).await.unwrap();
    let roman = bus.connect("roman").await.unwrap();
    roman.broadcast(Announcement::new(Scope::Org, "t", "m")).await.unwrap();
    roman.send_status_update("tim", StatusReport::completed("All")).await.unwrap();
    assert_eq!(next(&mut tells).await, Kind::StatusUpdate);
    gate.acquire().await.unwrap().forget();
    roman.send_status_update("roman", StatusReport::paused("Lunch")).await.unwrap();
    bus.stop().await;
    assert!(bus.dead_letters().await.is_empty());
}
