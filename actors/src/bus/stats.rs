//! Counters of the bus since its start, readable from any thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use a2a_protocol::{Kind, Outcome};

use crate::Histogram;
use crate::bus::commit::write_state::{STALLED, WriteState, Writing};

macro_rules! stats {
    ($( #[doc = $doc:literal] $name:ident, )+) => {
        /// Counters of the bus since its start; readable at any time from any thread.
        #[derive(Debug)]
        pub struct Stats {
            $( pub(crate) $name: Count, )+
            messages: Messages,
            commit_seconds: Histogram,
            commit_lines: Histogram,
            pub(crate) journal: WriteState,
        }

        impl Default for Stats {
            fn default() -> Self {
                Self::new(STALLED)
            }
        }

        impl Stats {
            pub(crate) fn new(stalled_after: Duration) -> Self {
                Self {
                    $( $name: Count::default(), )+
                    messages: Messages::default(),
                    commit_seconds: Histogram::of_seconds(),
                    commit_lines: Histogram::of_sizes(),
                    journal: WriteState::new(stalled_after),
                }
            }

            /// Whether the journal takes records; otherwise nothing is accepted.
            #[must_use]
            pub fn is_writing(&self) -> bool {
                self.journal.is_writing()
            }

            /// State of the journal. A commit that exceeds the stall limit counts as stalled.
            #[must_use]
            pub fn journal(&self) -> Writing {
                self.journal.now()
            }

            $( #[doc = $doc] #[must_use] pub fn $name(&self) -> u64 { self.$name.0.load(Relaxed) } )+
        }
    };
}

stats! {
    /// Messages made durable for at least one recipient.
    accepted,
    /// Messages refused.
    refused,
    /// Deliveries into mailboxes, one for each recipient.
    delivered,
    /// Messages acknowledged.
    acknowledged,
    /// Attempts that failed.
    failed_attempts,
    /// Messages dead-lettered.
    dead_letters,
    /// Circuits opened.
    tripped,
    /// Records not written before the bus stopped: acknowledgements, notices.
    unwritten,
    /// Assignments marked overdue.
    overdue,
}

impl Stats {
    /// Receipts by kind (`None` for messages that could not be parsed) and outcome.
    pub fn messages(&self) -> impl Iterator<Item = (Option<Kind>, Outcome, u64)> {
        self.messages.iter()
    }

    /// Duration of each commit.
    #[must_use]
    pub fn commit_seconds(&self) -> &Histogram {
        &self.commit_seconds
    }

    /// Records in each commit.
    #[must_use]
    pub fn commit_lines(&self) -> &Histogram {
        &self.commit_lines
    }

    /// Counts a receipt.
    pub(crate) fn answered(&self, kind: Option<Kind>, outcome: Outcome) {
        self.messages.count(kind, outcome);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Relaxed);
    }
}

/// All kinds, and one more for messages without.
const KINDS: usize = Kind::ALL.len() + 1;
const OUTCOMES: usize = Outcome::ALL.len();

/// One counter for each kind and outcome, addressed without a lookup.
#[derive(Debug, Default)]
struct Messages([[Count; OUTCOMES]; KINDS]);

impl Messages {
    fn count(&self, kind: Option<Kind>, outcome: Outcome) {
        let kind = kind.map_or(KINDS - 1, |kind| kind as usize);
        self.0[kind][outcome as usize].add(1);
    }

    fn iter(&self) -> impl Iterator<Item = (Option<Kind>, Outcome, u64)> {
        let kinds = Kind::ALL.iter().copied().map(Some).chain([None]);
        kinds.zip(&self.0).flat_map(|(kind, counts)| {
            let counts = Outcome::ALL.iter().zip(counts);
            counts.map(move |(outcome, count)| (kind, *outcome, count.0.load(Relaxed)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_counts_by_kind_and_outcome() {
        let stats = Stats::default();
        let kinds = || Kind::ALL.iter().copied().map(Some).chain([None]);
        let all = kinds().flat_map(|kind| Outcome::ALL.iter().map(move |outcome| (kind, *outcome)));
        for (times, (kind, outcome)) in all.clone().enumerate() {
            (0..times).for_each(|_| stats.answered(kind, outcome));
        }
        let expected: Vec<_> =
            all.zip(0..).map(|((kind, outcome), times)| (kind, outcome, times)).collect();
        assert_eq!(stats.messages().collect::<Vec<_>>(), expected);
    }
}
