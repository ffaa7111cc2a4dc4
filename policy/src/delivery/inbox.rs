//! One session's inbox: entries that wait, are in flight, or are in backoff.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use a2a_protocol::{AgentId, Priority};

use super::RetryPolicy;
use super::priority_queue::PriorityQueue;

/// The sequence number of a message's record: unique within one inbox.
pub type DeliveryKey = u64;

/// A message for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry<T> {
    /// The sequence number of the message's record.
    pub seq: DeliveryKey,
    /// The authenticated sender.
    pub by: AgentId,
    /// The priority.
    pub priority: Priority,
    /// Attempts started so far.
    pub attempts: u32,
    /// The size of the message.
    pub bytes: usize,
    /// The message.
    pub item: T,
}

/// The result of a failed attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterFailure<T> {
    /// It is redelivered at this time.
    Retry {
        /// Time since the bus started.
        at: Duration,
        /// The number of the failed attempt.
        attempt: u32,
    },
    /// That was the last attempt: the message is a dead letter.
    DeadLetter(QueueEntry<T>),
}

/// The state of a message in an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// In flight: leased until this time, to be acknowledged or failed before it.
    InFlight(Duration),
    /// An attempt failed; it is redelivered at this time.
    BackingOff(Duration),
    /// It waits for delivery.
    Waiting,
}

struct Leased<T> {
    entry: QueueEntry<T>,
    until: Duration,
}

/// The inbox of one session.
pub struct Inbox<T> {
    waiting: PriorityQueue<T>,
    /// By the end of the backoff.
    backing_off: BTreeMap<(Duration, DeliveryKey), QueueEntry<T>>,
    /// The end of the backoff per entry.
    backoff_ends: BTreeMap<DeliveryKey, Duration>,
    in_flight: HashMap<DeliveryKey, Leased<T>>,
    /// The total size of the entries in flight.
    in_flight_bytes: usize,
    /// A lower bound for the end of the first lease. It may be too early, because updating it
    /// exactly costs a scan; [`Inbox::overdue`] corrects it.
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
    /// The number of messages, in any state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.backing_off.len() + self.in_flight.len()
    }

    /// Whether it contains no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of messages in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The total size of the messages in flight.
    #[must_use]
    pub fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }

    /// Whether there is nothing to lease, now or later.
    #[must_use]
    pub fn is_all_in_flight(&self) -> bool {
        self.waiting.is_empty() && self.backing_off.is_empty()
    }

    /// The first `limit` messages, without changing their state: in flight, in backoff, then
    /// waiting in order of priority.
    #[must_use]
    pub fn peek(&self, limit: usize) -> Vec<(DeliveryState, &QueueEntry<T>)> {
        let mut in_flight: Vec<_> = self.in_flight.values().collect();
        in_flight.sort_by_key(|in_flight| in_flight.entry.seq);
        let in_flight = in_flight
            .into_iter()
            .map(|in_flight| (DeliveryState::InFlight(in_flight.until), &in_flight.entry));
        let backing_off =
            self.backing_off.iter().map(|((at, _), d)| (DeliveryState::BackingOff(*at), d));
        let mut listed: Vec<_> = in_flight.chain(backing_off).take(limit).collect();
        let waiting = self.waiting.in_order(limit - listed.len());
        listed.extend(waiting.into_iter().map(|entry| (DeliveryState::Waiting, entry)));
        listed
    }

    /// The oldest message that is not in flight.
    #[must_use]
    pub fn oldest(&self) -> Option<&QueueEntry<T>> {
        let backing_off = self.backoff_ends.first_key_value().map(|(seq, at)| (*at, *seq));
        let backing_off = backing_off.and_then(|place| self.backing_off.get(&place));
        self.waiting.oldest().into_iter().chain(backing_off).min_by_key(|entry| entry.seq)
    }

    /// Adds a message in order of its sequence number: accepted just now, recovered, or moved from
    /// another session.
    pub fn arrive(&mut self, entry: QueueEntry<T>) {
        self.waiting.insert(entry);
    }

    /// Leases the next message until `until`, to be acknowledged or failed before.
    pub fn lease(&mut self, now: Duration, until: Duration) -> Option<&QueueEntry<T>> {
        self.end_backoffs(now);
        let entry = self.waiting.pop()?;
        Some(self.start_attempt(entry, until))
    }

    /// Leases the first message that `fits`, out of order.
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

    /// The message in flight with this key.
    #[must_use]
    pub fn get_in_flight(&self, key: DeliveryKey) -> Option<&QueueEntry<T>> {
        self.in_flight.get(&key).map(|in_flight| &in_flight.entry)
    }

    /// The key of a message that was attempted at least once and is not settled.
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

    /// Removes a message that the recipient acknowledged, in any state after its first attempt.
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

    /// Removes a message that is not in flight, attempted before or not.
    pub fn withdraw(&mut self, key: DeliveryKey) -> Option<QueueEntry<T>> {
        self.end_backoff(key).or_else(|| self.waiting.remove(key, |_| true))
    }

    /// Ends the backoff of a message and removes it; later messages of the sender are released.
    fn end_backoff(&mut self, key: DeliveryKey) -> Option<QueueEntry<T>> {
        let at = self.backoff_ends.remove(&key)?;
        let entry = self.backing_off.remove(&(at, key))?;
        self.waiting.release(entry.priority, &entry.by);
        Some(entry)
    }

    /// Ends a failed attempt: the message goes into backoff, or becomes a dead letter.
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

    /// Returns a leased message whose attempt never started; the attempt is not counted.
    pub fn put_back(&mut self, key: DeliveryKey) {
        if let Some(mut entry) = self.take_in_flight(key) {
            entry.attempts = entry.attempts.saturating_sub(1);
            self.waiting.insert(entry);
        }
    }

    /// Extends the lease of a message.
    pub fn extend(&mut self, key: DeliveryKey, until: Duration) {
        if let Some(in_flight) = self.in_flight.get_mut(&key) {
            in_flight.until = until;
            self.lease_until(until);
        }
    }

    /// Removes every message that is not in flight, in order of arrival.
    pub fn drain_idle(&mut self) -> Vec<QueueEntry<T>> {
        let mut idle: Vec<_> = std::mem::take(&mut self.backing_off).into_values().collect();
        self.backoff_ends.clear();
        idle.append(&mut std::mem::take(&mut self.waiting).drain());
        idle.sort_by_key(|entry| entry.seq);
        idle
    }

    /// Removes up to `most` messages that are not in flight.
    pub fn take_idle(&mut self, most: usize) -> Vec<QueueEntry<T>> {
        let next = std::iter::from_fn(|| {
            // Backoff first: until it has ended, others wait behind it.
            let backing_off = self.backing_off.first_key_value().map(|((_, key), _)| *key);
            backing_off.and_then(|key| self.end_backoff(key)).or_else(|| self.waiting.pop())
        });
        next.take(most).collect()
    }

    /// The messages in flight whose lease has expired.
    pub fn expired_leases(&mut self, now: Duration) -> Vec<DeliveryKey> {
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

    /// When to check again: the end of a backoff or a lease, possibly of one that is settled
    /// already.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let backoff = self.backing_off.keys().next().map(|(at, _)| *at);
        let lease = self.first_lease.filter(|_| !self.in_flight.is_empty());
        backoff.into_iter().chain(lease).min()
    }

    /// Removes every message, in order of arrival.
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
mod tests;
