//! Calling tasks off: whatever they do, once, and against the agent's answer.

use a2a_protocol::fault::Fault;
use a2a_protocol::task::TaskState;
use openclaw_a2a::{Delivery, SendError};
use tokio::sync::mpsc::unbounded_channel;

use super::{asked, place, states, tim, title};
use crate::a2a_side::{Side, all, at_once, in_context, text, words};
use crate::listener::next;

#[tokio::test]
async fn task_is_cancelled_pending_or_running_but_not_ended() {
    let side = Side::start();
    let (received, mut inbox) = unbounded_channel();
    let (answered, mut reports) = unbounded_channel();
    let works_until_cancelled = move |delivery: Delivery| {
        let (received, answered) = (received.clone(), answered.clone());
        async move {
            if matches!(delivery.message.body, a2a_protocol::Body::TaskRequest(_)) {
                let _ = received.send(delivery.clone());
                delivery.cancelled().await;
                let _ = answered.send(title(&delivery));
            }
        }
    };
    let agent = side.bus.attach("tim", works_until_cancelled).await.unwrap();
    let runs = side.task("tim", at_once(in_context("talk", "runs"))).await;
    let waits = side.task("tim", at_once(in_context("talk", "waits"))).await;
    let last = side.task("tim", at_once(in_context("talk", "last"))).await;
    let canceled = side.cancel("tim", &waits).await.unwrap();
    assert_eq!(canceled.status.state, TaskState::Canceled);
    assert_eq!(place(&side.get("tim", &last).await.unwrap()), Some(1));
    let delivery = asked(&mut inbox).await;
    assert_eq!(side.cancel("tim", &runs).await.unwrap().status.state, TaskState::Canceled);
    assert_eq!(next(&mut reports).await, "runs");
    // The one that waited was never begun; the last one is next.
    assert_eq!(title(&asked(&mut inbox).await), "last");
    for ended in [&runs, &waits] {
        let before = side.get("tim", ended).await.unwrap();
        let refused = side.cancel("tim", ended).await.unwrap_err();
        assert!(
            matches!(refused, Fault::TaskNotCancelable { state: "canceled", .. }),
            "{refused:?}"
        );
        assert_eq!(side.get("tim", ended).await.unwrap(), before);
    }
    assert!(matches!(agent.complete(&delivery, "late").await, Err(SendError::Task(_))));
    assert_eq!(states(&side, &[runs]).await, [TaskState::Canceled]);
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_and_completing_at_once_is_one_of_both() {
    let side = Side::start();
    let (tim, mut inbox) = tim(&side).await;
    for round in 0..100 {
        let task = side.task("tim", at_once(text("race"))).await;
        let delivery = asked(&mut inbox).await;
        let (cancel, complete) = (side.cancel("tim", &task), tim.complete(&delivery, "done"));
        // Who begins changes from round to round.
        let (canceled, _) = if round % 2 == 0 {
            tokio::join!(cancel, complete)
        } else {
            let (completed, canceled) = tokio::join!(complete, cancel);
            (canceled, completed)
        };
        let state = match canceled {
            Ok(_) => TaskState::Canceled,
            Err(_) => side.until("tim", &task, TaskState::Completed).await.status.state,
        };
        assert_eq!(states(&side, std::slice::from_ref(&task)).await, [state]);
        let events = all(side.subscribe("tim", &task, Some(0)).await.unwrap()).await;
        let expected: &[&str] = match state {
            TaskState::Canceled => &["canceled"],
            // The agent's answer is the result.
            _ => &["artifact.", "completed"],
        };
        assert_eq!(words(&events), expected);
        assert!(events.last().unwrap().last);
    }
    side.stop().await;
}
