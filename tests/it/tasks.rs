//! The task service through what edges hold: `TaskSystem`, on a bus in memory.

/// Callers who know more than the store.
mod ahead;
/// A cancelled task is cancelled in the store and on the bus.
mod both_stores;
/// Calling tasks off.
mod cancelling;
/// Whose tasks they are.
mod owners;
/// What two do at once, and names that are both a caller's and an agent's.
mod races;
/// Stops and starts on the same disk.
mod restart;
/// What watchers see.
mod watching;

use std::time::Duration;

use a2a_actors::tasks::TaskSettings;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{GetTask, ListTasks, StreamEvent};
use a2a_protocol::task::{OpaqueId, Task, TaskState};
use futures_util::FutureExt;
use futures_util::future::join_all;
use openclaw_a2a::{Agent, Bus, BusSettings, Delivery, RetryPolicy, SendError, TaskAnswer};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::a2a_side::{
    Side, acme, all, at_once, id, in_context, message, more, output, settings, soon, text,
};
use crate::listener::{listener, next};

/// An agent that takes what it gets and answers when the test lets it.
async fn tim(side: &Side) -> (Agent, UnboundedReceiver<Delivery>) {
    listener(&side.bus, "tim").await
}

/// The next request; notices of the bus itself are for no client.
async fn asked(inbox: &mut UnboundedReceiver<Delivery>) -> Delivery {
    loop {
        let delivery = next(inbox).await;
        if matches!(delivery.message.body, a2a_protocol::Body::TaskRequest(_)) {
            return delivery;
        }
    }
}

/// The task a delivery asks for, as a client would know it.
fn title(delivery: &Delivery) -> String {
    let a2a_protocol::Body::TaskRequest(task) = &delivery.message.body else {
        panic!("{delivery:?}")
    };
    task.title.to_string()
}

fn place(task: &Task) -> Option<u64> {
    task.metadata.as_ref()?.get("queuePosition").and_then(Value::as_u64)
}

async fn states(side: &Side, tasks: &[Task]) -> Vec<TaskState> {
    join_all(tasks.iter().map(async |task| side.get("tim", task).await.unwrap().status.state)).await
}

#[tokio::test]
async fn one_task_runs_per_conversation_and_the_rest_wait_in_order() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let mut tasks = Vec::new();
    for n in 0..5 {
        tasks.push(side.task("tim", at_once(in_context("talk", &n.to_string()))).await);
    }
    assert_eq!(
        tasks.iter().map(place).collect::<Vec<_>>(),
        [None, Some(1), Some(2), Some(3), Some(4)]
    );
    for n in 0..5 {
        let delivery = asked(&mut inbox).await;
        assert_eq!(title(&delivery), n.to_string());
        let working = states(&side, &tasks).await;
        let expected = (0..5).map(|other| match other {
            other if other < n => TaskState::Completed,
            other if other == n => TaskState::Working,
            _ => TaskState::Submitted,
        });
        assert_eq!(working, expected.collect::<Vec<_>>());
        if let Some(last) = tasks.get(4).filter(|_| n < 4) {
            assert_eq!(place(&side.get("tim", last).await.unwrap()), Some(4 - n));
        }
        tim.complete(&delivery, "done").await.unwrap();
        side.until("tim", &tasks[usize::try_from(n).unwrap()], TaskState::Completed).await;
    }
    assert!(inbox.try_recv().is_err());
    side.stop().await;
}

#[tokio::test]
async fn a_full_conversation_takes_no_more_but_knows_what_it_has() {
    let side = Side::with(TaskSettings { queue_per_context: 2, ..TaskSettings::default() });
    let (tim, mut inbox) = tim(&side).await;
    let messages: Vec<_> = (0..4).map(|n| at_once(in_context("talk", &n.to_string()))).collect();
    let mut tasks = Vec::new();
    for message in &messages[..3] {
        tasks.push(side.task("tim", message.clone()).await);
    }
    let refused = side.send("tim", messages[3].clone()).await.unwrap_err();
    assert!(matches!(refused, Fault::QueueFull { limit: 2, .. }), "{refused:?}");
    let all = side.tasks.list(&acme(), &id("tim"), ListTasks::default()).await.unwrap();
    assert_eq!(all.total_size, 3);
    // A client that lost the answer and asks again is not refused.
    assert_eq!(side.task("tim", messages[2].clone()).await.id, tasks[2].id);
    // Another conversation has a place, and so has this one when something ends.
    side.task("tim", at_once(in_context("other", "x"))).await;
    tim.complete(&asked(&mut inbox).await, "done").await.unwrap();
    side.until("tim", &tasks[1], TaskState::Working).await;
    side.task("tim", messages[3].clone()).await;
    side.stop().await;
}

#[tokio::test]
async fn conversations_and_agents_do_not_wait_for_each_other() {
    let side = Side::start();
    let (_tim, mut tims) = tim(&side).await;
    let (_roman, mut romans) = listener(&side.bus, "roman").await;
    for context in ["a", "b"] {
        let task = side.task("tim", at_once(in_context(context, context))).await;
        assert_eq!(task.status.state, TaskState::Working);
        assert_eq!(title(&asked(&mut tims).await), context);
    }
    let task = side.task("roman", at_once(in_context("a", "r"))).await;
    assert_eq!(task.status.state, TaskState::Working);
    assert_eq!(title(&asked(&mut romans).await), "r");
    side.stop().await;
}

#[tokio::test]
async fn who_waits_gets_the_end_and_who_does_not_gets_the_task() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let now = side.task("tim", at_once(text("now"))).await;
    assert_eq!(now.status.state, TaskState::Working);
    let _unanswered = asked(&mut inbox).await;
    let (end, ()) = tokio::join!(side.task("tim", text("end")), async {
        let delivery = asked(&mut inbox).await;
        tim.report(&delivery, "half way").await.unwrap();
        tim.complete(&delivery, "the end").await.unwrap();
    });
    assert_eq!((end.status.state, output(&end).as_str()), (TaskState::Completed, "the end"));
    let history: Vec<_> = end.history.iter().map(|message| message.text()).collect();
    assert_eq!(history, ["end", "half way"]);
    side.stop().await;
}

#[tokio::test]
async fn dispatcher_of_webhooks_is_woken_when_one_is_set() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let (_, ()) = tokio::join!(side.task("tim", text("quietly")), async {
        tim.complete(&asked(&mut inbox).await, "done").await.unwrap();
    });
    // The service has done with the first when it takes the second.
    let task = side.task("tim", at_once(text("aloud"))).await;
    assert!(side.tasks.pushes_changed().now_or_never().is_none());
    let config = json!({ "taskId": task.id, "id": "w", "url": "https://example.org/w" });
    let config = serde_json::from_value(config).unwrap();
    side.tasks.set_push(&acme(), &id("tim"), config).await.unwrap();
    tim.complete(&asked(&mut inbox).await, "done").await.unwrap();
    soon(side.tasks.pushes_changed()).await;
    side.stop().await;
}

#[tokio::test]
async fn a_question_frees_the_place_and_its_answer_is_next() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let mut tasks = Vec::new();
    for name in ["a", "b", "c"] {
        tasks.push(side.task("tim", at_once(in_context("talk", name))).await);
    }
    tim.block(&asked(&mut inbox).await, "which?").await.unwrap();
    let asks = side.until("tim", &tasks[0], TaskState::InputRequired).await;
    assert_eq!(output(&asks), "which?");
    let b = asked(&mut inbox).await;
    assert_eq!(title(&b), "b");
    let waits = side.task("tim", at_once(more(&tasks[0], "this one"))).await;
    assert_eq!(waits.status.state, TaskState::Submitted);
    let places = [&tasks[0], &tasks[2]].map(|task| side.get("tim", task));
    let places: Vec<_> = join_all(places).await.into_iter().map(|t| place(&t.unwrap())).collect();
    assert_eq!(places, [Some(1), Some(2)]);
    tim.complete(&b, "done").await.unwrap();
    let a = asked(&mut inbox).await;
    assert_eq!(title(&a), "this one");
    let request = openclaw_a2a::A2aRequest::of(&a).unwrap();
    let before: Vec<_> = request.history.iter().map(|message| message.text()).collect();
    assert_eq!(before, ["a", "which?"]);
    tim.complete(&a, "done").await.unwrap();
    assert_eq!(title(&asked(&mut inbox).await), "c");
    side.stop().await;
}

#[tokio::test]
async fn work_that_takes_too_long_fails_and_waiting_for_the_caller_is_no_work() {
    let timeout = Duration::from_millis(50);
    let side = Side::with(TaskSettings { timeout, ..TaskSettings::default() });
    let (tim, mut inbox) = tim(&side).await;
    let (asks, ()) = tokio::join!(side.task("tim", text("ask")), async {
        tim.block(&asked(&mut inbox).await, "which?").await.unwrap();
    });
    // Two in a row, so that twice the time passes.
    let first = side.task("tim", at_once(in_context("talk", "1"))).await;
    let late = asked(&mut inbox).await;
    let second = side.task("tim", in_context("talk", "2")).await;
    for task in [&side.get("tim", &first).await.unwrap(), &second] {
        assert_eq!(task.status.state, TaskState::Failed);
        assert!(output(task).starts_with("timed out"), "{task:?}");
    }
    assert_eq!(states(&side, &[asks]).await, [TaskState::InputRequired]);
    // What comes too late changes nothing.
    let failed = side.get("tim", &first).await.unwrap();
    assert!(matches!(tim.complete(&late, "at last").await, Err(SendError::Task(_))));
    assert_eq!(side.get("tim", &first).await.unwrap(), failed);
    side.stop().await;
}

#[tokio::test]
async fn what_has_ended_is_forgotten_after_a_while_and_what_is_open_is_not() {
    let ttl = Duration::from_millis(50);
    let side = Side::with(TaskSettings { ttl, ..TaskSettings::default() });
    let (tim, mut inbox) = tim(&side).await;
    let open = side.task("tim", at_once(text("open"))).await;
    let _kept = asked(&mut inbox).await;
    for end in [TaskAnswer::completed("x"), TaskAnswer::failed("x"), TaskAnswer::declined("x")] {
        let message = text("ends");
        let (ended, ()) = tokio::join!(side.task("tim", message.clone()), async {
            tim.send_task_response(&asked(&mut inbox).await, end).await.unwrap();
        });
        soon(async {
            while side.get("tim", &ended).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    assert_eq!(states(&side, &[open]).await, [TaskState::Working]);
    side.stop().await;
}

#[tokio::test]
async fn unanswered_question_expires_and_is_removed_later() {
    let ttl = Duration::from_millis(200);
    let side = Side::with(TaskSettings { ttl, ..TaskSettings::default() });
    let (tim, mut inbox) = tim(&side).await;
    let credentials = TaskAnswer::blocked("who are you?").for_credentials();
    for asks in [TaskAnswer::blocked("which?"), credentials] {
        let task = side.task("tim", at_once(text("ask me"))).await;
        let delivery = asked(&mut inbox).await;
        let watched = side.subscribe("tim", &task, None).await.unwrap();
        tim.send_task_response(&delivery, asks).await.unwrap();
        let seen = all(watched).await;
        let last = seen.last().unwrap();
        let StreamEvent::StatusUpdate(end) = &*last.event else { panic!("{last:?}") };
        assert_eq!((seen.len(), end.status.state, last.last), (3, TaskState::Failed, true));
        let why = end.status.message.as_ref().unwrap().text();
        assert!(why.starts_with("expired: "), "{why}");
        // Its agent is notified, and need not keep it either.
        while next(&mut inbox).await.sender.as_str() != "system" {}
        assert!(matches!(tim.complete(&delivery, "late").await, Err(SendError::Task(_))));
        soon(async {
            while side.get("tim", &task).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    side.stop().await;
}

#[tokio::test]
async fn the_same_message_again_is_the_same_task() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let once = at_once(text("once"));
    let tasks = join_all((0..10).map(|_| side.task("tim", once.clone()))).await;
    assert!(tasks.iter().all(|task| task.id == tasks[0].id));
    let delivery = asked(&mut inbox).await;
    tim.block(&delivery, "which?").await.unwrap();
    side.until("tim", &tasks[0], TaskState::InputRequired).await;
    let answer = at_once(more(&tasks[0], "this"));
    join_all((0..10).map(|_| side.task("tim", answer.clone()))).await;
    let delivery = asked(&mut inbox).await;
    tim.complete(&delivery, "done").await.unwrap();
    let done = side.until("tim", &tasks[0], TaskState::Completed).await;
    let history: Vec<_> = done.history.iter().map(|message| message.text()).collect();
    assert_eq!(history, ["once", "which?", "this"]);
    assert_eq!(side.task("tim", once).await, done);
    assert_eq!(side.task("tim", answer).await, done);
    assert!(inbox.try_recv().is_err());
    side.stop().await;
}

#[tokio::test]
async fn where_ids_are_used_again_each_message_is_a_new_one() {
    let reused_ids = vec![id("tim")];
    let side = Side::with(TaskSettings { reused_ids, ..TaskSettings::default() });
    let (tim, mut inbox) = tim(&side).await;
    let (ask, answer) = (message(json!({"messageId": "ask"})), json!({"messageId": "answer"}));
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let task = side.task("tim", at_once(ask.clone())).await;
        tim.block(&asked(&mut inbox).await, "which?").await.unwrap();
        side.until("tim", &task, TaskState::InputRequired).await;
        // Within one task, too.
        let mut again = at_once(ask.clone());
        again.message.task_id = Some(crate::a2a_side::label(&task));
        side.task("tim", again).await;
        tim.block(&asked(&mut inbox).await, "and which?").await.unwrap();
        side.until("tim", &task, TaskState::InputRequired).await;
        let mut answer = message(answer.clone());
        answer.message.task_id = Some(crate::a2a_side::label(&task));
        let (done, ()) = tokio::join!(side.task("tim", answer), async {
            tim.complete(&asked(&mut inbox).await, "done").await.unwrap();
        });
        assert_eq!(done.status.state, TaskState::Completed);
        tasks.push(done.id);
    }
    assert_ne!(tasks[0], tasks[1]);
    side.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_changes_nothing() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let sending = side.send("tim", text("and away"));
    let delivery = tokio::select! {
        _ = sending => panic!("nobody has answered"),
        delivery = asked(&mut inbox) => delivery,
    };
    tim.complete(&delivery, "done").await.unwrap();
    let task = delivery.message.body.task_id().unwrap();
    let label: OpaqueId = task.as_uuid().into();
    soon(async {
        loop {
            let get = GetTask { id: label.clone(), history_length: None };
            let task = side.tasks.get(&acme(), &id("tim"), get).await.unwrap();
            if task.status.state == TaskState::Completed {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    side.stop().await;
}

#[tokio::test]
async fn an_agent_that_errs_or_dies_fails_its_task() {
    let retry = RetryPolicy {
        attempts: 2,
        initial_backoff: Duration::from_millis(1),
        max_backoff: Duration::from_millis(1),
    };
    let bus = Bus::builder().in_memory().settings(BusSettings { retry, ..settings() });
    let store = Box::new(a2a_taskdb::TaskDb::open_in_memory().unwrap());
    let side = Side::on(bus.start().unwrap(), TaskSettings::default(), store);
    let errs = async |_: Delivery| Err::<(), _>("no such repository");
    side.bus.attach("errs", errs).await.unwrap();
    let dies =
        |delivery: Delivery| async move { assert_eq!(delivery.attempt, 0, "this agent dies") };
    side.bus.attach("dies", dies).await.unwrap();
    let task = side.task("errs", text("x")).await;
    assert_eq!(
        (task.status.state, output(&task).as_str()),
        (TaskState::Failed, "no such repository")
    );
    let task = side.task("dies", text("x")).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(side.bus.dead_letters().await.len(), 1);
    side.stop().await;
}

#[tokio::test]
async fn an_agent_may_answer_by_the_id_of_the_task_alone() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let (task, ()) = tokio::join!(side.task("tim", text("x")), async {
        let task = asked(&mut inbox).await.message.body.task_id().unwrap();
        let answer = TaskAnswer::completed("done").for_task(task);
        tim.send_task_response("acme", answer).await.unwrap();
    });
    assert_eq!(task.status.state, TaskState::Completed);
    side.stop().await;
}

#[tokio::test]
async fn an_empty_plain_answer_still_ends_the_task() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let (task, ()) = tokio::join!(side.task("tim", text("x")), async {
        let answer = TaskAnswer::completed("x").message_parts(Vec::new()).directly();
        tim.send_task_response(&asked(&mut inbox).await, answer).await.unwrap();
    });
    assert_eq!(task.status.state, TaskState::Completed);
    side.stop().await;
}
