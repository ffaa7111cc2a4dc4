//! Cost of leasing the next message of an inbox that holds paused and queued ones.

use std::time::{Duration, Instant};

use a2a_policy::{Inbox, QueueEntry, RetryPolicy};
use a2a_protocol::Priority;

use crate::sample;

const LEASES: u64 = 100_000;
const MINUTE: Duration = Duration::from_secs(60);

/// Messages per second that are enqueued, leased and acknowledged, in an inbox with this many
/// senders in backoff and this many messages queued behind them.
pub fn lease_rate(pausing: u64, waiting: u64) -> f64 {
    let (mut inbox, now) = (Inbox::default(), Duration::ZERO);
    let senders: Vec<_> =
        (0..pausing.max(1)).map(|i| sample::agent(&format!("sender-{i}"))).collect();
    let delivery = |seq: u64, by: usize| QueueEntry {
        seq,
        by: senders[by % senders.len()].clone(),
        priority: Priority::Normal,
        attempts: 0,
        bytes: 1_000,
        item: (),
    };
    let slow = RetryPolicy { initial_backoff: MINUTE, ..RetryPolicy::default() };
    for seq in 0..pausing {
        inbox.arrive(delivery(seq, seq as usize));
        inbox.lease(now, MINUTE);
        inbox.fail(seq, now, &slow);
    }
    (0..waiting).for_each(|i| inbox.arrive(delivery(pausing + i, i as usize)));
    let other = sample::agent("other");
    let began = Instant::now();
    for seq in pausing + waiting..pausing + waiting + LEASES {
        inbox.arrive(QueueEntry { by: other.clone(), ..delivery(seq, 0) });
        let next = inbox.lease(now, MINUTE).map(|next| next.seq);
        assert_eq!(next, Some(seq));
        inbox.acknowledge(seq);
    }
    LEASES as f64 / began.elapsed().as_secs_f64()
}

/// Seconds to restore an inbox of so many messages, in the order of a restart.
pub fn restored(count: u64) -> f64 {
    let (mut inbox, by) = (Inbox::default(), sample::agent("roman"));
    let began = Instant::now();
    for seq in 0..count {
        let by = by.clone();
        let (priority, attempts) = (Priority::Normal, 0);
        inbox.arrive(QueueEntry { seq, by, priority, attempts, bytes: 1_000, item: () });
    }
    assert_eq!(inbox.len() as u64, count);
    began.elapsed().as_secs_f64()
}

/// Measures and prints the rows of the inbox.
pub fn rows() {
    let [mut empty, mut full, mut restore] = [const { Vec::new() }; 3];
    for _ in 0..5 {
        empty.push(lease_rate(0, 0));
        full.push(lease_rate(600, 5_400));
        restore.push(restored(40_000));
    }
    let [empty, full, restore] = [empty, full, restore].map(crate::median);
    println!("{:<44} {empty:>12.0}", "next message, empty inbox (a second)");
    println!(
        "{:<44} {full:>12.0}  {:.2} of empty",
        "  … 600 pause, 5,400 wait (a second)",
        full / empty
    );
    println!("{:<44} {:>12.2}", "40,000 messages back in an inbox (ms)", restore * 1e3);
}
