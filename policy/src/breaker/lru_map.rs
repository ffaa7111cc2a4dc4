//! A map that forgets what was touched longest ago.
//!
//! Its keys come from senders, so it never holds more than it was told to. It grows as it
//! is used: a bus with ten conversations does not pay for a hundred thousand.

use std::borrow::Borrow;
use std::hash::Hash;

use lru::LruCache;

/// At most so many entries, the least recently touched forgotten first.
pub(super) struct LruMap<K: Hash + Eq, V> {
    entries: LruCache<K, V>,
    max: usize,
}

impl<K: Hash + Eq, V> LruMap<K, V> {
    /// An empty map; it holds at least one entry, whatever `max` says.
    pub(super) fn new(max: usize) -> Self {
        Self { entries: LruCache::unbounded(), max: max.max(1) }
    }

    /// Looks without touching, so that a mere question keeps nothing alive.
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

    /// Puts an entry; the one that had to go for it comes back.
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

    /// Holds so many from now on; those that have to go for it come back, the oldest first.
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
    fn the_least_recently_touched_goes_first_and_looking_is_not_touching() {
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
