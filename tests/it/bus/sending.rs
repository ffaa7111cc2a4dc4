use a2a_protocol::{Envelope, Kind, Outcome, Priority};
use openclaw_a2a::{BusSettings, Delivery, RateSettings};

use super::{id, mute, quick, request, start};
use crate::listener::{listener, next};

#[tokio::test]
async fn a_message_reaches_its_handler_with_its_verified_sender() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (_tim, mut inbox) = listener(&bus, "tim").await;
    let roman = mute(&bus, "roman").await;
    let receipt = roman.send(request(&roman, "tim")).await;
    assert_eq!(receipt.outcome, Outcome::Delivered);
    assert_eq!(receipt.recipients[0].agent_id, id("tim"));
    let delivery = next(&mut inbox).await;
    assert_eq!(
        (delivery.sender.as_str(), delivery.attempt, Some(delivery.seq)),
        ("roman", 1, receipt.seq)
    );
    bus.stop().await;
}

#[tokio::test]
async fn sending_under_another_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (_tim, _hears) = listener(&bus, "tim").await;
    let roman = mute(&bus, "roman").await;
    let mut forged = request(&roman, "tim");
    forged.from.agent_id = id("tim");
    let receipt = roman.send(forged).await;
    assert_eq!(receipt.outcome, Outcome::Forbidden);
    assert!(receipt.reason.unwrap().contains("`roman`"));
    assert!(bus.attach("system", |_: Delivery| async {}).await.is_err());
    assert!(bus.attach("no such name", |_: Delivery| async {}).await.is_err());
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
    let (_tim, mut inbox) = listener(&bus, "tim").await;
    assert_eq!(Some(next(&mut inbox).await.seq), first.seq);
    assert_eq!(Some(next(&mut inbox).await.seq), second.seq);
    bus.stop().await;

    let bus = start(&folder, quick());
    let (_tim, mut inbox) = listener(&bus, "tim").await;
    let roman = mute(&bus, "roman").await;
    let third = roman.send(request(&roman, "tim")).await;
    assert_eq!(Some(next(&mut inbox).await.seq), third.seq, "what was handled never comes again");
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
async fn limits_refuse_with_the_time_to_wait_and_a_full_inbox_is_named() {
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
async fn a_broadcast_is_one_record_with_an_outcome_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let bus = start(&folder, quick());
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let roman = mute(&bus, "roman").await;
    let mut message = serde_json::to_value(roman.compose(None, Kind::Broadcast.example())).unwrap();
    message["payload"]["scope"] = "org".into();
    let receipt = roman.send_json(message.to_string().as_bytes()).await;
    let reached: Vec<_> =
        receipt.recipients.iter().map(|r| (r.agent_id.as_str(), r.outcome)).collect();
    assert_eq!(reached, [("tim", Outcome::Delivered), ("tony", Outcome::Delivered)]);
    assert_eq!(Some(next(&mut tim_inbox).await.seq), receipt.seq);
    assert_eq!(Some(next(&mut tony_inbox).await.seq), receipt.seq);
    message["messageId"] =
        roman.compose(None, Kind::Broadcast.example()).message_id.to_string().into();
    message["payload"]["scope"] = "c-suite".into();
    let unknown = roman.send_json(message.to_string().as_bytes()).await;
    assert_eq!((unknown.outcome, unknown.recipients.len()), (Outcome::Delivered, 0));
    bus.stop().await;
}
