//! One session's inbox: what waits, what is being handled, what is tried again and what is given up.
//!
//! ```text
//! (journal) ─▶ arrive ─▶ waiting ─lease─▶ out ─acknowledge─▶ gone
//!                           ▲              └─fail─▶ pause ──┐
//!                           └───────────────────────────────┤
//!                                          given up ◀───────┘ after the last attempt
//! ```
//!
//! While a message pauses, later ones of the same sender and priority wait behind it: order
//! per sender, recipient and priority holds across retries.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use a2a_protocol::{AgentId, Priority};

use crate::priority_queue::PriorityQueue;

/// The number of a message's record: unique within one inbox.
pub type DeliveryKey = u64;

/// How often a delivery is tried, and the pauses between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts before a message is given up.
    pub attempts: u32,
    /// The pause after the first failed attempt; each further one is four times as long.
    pub first_pause: Duration,
    /// No pause is longer.
    pub longest_pause: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    fn pause_after(&self, attempt: u32) -> Duration {
        let factor = 4u32.saturating_pow(attempt.saturating_sub(1));
        self.first_pause.saturating_mul(factor).min(self.longest_pause)
    }
}

/// A message on its way to one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry<T> {
    /// The number of the message's record.
    pub seq: DeliveryKey,
    /// The verified sender.
    pub by: AgentId,
    /// How soon it should be handled.
    pub priority: Priority,
    /// Attempts begun so far.
    pub attempts: u32,
    /// How large the message is.
    pub bytes: usize,
    /// The message.
    pub item: T,
}

/// What follows from a failed attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterFailure<T> {
    /// It is tried again at this moment.
    Retry {
        /// Since the bus started.
        at: Duration,
        /// The attempt that failed.
        attempt: u32,
    },
    /// That was the last attempt.
    GiveUp(QueueEntry<T>),
}

/// How a message in an inbox stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Handed out, to be acknowledged or failed before this moment.
    Out(Duration),
    /// An attempt failed; it is tried again at this moment.
    Pausing(Duration),
    /// It waits for its turn.
    Waiting,
}

struct Out<T> {
    delivery: QueueEntry<T>,
    until: Duration,
}

/// The inbox of one session.
pub struct Inbox<T> {
    waiting: PriorityQueue<T>,
    /// By the end of the pause.
    pausing: BTreeMap<(Duration, DeliveryKey), QueueEntry<T>>,
    /// When the pause of each of them ends.
    pauses: BTreeMap<DeliveryKey, Duration>,
    out: HashMap<DeliveryKey, Out<T>>,
    /// Bytes of the messages that are out.
    out_bytes: usize,
    /// No lease ends before this. It may be too early: what was handed out is many, and whoever
    /// waits until then finds out with [`Inbox::overdue`].
    first_lease: Option<Duration>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self {
            waiting: PriorityQueue::default(),
            pausing: BTreeMap::new(),
            pauses: BTreeMap::new(),
            out: HashMap::new(),
            out_bytes: 0,
            first_lease: None,
        }
    }
}

impl<T> Inbox<T> {
    /// Messages in it, in any state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.pausing.len() + self.out.len()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Messages being handled right now.
    #[must_use]
    pub fn out(&self) -> usize {
        self.out.len()
    }

    /// Bytes of the messages being handled right now.
    #[must_use]
    pub fn out_bytes(&self) -> usize {
        self.out_bytes
    }

    /// Whether nothing is left to hand out, now or later.
    #[must_use]
    pub fn is_all_out(&self) -> bool {
        self.waiting.is_empty() && self.pausing.is_empty()
    }

    /// The first `limit` messages in it, without touching any: what is out, what pauses, then what
    /// waits, in the order of their priorities.
    #[must_use]
    pub fn look(&self, limit: usize) -> Vec<(Standing, &QueueEntry<T>)> {
        let mut out: Vec<_> = self.out.values().collect();
        out.sort_by_key(|out| out.delivery.seq);
        let out = out.into_iter().map(|out| (Standing::Out(out.until), &out.delivery));
        let pausing = self.pausing.iter().map(|((at, _), d)| (Standing::Pausing(*at), d));
        let mut seen: Vec<_> = out.chain(pausing).take(limit).collect();
        let waiting = self.waiting.in_order(limit - seen.len());
        seen.extend(waiting.into_iter().map(|delivery| (Standing::Waiting, delivery)));
        seen
    }

    /// Of what nobody is handling, what came first.
    #[must_use]
    pub fn oldest(&self) -> Option<&QueueEntry<T>> {
        let pausing = self.pauses.first_key_value().map(|(seq, at)| (*at, *seq));
        let pausing = pausing.and_then(|place| self.pausing.get(&place));
        self.waiting.oldest().into_iter().chain(pausing).min_by_key(|delivery| delivery.seq)
    }

    /// Adds a message where its number says: just accepted, after a restart, or from another
    /// session.
    pub fn arrive(&mut self, delivery: QueueEntry<T>) {
        self.waiting.insert(delivery);
    }

    /// Hands out what comes next, to be acknowledged or failed before `until`.
    pub fn lease(&mut self, now: Duration, until: Duration) -> Option<&QueueEntry<T>> {
        self.end_pauses(now);
        let delivery = self.waiting.pop()?;
        Some(self.hand_out(delivery, until))
    }

    /// The same for the first that `fits`, out of turn.
    pub fn lease_if(
        &mut self,
        now: Duration,
        until: Duration,
        fits: impl Fn(&T) -> bool,
    ) -> Option<&QueueEntry<T>> {
        self.end_pauses(now);
        let delivery = self.waiting.pop_if(fits)?;
        Some(self.hand_out(delivery, until))
    }

    fn hand_out(&mut self, mut delivery: QueueEntry<T>, until: Duration) -> &QueueEntry<T> {
        delivery.attempts += 1;
        self.lease_until(until);
        self.out_bytes += delivery.bytes;
        let out = Out { delivery, until };
        &self.out.entry(out.delivery.seq).insert_entry(out).into_mut().delivery
    }

    fn lease_until(&mut self, until: Duration) {
        let first = self.first_lease.filter(|_| !self.out.is_empty());
        self.first_lease = Some(first.map_or(until, |first| first.min(until)));
    }

    /// What was handed out under `key` and not settled yet.
    #[must_use]
    pub fn get_out(&self, key: DeliveryKey) -> Option<&QueueEntry<T>> {
        self.out.get(&key).map(|out| &out.delivery)
    }

    /// The key of a message that was handed out at least once and is not settled.
    #[must_use]
    pub fn find(&self, fits: impl Fn(&T) -> bool) -> Option<DeliveryKey> {
        let out = self.out.values().map(|out| &out.delivery);
        let tried = self.waiting.iter().filter(|delivery| delivery.attempts > 0);
        out.chain(self.pausing.values()).chain(tried).find(|d| fits(&d.item)).map(|d| d.seq)
    }

    /// The recipient is done with the message, wherever it stands.
    pub fn acknowledge(&mut self, key: DeliveryKey) -> Option<QueueEntry<T>> {
        if let Some(delivery) = self.take_out(key) {
            return Some(delivery);
        }
        self.end_pause(key).or_else(|| self.waiting.remove(key, |delivery| delivery.attempts > 0))
    }

    fn take_out(&mut self, key: DeliveryKey) -> Option<QueueEntry<T>> {
        let delivery = self.out.remove(&key)?.delivery;
        self.out_bytes -= delivery.bytes;
        Some(delivery)
    }

    /// Takes a message out that nobody is handling, tried before or not.
    pub fn withdraw(&mut self, key: DeliveryKey) -> Option<QueueEntry<T>> {
        self.end_pause(key).or_else(|| self.waiting.remove(key, |_| true))
    }

    /// Takes a message out that pauses; what waits behind it does so no more.
    fn end_pause(&mut self, key: DeliveryKey) -> Option<QueueEntry<T>> {
        let at = self.pauses.remove(&key)?;
        let delivery = self.pausing.remove(&(at, key))?;
        self.waiting.resume(delivery.priority, &delivery.by);
        Some(delivery)
    }

    /// The attempt failed: the message pauses and is tried again, or is given up.
    pub fn fail(
        &mut self,
        key: DeliveryKey,
        now: Duration,
        retry: &RetryPolicy,
    ) -> Option<AfterFailure<T>> {
        let delivery = self.take_out(key)?;
        let attempt = delivery.attempts;
        if attempt >= retry.attempts {
            return Some(AfterFailure::GiveUp(delivery));
        }
        let at = now + retry.pause_after(attempt);
        self.waiting.pause(delivery.priority, &delivery.by);
        self.pauses.insert(key, at);
        self.pausing.insert((at, key), delivery);
        Some(AfterFailure::Retry { at, attempt })
    }

    /// Puts back what was handed out and never begun, as if it had not been handed out.
    pub fn put_back(&mut self, key: DeliveryKey) {
        if let Some(mut delivery) = self.take_out(key) {
            delivery.attempts = delivery.attempts.saturating_sub(1);
            self.waiting.insert(delivery);
        }
    }

    /// Gives what was handed out under `key` more time.
    pub fn extend(&mut self, key: DeliveryKey, until: Duration) {
        if let Some(out) = self.out.get_mut(&key) {
            out.until = until;
            self.lease_until(until);
        }
    }

    /// Takes out everything that is not being handled, in the order in which it came.
    pub fn drain_idle(&mut self) -> Vec<QueueEntry<T>> {
        let mut idle: Vec<_> = std::mem::take(&mut self.pausing).into_values().collect();
        self.pauses.clear();
        idle.append(&mut std::mem::take(&mut self.waiting).drain());
        idle.sort_by_key(|delivery| delivery.seq);
        idle
    }

    /// Takes out up to `most` of what is not being handled.
    pub fn take_idle(&mut self, most: usize) -> Vec<QueueEntry<T>> {
        let next = std::iter::from_fn(|| {
            // What pauses goes first: until its pause has ended, others wait behind it.
            let pausing = self.pausing.first_key_value().map(|((_, key), _)| *key);
            pausing.and_then(|key| self.end_pause(key)).or_else(|| self.waiting.pop())
        });
        next.take(most).collect()
    }

    /// What was handed out and neither acknowledged nor failed in time.
    pub fn overdue(&mut self, now: Duration) -> Vec<DeliveryKey> {
        if self.first_lease.is_none_or(|first| first > now) {
            return Vec::new();
        }
        self.first_lease = self.out.values().map(|out| out.until).min();
        self.out.iter().filter(|(_, out)| out.until <= now).map(|(key, _)| *key).collect()
    }

    /// When to look again, since nothing is due before: the end of a pause or of a lease, or of one
    /// that was settled meanwhile.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let pause = self.pausing.keys().next().map(|(at, _)| *at);
        let lease = self.first_lease.filter(|_| !self.out.is_empty());
        pause.into_iter().chain(lease).min()
    }

    /// Empties it, in the order in which things would have come.
    pub fn drain(&mut self) -> Vec<QueueEntry<T>> {
        let mut all = self.drain_idle();
        self.out_bytes = 0;
        all.extend(std::mem::take(&mut self.out).into_values().map(|out| out.delivery));
        all.sort_by_key(|delivery| delivery.seq);
        all
    }

    fn end_pauses(&mut self, now: Duration) {
        while let Some((at, key)) = self.pausing.first_key_value().map(|(place, _)| *place)
            && at <= now
            && let Some(delivery) = self.end_pause(key)
        {
            self.waiting.insert(delivery);
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn delivery(seq: u64, by: &str) -> QueueEntry<()> {
        QueueEntry {
            seq,
            by: by.parse().unwrap(),
            priority: Priority::Normal,
            attempts: 0,
            bytes: 10,
            item: (),
        }
    }

    fn inbox_of(senders: &[&str]) -> Inbox<()> {
        let mut inbox = Inbox::default();
        for (seq, by) in (1..).zip(senders) {
            inbox.arrive(delivery(seq, by));
        }
        inbox
    }

    fn next(inbox: &mut Inbox<()>, now: Duration) -> Option<u64> {
        inbox.lease(now, now + 60 * SECOND).map(|d| d.seq)
    }

    #[test]
    fn the_oldest_is_the_first_that_nobody_is_handling() {
        let mut inbox = inbox_of(&["roman", "tim", "ann"]);
        let oldest = |inbox: &Inbox<()>| inbox.oldest().map(|delivery| delivery.seq);
        inbox.arrive(QueueEntry { priority: Priority::Urgent, ..delivery(4, "bob") });
        assert_eq!(oldest(&inbox), Some(1));
        assert_eq!(next(&mut inbox, Duration::ZERO), Some(4));
        assert_eq!(next(&mut inbox, Duration::ZERO), Some(1));
        assert_eq!(oldest(&inbox), Some(2), "the first is in somebody's hands");
        assert_eq!((inbox.out(), inbox.out_bytes()), (2, 20));
        inbox.fail(1, Duration::ZERO, &RetryPolicy::default());
        assert_eq!(oldest(&inbox), Some(1), "it pauses");
        assert_eq!((inbox.out(), inbox.out_bytes()), (1, 10));
    }

    #[test]
    fn a_failed_message_is_tried_again_after_growing_pauses_and_then_given_up() {
        let mut inbox = inbox_of(&["roman"]);
        let retry = RetryPolicy::default();
        let mut now = Duration::ZERO;
        for pause_ms in [500, 2_000, 8_000, 32_000] {
            assert_eq!(next(&mut inbox, now), Some(1));
            let at = now + Duration::from_millis(pause_ms);
            assert!(
                matches!(inbox.fail(1, now, &retry), Some(AfterFailure::Retry { at: t, .. }) if t == at)
            );
            assert_eq!(inbox.next_due(), Some(at));
            assert_eq!(next(&mut inbox, at - Duration::from_nanos(1)), None);
            now = at;
        }
        assert_eq!(next(&mut inbox, now), Some(1));
        assert!(
            matches!(inbox.fail(1, now, &retry), Some(AfterFailure::GiveUp(d)) if d.attempts == 5)
        );
        assert!(inbox.is_empty());
    }

    #[test]
    fn later_messages_of_the_same_sender_wait_behind_a_pausing_one() {
        let mut inbox = inbox_of(&["roman", "roman", "tim"]);
        assert_eq!(next(&mut inbox, Duration::ZERO), Some(1));
        inbox.fail(1, Duration::ZERO, &RetryPolicy::default());
        assert_eq!(next(&mut inbox, Duration::ZERO), Some(3));
        assert_eq!(next(&mut inbox, Duration::ZERO), None);
        assert_eq!(next(&mut inbox, SECOND), Some(1));
        assert_eq!(next(&mut inbox, SECOND), Some(2));
    }

    #[test]
    fn several_that_come_back_are_in_their_order_again() {
        let quick = RetryPolicy { first_pause: Duration::ZERO, ..RetryPolicy::default() };
        for back in [[1, 2, 3], [3, 2, 1], [2, 3, 1]] {
            let mut inbox = inbox_of(&["roman", "roman", "roman", "roman"]);
            for fails in [true, false] {
                for seq in 1..=3 {
                    assert_eq!(next(&mut inbox, SECOND), Some(seq), "{back:?}");
                }
                for seq in back {
                    match fails {
                        true => drop(inbox.fail(seq, SECOND, &quick)),
                        false => inbox.put_back(seq),
                    }
                }
            }
            let order: Vec<_> = std::iter::from_fn(|| next(&mut inbox, SECOND)).collect();
            assert_eq!(order, [1, 2, 3, 4], "{back:?}");
        }
    }

    #[test]
    fn an_acknowledgement_counts_even_after_the_lease_ran_out() {
        let mut inbox = inbox_of(&["roman", "roman"]);
        next(&mut inbox, Duration::ZERO);
        assert!(inbox.overdue(59 * SECOND).is_empty());
        assert_eq!(inbox.overdue(60 * SECOND), [1]);
        inbox.fail(1, 60 * SECOND, &RetryPolicy::default());
        assert_eq!(inbox.acknowledge(1).map(|d| d.seq), Some(1));
        assert_eq!(next(&mut inbox, 61 * SECOND), Some(2));
        assert_eq!(inbox.acknowledge(2).map(|d| d.seq), Some(2));
        assert_eq!(inbox.acknowledge(2), None);
    }

    #[test]
    fn the_next_look_may_come_too_early_but_never_too_late() {
        let mut inbox = inbox_of(&["roman", "tim", "tony"]);
        next(&mut inbox, Duration::ZERO);
        next(&mut inbox, 40 * SECOND);
        assert_eq!(inbox.next_due(), Some(60 * SECOND));
        inbox.acknowledge(1);
        assert!(inbox.next_due() <= Some(100 * SECOND));
        assert!(inbox.overdue(60 * SECOND).is_empty());
        assert_eq!(inbox.next_due(), Some(100 * SECOND), "whoever looks knows better");
        inbox.extend(2, 300 * SECOND);
        inbox.overdue(100 * SECOND);
        assert_eq!(inbox.next_due(), Some(300 * SECOND));
        inbox.acknowledge(2);
        assert_eq!(inbox.next_due(), None);
        next(&mut inbox, 400 * SECOND);
        assert_eq!(inbox.next_due(), Some(460 * SECOND), "what has ended does not count");
    }

    #[test]
    fn looking_shows_how_everything_stands_and_changes_nothing() {
        let mut inbox = inbox_of(&["roman", "tim", "tony"]);
        next(&mut inbox, Duration::ZERO);
        next(&mut inbox, Duration::ZERO);
        inbox.fail(2, Duration::ZERO, &RetryPolicy::default());
        let seen = |inbox: &Inbox<()>| -> Vec<_> {
            inbox.look(usize::MAX).into_iter().map(|(how, d)| (how, d.seq, d.attempts)).collect()
        };
        let first = seen(&inbox);
        let half = Duration::from_millis(500);
        let expected = [
            (Standing::Out(60 * SECOND), 1, 1),
            (Standing::Pausing(half), 2, 1),
            (Standing::Waiting, 3, 0),
        ];
        assert_eq!(first, expected);
        assert_eq!(seen(&inbox), expected);
    }

    #[test]
    fn what_was_never_handed_out_cannot_be_acknowledged() {
        let mut inbox = inbox_of(&["roman"]);
        assert_eq!(inbox.acknowledge(1), None);
        assert_eq!(inbox.len(), 1);
    }

    #[test]
    fn what_is_idle_is_taken_a_few_at_a_time_also_behind_a_pause() {
        let mut inbox = inbox_of(&["roman", "roman", "tim", "roman"]);
        next(&mut inbox, Duration::ZERO);
        inbox.fail(1, Duration::ZERO, &RetryPolicy::default());
        assert_eq!(next(&mut inbox, Duration::ZERO), Some(3));
        let mut taken = |most| inbox.take_idle(most).iter().map(|d| d.seq).collect::<Vec<_>>();
        assert_eq!([taken(2), taken(2), taken(2)], [vec![1, 2], vec![4], vec![]]);
        assert_eq!((inbox.len(), inbox.next_due()), (1, Some(60 * SECOND)));
    }

    #[test]
    fn draining_keeps_the_order_and_the_attempts() {
        let mut inbox = inbox_of(&["roman", "tim", "tony"]);
        next(&mut inbox, Duration::ZERO);
        next(&mut inbox, Duration::ZERO);
        inbox.fail(1, Duration::ZERO, &RetryPolicy::default());
        inbox.put_back(2);
        let drained: Vec<_> = inbox.drain().iter().map(|d| (d.seq, d.attempts)).collect();
        assert_eq!(drained, [(1, 1), (2, 0), (3, 0)]);
        assert!(inbox.is_empty());
    }
}
