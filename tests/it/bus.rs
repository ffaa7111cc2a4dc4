//! The bus in one process, through the SDK.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2a_protocol::{AgentId, Body, Envelope, Event, Kind, Outcome, Priority};
use openclaw_a2a::{Agent, Bus, BusSettings, Letter, RateSettings, RetryPolicy};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Notify, Semaphore};

use crate::listener::{listener, next};

fn quick() -> BusSettings {
    BusSettings {
        retry: RetryPolicy {
            attempts: 3,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(2),
        },
        ..BusSettings::default()
    }
}

fn start(folder: &TempDir, settings: BusSettings) -> Bus {
    Bus::builder().state_dir(folder.path()).settings(settings).start().unwrap()
}

async fn mute(bus: &Bus, name: &str) -> Agent {
    bus.attach(name, |_: Letter| async {}).await.unwrap()
}

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn request(from: &Agent, to: &str) -> Envelope {
    from.compose(Some(&id(to)), crate::new_task())
}

/// The events of a record, in order.
fn events(bus: &Bus, seq: u64) -> Vec<String> {
    let record = bus.system().reader().get(seq).unwrap().unwrap();
    let word = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap()["event"].as_str().unwrap().to_owned()
    };
    record.deliveries.iter().map(|line| word(line.get())).collect()
}

#[tokio::test]
async fn a_message_reaches_its_handler_with_its_verified_sender() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (_tim, mut hears) = listener(&bus, "tim").await;
    let roman = mute(&bus, "roman").await;
    let receipt = roman.send(request(&roman, "tim")).await;
    assert_eq!(receipt.outcome, Outcome::Delivered);
    assert_eq!(receipt.recipients[0].agent_id, id("tim"));
    let letter = next(&mut hears).await;
    assert_eq!(
        (letter.sender.as_str(), letter.attempt, Some(letter.seq)),
        ("roman", 1, receipt.seq)
    );
    bus.stop().await;
}

#[tokio::test]
async fn nobody_can_send_under_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (_tim, _hears) = listener(&bus, "tim").await;
    let roman = mute(&bus, "roman").await;
    let mut forged = request(&roman, "tim");
    forged.from.agent_id = id("tim");
    let receipt = roman.send(forged).await;
    assert_eq!(receipt.outcome, Outcome::Forbidden);
    assert!(receipt.reason.unwrap().contains("`roman`"));
    assert!(bus.attach("system", |_: Letter| async {}).await.is_err());
    assert!(bus.attach("no such name", |_: Letter| async {}).await.is_err());
    bus.stop().await;
}

#[tokio::test]
async fn an_absent_agent_gets_its_messages_when_it_is_back_even_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let tim = mute(&bus, "tim").await;
    tim.detach();
    let roman = mute(&bus, "roman").await;
    let first = roman.send(request(&roman, "tim")).await;
    assert_eq!(first.outcome, Outcome::Queued);
    let again = request(&roman, "tim");
    let second = roman.send(again.clone()).await;
    bus.stop().await;

    let bus = start(&folder, quick());
    let roman = mute(&bus, "roman").await;
    let repeated = roman.send(again).await;
    assert_eq!((repeated.outcome, repeated.seq), (Outcome::Duplicate, second.seq));
    assert_eq!(repeated.recipients, second.recipients);
    let (_tim, mut hears) = listener(&bus, "tim").await;
    assert_eq!(Some(next(&mut hears).await.seq), first.seq);
    assert_eq!(Some(next(&mut hears).await.seq), second.seq);
    bus.stop().await;

    let bus = start(&folder, quick());
    let (_tim, mut hears) = listener(&bus, "tim").await;
    let roman = mute(&bus, "roman").await;
    let third = roman.send(request(&roman, "tim")).await;
    assert_eq!(Some(next(&mut hears).await.seq), third.seq, "what was handled never comes again");
    bus.stop().await;
}

#[tokio::test]
async fn the_same_id_with_another_body_is_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (_tim, _hears) = listener(&bus, "tim").await;
    let roman = mute(&bus, "roman").await;
    let message = request(&roman, "tim");
    assert!(roman.send(message.clone()).await.outcome.is_accepted());
    let mut rebuilt = message.clone();
    rebuilt.timestamp = chrono::Utc::now().into();
    assert_eq!(roman.send(rebuilt).await.outcome, Outcome::Duplicate);
    let changed = Envelope { priority: Priority::High, ..message };
    assert_eq!(roman.send(changed).await.outcome, Outcome::Conflict);
    bus.stop().await;
}

#[tokio::test]
async fn a_panic_is_tried_again_and_then_a_dead_letter_its_sender_hears_of() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    bus.attach("tim", move |_: Letter| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {
            let broken = true;
            assert!(!broken, "tim has a bug");
        }
    })
    .await
    .unwrap();
    let (roman, mut hears) = listener(&bus, "roman").await;
    let sent = request(&roman, "tim");
    let correlation = sent.correlation_id;
    let receipt = roman.send(sent).await;
    let notice = next(&mut hears).await;
    assert_eq!((notice.sender.as_str(), notice.message.correlation_id), ("system", correlation));
    let Body::StatusUpdate(body) = &notice.message.body else { panic!("{notice:?}") };
    assert!(body.progress.contains("tim has a bug"), "{}", body.progress);
    assert_eq!(tries.load(Ordering::SeqCst), 3);

    let dead = bus.dead_letters().await;
    assert_eq!(dead.len(), 1);
    assert_eq!((Some(dead[0].seq), dead[0].attempts), (receipt.seq, 3));
    assert!(bus.retry_dead_letter(&dead[0]).await);
    next(&mut hears).await; // it fails again, and the sender hears of it again
    assert_eq!(tries.load(Ordering::SeqCst), 6);
    let dead = bus.dead_letters().await;
    bus.stop().await;

    let bus = start(&folder, quick());
    assert_eq!(bus.dead_letters().await.len(), 1, "dead letters survive a restart");
    assert!(bus.drop_dead_letter(&dead[0]).await);
    assert!(!bus.drop_dead_letter(&dead[0]).await);
    let told = events(&bus, receipt.seq.unwrap());
    let count = |event: Event| told.iter().filter(|word| *word == event.as_str()).count();
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
    bus.attach("tim", move |letter: Letter| {
        let first = attempts.fetch_add(1, Ordering::SeqCst) == 0;
        let done = done.clone();
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            done.send(letter).ok();
        }
    })
    .await
    .unwrap();
    let (_tony, mut tony_hears) = listener(&bus, "tony").await;
    let roman = mute(&bus, "roman").await;
    roman.send(request(&roman, "tim")).await;
    roman.send(request(&roman, "tony")).await;
    next(&mut tony_hears).await;
    let letter = next(&mut is_done).await;
    assert_eq!(letter.attempt, 2);
    bus.stop().await;
}

#[tokio::test]
async fn a_typed_error_is_an_answer_and_no_failed_delivery() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    bus.attach("tim", |_: Letter| async { Err("no access to that repository") }).await.unwrap();
    let (roman, mut hears) = listener(&bus, "roman").await;
    let sent = request(&roman, "tim");
    let receipt = roman.send(sent.clone()).await;
    let answer = next(&mut hears).await;
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
    let (heard, mut hears) = unbounded_channel();
    let (held, is_held) = (Arc::clone(&gate), Arc::new(Notify::new()));
    let begun = Arc::clone(&is_held);
    bus.attach("tim", move |letter: Letter| {
        let (gate, running, heard, begun) =
            (Arc::clone(&held), Arc::clone(&running), heard.clone(), Arc::clone(&begun));
        async move {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two at once");
            begun.notify_one();
            gate.acquire().await.unwrap().forget();
            running.fetch_sub(1, Ordering::SeqCst);
            heard.send(letter).ok();
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
        got.push(next(&mut hears).await.seq);
    }
    assert_eq!(got, [0, 4, 5, 3, 2, 1].map(|i| sent[i]));
    bus.stop().await;
}

#[tokio::test]
async fn several_sessions_share_the_work_and_keep_their_conversations() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (first, mut first_hears) = listener(&bus, "tim").await;
    let (second, mut second_hears) = listener(&bus, "tim").await;
    assert_eq!(bus.agents().await[0].sessions, 2);
    let roman = mute(&bus, "roman").await;
    let talk = request(&roman, "tim");
    let mut heard = [0, 0];
    for _ in 0..5 {
        let message = Envelope { correlation_id: talk.correlation_id, ..request(&roman, "tim") };
        roman.send(message).await;
        tokio::select! {
            _ = next(&mut first_hears) => heard[0] += 1,
            _ = next(&mut second_hears) => heard[1] += 1,
        }
    }
    assert!(heard.contains(&5), "a conversation stays with one session: {heard:?}");
    second.detach();
    first.detach();
    let queued = roman.send(request(&roman, "tim")).await;
    assert_eq!(queued.outcome, Outcome::Queued);
    let (_third, mut third_hears) = listener(&bus, "tim").await;
    assert_eq!(Some(next(&mut third_hears).await.seq), queued.seq);
    bus.stop().await;
}

#[tokio::test]
async fn limits_refuse_with_the_time_to_wait_and_a_full_inbox_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let n = |n: u32| std::num::NonZeroU32::new(n).unwrap();
    let rates =
        RateSettings { pair_burst: n(2), per_pair_per_minute: n(60), ..RateSettings::default() };
    let bus = start(&folder, BusSettings { rates, inbox_limit: 1, ..quick() });
    let tim = mute(&bus, "tim").await;
    tim.detach();
    let (roman, tony) = (mute(&bus, "roman").await, mute(&bus, "tony").await);
    assert_eq!(roman.send(request(&roman, "tim")).await.outcome, Outcome::Queued);
    let full = tony.send(request(&tony, "tim")).await;
    assert_eq!(full.outcome, Outcome::QueueFull);
    roman.send(request(&roman, "tim")).await;
    let limited = roman.send(request(&roman, "tim")).await;
    assert_eq!(limited.outcome, Outcome::RateLimited);
    assert!(limited.retry_after_ms.is_some_and(|ms| (1..=1_000).contains(&ms)), "{limited:?}");
    bus.stop().await;
}

#[tokio::test]
async fn stopping_lets_handlers_finish_and_takes_nothing_new() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (begun, has_begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (gate, opened) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (b, g, o) = (Arc::clone(&has_begun), Arc::clone(&gate), Arc::clone(&opened));
    bus.attach("tim", move |_: Letter| {
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
    let (_tim, mut hears) = listener(&bus, "tim").await;
    assert_eq!(next(&mut hears).await.seq, waiting);
    bus.stop().await;
}

#[tokio::test]
async fn a_broadcast_is_one_record_with_an_outcome_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (_tim, mut tim_hears) = listener(&bus, "tim").await;
    let (_tony, mut tony_hears) = listener(&bus, "tony").await;
    let roman = mute(&bus, "roman").await;
    let mut message = serde_json::to_value(roman.compose(None, Kind::Broadcast.example())).unwrap();
    message["payload"]["scope"] = "org".into();
    let receipt = roman.send_json(message.to_string().as_bytes()).await;
    let reached: Vec<_> =
        receipt.recipients.iter().map(|r| (r.agent_id.as_str(), r.outcome)).collect();
    assert_eq!(reached, [("tim", Outcome::Delivered), ("tony", Outcome::Delivered)]);
    assert_eq!(Some(next(&mut tim_hears).await.seq), receipt.seq);
    assert_eq!(Some(next(&mut tony_hears).await.seq), receipt.seq);
    message["messageId"] =
        roman.compose(None, Kind::Broadcast.example()).message_id.to_string().into();
    message["payload"]["scope"] = "c-suite".into();
    let nobody = roman.send_json(message.to_string().as_bytes()).await;
    assert_eq!((nobody.outcome, nobody.recipients.len()), (Outcome::Delivered, 0));
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
async fn a_message_whose_attempts_all_killed_the_process_is_given_up_at_the_next_start() {
    use a2a_protocol::RecipientOutcome;
    use a2a_store::{Commit, EventLine, Journal, Line, MessageLine, Options, Received};

    let folder = tempfile::tempdir().unwrap();
    let (mut journal, recovered) = Journal::open(&Options::new(folder.path())).unwrap();
    let message = Kind::TaskRequest.example_message();
    let (seq, time) = (recovered.next_seq, chrono::Utc::now());
    let recipients = [RecipientOutcome { agent_id: id("tim"), outcome: Outcome::Delivered }].into();
    let record = Line::Message(MessageLine {
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
    let begun = Line::Event(EventLine {
        of: Some(seq),
        message_id: Some(message.message_id),
        agent_id: Some(id("tim")),
        attempt: Some(quick().retry.attempts),
        ..EventLine::new(seq + 1, time, Event::Delivered)
    });
    journal.commit(&[record, begun]).unwrap();
    journal.close().unwrap();
    drop(journal);

    let bus = start(&folder, quick());
    let (_tim, mut tim_hears) = listener(&bus, "tim").await;
    let (_roman, mut hears) = listener(&bus, "roman").await;
    let notice = next(&mut hears).await;
    assert_eq!(notice.sender.as_str(), "system");
    assert_eq!(bus.dead_letters().await[0].seq, seq);
    assert!(tim_hears.try_recv().is_err(), "it is not tried once more");
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
        .attach("tim", move |_: Letter| {
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
    let (_second, mut hears) = listener(&bus, "tim").await;
    let waits = roman.send(Envelope { correlation_id: talk.correlation_id, ..again() }).await;
    let stale = first.clone();
    first.detach();
    let later = roman.send(again()).await;
    let mut heard = vec![next(&mut hears).await.seq, next(&mut hears).await.seq];
    heard.sort_unstable();
    assert_eq!(heard, [waits.seq.unwrap(), later.seq.unwrap()]);

    let (_third, mut third_hears) = listener(&bus, "tim").await;
    stale.detach(); // an old handle does not end somebody else's session
    let agents = bus.agents().await;
    assert_eq!(agents.iter().find(|agent| agent.agent_id == id("tim")).unwrap().sessions, 2);
    drop(third_hears.try_recv());
    gate.add_permits(10);
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
    let bus = start(&folder, BusSettings { rates, ..quick() });
    bus.attach("tim", |_: Letter| async { Err("not my field") }).await.unwrap();
    let (roman, mut hears) = listener(&bus, "roman").await;
    let mut asked = 0;
    while asked < 10 {
        asked += usize::from(roman.send(request(&roman, "tim")).await.outcome.is_accepted());
    }
    for _ in 0..asked {
        assert_eq!(next(&mut hears).await.message.kind(), Kind::TaskResponse);
    }
    bus.stop().await;
}

#[tokio::test]
async fn a_bus_that_is_dropped_without_stopping_does_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (_tim, mut hears) = listener(&bus, "tim").await;
    let roman = mute(&bus, "roman").await;
    drop(bus);
    assert!(roman.send(request(&roman, "tim")).await.outcome.is_accepted());
    next(&mut hears).await;
}
