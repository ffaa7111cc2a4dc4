//! LRU map with a limit.
//!
//! Its keys come from senders, so it must be bounded. It allocates as it grows, so that a small bus
//! needs little memory.

use std::borrow::Borrow;
use std::hash::Hash;

use lru::LruCache;

/// A bounded map that evicts the least recently touched entry.
pub(super) struct LruMap<K: Hash + Eq, V> {
    entries: LruCache<K, V>,
    max: usize,
}

impl<K: Hash + Eq, V> LruMap<K, V> {
    /// An empty map with a limit of `max` entries, but at least one.
    pub(super) fn new(max: usize) -> Self {
        Self { entries: LruCache::unbounded(), max: max.max(1) }
    }

    /// Reads an entry without touching it, so that a query keeps nothing alive.
    pub(super) fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.peek(key)
    }

    pub(super) fn touch<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key)
    }

    /// Inserts an entry; returns the one that was replaced or evicted.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let replaced = self.entries.put(key, value);
        if self.entries.len() > self.max { self.pop_oldest() } else { replaced }
    }

    pub(super) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.entries.pop(key)
    }

    pub(super) fn pop_oldest(&mut self) -> Option<V> {
        self.entries.pop_lru().map(|(_, value)| value)
    }

    /// Sets a new limit; returns the evicted entries, oldest first.
    pub(super) fn set_max(&mut self, max: usize) -> Vec<V> {
        self.max = max.max(1);
        let beyond = self.entries.len().saturating_sub(self.max);
        (0..beyond).filter_map(|_| self.pop_oldest()).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_touched_is_evicted_and_peek_does_not_touch() {
        let mut recent = LruMap::new(2);
        assert_eq!(recent.insert("a", 1), None);
        assert_eq!(recent.insert("b", 2), None);
        recent.touch("a");
        recent.peek("b");
        assert_eq!(recent.insert("c", 3), Some(2));
        assert_eq!((recent.peek("a"), recent.peek("b"), recent.len()), (Some(&1), None, 2));
        assert_eq!(recent.set_max(1), [1]);
        assert!(recent.set_max(3).is_empty());
        assert_eq!((recent.insert("d", 4), recent.insert("e", 5), recent.len()), (None, None, 3));
    }
}
