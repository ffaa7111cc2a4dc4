use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2a_protocol::{Body, Envelope, Event, Kind, Outcome, Priority};
use openclaw_a2a::{BreakerSettings, BusSettings, Delivery, RateSettings};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Notify, Semaphore};

use super::{events, id, mute, quick, request, start};
use crate::listener::{listener, next};

#[tokio::test]
async fn panic_is_retried_and_then_a_dead_letter_with_a_notice_to_its_sender() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    bus.attach("tim", move |_: Delivery| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {
            let broken = true;
            assert!(!broken, "tim has a bug");
        }
    })
    .await
    .unwrap();
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let sent = request(&roman, "tim");
    let correlation = sent.correlation_id;
    let receipt = roman.send(sent).await;
    let notice = next(&mut inbox).await;
    assert_eq!((notice.sender.as_str(), notice.message.correlation_id), ("system", correlation));
    let Body::StatusUpdate(body) = &notice.message.body else { panic!("{notice:?}") };
    assert!(body.progress.contains("tim has a bug"), "{}", body.progress);
    assert_eq!(tries.load(Ordering::SeqCst), 3);

    let dead = bus.dead_letters().await;
    assert_eq!(dead.len(), 1);
    assert_eq!((Some(dead[0].seq), dead[0].attempts), (receipt.seq, 3));
    assert!(bus.retry_dead_letter(&dead[0]).await);
    next(&mut inbox).await; // it fails again, and the sender is notified again
    assert_eq!(tries.load(Ordering::SeqCst), 6);
    let dead = bus.dead_letters().await;
    bus.stop().await;

    let bus = start(&folder, quick());
    assert_eq!(bus.dead_letters().await.len(), 1, "dead letters survive a restart");
    assert!(bus.drop_dead_letter(&dead[0]).await);
    assert!(!bus.drop_dead_letter(&dead[0]).await);
    let answered = events(&bus, receipt.seq.unwrap());
    let count = |event: Event| answered.iter().filter(|word| *word == event.as_str()).count();
    assert_eq!(
        (count(Event::AttemptFailed), count(Event::DeadLetter), count(Event::Returned)),
        (4, 2, 1)
    );
    bus.stop().await;
}

#[tokio::test]
async fn a_hanging_handler_loses_neither_its_message_nor_its_session_nor_a_neighbour() {
    let folder = tempfile::tempdir().unwrap();
    let settings = BusSettings { handler_deadline: Duration::from_millis(20), ..quick() };
    let bus = start(&folder, settings);
    let attempts = Arc::new(AtomicUsize::new(0));
    let (done, mut is_done) = unbounded_channel();
    bus.attach("tim", move |delivery: Delivery| {
        let first = attempts.fetch_add(1, Ordering::SeqCst) == 0;
        let done = done.clone();
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            done.send(delivery).ok();
        }
    })
    .await
    .unwrap();
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let roman = mute(&bus, "roman").await;
    roman.send(request(&roman, "tim")).await;
    roman.send(request(&roman, "tony")).await;
    next(&mut tony_inbox).await;
    let delivery = next(&mut is_done).await;
    assert_eq!(delivery.attempt, 2);
    bus.stop().await;
}

#[tokio::test]
async fn a_typed_error_is_an_answer_and_no_failed_delivery() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    bus.attach("tim", |_: Delivery| async { Err("no access to that repository") }).await.unwrap();
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let sent = request(&roman, "tim");
    let receipt = roman.send(sent.clone()).await;
    let answer = next(&mut inbox).await;
    assert_eq!(
        (answer.sender.as_str(), answer.message.correlation_id),
        ("tim", sent.correlation_id)
    );
    let json = serde_json::to_value(answer.message.as_ref()).unwrap();
    assert_eq!(json["payload"]["action"], "failed");
    assert_eq!(json["payload"]["reason"], "no access to that repository");
    assert!(bus.dead_letters().await.is_empty());
    bus.stop().await;
    let bus = start(&folder, quick());
    assert_eq!(events(&bus, receipt.seq.unwrap()), ["acknowledged"]);
    bus.stop().await;
}

#[tokio::test]
async fn one_message_at_a_time_and_urgent_ones_first() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let gate = Arc::new(Semaphore::new(0));
    let running = Arc::new(AtomicUsize::new(0));
    let (seen_messages, mut inbox) = unbounded_channel();
    let (held, is_held) = (Arc::clone(&gate), Arc::new(Notify::new()));
    let begun = Arc::clone(&is_held);
    bus.attach("tim", move |delivery: Delivery| {
        let (gate, running, seen_messages, begun) =
            (Arc::clone(&held), Arc::clone(&running), seen_messages.clone(), Arc::clone(&begun));
        async move {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two at once");
            begun.notify_one();
            gate.acquire().await.unwrap().forget();
            running.fetch_sub(1, Ordering::SeqCst);
            seen_messages.send(delivery).ok();
        }
    })
    .await
    .unwrap();
    let roman = mute(&bus, "roman").await;
    let order = [
        Priority::Normal,
        Priority::Low,
        Priority::Normal,
        Priority::High,
        Priority::Urgent,
        Priority::Urgent,
    ];
    let mut sent = Vec::new();
    for (i, priority) in order.into_iter().enumerate() {
        let receipt = roman.send(Envelope { priority, ..request(&roman, "tim") }).await;
        sent.push(receipt.seq.unwrap());
        if i == 0 {
            is_held.notified().await; // the first is being handled before the others come
        }
    }
    gate.add_permits(order.len());
    let mut got = Vec::new();
    for _ in &order {
        got.push(next(&mut inbox).await.seq);
    }
    assert_eq!(got, [0, 4, 5, 3, 2, 1].map(|i| sent[i]));
    bus.stop().await;
}

#[tokio::test]
async fn every_failed_task_is_answered_even_beyond_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    let n = |n: u32| std::num::NonZeroU32::new(n).unwrap();
    let rates = RateSettings {
        per_agent_per_minute: n(60_000),
        agent_burst: n(1_000),
        per_pair_per_minute: n(60_000),
        pair_burst: n(2),
        ..RateSettings::default()
    };
    // Ten equal requests that fail one after the other are a storm.
    let breaker = BreakerSettings { enabled: false, ..BreakerSettings::default() };
    let bus = start(&folder, BusSettings { rates, breaker, ..quick() });
    bus.attach("tim", |_: Delivery| async { Err("not my field") }).await.unwrap();
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let mut asked = 0;
    while asked < 10 {
        asked += usize::from(roman.send(request(&roman, "tim")).await.outcome.is_accepted());
    }
    for _ in 0..asked {
        assert_eq!(next(&mut inbox).await.message.kind(), Kind::TaskResponse);
    }
    bus.stop().await;
}

#[tokio::test]
async fn message_whose_attempts_all_killed_the_process_is_a_dead_letter_at_the_next_start() {
    use a2a_journal::{Commit, EventRecord, Journal, MessageRecord, Options, Received, Record};
    use a2a_protocol::RecipientOutcome;

    let folder = tempfile::tempdir().unwrap();
    let (mut journal, recovered) = Journal::open(&Options::new(folder.path())).unwrap();
    let message = Kind::TaskRequest.example_message();
    let (seq, time) = (recovered.next_seq, chrono::Utc::now());
    let recipients = [RecipientOutcome { agent_id: id("tim"), outcome: Outcome::Delivered }].into();
    let record = Record::Message(MessageRecord {
        seq,
        time,
        outcome: Outcome::Delivered,
        message_id: Some(message.message_id),
        by: Some(id("roman")),
        received: Received::Json(message.to_json().into()),
        message: None,
        bytes: message.to_json().len() as u64,
        took_us: 1,
        fingerprint: Some(1),
        recipients,
        reason: None,
        retry_after_ms: None,
        errors: Vec::new(),
        via: None,
        trace: None,
        facts: Vec::new(),
    });
    let begun = Record::Event(EventRecord {
        of: Some(seq),
        message_id: Some(message.message_id),
        agent_id: Some(id("tim")),
        attempt: Some(quick().retry.attempts),
        ..EventRecord::new(seq + 1, time, Event::Delivered)
    });
    journal.commit(&[record, begun]).unwrap();
    journal.close().unwrap();
    drop(journal);

    let bus = start(&folder, quick());
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (_roman, mut inbox) = listener(&bus, "roman").await;
    let notice = next(&mut inbox).await;
    assert_eq!(notice.sender.as_str(), "system");
    assert_eq!(bus.dead_letters().await[0].seq, seq);
    assert!(tim_inbox.try_recv().is_err(), "it is not tried once more");
    bus.stop().await;
}
