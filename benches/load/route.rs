//! End to end: 64 senders wait for durable receipts, and the messages are handled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use hdrhistogram::Histogram;
use openclaw_a2a::{Agent, Bus, BusSettings, Delivery};
use tokio::sync::Notify;

use crate::{SENDERS, per_second, sample};

const EACH: usize = 500;
const RECIPIENTS: usize = 16;

pub async fn typed(latency: &mut Histogram<u64>) -> f64 {
    run(false, sample::settings(), Some(latency)).await
}

/// Without ledger and breaker.
pub async fn plain() -> f64 {
    with(false, false).await
}

/// With ledger or breaker switched on or off.
pub async fn with(ledger: bool, breaker: bool) -> f64 {
    let mut settings = sample::settings();
    settings.ledger.enabled = ledger;
    settings.breaker.enabled = breaker;
    run(false, settings, None).await
}

pub async fn json() -> f64 {
    run(true, sample::settings(), None).await
}

async fn run(from_json: bool, settings: BusSettings, latency: Option<&mut Histogram<u64>>) -> f64 {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let bus = Bus::builder().state_dir(folder.path()).settings(settings).start();
    let bus = bus.unwrap_or_else(|error| panic!("{error}"));
    let handled = Arc::new((AtomicUsize::new(0), Notify::new()));
    for i in 0..RECIPIENTS {
        let handled = Arc::clone(&handled);
        let handler = move |_: Delivery| {
            if handled.0.fetch_add(1, Relaxed) + 1 == SENDERS * EACH {
                handled.1.notify_one();
            }
            async {}
        };
        attach(&bus, &format!("r{i}"), handler).await;
    }
    let mut work = Vec::new();
    for i in 0..SENDERS {
        let sender = attach(&bus, &format!("s{i}"), |_: Delivery| async {}).await;
        let to = sample::agent(&format!("r{}", i % RECIPIENTS));
        let messages: Vec<_> = (0..EACH).map(|_| sample::message(sender.id(), &to)).collect();
        let bytes: Vec<_> = messages.iter().map(a2a_protocol::Envelope::to_json).collect();
        work.push((sender, messages, bytes));
    }
    let start = Instant::now();
    let tasks: Vec<_> = work
        .into_iter()
        .map(|(sender, messages, bytes)| {
            tokio::spawn(async move {
                let mut times = Vec::with_capacity(EACH);
                for (message, bytes) in messages.into_iter().zip(bytes) {
                    let begun = Instant::now();
                    let receipt = if from_json {
                        sender.send_json(&bytes).await
                    } else {
                        sender.send(message).await
                    };
                    assert!(receipt.outcome.is_accepted(), "{receipt:?}");
                    times.push(begun.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap_or_else(|error| panic!("{error}")));
    }
    handled.1.notified().await;
    let elapsed = start.elapsed();
    bus.stop().await;
    if let Some(latency) = latency {
        for time in times {
            latency.saturating_record(time.as_micros() as u64);
        }
    }
    per_second(SENDERS * EACH, elapsed)
}

pub async fn attach<Args: Send + 'static>(
    bus: &Bus,
    name: &str,
    handler: impl openclaw_a2a::Handler<Args>,
) -> Agent {
    bus.attach(name, handler).await.unwrap_or_else(|error| panic!("{error}"))
}
