use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2a_protocol::{Envelope, Outcome};
use openclaw_a2a::{Bus, Delivery};
use tokio::sync::{Notify, Semaphore};

use super::{events, id, mute, quick, request, start};
use crate::listener::{listener, next};

#[tokio::test]
async fn several_sessions_share_the_work_and_keep_their_conversations() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (first, mut first_inbox) = listener(&bus, "tim").await;
    let (second, mut second_inbox) = listener(&bus, "tim").await;
    assert_eq!(bus.agents().await[0].sessions, 2);
    let roman = mute(&bus, "roman").await;
    let talk = request(&roman, "tim");
    let mut received = [0, 0];
    for _ in 0..5 {
        let message = Envelope { correlation_id: talk.correlation_id, ..request(&roman, "tim") };
        roman.send(message).await;
        tokio::select! {
            _ = next(&mut first_inbox) => received[0] += 1,
            _ = next(&mut second_inbox) => received[1] += 1,
        }
    }
    assert!(received.contains(&5), "a conversation stays with one session: {received:?}");
    second.detach();
    first.detach();
    let queued = roman.send(request(&roman, "tim")).await;
    assert_eq!(queued.outcome, Outcome::Queued);
    let (_third, mut third_inbox) = listener(&bus, "tim").await;
    assert_eq!(Some(next(&mut third_inbox).await.seq), queued.seq);
    bus.stop().await;
}

#[tokio::test]
async fn when_the_first_session_leaves_the_others_take_over_its_conversations() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let gate = Arc::new(Semaphore::new(0));
    let (held, busy) = (Arc::clone(&gate), Arc::new(Notify::new()));
    let is_busy = Arc::clone(&busy);
    let first = bus
        .attach("tim", move |_: Delivery| {
            let (gate, busy) = (Arc::clone(&held), Arc::clone(&busy));
            async move {
                busy.notify_one();
                gate.acquire().await.unwrap().forget();
            }
        })
        .await
        .unwrap();
    let roman = mute(&bus, "roman").await;
    let talk = request(&roman, "tim");
    let again = || Envelope { correlation_id: talk.correlation_id, ..request(&roman, "tim") };
    roman.send(talk.clone()).await; // is being handled
    is_busy.notified().await;
    let (_second, mut inbox) = listener(&bus, "tim").await;
    let waits = roman.send(Envelope { correlation_id: talk.correlation_id, ..again() }).await;
    let stale = first.clone();
    first.detach();
    let later = roman.send(again()).await;
    let mut received = vec![next(&mut inbox).await.seq, next(&mut inbox).await.seq];
    received.sort_unstable();
    assert_eq!(received, [waits.seq.unwrap(), later.seq.unwrap()]);

    let (_third, mut third_inbox) = listener(&bus, "tim").await;
    stale.detach(); // an old handle does not end another session
    let agents = bus.agents().await;
    assert_eq!(agents.iter().find(|agent| agent.agent_id == id("tim")).unwrap().sessions, 2);
    drop(third_inbox.try_recv());
    gate.add_permits(10);
    bus.stop().await;
}

#[tokio::test]
async fn ten_thousand_idle_sessions_are_nothing_special() {
    let bus = Bus::builder().in_memory().settings(quick()).start().unwrap();
    for i in 0..10_000 {
        mute(&bus, &format!("agent-{i}")).await;
    }
    let roman = mute(&bus, "roman").await;
    assert_eq!(roman.send(request(&roman, "agent-9999")).await.outcome, Outcome::Delivered);
    assert_eq!(bus.agents().await.len(), 10_001);
    bus.stop().await;
}

#[tokio::test]
async fn stopping_lets_handlers_finish_and_takes_nothing_new() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (begun, has_begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (gate, opened) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (b, g, o) = (Arc::clone(&has_begun), Arc::clone(&gate), Arc::clone(&opened));
    bus.attach("tim", move |_: Delivery| {
        let (b, g, o) = (Arc::clone(&b), Arc::clone(&g), Arc::clone(&o));
        async move {
            b.notify_one();
            g.acquire().await.unwrap().forget();
            o.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await
    .unwrap();
    drop(begun);
    let roman = mute(&bus, "roman").await;
    let handled = roman.send(request(&roman, "tim")).await.seq.unwrap();
    let waiting = roman.send(request(&roman, "tim")).await.seq.unwrap();
    has_begun.notified().await;
    let stopping = tokio::spawn({
        let bus = bus.clone();
        async move { bus.stop_within(Duration::from_secs(20)).await }
    });
    // The bus refuses before it has stopped: ask until it does.
    while roman.send(request(&roman, "tim")).await.outcome != Outcome::Unavailable {
        tokio::task::yield_now().await;
    }
    gate.add_permits(10);
    assert_eq!(stopping.await.unwrap().interrupted, 0);
    assert_eq!(opened.load(Ordering::SeqCst), 1, "what waited was not begun");

    let bus = start(&folder, quick());
    assert_eq!(events(&bus, handled).last().map(String::as_str), Some("acknowledged"));
    let (_tim, mut inbox) = listener(&bus, "tim").await;
    assert_eq!(next(&mut inbox).await.seq, waiting);
    bus.stop().await;
}

#[tokio::test]
async fn a_bus_that_is_dropped_without_stopping_does_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (_tim, mut inbox) = listener(&bus, "tim").await;
    let roman = mute(&bus, "roman").await;
    drop(bus);
    assert!(roman.send(request(&roman, "tim")).await.outcome.is_accepted());
    next(&mut inbox).await;
}
