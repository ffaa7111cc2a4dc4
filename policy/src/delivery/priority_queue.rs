//! Priority queue of waiting deliveries: urgent, high, normal, low, without starvation.
//!
//! One lane per priority, ordered by sequence number. While a message of a sender is in backoff,
//! later ones of that sender and priority are held in a queue of their own, so that a search for
//! the next message never passes over them twice:
//!
//! ```text
//! insert ─▶ lane ──front──▶ pop
//!             │ sender is held: moved once, when it reaches the front
//!             ▼
//!           sender queue ──head, once the sender is released──▶ pop (lowest number first)
//! ```
//!
//! Every operation costs O(log n), amortised: a message moves from its lane to its sender queue at
//! most once. While no sender is held, a lane is a plain queue.

use std::collections::{BTreeMap, VecDeque};

use a2a_protocol::{AgentId, Priority};

use super::inbox::{DeliveryKey, QueueEntry};

const LANES: usize = 4;
/// How often a waiting lane may be passed over before it is served.
const PATIENCE: u32 = 8;

/// Waiting deliveries by priority and sequence number.
///
/// Ageing counts turns instead of time: a lane that was passed over `PATIENCE` times in a row is
/// served next. So `low` moves even under an endless flood of `urgent`.
pub(crate) struct PriorityQueue<T> {
    lanes: [VecDeque<QueueEntry<T>>; LANES],
    passed_over: [u32; LANES],
    /// `None` while no sender is held, which is the normal case.
    held: Option<Box<HeldSenders<T>>>,
}

/// Queues of senders that are held, or were held while other messages waited.
struct HeldSenders<T> {
    senders: [BTreeMap<AgentId, SenderQueue<T>>; LANES],
    /// The lowest sequence number of each queue that is not held, with its sender.
    heads: [BTreeMap<DeliveryKey, AgentId>; LANES],
    /// The number of messages in all queues.
    len: usize,
}

/// The held messages of one sender and priority.
struct SenderQueue<T> {
    /// The number of the sender's messages in backoff; while it is not 0, the queue is held.
    holds: usize,
    waiting: BTreeMap<DeliveryKey, QueueEntry<T>>,
}

impl<T> Default for PriorityQueue<T> {
    fn default() -> Self {
        Self { lanes: Default::default(), passed_over: [0; LANES], held: None }
    }
}

impl<T> Default for HeldSenders<T> {
    fn default() -> Self {
        Self { senders: Default::default(), heads: Default::default(), len: 0 }
    }
}

impl<T> Default for SenderQueue<T> {
    fn default() -> Self {
        Self { holds: 0, waiting: BTreeMap::new() }
    }
}

/// Lane 0 is served first.
fn lane(priority: Priority) -> usize {
    match priority {
        Priority::Urgent => 0,
        Priority::High => 1,
        Priority::Normal => 2,
        Priority::Low => 3,
    }
}

impl<T> PriorityQueue<T> {
    /// Adds a message in order of its sequence number.
    pub(crate) fn insert(&mut self, entry: QueueEntry<T>) {
        let lane = lane(entry.priority);
        if let Some(held) = &mut self.held
            && held.senders[lane].contains_key(&entry.by)
        {
            return held.add(lane, entry);
        }
        let queue = &mut self.lanes[lane];
        // It is nearly always the newest.
        if queue.back().is_none_or(|last| last.seq < entry.seq) {
            return queue.push_back(entry);
        }
        let at = queue.partition_point(|other| other.seq < entry.seq);
        queue.insert(at, entry);
    }

    /// A message of this sender and priority is in backoff: holds the others.
    pub(crate) fn hold(&mut self, priority: Priority, by: &AgentId) {
        self.held.get_or_insert_default().hold(lane(priority), by);
    }

    /// A backoff of this sender and priority has ended.
    pub(crate) fn release(&mut self, priority: Priority, by: &AgentId) {
        if let Some(held) = &mut self.held {
            held.release(lane(priority), by);
        }
        self.drop_if_empty();
    }

    /// Removes the next message.
    pub(crate) fn pop(&mut self) -> Option<QueueEntry<T>> {
        let mut first = [None; LANES];
        for (lane, first) in first.iter_mut().enumerate() {
            *first = self.first(lane);
        }
        let waiting = |lane: &usize| first[*lane].is_some();
        let patient = (0..LANES).filter(waiting).find(|lane| self.passed_over[*lane] >= PATIENCE);
        let next = patient.or_else(|| (0..LANES).find(waiting))?;
        for lane in (next + 1..LANES).filter(waiting) {
            self.passed_over[lane] += 1;
        }
        self.passed_over[next] = 0;
        self.take(next, first[next]?)
    }

    /// The sequence number of the first message of a lane that may be delivered.
    fn first(&mut self, lane: usize) -> Option<DeliveryKey> {
        let queue = &mut self.lanes[lane];
        let Some(held) = &mut self.held else { return queue.front().map(|front| front.seq) };
        while let Some(front) = queue.front()
            && held.is_held(lane, &front.by)
            && let Some(front) = queue.pop_front()
        {
            held.add(lane, front);
        }
        let head = held.heads[lane].first_key_value().map(|(seq, _)| *seq);
        queue.front().map(|front| front.seq).into_iter().chain(head).min()
    }

    /// Removes the first message that `fits`, out of order, unless its sender is held.
    pub(crate) fn pop_if(&mut self, fits: impl Fn(&T) -> bool) -> Option<QueueEntry<T>> {
        (0..LANES).find_map(|lane| {
            let held = self.held.as_deref();
            let is_free = |d: &&QueueEntry<T>| {
                fits(&d.item) && !held.is_some_and(|held| held.is_held(lane, &d.by))
            };
            let queued = self.lanes[lane].iter().find(is_free).map(|found| found.seq);
            let senders = held.into_iter().flat_map(|held| held.senders[lane].values());
            let senders = senders.filter(|queue_of_sender| queue_of_sender.holds == 0);
            let held = senders.filter_map(|queue_of_sender| {
                queue_of_sender.waiting.values().find(|d| fits(&d.item))
            });
            let seq = held.map(|found| found.seq).chain(queued).min()?;
            self.take(lane, seq)
        })
    }

    /// Removes the message with this sequence number, in any lane, if it `fits`.
    pub(crate) fn remove(
        &mut self,
        seq: DeliveryKey,
        fits: impl Fn(&QueueEntry<T>) -> bool,
    ) -> Option<QueueEntry<T>> {
        let lane = (0..LANES).find(|lane| self.get(*lane, seq).is_some_and(&fits))?;
        self.take(lane, seq)
    }

    fn get(&self, lane: usize, seq: DeliveryKey) -> Option<&QueueEntry<T>> {
        let queue = &self.lanes[lane];
        let queued = queue.binary_search_by_key(&seq, |entry| entry.seq);
        if let Ok(at) = queued {
            return queue.get(at);
        }
        let senders = self.held.iter().flat_map(|held| held.senders[lane].values());
        senders.filter_map(|queue_of_sender| queue_of_sender.waiting.get(&seq)).next()
    }

    fn take(&mut self, lane: usize, seq: DeliveryKey) -> Option<QueueEntry<T>> {
        let queue = &mut self.lanes[lane];
        if let Ok(at) = queue.binary_search_by_key(&seq, |entry| entry.seq) {
            return queue.remove(at);
        }
        let taken = self.held.as_mut()?.take(lane, seq);
        self.drop_if_empty();
        taken
    }

    /// Without sender queues it is a plain queue again.
    fn drop_if_empty(&mut self) {
        if self.held.as_ref().is_some_and(|held| held.senders.iter().all(BTreeMap::is_empty)) {
            self.held = None;
        }
    }

    /// All waiting messages, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &QueueEntry<T>> {
        let senders =
            self.held.iter().flat_map(|held| held.senders.iter().flat_map(BTreeMap::values));
        self.lanes
            .iter()
            .flatten()
            .chain(senders.flat_map(|queue_of_sender| queue_of_sender.waiting.values()))
    }

    /// The first `limit` messages by priority and sequence number.
    pub(crate) fn in_order(&self, limit: usize) -> Vec<&QueueEntry<T>> {
        let mut all: Vec<_> = self.iter().collect();
        let place = |d: &&QueueEntry<T>| (lane(d.priority), d.seq);
        if all.len() > limit {
            all.select_nth_unstable_by_key(limit, place);
            all.truncate(limit);
        }
        all.sort_unstable_by_key(place);
        all
    }

    /// The waiting message with the lowest sequence number.
    pub(crate) fn oldest(&self) -> Option<&QueueEntry<T>> {
        let senders =
            self.held.iter().flat_map(|held| held.senders.iter().flat_map(BTreeMap::values));
        let heads = senders.filter_map(|queue_of_sender| queue_of_sender.waiting.values().next());
        let fronts = self.lanes.iter().filter_map(VecDeque::front);
        fronts.chain(heads).min_by_key(|entry| entry.seq)
    }

    /// Removes all messages, in no order.
    pub(crate) fn drain(&mut self) -> Vec<QueueEntry<T>> {
        let mut all: Vec<_> = self.lanes.iter_mut().flat_map(std::mem::take).collect();
        if let Some(held) = &mut self.held {
            all.extend(held.drain());
        }
        self.drop_if_empty();
        all
    }

    /// The number of waiting messages.
    pub(crate) fn len(&self) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.len);
        self.lanes.iter().map(VecDeque::len).sum::<usize>() + held
    }

    /// Whether no message waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> HeldSenders<T> {
    fn is_held(&self, lane: usize, by: &AgentId) -> bool {
        self.senders[lane].get(by).is_some_and(|queue_of_sender| queue_of_sender.holds > 0)
    }

    fn add(&mut self, lane: usize, entry: QueueEntry<T>) {
        let (seq, by) = (entry.seq, entry.by.clone());
        let queue_of_sender = self.senders[lane].entry(by.clone()).or_default();
        let head = queue_of_sender.waiting.keys().next().copied();
        queue_of_sender.waiting.insert(seq, entry);
        self.len += 1;
        if queue_of_sender.holds == 0 && head.is_none_or(|head| seq < head) {
            if let Some(head) = head {
                self.heads[lane].remove(&head);
            }
            self.heads[lane].insert(seq, by);
        }
    }

    fn hold(&mut self, lane: usize, by: &AgentId) {
        let queue_of_sender = self.senders[lane].entry(by.clone()).or_default();
        queue_of_sender.holds += 1;
        if let Some(head) = queue_of_sender.waiting.keys().next() {
            self.heads[lane].remove(head);
        }
    }

    fn release(&mut self, lane: usize, by: &AgentId) {
        let Some(queue_of_sender) = self.senders[lane].get_mut(by) else { return };
        queue_of_sender.holds = queue_of_sender.holds.saturating_sub(1);
        if queue_of_sender.holds > 0 {
            return;
        }
        match queue_of_sender.waiting.keys().next() {
            Some(head) => drop(self.heads[lane].insert(*head, by.clone())),
            None => drop(self.senders[lane].remove(by)),
        }
    }

    fn take(&mut self, lane: usize, seq: DeliveryKey) -> Option<QueueEntry<T>> {
        let by = match self.heads[lane].remove(&seq) {
            Some(by) => by,
            None => {
                let holds =
                    |queue_of_sender: &&SenderQueue<T>| queue_of_sender.waiting.contains_key(&seq);
                let queue_of_sender = self.senders[lane].values().find(holds)?;
                queue_of_sender.waiting.get(&seq)?.by.clone()
            }
        };
        let queue_of_sender = self.senders[lane].get_mut(&by)?;
        let taken = queue_of_sender.waiting.remove(&seq)?;
        self.len -= 1;
        match queue_of_sender.waiting.keys().next() {
            _ if queue_of_sender.holds > 0 => {}
            // Present already, unless the head was taken.
            Some(head) => drop(self.heads[lane].insert(*head, by)),
            None => drop(self.senders[lane].remove(&by)),
        }
        Some(taken)
    }

    /// Removes all messages; senders in backoff still hold later messages.
    fn drain(&mut self) -> Vec<QueueEntry<T>> {
        self.heads = Default::default();
        self.len = 0;
        let mut all = Vec::new();
        for senders in &mut self.senders {
            for queue_of_sender in senders.values_mut() {
                all.extend(std::mem::take(&mut queue_of_sender.waiting).into_values());
            }
            senders.retain(|_, queue_of_sender| queue_of_sender.holds > 0);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, priority: Priority) -> QueueEntry<()> {
        QueueEntry { seq, by: "roman".parse().unwrap(), priority, attempts: 0, bytes: 0, item: () }
    }

    fn next(queue: &mut PriorityQueue<()>) -> Option<u64> {
        queue.pop().map(|entry| entry.seq)
    }

    #[test]
    fn pop_mixed_priorities_orders_by_priority_then_number() {
        let mut queue = PriorityQueue::default();
        for (seq, priority) in
            [Priority::Low, Priority::Urgent, Priority::Normal, Priority::Urgent, Priority::High]
                .into_iter()
                .enumerate()
        {
            queue.insert(entry(seq as u64, priority));
        }
        let order: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(order, [1, 3, 4, 2, 0]);
    }

    #[test]
    fn low_priority_under_flood_of_urgent_is_served() {
        let mut queue = PriorityQueue::default();
        for seq in 0..10 {
            queue.insert(entry(seq, Priority::Low));
            queue.insert(entry(seq + 10, Priority::Normal));
        }
        let mut served = std::collections::HashMap::new();
        for seq in 0..100 {
            queue.insert(entry(seq + 100, Priority::Urgent));
            *served.entry(queue.pop().unwrap().priority.as_str()).or_insert(0) += 1;
        }
        assert!(served["low"] >= 10, "{served:?}");
        assert!(served["normal"] >= 10, "{served:?}");
        assert!(served["urgent"] >= 70, "{served:?}");
    }

    #[test]
    fn reinserted_entry_keeps_its_order() {
        let mut queue = PriorityQueue::default();
        for seq in 1..=3 {
            queue.insert(entry(seq, Priority::Normal));
        }
        let (first, second) = (queue.pop().unwrap(), queue.pop().unwrap());
        queue.insert(second);
        queue.insert(first);
        assert_eq!(queue.remove(2, |_| true).map(|entry| entry.seq), Some(2));
        assert_eq!((queue.len(), next(&mut queue), next(&mut queue)), (2, Some(1), Some(3)));
        assert!(queue.is_empty());
    }

    #[test]
    fn sender_queues_released_and_empty_are_dropped() {
        let mut queue = PriorityQueue::default();
        let roman: AgentId = "roman".parse().unwrap();
        for seq in 1..=3 {
            queue.insert(entry(seq, Priority::Normal));
        }
        queue.hold(Priority::Normal, &roman);
        assert_eq!(next(&mut queue), None);
        assert_eq!((queue.lanes[2].len(), queue.len()), (0, 3), "each moved once");
        queue.insert(entry(4, Priority::Normal));
        queue.release(Priority::Normal, &roman);
        let order: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(order, [1, 2, 3, 4]);
        assert!(queue.held.is_none());
    }
}
