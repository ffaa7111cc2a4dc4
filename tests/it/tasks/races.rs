//! Concurrent calls, and names that are both: nothing is lost, taken twice or forgotten.

use std::sync::Arc;
use std::time::Duration;

use a2a_actors::tasks::{TaskCaller, TaskSettings};
use a2a_protocol::Body;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{CancelTask, GetTask, PushConfig};
use a2a_protocol::task::TaskState;
use a2a_taskdb::TaskDb;
use openclaw_a2a::{
    Agent, Bus, BusSettings, Delivery, LedgerSettings, NewTask, RetryPolicy, TaskAnswer,
};
use serde_json::json;

use super::{asked, tim};
use crate::a2a_side::{
    Side, acme, all, at_once, caller, id, label, message, more, output, settings, soon,
    task as task_of, text, words,
};
use crate::listener::{listener, next};

#[tokio::test(flavor = "multi_thread")]
async fn one_id_for_two_messages_at_once_harms_neither_task() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    for round in 0..40 {
        let asks = side.task("tim", at_once(text("asks"))).await;
        // Requests of the round before may still come.
        let mut delivery = asked(&mut inbox).await;
        while delivery.message.body.task_id() != Some(asks.id) {
            delivery = asked(&mut inbox).await;
        }
        tim.block(&delivery, &format!("which? {round}")).await.unwrap();
        side.until("tim", &asks, TaskState::InputRequired).await;
        let same = format!("m-{round}");
        let begins = at_once(message(json!({"messageId": same})));
        let resume = at_once(message(json!({"messageId": same, "taskId": asks.id})));
        let (first, second) = tokio::join!(side.send("tim", begins), side.send("tim", resume));
        // Their messages differ: one of them may be refused for the other.
        let taken = [first, second].into_iter().filter_map(|sent| match sent {
            Err(Fault::MessageConflict { .. }) => None,
            sent => Some(task_of(sent.unwrap())),
        });
        let taken: Vec<_> = taken.collect();
        assert!(!taken.is_empty());
        // Each has an agent to answer it, and can still be cancelled.
        for task in taken.iter().chain([&asks]) {
            let state = side.get("tim", task).await.unwrap().status.state;
            if !state.is_terminal() {
                side.cancel("tim", task).await.unwrap();
            }
        }
    }
    side.stop().await;
}

#[tokio::test]
async fn a_message_id_that_named_no_task_names_none_later() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    side.task("tim", at_once(message(json!({"messageId": "same"})))).await;
    let _delivery = asked(&mut inbox).await;
    let asks = side.task("tim", at_once(text("asks"))).await;
    tim.block(&asked(&mut inbox).await, "which?").await.unwrap();
    let before = side.until("tim", &asks, TaskState::InputRequired).await;
    let again = message(json!({"messageId": "same", "taskId": asks.id}));
    let refused = side.send("tim", at_once(again)).await.unwrap_err();
    assert!(matches!(refused, Fault::MessageConflict { .. }), "{refused:?}");
    assert_eq!(side.get("tim", &asks).await.unwrap(), before);
    side.stop().await;
}

#[tokio::test]
async fn agent_that_calls_others_still_gets_messages_about_its_own_work() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let (roman, mut romans) = listener(&side.bus, "roman").await;
    let as_tim = TaskCaller {
        owner: Arc::from("agent:tim"),
        principal: id("tim"),
        is_client: false,
        sees_all: false,
        trace: None,
        version: None,
    };
    let agent = id("roman");
    let calls = side.tasks.send(&as_tim, &agent, text("help me"));
    let (called, ()) = tokio::join!(soon(calls), async {
        roman.complete(&asked(&mut romans).await, "done").await.unwrap();
    });
    called.unwrap();
    // Now tim works for a client, hands the work on, and the other one has a word for tim.
    let task = side.task("tim", at_once(text("work"))).await;
    let delivery = asked(&mut inbox).await;
    let Body::TaskRequest(work) = delivery.message.body.clone() else { panic!("{delivery:?}") };
    let mut hand_on = tim.compose(Some(&id("roman")), Body::TaskRequest(work));
    hand_on.correlation_id = delivery.message.correlation_id;
    assert!(tim.send(hand_on).await.outcome.is_accepted());
    let handed = asked(&mut romans).await;
    roman.report(&handed, "a word to tim").await.unwrap();
    let received = next(&mut inbox).await;
    assert!(matches!(received.message.body, Body::StatusUpdate(_)), "{received:?}");
    assert_eq!(received.sender, id("roman"));
    // The client's answer still reaches the client.
    let conversation = delivery.message.correlation_id;
    let done = TaskAnswer::completed("done").for_task(task.id).in_conversation(conversation);
    roman.send_task_response("acme", done).await.unwrap();
    side.until("tim", &task, TaskState::Completed).await;
    side.stop().await;
}

/// Hands on what was asked for, in a conversation of its own.
async fn hand_on(tim: &Agent, delivery: &Delivery, to: &str) {
    let Body::TaskRequest(work) = delivery.message.body.clone() else { panic!("{delivery:?}") };
    let on = tim.compose(Some(&id(to)), Body::TaskRequest(work));
    assert_ne!(on.correlation_id, delivery.message.correlation_id);
    assert!(tim.send(on).await.outcome.is_accepted());
}

#[tokio::test]
async fn holder_of_a_delegated_task_ends_it_in_any_conversation() {
    let pause = Duration::from_millis(1);
    let retry = RetryPolicy { attempts: 2, initial_backoff: pause, max_backoff: pause };
    let bus = Bus::builder().in_memory().settings(BusSettings { retry, ..settings() });
    let side = Side::on(
        bus.start().unwrap(),
        TaskSettings::default(),
        Box::new(TaskDb::open_in_memory().unwrap()),
    );
    let (tim, mut inbox) = tim(&side).await;
    let (eve, _eves) = listener(&side.bus, "eve").await;
    let (roman, mut romans) = listener(&side.bus, "roman").await;
    let task = side.task("tim", at_once(text("work"))).await;
    hand_on(&tim, &asked(&mut inbox).await, "roman").await;
    let handed = asked(&mut romans).await;
    // No other caller does, and tim no longer does either.
    for other in [&eve, &tim] {
        let done = TaskAnswer::completed("mine").for_task(task.id);
        other.send_task_response("acme", done).await.unwrap_err();
    }
    roman.complete(&handed, "by roman").await.unwrap();
    let done = side.until("tim", &task, TaskState::Completed).await;
    assert_eq!(output(&done), "by roman");
    // Nor is it waited for when the process that has it dies of it.
    let dies = |_: Delivery| async { panic!("as the test wants it") as Result<(), &str> };
    let _tony = side.bus.attach("tony", dies).await.unwrap();
    let task = side.task("tim", at_once(text("deadly work"))).await;
    hand_on(&tim, &asked(&mut inbox).await, "tony").await;
    side.until("tim", &task, TaskState::Failed).await;
    side.stop().await;
}

#[tokio::test]
async fn without_a_ledger_only_its_agent_or_its_conversation_ends_a_task() {
    let ledger = LedgerSettings { enabled: false, ..LedgerSettings::default() };
    let bus = Bus::builder().in_memory().settings(BusSettings { ledger, ..settings() });
    let side = Side::on(
        bus.start().unwrap(),
        TaskSettings::default(),
        Box::new(TaskDb::open_in_memory().unwrap()),
    );
    let (tim, mut inbox) = tim(&side).await;
    let (eve, _eves) = listener(&side.bus, "eve").await;
    let task = side.task("tim", at_once(text("work"))).await;
    let delivery = asked(&mut inbox).await;
    let done = TaskAnswer::completed("mine").for_task(task.id);
    eve.send_task_response("acme", done).await.unwrap();
    tim.complete(&delivery, "by tim").await.unwrap();
    let done = side.until("tim", &task, TaskState::Completed).await;
    assert_eq!(output(&done), "by tim", "eve was heard first, and meant nothing");
    side.stop().await;
}

#[tokio::test]
async fn name_of_a_client_cannot_be_used_by_an_agent() {
    let pause = Duration::from_millis(1);
    let retry = RetryPolicy { attempts: 2, initial_backoff: pause, max_backoff: pause };
    let bus = Bus::builder().in_memory().settings(BusSettings { retry, ..settings() });
    let side = Side::on(
        bus.start().unwrap(),
        TaskSettings::default(),
        Box::new(TaskDb::open_in_memory().unwrap()),
    );
    let (tim, mut inbox) = tim(&side).await;
    side.task("tim", at_once(text("so that acme is known"))).await;
    let _delivery = asked(&mut inbox).await;
    let refused = side.tasks.send(&caller("eve"), &id("acme"), text("for a client")).await;
    assert!(matches!(refused, Err(Fault::NoSuchAgent { .. })), "{refused:?}");
    // On the bus it is a dead letter, and the requester is notified.
    let mut work =
        tim.request_task("acme", NewTask::new("TaskHandle", "for a client")).await.unwrap();
    soon(work.result()).await.unwrap_err();
    assert_eq!(side.bus.dead_letters().await.len(), 1);
    side.stop().await;
}

#[tokio::test]
async fn a_person_sees_and_stops_a_task_but_does_not_speak_for_its_owner() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let task = side.task("tim", at_once(text("asks"))).await;
    tim.block(&asked(&mut inbox).await, "which?").await.unwrap();
    let before = side.until("tim", &task, TaskState::InputRequired).await;
    let david = TaskCaller { sees_all: true, owner: "operator:david".into(), ..caller("david") };
    let get = GetTask { id: label(&task), history_length: None };
    assert_eq!(side.tasks.get(&david, &id("tim"), get).await.unwrap(), before);
    let refused = side.tasks.send(&david, &id("tim"), more(&task, "this")).await.unwrap_err();
    assert!(matches!(refused, Fault::Forbidden { .. }), "{refused:?}");
    assert_eq!(side.get("tim", &task).await.unwrap(), before);
    let cancel = CancelTask { id: label(&task), metadata: None };
    let canceled = side.tasks.cancel(&david, &id("tim"), cancel).await.unwrap();
    assert_eq!(canceled.status.state, TaskState::Canceled);
    side.stop().await;
}

#[tokio::test]
async fn push_configs_are_counted_however_they_come() {
    let side = Side::start();
    let (_tim, mut inbox) = tim(&side).await;
    let task = side.task("tim", at_once(text("work"))).await;
    let _delivery = asked(&mut inbox).await;
    let wish = |n: usize| -> PushConfig {
        let url = format!("https://example.com/{n}");
        serde_json::from_value(json!({"url": url, "taskId": task.id})).unwrap()
    };
    for n in 0..20 {
        let mut more = at_once(more(&task, &format!("more {n}")));
        more.push = Some(wish(n));
        side.send("tim", more).await.unwrap();
    }
    let before = side.get("tim", &task).await.unwrap();
    let mut one_more = at_once(more(&task, "one more"));
    one_more.push = Some(wish(20));
    let refused = side.send("tim", one_more).await.unwrap_err();
    assert!(matches!(refused, Fault::InvalidParams(_)), "{refused:?}");
    let refused = side.tasks.set_push(&acme(), &id("tim"), wish(21)).await.unwrap_err();
    assert!(matches!(refused, Fault::InvalidParams(_)), "{refused:?}");
    assert_eq!(side.get("tim", &task).await.unwrap(), before);
    side.stop().await;
}

#[tokio::test]
async fn a_stream_that_missed_nothing_of_an_ended_task_is_refused() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    let task = side.task("tim", at_once(text("work"))).await;
    tim.complete(&asked(&mut inbox).await, "done").await.unwrap();
    side.until("tim", &task, TaskState::Completed).await;
    let missed = all(side.subscribe("tim", &task, Some(0)).await.unwrap()).await;
    assert_eq!(words(&missed), ["artifact.", "completed"]);
    let refused = side.subscribe("tim", &task, Some(missed[1].number)).await.map(drop);
    assert!(matches!(refused, Err(Fault::Unsupported { .. })), "{refused:?}");
    side.stop().await;
}
