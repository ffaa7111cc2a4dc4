//! Limits: a refusal names the exact moment from which the same message passes, costs nothing,
//! and concerns no other agent.

use std::num::NonZeroU32;

use a2a_protocol::{Priority, Receipt};

use super::*;

fn n(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// When the message would pass according to the bus, in milliseconds of the day's clock.
fn passes_at(receipt: &Receipt) -> i64 {
    let wait = receipt.retry_after_ms.expect("a refusal says when");
    receipt.time.to_utc().timestamp_millis() + i64::try_from(wait).unwrap()
}

#[tokio::test]
async fn every_refusal_names_the_same_moment_and_costs_nothing() {
    let folder = folder();
    // One a minute: nothing is refilled while the test runs, however slow the machine.
    let rates =
        RateSettings { per_pair_per_minute: n(1), pair_burst: n(3), ..RateSettings::unlimited() };
    let settings = || BusSettings { rates, ..quick() };
    let bus = start(&folder, settings());
    let (roman, _) = listener(&bus, "roman").await;
    let (tony, _) = listener(&bus, "tony").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(word(&roman, "tim").await);
        next_is(&mut tim_inbox, sent.last().unwrap()).await;
    }
    // A bucket of three that fills by one a minute has a permit again a minute after the first.
    let expected = sent[0].receipt().time.to_utc().timestamp_millis() + 60_000;
    let message = roman.write("tim", StatusReport::in_progress("One more")).unwrap();
    for _ in 0..50 {
        let refused = roman.send(message.clone()).await;
        assert_eq!(refused.outcome, Outcome::RateLimited);
        assert!((passes_at(&refused) - expected).abs() <= 5, "{refused:?}, not {expected}");
    }
    let again = roman.send(message_of(&bus, &sent[0])).await;
    assert_eq!(again.outcome, Outcome::Duplicate, "what was accepted before costs nothing");

    // Neither roman's other conversations nor the others who write to tim are affected.
    word(&roman, "tony").await;
    next_is(&mut tim_inbox, &word(&tony, "tim").await).await;

    // A refusal leaves no trace of the message: its id is free, on the next bus as well.
    let bus = restart(bus, &folder, settings()).await;
    let (roman, _) = listener(&bus, "roman").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let accepted = roman.post(message).await.unwrap();
    assert_eq!(accepted.outcome(), Outcome::Delivered);
    next_is(&mut tim_inbox, &accepted).await;
    bus.stop().await;
}

/// The message as the log has it.
fn message_of(bus: &Bus, sent: &Sent) -> Envelope {
    let record = only_record(bus, sent.message_id());
    openclaw_a2a::parse_message(record["message"].to_string().as_bytes()).unwrap()
}

#[tokio::test]
async fn rate_limited_sender_passes_when_its_time_has_come() {
    let folder = folder();
    let rates = RateSettings {
        per_agent_per_minute: n(600),
        agent_burst: n(1),
        ..RateSettings::unlimited()
    };
    let settings = || BusSettings { rates, ..quick() };
    let mut bus = start(&folder, settings());
    for _ in 0..2 {
        let (roman, _) = listener(&bus, "roman").await;
        let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
        // The first may come too late to be refused, but not ten in a row.
        let mut waited = 0;
        for _ in 0..10 {
            let message = roman.write("tim", StatusReport::in_progress("Next")).unwrap();
            let mut receipt = roman.send(message.clone()).await;
            // Asking on costs nothing, and the time to wait only ever becomes shorter.
            let mut answered = 100;
            while receipt.outcome == Outcome::RateLimited {
                let wait = receipt.retry_after_ms.unwrap();
                assert!((1..=answered).contains(&wait), "{wait} after {answered}");
                (answered, waited) = (wait, waited + 1);
                receipt = roman.send(message.clone()).await;
            }
            assert_eq!(receipt.outcome, Outcome::Delivered, "{receipt:?}");
            assert_eq!(Some(next(&mut tim_inbox).await.seq), receipt.seq);
        }
        assert!(waited > 0, "600 a minute is not reached");
        bus = restart(bus, &folder, settings()).await;
    }
    bus.stop().await;
}

#[tokio::test]
async fn an_agents_limit_counts_all_its_messages_and_urgent_ones_have_their_own() {
    let folder = folder();
    let rates = RateSettings {
        per_agent_per_minute: n(1),
        agent_burst: n(5),
        urgent_per_minute: n(2),
        ..RateSettings::unlimited()
    };
    let settings = || BusSettings { rates, ..quick() };
    let mut bus = start(&folder, settings());
    for _ in 0..2 {
        for name in ["tim", "tony", "sandy"] {
            absent(&bus, name).await;
        }
        let (roman, _) = listener(&bus, "roman").await;
        let send = async |to: &str, priority| {
            let message = StatusReport::in_progress("Next").priority(priority);
            roman.send(roman.write(to, message).unwrap()).await
        };
        for to in ["tim", "tony"] {
            assert!(send(to, Priority::Urgent).await.outcome.is_accepted());
        }
        let third = send("sandy", Priority::Urgent).await;
        assert_eq!(third.outcome, Outcome::RateLimited);
        assert!(third.reason.unwrap().contains("2 urgent messages a minute"));
        for to in ["tim", "tony", "sandy"] {
            assert!(send(to, Priority::High).await.outcome.is_accepted(), "{to}");
        }
        let sixth = send("tim", Priority::Low).await;
        assert_eq!(sixth.outcome, Outcome::RateLimited);
        assert!(sixth.reason.unwrap().contains("roman may send 1 messages a minute"));
        bus = restart(bus, &folder, settings()).await;
    }
    bus.stop().await;
}
