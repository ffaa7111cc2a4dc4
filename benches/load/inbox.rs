//! What the next message of an inbox costs, beside what pauses and waits in it.

use std::time::{Duration, Instant};

use a2a_policy::{Inbox, QueueEntry, RetryPolicy};
use a2a_protocol::Priority;

use crate::sample;

const LOOKS: u64 = 100_000;
const MINUTE: Duration = Duration::from_secs(60);

/// Looks a second, each with a message that arrives, is handed out and acknowledged: in an empty
/// inbox, and in one in which a message of each of so many senders pauses and so many wait behind.
pub fn looks(pausing: u64, waiting: u64) -> f64 {
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
    let slow = RetryPolicy { first_pause: MINUTE, ..RetryPolicy::default() };
    for seq in 0..pausing {
        inbox.arrive(delivery(seq, seq as usize));
        inbox.lease(now, MINUTE);
        inbox.fail(seq, now, &slow);
    }
    (0..waiting).for_each(|i| inbox.arrive(delivery(pausing + i, i as usize)));
    let other = sample::agent("other");
    let began = Instant::now();
    for seq in pausing + waiting..pausing + waiting + LOOKS {
        inbox.arrive(QueueEntry { by: other.clone(), ..delivery(seq, 0) });
        let next = inbox.lease(now, MINUTE).map(|next| next.seq);
        assert_eq!(next, Some(seq));
        inbox.acknowledge(seq);
    }
    LOOKS as f64 / began.elapsed().as_secs_f64()
}

/// Seconds until so many messages are back in an inbox, in the order of a restart.
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

/// The rows of the inbox alone.
pub fn rows() {
    let [mut empty, mut full, mut restore] = [const { Vec::new() }; 3];
    for _ in 0..5 {
        empty.push(looks(0, 0));
        full.push(looks(600, 5_400));
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
