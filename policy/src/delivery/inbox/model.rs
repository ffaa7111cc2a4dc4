//! The inbox against a naive list model, under random operations.

use std::time::Duration;

use a2a_protocol::{AgentId, Priority};
use proptest::prelude::*;

use super::{AfterFailure, DeliveryKey, Inbox, QueueEntry, RetryPolicy};

const PRIORITIES: [Priority; 4] =
    [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low];
const SENDERS: [&str; 3] = ["roman", "tim", "tony"];
const RETRY: RetryPolicy = RetryPolicy {
    attempts: 3,
    initial_backoff: Duration::from_millis(2),
    max_backoff: Duration::from_millis(20),
};

/// Lists that are searched from the front.
#[derive(Default)]
struct Model {
    waiting: Vec<QueueEntry<u64>>,
    passed_over: [u32; 4],
    backing_off: Vec<(Duration, QueueEntry<u64>)>,
    in_flight: Vec<QueueEntry<u64>>,
}

impl Model {
    fn end_backoffs(&mut self, now: Duration) {
        let (ended, rest) = self.backing_off.drain(..).partition(|(at, _)| *at <= now);
        self.backing_off = rest;
        self.waiting.extend(Vec::into_iter(ended).map(|(_, entry)| entry));
        self.waiting.sort_by_key(|entry| entry.seq);
    }

    fn is_ready(&self, d: &QueueEntry<u64>) -> bool {
        !self.backing_off.iter().any(|(_, p)| p.by == d.by && p.priority == d.priority)
    }

    fn lease(&mut self, now: Duration) -> Option<DeliveryKey> {
        self.end_backoffs(now);
        let first = PRIORITIES.map(|priority| {
            self.waiting.iter().position(|d| d.priority == priority && self.is_ready(d))
        });
        let lanes = || (0..4).filter(|lane| first[*lane].is_some());
        let next = lanes().find(|lane| self.passed_over[*lane] >= 8).or(lanes().next())?;
        for lane in lanes().filter(|lane| *lane > next) {
            self.passed_over[lane] += 1;
        }
        self.passed_over[next] = 0;
        let taken = self.waiting.remove(first[next]?);
        Some(self.start_attempt(taken))
    }

    fn lease_even(&mut self, now: Duration) -> Option<DeliveryKey> {
        self.end_backoffs(now);
        let found = PRIORITIES.iter().find_map(|priority| {
            self.waiting
                .iter()
                .position(|d| d.priority == *priority && d.seq % 2 == 0 && self.is_ready(d))
        });
        let taken = self.waiting.remove(found?);
        Some(self.start_attempt(taken))
    }

    fn start_attempt(&mut self, mut entry: QueueEntry<u64>) -> DeliveryKey {
        entry.attempts += 1;
        let seq = entry.seq;
        self.in_flight.push(entry);
        seq
    }

    fn take_in_flight(&mut self, key: DeliveryKey) -> Option<QueueEntry<u64>> {
        let at = self.in_flight.iter().position(|d| d.seq == key)?;
        Some(self.in_flight.remove(at))
    }

    fn fail(&mut self, key: DeliveryKey, now: Duration) -> Option<Option<Duration>> {
        let entry = self.take_in_flight(key)?;
        if entry.attempts >= RETRY.attempts {
            return Some(None);
        }
        let at = now + RETRY.backoff_after(entry.attempts);
        self.backing_off.push((at, entry));
        Some(Some(at))
    }

    fn put_back(&mut self, key: DeliveryKey) {
        if let Some(mut entry) = self.take_in_flight(key) {
            entry.attempts -= 1;
            self.waiting.push(entry);
            self.waiting.sort_by_key(|entry| entry.seq);
        }
    }

    fn acknowledge(&mut self, key: DeliveryKey) -> bool {
        self.take_in_flight(key).is_some() || self.remove(key, |d| d.attempts > 0)
    }

    fn remove(&mut self, key: DeliveryKey, fits: impl Fn(&QueueEntry<u64>) -> bool) -> bool {
        let before = self.waiting.len() + self.backing_off.len();
        self.backing_off.retain(|(_, d)| d.seq != key);
        self.waiting.retain(|d| d.seq != key || !fits(d));
        self.waiting.len() + self.backing_off.len() < before
    }

    fn idle(&self) -> Vec<DeliveryKey> {
        let backing_off = self.backing_off.iter().map(|(_, d)| d.seq);
        let mut idle: Vec<_> = self.waiting.iter().map(|d| d.seq).chain(backing_off).collect();
        idle.sort_unstable();
        idle
    }

    /// Entries in backoff by its end, then waiting entries by priority.
    fn peek(&self) -> Vec<DeliveryKey> {
        let mut backing_off: Vec<_> = self.backing_off.iter().map(|(at, d)| (*at, d.seq)).collect();
        backing_off.sort_unstable();
        let waiting = PRIORITIES.iter().flat_map(|priority| {
            self.waiting.iter().filter(move |d| d.priority == *priority).map(|d| d.seq)
        });
        backing_off.into_iter().map(|(_, seq)| seq).chain(waiting).collect()
    }
}

#[derive(Debug, Clone)]
enum Op {
    /// The second field: whether its sequence number is below earlier ones.
    Arrive(usize, bool, usize),
    Lease,
    LeaseEven,
    Fail(usize),
    PutBack(usize),
    /// Of a sequence number, in any state.
    Acknowledge(u64),
    Withdraw(u64),
    Wait(u64),
    DrainIdle,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..3_usize, prop::bool::weighted(0.2), 0..4_usize)
            .prop_map(|(by, late, priority)| Op::Arrive(by, late, priority)),
        8 => Just(Op::Lease),
        1 => Just(Op::LeaseEven),
        5 => (0..8_usize).prop_map(Op::Fail),
        2 => (0..8_usize).prop_map(Op::PutBack),
        1 => (960..1_400_u64).prop_map(Op::Acknowledge),
        1 => (960..1_400_u64).prop_map(Op::Withdraw),
        4 => (0..6_u64).prop_map(Op::Wait),
        1 => Just(Op::DrainIdle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn inbox_random_operations_matches_naive_model(
        ops in prop::collection::vec(op(), 1..160),
    ) {
        let (mut inbox, mut model) = (Inbox::default(), Model::default());
        let (mut now, mut newest) = (Duration::ZERO, 1_000_u64);
        let minute = Duration::from_secs(60);
        for op in ops {
            match op {
                Op::Arrive(by, late, priority) => {
                    newest += 4;
                    let by: AgentId = SENDERS[by].parse().unwrap();
                    // Odd and below earlier numbers: moved from another session.
                    let seq = if late { newest - 37 } else { newest };
                    let priority = PRIORITIES[priority];
                    let entry = QueueEntry { seq, by, priority, attempts: 0, bytes: 1, item: seq };
                    model.waiting.push(entry.clone());
                    model.waiting.sort_by_key(|entry| entry.seq);
                    inbox.arrive(entry);
                }
                Op::Lease => {
                    let leased = inbox.lease(now, now + minute).map(|d| (d.seq, d.attempts));
                    let expected = model.lease(now);
                    let expected = expected.and_then(|_| model.in_flight.last().map(|d| (d.seq, d.attempts)));
                    prop_assert_eq!(leased, expected);
                }
                Op::LeaseEven => {
                    let leased = inbox.lease_if(now, now + minute, |seq| seq % 2 == 0);
                    prop_assert_eq!(leased.map(|d| d.seq), model.lease_even(now));
                }
                Op::Fail(which) => {
                    let Some(key) = model.in_flight.get(which).map(|d| d.seq) else { continue };
                    let after = inbox.fail(key, now, &RETRY).map(|after| match after {
                        AfterFailure::Retry { at, .. } => Some(at),
                        AfterFailure::DeadLetter(_) => None,
                    });
                    prop_assert_eq!(after, model.fail(key, now));
                }
                Op::PutBack(which) => {
                    let Some(key) = model.in_flight.get(which).map(|d| d.seq) else { continue };
                    inbox.put_back(key);
                    model.put_back(key);
                }
                Op::Acknowledge(key) => {
                    prop_assert_eq!(inbox.acknowledge(key).is_some(), model.acknowledge(key));
                }
                Op::Withdraw(key) => {
                    prop_assert_eq!(inbox.withdraw(key).is_some(), model.remove(key, |_| true));
                }
                Op::Wait(ms) => now += Duration::from_millis(ms),
                Op::DrainIdle => {
                    let idle: Vec<_> = inbox.drain_idle().iter().map(|d| d.seq).collect();
                    prop_assert_eq!(idle, model.idle());
                    model.waiting.clear();
                    model.backing_off.clear();
                    model.passed_over = [0; 4];
                }
            }
            prop_assert_eq!((inbox.in_flight(), inbox.in_flight_bytes()), (model.in_flight.len(), model.in_flight.len()));
            prop_assert_eq!(inbox.len(), model.in_flight.len() + model.idle().len());
            prop_assert_eq!(inbox.is_all_in_flight(), model.idle().is_empty());
            prop_assert_eq!(inbox.oldest().map(|d| d.seq), model.idle().first().copied());
            let listed = inbox.peek(usize::MAX);
            let listed: Vec<_> = listed[inbox.in_flight()..].iter().map(|(_, d)| d.seq).collect();
            prop_assert_eq!(&listed, &model.peek());
            let few: Vec<_> = inbox.peek(inbox.in_flight() + 3)[inbox.in_flight()..].iter().map(|(_, d)| d.seq).collect();
            prop_assert_eq!(&few[..], &listed[..few.len()]);
            prop_assert_eq!(few.len(), listed.len().min(3));
        }
    }
}
