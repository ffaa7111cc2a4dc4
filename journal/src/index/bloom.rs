//! Bloom filter over index terms (14 bits and 9 probes a term, about 0.13 % false positives).
//!
//! A false positive costs the read of one block. Fuse filters are a third smaller, but not for the
//! few terms of a small block, and building them can fail.

use xxhash_rust::xxh3::xxh3_64_with_seed;

const BITS_PER_TERM: usize = 14;
const PROBES: u32 = 9;
const LEAST_WORDS: usize = 4;

/// The namespace of a term; part of its hash, so that an agent and a task of the same name differ.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About {
    Agent = 1,
    Message = 2,
    Correlation = 3,
    Task = 4,
}

/// The hash of a term. Filters with these hashes are stored: the function must never change.
pub(crate) fn term(about: About, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, about as u64)
}

/// A set of terms without false negatives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BloomFilter {
    words: Box<[u64]>,
}

impl BloomFilter {
    /// The set of all terms.
    pub fn all() -> Self {
        Self { words: [u64::MAX].into() }
    }

    /// The set of these terms; sorts and deduplicates them.
    pub fn of(terms: &mut Vec<u64>) -> Self {
        terms.sort_unstable();
        terms.dedup();
        // At least a few words: in a tiny filter the probes of two terms often collide.
        let words = (terms.len() * BITS_PER_TERM).div_ceil(64).max(LEAST_WORDS);
        let mut filter = Self { words: vec![0; words].into() };
        for &term in &*terms {
            for probe in 0..PROBES {
                let (word, bit) = filter.bit_of(term, probe);
                filter.words[word] |= bit;
            }
        }
        filter
    }

    /// Whether the set may contain the term.
    pub fn may_contain(&self, term: u64) -> bool {
        !self.words.is_empty()
            && (0..PROBES).all(|probe| {
                let (word, bit) = self.bit_of(term, probe);
                self.words[word] & bit != 0
            })
    }

    fn bit_of(&self, term: u64, probe: u32) -> (usize, u64) {
        let step = (term >> 32) as u32 | 1;
        let hash = (term as u32).wrapping_add(probe.wrapping_mul(step));
        let bits = self.words.len() as u64 * 64;
        let bit = (u64::from(hash) * bits) >> 32;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    pub fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.words.len() as u32).to_be_bytes());
        for word in &self.words {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }

    /// Decodes a set; returns it with the bytes that follow.
    pub fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (len, rest) = bytes.split_first_chunk()?;
        let len = (u32::from_be_bytes(*len) as usize).checked_mul(8)?;
        let (words, rest) = rest.split_at_checked(len)?;
        let words = words.as_chunks().0.iter().map(|word| u64::from_be_bytes(*word)).collect();
        Some((Self { words }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_always_found_and_few_others() {
        for count in [0_u64, 1, 3, 100, 2_000] {
            let mut terms: Vec<u64> =
                (0..count).map(|n| term(About::Task, &n.to_be_bytes())).collect();
            let filter = BloomFilter::of(&mut terms);
            assert!(terms.iter().all(|term| filter.may_contain(*term)));
            let wrong = (0..100_000_u64)
                .filter(|n| filter.may_contain(term(About::Agent, &n.to_be_bytes())))
                .count();
            assert!(wrong < 300, "{wrong} of 100,000 with {count} terms");
            let mut bytes = Vec::new();
            filter.push(&mut bytes);
            assert_eq!(BloomFilter::read(&bytes), Some((filter, &[][..])));
        }
    }
}
