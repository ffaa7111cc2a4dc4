use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use openclaw_a2a::{Bus, BusSettings, Delivery, InboxError, Profile};
use tokio::task::JoinHandle;

use super::{events, id, mute, quick, request, start};
use crate::listener::SOON;

fn with_tim() -> BusSettings {
    BusSettings { agents: vec![(id("tim"), Profile::default())], ..quick() }
}

/// A poll of tim's inbox that waits. It is waiting when this returns: what is asked afterwards is
/// answered after it.
async fn waiting(bus: &Bus) -> JoinHandle<Result<Vec<Delivery>, InboxError>> {
    let system = bus.system().clone();
    let (began, has_begun) = tokio::sync::oneshot::channel();
    let poll = tokio::spawn(async move {
        let mut pull = Box::pin(system.pull(id("tim"), 10, SOON));
        // The first look sends the question.
        assert!(look(&mut pull).is_pending());
        began.send(()).unwrap();
        pull.await
    });
    has_begun.await.unwrap();
    poll
}

/// Polls a future once.
fn look<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

async fn pull(bus: &Bus) -> Vec<Delivery> {
    bus.system().pull(id("tim"), 10, SOON).await.unwrap()
}

/// The states of the messages in tim's inbox.
async fn states(bus: &Bus) -> Vec<&'static str> {
    let view = bus.system().peek(id("tim"), 10).await.unwrap_or_default();
    view.deliveries.iter().map(|delivery| delivery.state).collect()
}

#[tokio::test]
async fn a_dropped_poll_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, with_tim());
    let roman = mute(&bus, "roman").await;
    for _ in 0..3 {
        let gone = waiting(&bus).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
    }
    let sent = roman.send(request(&roman, "tim")).await;
    let deliveries = pull(&bus).await;
    assert_eq!(deliveries.len(), 1);
    assert_eq!((Some(deliveries[0].seq), deliveries[0].attempt), (sent.seq, 1));
    bus.stop().await;
}

/// The deliveries are leased to the poll and are in its channel when it is dropped.
#[tokio::test]
async fn letters_that_a_dropped_poll_did_not_take_return_at_once_without_an_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, with_tim());
    let roman = mute(&bus, "roman").await;
    // With the three attempts of these settings the third would have been the last.
    let system = bus.system().clone();
    let mut polls = Vec::new();
    for _ in 0..5 {
        polls.push(Box::pin(system.pull(id("tim"), 10, SOON)));
        assert!(look(polls.last_mut().unwrap()).is_pending());
        // The router has passed it on, so its answer is there: now it waits for deliveries.
        bus.agents().await;
        assert!(look(polls.last_mut().unwrap()).is_pending());
    }
    let sent = roman.send(request(&roman, "tim")).await.seq;
    while states(&bus).await != ["taken"] {
        tokio::task::yield_now().await;
    }
    // It goes from one to the next.
    while let Some(gone) = polls.pop() {
        drop(gone);
    }
    let deliveries = pull(&bus).await;
    assert_eq!(deliveries.len(), 1);
    assert_eq!((Some(deliveries[0].seq), deliveries[0].attempt), (sent, 1));
    bus.system().acknowledge(id("tim"), deliveries[0].message.message_id).await.unwrap();
    assert_eq!(
        events(&bus, deliveries[0].seq),
        ["delivered", "acknowledged"],
        "one attempt on record"
    );
    bus.stop().await;
}

#[tokio::test]
async fn of_several_polls_the_newest_is_served_first() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, with_tim());
    let roman = mute(&bus, "roman").await;
    let polls = [waiting(&bus).await, waiting(&bus).await, waiting(&bus).await];
    for poll in polls.into_iter().rev() {
        let sent = roman.send(request(&roman, "tim")).await;
        let deliveries = tokio::time::timeout(SOON, poll).await.unwrap().unwrap().unwrap();
        assert_eq!(deliveries.iter().map(|l| Some(l.seq)).collect::<Vec<_>>(), [sent.seq]);
    }
    // One that does not wait is newer than all that do.
    let older = waiting(&bus).await;
    assert!(bus.system().pull(id("tim"), 10, Duration::ZERO).await.unwrap().is_empty());
    older.abort();
    bus.stop().await;
}
