//! What comes next: urgent before high before normal before low, and nothing starves.

use std::collections::VecDeque;

use a2a_protocol::Priority;

const LANES: usize = 4;
/// How often a waiting lane may be passed over before it gets a turn.
const PATIENCE: u32 = 8;

/// A queue with one lane per priority, first in first out within each.
///
/// Ageing counts turns instead of time: a lane that was passed over `PATIENCE` times in a
/// row goes next, so even under an endless flood of `urgent`, `low` moves.
#[derive(Debug)]
pub struct PriorityQueue<T> {
    lanes: [VecDeque<T>; LANES],
    passed_over: [u32; LANES],
}

impl<T> Default for PriorityQueue<T> {
    fn default() -> Self {
        Self { lanes: Default::default(), passed_over: [0; LANES] }
    }
}

/// Lane 0 goes first.
fn lane(priority: Priority) -> usize {
    match priority {
        Priority::Urgent => 0,
        Priority::High => 1,
        Priority::Normal => 2,
        Priority::Low => 3,
    }
}

impl<T> PriorityQueue<T> {
    /// Adds at the end of its lane.
    pub fn push(&mut self, priority: Priority, item: T) {
        self.lanes[lane(priority)].push_back(item);
    }

    /// Puts back into its lane before the first item that is `later`: what was taken and could
    /// not be handled keeps its turn.
    pub fn put_back(&mut self, priority: Priority, item: T, later: impl Fn(&T) -> bool) {
        let lane = &mut self.lanes[lane(priority)];
        let at = lane.iter().position(later).unwrap_or(lane.len());
        lane.insert(at, item);
    }

    /// Takes what comes next.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_ready(|_| true)
    }

    /// Takes what comes next among the items that are `ready`.
    pub fn pop_ready(&mut self, ready: impl Fn(&T) -> bool) -> Option<T> {
        let first: [Option<usize>; LANES] =
            std::array::from_fn(|i| self.lanes[i].iter().position(&ready));
        let waiting = |i: &usize| first[*i].is_some();
        let patient = (0..LANES).filter(waiting).find(|i| self.passed_over[*i] >= PATIENCE);
        let next = patient.or_else(|| (0..LANES).find(waiting))?;
        for i in (next + 1..LANES).filter(waiting) {
            self.passed_over[i] += 1;
        }
        self.passed_over[next] = 0;
        self.lanes[next].remove(first[next]?)
    }

    /// Removes the first item that fits, wherever it stands.
    pub fn remove(&mut self, fits: impl Fn(&T) -> bool) -> Option<T> {
        self.lanes.iter_mut().find_map(|lane| {
            let at = lane.iter().position(&fits)?;
            lane.remove(at)
        })
    }

    /// Everything that waits, lane by lane.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.lanes.iter().flatten()
    }

    /// The first of each lane that has one.
    pub fn fronts(&self) -> impl Iterator<Item = &T> {
        self.lanes.iter().filter_map(VecDeque::front)
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_by_priority_and_in_order_within() {
        let mut queue = PriorityQueue::default();
        for (i, priority) in
            [Priority::Low, Priority::Urgent, Priority::Normal, Priority::Urgent, Priority::High]
                .into_iter()
                .enumerate()
        {
            queue.push(priority, i);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [1, 3, 4, 2, 0]);
    }

    #[test]
    fn low_moves_under_an_endless_flood_of_urgent() {
        let mut queue = PriorityQueue::default();
        for _ in 0..10 {
            queue.push(Priority::Low, "low");
            queue.push(Priority::Normal, "normal");
        }
        let mut served = std::collections::HashMap::new();
        for _ in 0..100 {
            queue.push(Priority::Urgent, "urgent");
            *served.entry(queue.pop().unwrap()).or_insert(0) += 1;
        }
        assert!(served["low"] >= 10, "{served:?}");
        assert!(served["normal"] >= 10, "{served:?}");
        assert!(served["urgent"] >= 70, "{served:?}");
    }

    #[test]
    fn what_is_put_back_keeps_its_turn() {
        let mut queue = PriorityQueue::default();
        queue.push(Priority::Normal, 1);
        queue.push(Priority::Normal, 2);
        queue.push(Priority::Normal, 3);
        let (first, second) = (queue.pop().unwrap(), queue.pop().unwrap());
        queue.put_back(Priority::Normal, first, |i| *i > first);
        queue.put_back(Priority::Normal, second, |i| *i > second);
        assert_eq!(queue.remove(|i| *i == 2), Some(2));
        assert_eq!(
            (queue.len(), queue.pop(), queue.pop(), queue.pop()),
            (2, Some(1), Some(3), None)
        );
        assert!(queue.is_empty());
    }
}
