//! A caller that waits for the end is answered when the journal has it, before the store does. The
//! answer holds all the same: for readers, and through a crash in between.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use a2a_actors::Submission;
use a2a_actors::tasks::{SendOutcome, TaskSettings};
use a2a_policy::{Caller, Profile, RetryPolicy};
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{ListTasks, SendMessage};
use a2a_protocol::task::{Task, TaskState};
use a2a_protocol::{AgentId, Body, CorrelationId, Envelope, MessageId, Priority, TaskId};
use a2a_taskdb::{Options, TaskDb, TaskWriter};
use futures_util::future::join_all;
use futures_util::poll;
use openclaw_a2a::{Agent, Bus, BusSettings, Delivery, NewTask, SendError, TaskAnswer};
use serde_json::json;

use super::asked;
use crate::a2a_side::{
    Refusing, Side, acme, at_once, id, in_context, message, more, settings, soon, task, text,
};
use crate::listener::{listener, next};

/// Does what it is asked: answers a question with a plain message, and gives an artifact otherwise.
async fn work(me: Agent, delivery: Delivery) -> Result<(), SendError> {
    let Body::TaskRequest(request) = &delivery.message.body else { return Ok(()) };
    let answer = TaskAnswer::completed("Done.").message(format!("{}: done", &*request.title));
    let answer = if request.title.as_str().ends_with('?') {
        answer.directly()
    } else {
        answer.text_artifact("answer", "there you are")
    };
    me.send_task_response(&delivery, answer).await.map(drop)
}

/// A side without agents. However busy the machine is, its tasks are off the disk until they end.
fn bare(folder: &Path, store: Box<dyn TaskWriter>) -> Side {
    let bus = Bus::builder().state_dir(folder).settings(settings()).start().unwrap();
    let tasks =
        TaskSettings { defer_create: Duration::from_secs(3_600), ..TaskSettings::default() };
    Side::on(bus, tasks, store)
}

async fn start(folder: &Path, store: Box<dyn TaskWriter>) -> Side {
    let side = bare(folder, store);
    side.bus.attach("tim", work).await.unwrap();
    side
}

/// A store that takes nothing as long as this is true.
fn refusing(refuses: &Arc<AtomicBool>) -> Box<dyn TaskWriter> {
    Box::new(Refusing(TaskDb::open_in_memory().unwrap(), Arc::clone(refuses)))
}

fn full() -> Box<dyn TaskWriter> {
    refusing(&Arc::new(AtomicBool::new(true)))
}

fn sqlite(folder: &Path) -> Box<dyn TaskWriter> {
    Box::new(TaskDb::open(&Options::new(folder)).unwrap())
}

async fn list(side: &Side) -> Result<Vec<Task>, Fault> {
    let list = ListTasks { page_size: Some(100), include_artifacts: true, ..ListTasks::default() };
    soon(side.tasks.list(&acme(), &id("tim"), list)).await.map(|page| page.tasks)
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_survives_a_crash_before_the_store_had_it() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path(), full()).await;
    let (asks, wants, again) = (text("why?"), text("count"), in_context("talk", "count again"));
    let answered = side.task("tim", wants.clone()).await;
    assert_eq!(answered.status.state, TaskState::Completed);
    let second = side.task("tim", again).await;
    let answer = side.send("tim", asks.clone()).await.unwrap();
    assert!(matches!(answer, SendOutcome::Message(_)), "{answer:?}");
    // The store never got any of it.
    side.stop().await;

    let side = start(folder.path(), sqlite(folder.path())).await;
    assert_eq!(side.get("tim", &answered).await.unwrap(), answered);
    assert_eq!(side.get("tim", &second).await.unwrap(), second);
    assert_eq!(list(&side).await.unwrap().len(), 2, "a question that was answered is no task");
    // Repeated they are no news.
    assert_eq!(side.task("tim", wants).await, answered);
    assert_eq!(side.send("tim", asks).await.unwrap(), answer);
    side.stop().await;

    // And nothing is made anew once more.
    let side = start(folder.path(), sqlite(folder.path())).await;
    assert_eq!(list(&side).await.unwrap().len(), 2);
    assert_eq!(side.get("tim", &answered).await.unwrap(), answered);
    side.stop().await;
}

/// Hands a delivery's task on, as its agent may.
async fn hand_on(me: &Agent, delivery: &Delivery, to: &AgentId) {
    let mut on = me.compose(Some(to), delivery.message.body.clone());
    on.correlation_id = delivery.message.correlation_id;
    assert!(me.send(on).await.outcome.is_accepted());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_handed_on_survives_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let side = bare(folder.path(), full());
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let (roman, mut romans) = listener(&side.bus, "roman").await;
    let passed_on = async {
        hand_on(&tim, &asked(&mut inbox).await, &id("roman")).await;
        let handed = asked(&mut romans).await;
        let Body::TaskRequest(body) = &handed.message.body else { panic!("{handed:?}") };
        let done = TaskAnswer::completed("by roman").for_task(body.task_id);
        roman.send_task_response("acme", done).await.unwrap();
    };
    let (answered, ()) = tokio::join!(side.task("tim", text("work")), passed_on);
    side.stop().await;

    let side = bare(folder.path(), sqlite(folder.path()));
    assert_eq!(side.get("tim", &answered).await.unwrap(), answered);
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_has_only_accepted_has_not_ended_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let side = bare(folder.path(), full());
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let (caller, agent) = (acme(), id("tim"));
    let tasks = side.tasks.clone();
    let mut answered = pin!(tasks.send(&caller, &agent, text("work")));
    let begun = tokio::select! {
        answered = &mut answered => panic!("{answered:?}"),
        delivery = asked(&mut inbox) => {
            let accepts = TaskAnswer::accepted().message("I am at it");
            tim.send_task_response(&delivery, accepts).await.unwrap();
            let Body::TaskRequest(body) = &delivery.message.body else { panic!("{delivery:?}") };
            body.task_id
        }
    };
    assert!(poll!(&mut answered).is_pending());
    side.bus.stop_within(Duration::ZERO).await;
    answered.await.unwrap_err();
    side.stop().await;

    // No caller was answered, so none misses it.
    let side = bare(folder.path(), sqlite(folder.path()));
    assert_eq!(list(&side).await.unwrap(), []);
    let found = soon(side.tasks.get_any(begun)).await;
    assert!(matches!(found, Err(Fault::TaskNotFound { .. })), "{found:?}");
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_the_store_find_what_callers_got() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path(), sqlite(folder.path())).await;
    for n in 1..=20 {
        let answered = side.task("tim", text(&format!("count to {n}"))).await;
        let all = list(&side).await.unwrap();
        assert_eq!(all.len(), n);
        assert!(all.contains(&answered), "not there yet: {answered:?}");
        assert_eq!(side.get("tim", &answered).await.unwrap(), answered);
    }
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_store_never_answers_that_a_task_does_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicBool::new(true));
    let side = start(folder.path(), refusing(&refuses)).await;
    let answered = side.task("tim", text("count")).await;
    let later = |fault: Fault| assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
    later(side.get("tim", &answered).await.unwrap_err());
    later(side.cancel("tim", &answered).await.unwrap_err());
    later(list(&side).await.unwrap_err());
    refuses.store(false, SeqCst);
    assert_eq!(list(&side).await.unwrap(), std::slice::from_ref(&answered));
    assert_eq!(side.get("tim", &answered).await.unwrap(), answered);
    let ended = side.cancel("tim", &answered).await.unwrap_err();
    assert!(matches!(ended, Fault::TaskNotCancelable { .. }), "{ended:?}");
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn write_behind_is_bounded_and_every_caller_is_still_answered() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path(), full()).await;
    // As many as may be answered before the store has them.
    let sends = (0..1_024).map(|n| side.task("tim", text(&format!("count to {n}"))));
    let answered = join_all(sends).await;
    let (caller, agent) = (acme(), id("tim"));
    let tasks = side.tasks.clone();
    let mut next = pin!(tasks.send(&caller, &agent, text("one more")));
    assert!(poll!(&mut next).is_pending());
    assert!(matches!(list(&side).await, Err(Fault::Unavailable { .. })));
    assert!(side.send("tim", at_once(text("count"))).await.is_err());
    assert!(poll!(&mut next).is_pending(), "it waits for the store");
    soon(side.bus.stop_within(Duration::ZERO)).await;
    assert!(next.await.is_err());
    side.stop().await;

    let side = start(folder.path(), sqlite(folder.path())).await;
    for task in &answered {
        assert_eq!(&side.get("tim", task).await.unwrap(), task);
    }
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_journal_cannot_hold_waits_for_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let side = bare(folder.path(), full());
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let (caller, agent) = (acme(), id("tim"));
    // Its own metadata and large parts do not travel with the request.
    let noted =
        SendMessage { metadata: json!({"colour": "blue"}).as_object().cloned(), ..text("count") };
    let large = text(&"x".repeat(100_000));
    for waits in [noted, large] {
        let mut answered = pin!(side.tasks.send(&caller, &agent, waits));
        let mut ends = async || tim.complete(&asked(&mut inbox).await, "done").await.unwrap();
        tokio::select! {
            answered = &mut answered => panic!("{answered:?}"),
            _ = ends() => {}
        }
        // The service has applied that end when it has applied this one.
        let (after, _) = tokio::join!(side.task("tim", in_context("other", "count")), ends());
        assert_eq!(after.status.state, TaskState::Completed);
        assert!(poll!(&mut answered).is_pending());
    }
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_about_a_task_begin_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let side = bare(folder.path(), sqlite(folder.path()));
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let asks = async { tim.block(&asked(&mut inbox).await, "which?").await.map(drop).unwrap() };
    let (begun, ()) = tokio::join!(side.task("tim", text("work")), asks);
    let answer = more(&begun, "this one");
    let ends = async { tim.complete(&asked(&mut inbox).await, "done").await.map(drop).unwrap() };
    let (done, ()) = tokio::join!(side.task("tim", answer.clone()), ends);
    assert_eq!(done.status.state, TaskState::Completed);
    assert_eq!(task(side.send("tim", answer.clone()).await.unwrap()).id, begun.id);
    // The same id without the task is another message: it neither begins a task nor repeats one.
    let other =
        message(json!({"messageId": answer.message.message_id, "parts": [{"text": "this one"}]}));
    let refused = side.send("tim", other).await.unwrap_err();
    assert!(matches!(refused, Fault::MessageConflict { .. }), "{refused:?}");
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_that_does_not_end_the_task_waits_for_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let side = bare(folder.path(), full());
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let (caller, agent) = (acme(), id("tim"));
    let tasks = side.tasks.clone();
    let mut answered = pin!(tasks.send(&caller, &agent, text("count")));
    // Its text cannot be read, so its task fails; but after a crash no one would look for it.
    let garbled = async {
        let delivery = asked(&mut inbox).await;
        tim.send_task_response(&delivery, TaskAnswer::accepted().field("message", 5))
            .await
            .unwrap();
    };
    tokio::select! {
        answered = &mut answered => panic!("{answered:?}"),
        () = garbled => {}
    }
    let ends = async { tim.complete(&asked(&mut inbox).await, "done").await.unwrap() };
    let (after, _) = tokio::join!(side.task("tim", in_context("other", "count")), ends);
    assert_eq!(after.status.state, TaskState::Completed);
    assert!(poll!(&mut answered).is_pending(), "told of an end that a restart would not know");
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answered_task_is_kept_however_long_the_store_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let quick = BusSettings {
        handler_deadline: Duration::from_millis(20),
        retry: RetryPolicy {
            attempts: 2,
            initial_backoff: Duration::ZERO,
            ..RetryPolicy::default()
        },
        ..settings()
    };
    let bus = Bus::builder().state_dir(folder.path()).settings(quick).start().unwrap();
    let refuses = Arc::new(AtomicBool::new(true));
    let tasks =
        TaskSettings { defer_create: Duration::from_secs(3_600), ..TaskSettings::default() };
    let side = Side::on(bus, tasks, refusing(&refuses));
    side.bus.attach("tim", work).await.unwrap();
    let answered = side.task("tim", text("count")).await;
    // A hung agent times out after as long as the store has refused by then.
    side.bus.attach("nora", |_: Delivery| std::future::pending::<()>()).await.unwrap();
    let (roman, mut inbox) = listener(&side.bus, "roman").await;
    for _ in 0..3 {
        let request = NewTask::new("Hang", "Do nothing.");
        roman.send_task_request("nora", request).await.unwrap();
        assert_eq!(next(&mut inbox).await.sender.as_str(), "system");
    }
    let dead = side.bus.dead_letters().await;
    // Only the answer counts: on a busy machine tim's own attempts may miss their 20 ms as well.
    assert!(dead.iter().all(|dead| dead.sender != id("tim")), "{dead:?}");
    refuses.store(false, SeqCst);
    assert_eq!(side.get("tim", &answered).await.unwrap(), answered);
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_copied_by_a_person_makes_no_task() {
    let folder = tempfile::tempdir().unwrap();
    let side = bare(folder.path(), full());
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let ends = async {
        let delivery = asked(&mut inbox).await;
        tim.complete(&delivery, "done").await.unwrap();
        delivery
    };
    let (_, delivery) = tokio::join!(side.task("tim", text("count")), ends);
    // The same words in the name of an agent, about a task of its own.
    side.bus.register(id("bob"), Profile::default()).await.unwrap();
    let mut copy = Envelope::clone(&delivery.message);
    let task = TaskId::try_from(uuid::Uuid::now_v7()).unwrap();
    copy.message_id = MessageId::try_from(uuid::Uuid::now_v7()).unwrap();
    copy.correlation_id = CorrelationId::try_from(uuid::Uuid::now_v7()).unwrap();
    copy.from.agent_id = id("bob");
    let Body::TaskRequest(body) = &mut copy.body else { panic!("{copy:?}") };
    body.task_id = task;
    let operator = Caller::Operator { name: "ann".into(), on_behalf_of: Some(id("bob")) };
    let submission = Submission::from_message(copy, std::time::Instant::now());
    let receipt = side.bus.system().send(operator, submission).await;
    assert!(receipt.outcome.is_accepted(), "{receipt:?}");
    tim.complete(&asked(&mut inbox).await, "done").await.unwrap();
    side.stop().await;

    let side = bare(folder.path(), sqlite(folder.path()));
    let found = soon(side.tasks.get_any(task)).await;
    assert!(matches!(found, Err(Fault::TaskNotFound { .. })), "{found:?}");
    let (_, mut bobs) = listener(&side.bus, "bob").await;
    let answer = next(&mut bobs).await;
    assert!(matches!(answer.message.body, Body::TaskResponse(_)), "{answer:?}");
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_in_line_begins_when_the_journal_has_the_end_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicBool::new(false));
    let store = TaskDb::open(&Options::new(folder.path())).unwrap();
    let side = bare(folder.path(), Box::new(Refusing(store, Arc::clone(&refuses))));
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let mut waiting = Vec::new();
    for what in ["one", "two", "three", "four"] {
        waiting.push(side.task("tim", at_once(in_context("talk", what))).await);
    }
    refuses.store(true, SeqCst);
    tim.complete(&asked(&mut inbox).await, "1").await.unwrap();
    tim.complete(&asked(&mut inbox).await, "2").await.unwrap();
    // A question ends no task: the next in line waits until the store has it.
    // It is urgent, so after the restart it is handled before the others.
    let asks = TaskAnswer::blocked("which?").priority(Priority::High);
    tim.send_task_response(&asked(&mut inbox).await, asks).await.unwrap();
    assert_eq!(side.get("tim", &waiting[0]).await.unwrap().status.state, TaskState::Working);
    assert_eq!(side.get("tim", &waiting[2]).await.unwrap().status.state, TaskState::Submitted);
    assert!(inbox.try_recv().is_err());
    side.stop().await;

    // The store got none of it; the answer is handled again, and no agent is asked twice.
    let side = bare(folder.path(), sqlite(folder.path()));
    let (_tim, mut inbox) = listener(&side.bus, "tim").await;
    let fourth = asked(&mut inbox).await;
    let Body::TaskRequest(body) = &fourth.message.body else { panic!("{fourth:?}") };
    assert_eq!(body.task_id, waiting[3].id);
    let ends = [TaskState::Completed, TaskState::Completed, TaskState::InputRequired];
    for (task, end) in waiting.iter().zip(ends) {
        side.until("tim", task, end).await;
    }
    side.stop().await;
}
