//! Rows 11 and 12: a flooding sender gets the time to retry, fills neither the log nor the
//! others' inboxes, and cannot make everything urgent.

use std::sync::Arc;

use a2a_protocol::{Envelope, Outcome, Priority};
use openclaw_a2a::{Agent, BusSettings, Delivery, RateSettings, StatusReport};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::unbounded_channel;

use super::log_lines;
use crate::scenarios::*;
use crate::server::{Server, message};

/// Refusals of one sender and kind that are written one by one, and how many a second after.
const WRITTEN: usize = 1_000;
const A_SECOND: usize = 10;
const FLOOD: usize = 5_000;

#[tokio::test]
async fn a_flood_is_limited_counted_and_costs_the_others_nothing() {
    let folder = folder();
    let bus = start(&folder, BusSettings { rates: RateSettings::default(), ..quick() });
    let (roman, _) = listener(&bus, "roman").await;
    let (tony, _) = listener(&bus, "tony").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let began = std::time::Instant::now();
    let flood = tokio::spawn(async move {
        let mut refused = 0;
        for _ in 0..FLOOD {
            let message = roman.write("tim", StatusReport::in_progress("Me again")).unwrap();
            let receipt = roman.send(message).await;
            match receipt.outcome {
                Outcome::RateLimited => {
                    assert!(receipt.retry_after_ms.is_some_and(|ms| (1..=1_000).contains(&ms)));
                    refused += 1;
                }
                other => assert!(other.is_accepted(), "{other}"),
            }
        }
        refused
    });
    // An honest sender within its limits, meanwhile.
    let mut honest = Vec::new();
    for i in 0..20 {
        let sent = tony.send_status_update("tim", StatusReport::in_progress(format!("Part {i}")));
        honest.push(sent.await.unwrap().seq().unwrap());
    }
    let mut received = Vec::new();
    while received.len() < honest.len() {
        let delivery = next(&mut tim_inbox).await;
        if delivery.sender == id("tony") {
            received.push(delivery.seq);
        }
    }
    assert_eq!(received, honest, "every one of them, in order");
    let refused: usize = flood.await.unwrap();
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    assert!(refused >= FLOOD - 40 - 2 * seconds, "{refused}");
    bus.stop().await;

    let lines = log_lines(folder.path());
    let limited = |line: &&Value| line["by"] == "roman" && line["outcome"] == "rate_limited";
    let written = lines.iter().filter(limited).count();
    assert!(written <= WRITTEN + A_SECOND * seconds, "{written} in {seconds} s");
    let suppressed = lines.iter().filter(|line| line["event"] == "suppressed");
    let counted = suppressed.map(|line| {
        assert_eq!(line["agentId"], "roman");
        usize::try_from(line["count"].as_u64().unwrap()).unwrap()
    });
    assert_eq!(written + counted.sum::<usize>(), refused, "nothing unseen");
}

#[test]
fn a_flood_over_http_is_429_with_the_time_to_wait() {
    let folder = folder();
    let server = Server::start(folder.path());
    assert!(server.inbox("tim", "").is_empty());
    let mut limited = 0;
    for i in 0..60 {
        let answer = server.send(&message("roman", "tim", &format!("Remark {i}")));
        if answer.status == 429 {
            limited += 1;
            let wait = answer.body["retryAfterMs"].as_u64().unwrap();
            assert!((1..=1_000).contains(&wait), "{wait}");
            assert_eq!(answer.retry_after.as_deref(), Some("1"));
            assert_eq!(answer.body["code"], "rate_limited");
        }
    }
    assert!(limited > 0);
    server.accepted(&message("tony", "tim", "An honest word"));
}

#[test]
fn sender_of_urgent_messages_reaches_a_quota_and_can_still_send_normally() {
    let folder = folder();
    let server = Server::start(folder.path());
    assert!(server.inbox("tim", "").is_empty());
    let urgent = |from: &str, i: usize| {
        let mut sent = message(from, "tim", &format!("Urgent {i}"));
        sent["priority"] = json!("urgent");
        sent
    };
    let answers: Vec<_> = (0..15).map(|i| server.send(&urgent("roman", i))).collect();
    assert!(answers[..12].iter().all(|answer| answer.status == 202), "{answers:?}");
    let refused = answers.iter().find(|answer| answer.status == 429).expect("a quota");
    assert!(refused.body["detail"].as_str().unwrap().contains("12 urgent messages a minute"));
    server.accepted(&message("roman", "tim", "Not so urgent"));
    server.accepted(&urgent("tony", 0));
}

#[tokio::test]
async fn low_moves_behind_many_urgent_ones() {
    let folder = folder();
    let bus = start(&folder, quick());
    let gate = Arc::new(Semaphore::new(0));
    let (received, mut incoming) = unbounded_channel();
    let (begun, mut has_begun) = unbounded_channel();
    let held = Arc::clone(&gate);
    bus.attach("tim", move |delivery: Delivery| {
        let (gate, received, begun) = (Arc::clone(&held), received.clone(), begun.clone());
        async move {
            begun.send(()).ok();
            gate.acquire().await.unwrap().forget();
            received.send(delivery.message.priority).ok();
        }
    })
    .await
    .unwrap();
    let (roman, _) = listener(&bus, "roman").await;
    let (tony, _) = listener(&bus, "tony").await;
    let send = async |from: &Agent, priority| {
        let message = from.write("tim", StatusReport::in_progress("-")).unwrap();
        from.post(Envelope { priority, ..message }).await.unwrap();
    };
    send(&roman, Priority::Urgent).await;
    next(&mut has_begun).await; // tim is busy, and everything after this waits
    for _ in 0..100 {
        send(&roman, Priority::Urgent).await;
    }
    for _ in 0..5 {
        send(&tony, Priority::Low).await;
    }
    gate.add_permits(106);
    let mut order = Vec::new();
    for _ in 0..106 {
        order.push(next(&mut incoming).await);
    }
    let low: Vec<_> = (0..106).filter(|i| order[*i] == Priority::Low).collect();
    assert_eq!(low.len(), 5);
    assert!(low[0] <= 12 && low[4] <= 60, "low came at {low:?} of 106");
    bus.stop().await;
}
