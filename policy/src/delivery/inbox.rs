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

use super::RetryPolicy;
use super::priority_queue::PriorityQueue;

/// The number of a message's record: unique within one inbox.
pub type DeliveryKey = u64;

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
    DeadLetter(QueueEntry<T>),
}

/// How a message in an inbox stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// Handed out, to be acknowledged or failed before this moment.
    Leased(Duration),
    /// An attempt failed; it is tried again at this moment.
    BackingOff(Duration),
    /// It waits for its turn.
    Waiting,
}

struct Leased<T> {
    entry: QueueEntry<T>,
    until: Duration,
}

/// The inbox of one session.
pub struct Inbox<T> {
    waiting: PriorityQueue<T>,
    /// By the end of the pause.
    backing_off: BTreeMap<(Duration, DeliveryKey), QueueEntry<T>>,
    /// When the pause of each of them ends.
    backoff_ends: BTreeMap<DeliveryKey, Duration>,
    in_flight: HashMap<DeliveryKey, Leased<T>>,
    /// Bytes of the messages that are out.
    in_flight_bytes: usize,
    /// No lease ends before this. It may be too early: what was handed out is many, and whoever
    /// waits until then finds out with [`Inbox::overdue`].
    first_lease: Option<Duration>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self {
            waiting: PriorityQueue::default(),
            backing_off: BTreeMap::new(),
            backoff_ends: BTreeMap::new(),
            in_flight: HashMap::new(),
            in_flight_bytes: 0,
            first_lease: None,
        }
    }
}

impl<T> Inbox<T> {
    /// Messages in it, in any state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.backing_off.len() + self.in_flight.len()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Messages being handled right now.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Bytes of the messages being handled right now.
    #[must_use]
    pub fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }

    /// Whether nothing is left to hand out, now or later.
    #[must_use]
    pub fn is_all_in_flight(&self) -> bool {
        self.waiting.is_empty() && self.backing_off.is_empty()
    }

    /// The first `limit` messages in it, without touching any: what is out, what pauses, then what
    /// waits, in the order of their priorities.
    #[must_use]
    pub fn peek(&self, limit: usize) -> Vec<(DeliveryState, &QueueEntry<T>)> {
        let mut in_flight: Vec<_> = self.in_flight.values().collect();
        in_flight.sort_by_key(|in_flight| in_flight.entry.seq);
        let in_flight = in_flight
            .into_iter()
            .map(|in_flight| (DeliveryState::Leased(in_flight.until), &in_flight.entry));
        let backing_off =
            self.backing_off.iter().map(|((at, _), d)| (DeliveryState::BackingOff(*at), d));
        let mut listed: Vec<_> = in_flight.chain(backing_off).take(limit).collect();
        let waiting = self.waiting.in_order(limit - listed.len());
        listed.extend(waiting.into_iter().map(|entry| (DeliveryState::Waiting, entry)));
        listed
    }

    /// Of what nobody is handling, what came first.
    #[must_use]
    pub fn oldest(&self) -> Option<&QueueEntry<T>> {
        let backing_off = self.backoff_ends.first_key_value().map(|(seq, at)| (*at, *seq));
        let backing_off = backing_off.and_then(|place| self.backing_off.get(&place));
        self.waiting.oldest().into_iter().chain(backing_off).min_by_key(|entry| entry.seq)
    }

    /// Adds a message where its number says: just accepted, after a restart, or from another
    /// session.
    pub fn arrive(&mut self, entry: QueueEntry<T>) {
        self.waiting.insert(entry);
    }

    /// Hands out what comes next, to be acknowledged or failed before `until`.
    pub fn lease(&mut self, now: Duration, until: Duration) -> Option<&QueueEntry<T>> {
        self.end_backoffs(now);
        let entry = self.waiting.pop()?;
        Some(self.start_attempt(entry, until))
    }

    /// The same for the first that `fits`, out of turn.
    pub fn lease_if(
        &mut self,
        now: Duration,
        until: Duration,
        fits: impl Fn(&T) -> bool,
    ) -> Option<&QueueEntry<T>> {
        self.end_backoffs(now);
        let entry = self.waiting.pop_if(fits)?;
        Some(self.start_attempt(entry, until))
    }

    fn start_attempt(&mut self, mut entry: QueueEntry<T>, until: Duration) -> &QueueEntry<T> {
        entry.attempts += 1;
        self.lease_until(until);
        self.in_flight_bytes += entry.bytes;
        let in_flight = Leased { entry, until };
        &self.in_flight.entry(in_flight.entry.seq).insert_entry(in_flight).into_mut().entry
    }

    fn lease_until(&mut self, until: Duration) {
        let first = self.first_lease.filter(|_| !self.in_flight.is_empty());
        self.first_lease = Some(first.map_or(until, |first| first.min(until)));
    }

    /// What was handed out under `key` and not settled yet.
    #[must_use]
    pub fn get_in_flight(&self, key: DeliveryKey) -> Option<&QueueEntry<T>> {
        self.in_flight.get(&key).map(|in_flight| &in_flight.entry)
    }

    /// The key of a message that was handed out at least once and is not settled.
    #[must_use]
    pub fn find(&self, fits: impl Fn(&T) -> bool) -> Option<DeliveryKey> {
        let in_flight = self.in_flight.values().map(|in_flight| &in_flight.entry);
        let tried = self.waiting.iter().filter(|entry| entry.attempts > 0);
        in_flight
            .chain(self.backing_off.values())
            .chain(tried)
            .find(|d| fits(&d.item))
            .map(|d| d.seq)
    }

    /// The recipient is done with the message, wherever it stands.
    pub fn acknowledge(&mut self, key: DeliveryKey) -> Option<QueueEntry<T>> {
        if let Some(entry) = self.take_in_flight(key) {
            return Some(entry);
        }
        self.end_backoff(key).or_else(|| self.waiting.remove(key, |entry| entry.attempts > 0))
    }

    fn take_in_flight(&mut self, key: DeliveryKey) -> Option<QueueEntry<T>> {
        let entry = self.in_flight.remove(&key)?.entry;
        self.in_flight_bytes -= entry.bytes;
        Some(entry)
    }

    /// Takes a message out that nobody is handling, tried before or not.
    pub fn withdraw(&mut self, key: DeliveryKey) -> Option<QueueEntry<T>> {
        self.end_backoff(key).or_else(|| self.waiting.remove(key, |_| true))
    }

    /// Takes a message out that pauses; what waits behind it does so no more.
    fn end_backoff(&mut self, key: DeliveryKey) -> Option<QueueEntry<T>> {
        let at = self.backoff_ends.remove(&key)?;
        let entry = self.backing_off.remove(&(at, key))?;
        self.waiting.release(entry.priority, &entry.by);
        Some(entry)
    }

    /// The attempt failed: the message pauses and is tried again, or is given up.
    pub fn fail(
        &mut self,
        key: DeliveryKey,
        now: Duration,
        retry: &RetryPolicy,
    ) -> Option<AfterFailure<T>> {
        let entry = self.take_in_flight(key)?;
        let attempt = entry.attempts;
        if attempt >= retry.attempts {
            return Some(AfterFailure::DeadLetter(entry));
        }
        let at = now + retry.backoff_after(attempt);
        self.waiting.hold(entry.priority, &entry.by);
        self.backoff_ends.insert(key, at);
        self.backing_off.insert((at, key), entry);
        Some(AfterFailure::Retry { at, attempt })
    }

    /// Puts back what was handed out and never begun, as if it had not been handed out.
    pub fn put_back(&mut self, key: DeliveryKey) {
        if let Some(mut entry) = self.take_in_flight(key) {
            entry.attempts = entry.attempts.saturating_sub(1);
            self.waiting.insert(entry);
        }
    }

    /// Gives what was handed out under `key` more time.
    pub fn extend(&mut self, key: DeliveryKey, until: Duration) {
        if let Some(in_flight) = self.in_flight.get_mut(&key) {
            in_flight.until = until;
            self.lease_until(until);
        }
    }

    /// Takes out everything that is not being handled, in the order in which it came.
    pub fn drain_idle(&mut self) -> Vec<QueueEntry<T>> {
        let mut idle: Vec<_> = std::mem::take(&mut self.backing_off).into_values().collect();
        self.backoff_ends.clear();
        idle.append(&mut std::mem::take(&mut self.waiting).drain());
        idle.sort_by_key(|entry| entry.seq);
        idle
    }

    /// Takes out up to `most` of what is not being handled.
    pub fn take_idle(&mut self, most: usize) -> Vec<QueueEntry<T>> {
        let next = std::iter::from_fn(|| {
            // What pauses goes first: until its pause has ended, others wait behind it.
            let backing_off = self.backing_off.first_key_value().map(|((_, key), _)| *key);
            backing_off.and_then(|key| self.end_backoff(key)).or_else(|| self.waiting.pop())
        });
        next.take(most).collect()
    }

    /// What was handed out and neither acknowledged nor failed in time.
    pub fn overdue(&mut self, now: Duration) -> Vec<DeliveryKey> {
        if self.first_lease.is_none_or(|first| first > now) {
            return Vec::new();
        }
        self.first_lease = self.in_flight.values().map(|in_flight| in_flight.until).min();
        self.in_flight
            .iter()
            .filter(|(_, in_flight)| in_flight.until <= now)
            .map(|(key, _)| *key)
            .collect()
    }

    /// When to look again, since nothing is due before: the end of a pause or of a lease, or of one
    /// that was settled meanwhile.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let backoff = self.backing_off.keys().next().map(|(at, _)| *at);
        let lease = self.first_lease.filter(|_| !self.in_flight.is_empty());
        backoff.into_iter().chain(lease).min()
    }

    /// Empties it, in the order in which things would have come.
    pub fn drain(&mut self) -> Vec<QueueEntry<T>> {
        let mut all = self.drain_idle();
        self.in_flight_bytes = 0;
        all.extend(
            std::mem::take(&mut self.in_flight).into_values().map(|in_flight| in_flight.entry),
        );
        all.sort_by_key(|entry| entry.seq);
        all
    }

    fn end_backoffs(&mut self, now: Duration) {
        while let Some((at, key)) = self.backing_off.first_key_value().map(|(place, _)| *place)
            && at <= now
            && let Some(entry) = self.end_backoff(key)
        {
            self.waiting.insert(entry);
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn entry(seq: u64, by: &str) -> QueueEntry<()> {
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
            inbox.arrive(entry(seq, by));
        }
        inbox
    }

    fn next(inbox: &mut Inbox<()>, now: Duration) -> Option<u64> {
        inbox.lease(now, now + 60 * SECOND).map(|d| d.seq)
    }

    #[test]
    fn the_oldest_is_the_first_that_nobody_is_handling() {
        let mut inbox = inbox_of(&["roman", "tim", "ann"]);
        let oldest = |inbox: &Inbox<()>| inbox.oldest().map(|entry| entry.seq);
        inbox.arrive(QueueEntry { priority: Priority::Urgent, ..entry(4, "bob") });
        assert_eq!(oldest(&inbox), Some(1));
        assert_eq!(next(&mut inbox, Duration::ZERO), Some(4));
        assert_eq!(next(&mut inbox, Duration::ZERO), Some(1));
        assert_eq!(oldest(&inbox), Some(2), "the first is in somebody's hands");
        assert_eq!((inbox.in_flight(), inbox.in_flight_bytes()), (2, 20));
        inbox.fail(1, Duration::ZERO, &RetryPolicy::default());
        assert_eq!(oldest(&inbox), Some(1), "it pauses");
        assert_eq!((inbox.in_flight(), inbox.in_flight_bytes()), (1, 10));
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
            matches!(inbox.fail(1, now, &retry), Some(AfterFailure::DeadLetter(d)) if d.attempts == 5)
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
        let listed = |inbox: &Inbox<()>| -> Vec<_> {
            inbox.peek(usize::MAX).into_iter().map(|(how, d)| (how, d.seq, d.attempts)).collect()
        };
        let first = listed(&inbox);
        let half = Duration::from_millis(500);
        let expected = [
            (DeliveryState::Leased(60 * SECOND), 1, 1),
            (DeliveryState::BackingOff(half), 2, 1),
            (DeliveryState::Waiting, 3, 0),
        ];
        assert_eq!(first, expected);
        assert_eq!(listed(&inbox), expected);
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
