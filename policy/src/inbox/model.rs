//! The inbox against a model that looks at everything each time, under random treatment.

use std::time::Duration;

use a2a_protocol::{AgentId, Priority};
use proptest::prelude::*;

use super::{AfterFailure, DeliveryKey, Inbox, QueueEntry, RetryPolicy};

const PRIORITIES: [Priority; 4] =
    [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low];
const SENDERS: [&str; 3] = ["roman", "tim", "tony"];
const RETRY: RetryPolicy = RetryPolicy {
    attempts: 3,
    first_pause: Duration::from_millis(2),
    longest_pause: Duration::from_millis(20),
};

/// Lists that are searched from the front.
#[derive(Default)]
struct Model {
    waiting: Vec<QueueEntry<u64>>,
    passed_over: [u32; 4],
    pausing: Vec<(Duration, QueueEntry<u64>)>,
    out: Vec<QueueEntry<u64>>,
}

impl Model {
    fn end_pauses(&mut self, now: Duration) {
        let (ended, rest) = self.pausing.drain(..).partition(|(at, _)| *at <= now);
        self.pausing = rest;
        self.waiting.extend(Vec::into_iter(ended).map(|(_, delivery)| delivery));
        self.waiting.sort_by_key(|delivery| delivery.seq);
    }

    fn is_ready(&self, d: &QueueEntry<u64>) -> bool {
        !self.pausing.iter().any(|(_, p)| p.by == d.by && p.priority == d.priority)
    }

    fn lease(&mut self, now: Duration) -> Option<DeliveryKey> {
        self.end_pauses(now);
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
        Some(self.hand_out(taken))
    }

    fn lease_even(&mut self, now: Duration) -> Option<DeliveryKey> {
        self.end_pauses(now);
        let found = PRIORITIES.iter().find_map(|priority| {
            self.waiting
                .iter()
                .position(|d| d.priority == *priority && d.seq % 2 == 0 && self.is_ready(d))
        });
        let taken = self.waiting.remove(found?);
        Some(self.hand_out(taken))
    }

    fn hand_out(&mut self, mut delivery: QueueEntry<u64>) -> DeliveryKey {
        delivery.attempts += 1;
        let seq = delivery.seq;
        self.out.push(delivery);
        seq
    }

    fn take_out(&mut self, key: DeliveryKey) -> Option<QueueEntry<u64>> {
        let at = self.out.iter().position(|d| d.seq == key)?;
        Some(self.out.remove(at))
    }

    fn fail(&mut self, key: DeliveryKey, now: Duration) -> Option<Option<Duration>> {
        let delivery = self.take_out(key)?;
        if delivery.attempts >= RETRY.attempts {
            return Some(None);
        }
        let at = now + RETRY.pause_after(delivery.attempts);
        self.pausing.push((at, delivery));
        Some(Some(at))
    }

    fn put_back(&mut self, key: DeliveryKey) {
        if let Some(mut delivery) = self.take_out(key) {
            delivery.attempts -= 1;
            self.waiting.push(delivery);
            self.waiting.sort_by_key(|delivery| delivery.seq);
        }
    }

    fn acknowledge(&mut self, key: DeliveryKey) -> bool {
        self.take_out(key).is_some() || self.remove(key, |d| d.attempts > 0)
    }

    fn remove(&mut self, key: DeliveryKey, fits: impl Fn(&QueueEntry<u64>) -> bool) -> bool {
        let before = self.waiting.len() + self.pausing.len();
        self.pausing.retain(|(_, d)| d.seq != key);
        self.waiting.retain(|d| d.seq != key || !fits(d));
        self.waiting.len() + self.pausing.len() < before
    }

    fn idle(&self) -> Vec<DeliveryKey> {
        let pausing = self.pausing.iter().map(|(_, d)| d.seq);
        let mut idle: Vec<_> = self.waiting.iter().map(|d| d.seq).chain(pausing).collect();
        idle.sort_unstable();
        idle
    }

    /// What pauses by the end of its pause, then what waits by priority.
    fn look(&self) -> Vec<DeliveryKey> {
        let mut pausing: Vec<_> = self.pausing.iter().map(|(at, d)| (*at, d.seq)).collect();
        pausing.sort_unstable();
        let waiting = PRIORITIES.iter().flat_map(|priority| {
            self.waiting.iter().filter(move |d| d.priority == *priority).map(|d| d.seq)
        });
        pausing.into_iter().map(|(_, seq)| seq).chain(waiting).collect()
    }
}

#[derive(Debug, Clone)]
enum Op {
    /// The second says whether its number is below those that came before.
    Arrive(usize, bool, usize),
    Lease,
    LeaseEven,
    Fail(usize),
    PutBack(usize),
    /// Of a number, wherever it stands.
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
    fn an_inbox_does_what_a_list_searched_from_the_front_would(
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
                    // Odd, and below numbers that came before: one from another session.
                    let seq = if late { newest - 37 } else { newest };
                    let priority = PRIORITIES[priority];
                    let delivery = QueueEntry { seq, by, priority, attempts: 0, bytes: 1, item: seq };
                    model.waiting.push(delivery.clone());
                    model.waiting.sort_by_key(|delivery| delivery.seq);
                    inbox.arrive(delivery);
                }
                Op::Lease => {
                    let leased = inbox.lease(now, now + minute).map(|d| (d.seq, d.attempts));
                    let expected = model.lease(now);
                    let expected = expected.and_then(|_| model.out.last().map(|d| (d.seq, d.attempts)));
                    prop_assert_eq!(leased, expected);
                }
                Op::LeaseEven => {
                    let leased = inbox.lease_if(now, now + minute, |seq| seq % 2 == 0);
                    prop_assert_eq!(leased.map(|d| d.seq), model.lease_even(now));
                }
                Op::Fail(which) => {
                    let Some(key) = model.out.get(which).map(|d| d.seq) else { continue };
                    let after = inbox.fail(key, now, &RETRY).map(|after| match after {
                        AfterFailure::Retry { at, .. } => Some(at),
                        AfterFailure::GiveUp(_) => None,
                    });
                    prop_assert_eq!(after, model.fail(key, now));
                }
                Op::PutBack(which) => {
                    let Some(key) = model.out.get(which).map(|d| d.seq) else { continue };
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
                    model.pausing.clear();
                    model.passed_over = [0; 4];
                }
            }
            prop_assert_eq!((inbox.out(), inbox.out_bytes()), (model.out.len(), model.out.len()));
            prop_assert_eq!(inbox.len(), model.out.len() + model.idle().len());
            prop_assert_eq!(inbox.is_all_out(), model.idle().is_empty());
            prop_assert_eq!(inbox.oldest().map(|d| d.seq), model.idle().first().copied());
            let seen = inbox.look(usize::MAX);
            let seen: Vec<_> = seen[inbox.out()..].iter().map(|(_, d)| d.seq).collect();
            prop_assert_eq!(&seen, &model.look());
            let few: Vec<_> = inbox.look(inbox.out() + 3)[inbox.out()..].iter().map(|(_, d)| d.seq).collect();
            prop_assert_eq!(&few[..], &seen[..few.len()]);
            prop_assert_eq!(few.len(), seen.len().min(3));
        }
    }
}
