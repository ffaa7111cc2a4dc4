//! What watchers see: everything, in order, however slow they are.

use std::sync::Arc;

use a2a_actors::tasks::{TaskEvent, TaskSettings};
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::TaskState;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use openclaw_a2a::{Profile, StatusReport};
use serde_json::json;

use super::{asked, listener};
use crate::a2a_side::{Side, all, at_once, id, more, soon, task as task_of, text, words};

#[tokio::test]
async fn slow_reader_is_cut_off_and_resumes_where_it_was() {
    let side = Side::with(TaskSettings { subscriber_buffer: 4, ..TaskSettings::default() });
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let task = side.task("tim", at_once(text("x"))).await;
    let mut slow = side.subscribe("tim", &task, None).await.unwrap();
    let delivery = asked(&mut inbox).await;
    // More than are read from the store at once.
    for n in 0..300 {
        tim.report(&delivery, format!("step {n}")).await.unwrap();
    }
    // One more round trip, so that the cut has happened.
    tim.complete(&delivery, "done").await.unwrap();
    side.until("tim", &task, TaskState::Completed).await;
    let first = soon(slow.next()).await.unwrap();
    assert!(matches!(&*first.event, StreamEvent::Task(_)));
    let mut seen = vec![first.number];
    while let Some(happened) = soon(slow.next()).await {
        assert!(!happened.last);
        seen.push(happened.number);
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
    let rest = all(side.subscribe("tim", &task, seen.last().copied()).await.unwrap()).await;
    seen.extend(rest.iter().map(|happened| happened.number));
    assert_eq!(seen, (0..=302).collect::<Vec<_>>());
    assert_eq!(rest.iter().filter(|happened| happened.last).count(), 1);
    assert!(rest.last().unwrap().last);
    side.stop().await;
}

#[tokio::test]
async fn resumed_stream_misses_nothing_of_a_running_task() {
    let side = Side::start();
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let task = side.task("tim", at_once(text("x"))).await;
    let delivery = asked(&mut inbox).await;
    for n in 0..3 {
        tim.report(&delivery, format!("before {n}")).await.unwrap();
    }
    let mut numbers = Vec::new();
    let mut stream = side.subscribe("tim", &task, Some(1)).await.unwrap();
    for n in 0..3 {
        tim.report(&delivery, format!("after {n}")).await.unwrap();
    }
    tim.complete(&delivery, "done").await.unwrap();
    while let Some(happened) = soon(stream.next()).await {
        numbers.push(happened.number);
    }
    assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 8]);
    side.stop().await;
}

#[tokio::test]
async fn all_subscribers_see_the_same_in_the_same_order() {
    let side = Side::start();
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let first = side.stream("tim", text("x")).await;
    let delivery = asked(&mut inbox).await;
    let task = delivery.message.body.task_id().unwrap();
    tim.report(&delivery, "begun").await.unwrap();
    let mut first = first;
    let greeting = soon(first.next()).await.unwrap();
    let StreamEvent::Task(shown) = &*greeting.event else { panic!("{greeting:?}") };
    assert_eq!(shown.id, task);
    let begun = soon(first.next()).await.unwrap();
    let mut others = Vec::new();
    for _ in 0..5 {
        let mut other = side.subscribe("tim", shown, None).await.unwrap();
        let greeting = soon(other.next()).await.unwrap();
        assert_eq!(greeting.number, begun.number);
        others.push(other);
    }
    for n in 0..20 {
        let artifact =
            serde_json::from_value(json!({"artifactId": "a", "parts": [{"text": n.to_string()}]}));
        let piece = StatusReport::in_progress("more").artifact(&artifact.unwrap(), n > 0, n == 19);
        tim.send_status_update(&delivery, piece).await.unwrap();
    }
    tim.block(&delivery, "which?").await.unwrap();
    // The requester gets no more until it answers; subscribers do.
    let received = all(first).await;
    assert!(received.last().unwrap().last);
    let done = async {
        let delivery = asked(&mut inbox).await;
        tim.complete(&delivery, "done").await.unwrap();
    };
    let (answered, ()) = tokio::join!(side.task("tim", more(shown, "this")), done);
    assert_eq!(answered.artifacts[0].parts.len(), 20);
    let all_of_them = join_all(others.into_iter().map(all)).await;
    let plain = |all: &[TaskEvent]| {
        all.iter().map(|h| (h.number, Arc::clone(&h.event))).collect::<Vec<_>>()
    };
    for other in &all_of_them {
        assert_eq!(plain(other), plain(&all_of_them[0]));
    }
    assert_eq!(plain(&all_of_them[0][..received.len()]), plain(&received));
    assert_eq!(words(&all_of_them[0][20..]), ["input_required", "working", "completed"]);
    side.stop().await;
}

#[tokio::test]
async fn repeats_beyond_the_waiting_limit_of_a_task_are_refused() {
    let side = Side::with(TaskSettings { subscribers_per_task: 2, ..TaskSettings::default() });
    side.bus.system().register(id("tim"), Profile::default()).await.unwrap();
    let same = text("work");
    let task = side.task("tim", at_once(same.clone())).await;
    let mut repeats: FuturesUnordered<_> = (0..3).map(|_| side.send("tim", same.clone())).collect();
    // Which of the three comes last is open; two wait, and the one too many is answered.
    let refused = soon(repeats.next()).await.unwrap().unwrap_err();
    let Fault::Unavailable { reason, .. } = &refused else { panic!("{refused:?}") };
    assert!(reason.starts_with("2 calls wait for this task"), "{reason}");
    side.cancel("tim", &task).await.unwrap();
    while let Some(answer) = soon(repeats.next()).await {
        assert_eq!(task_of(answer.unwrap()).id, task.id);
    }
    drop(repeats);
    side.stop().await;
}
