//! Counters of what the bus has done since it started.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

macro_rules! stats {
    ($( #[doc = $doc:literal] $name:ident, )+) => {
        /// What the bus has done since it started; read at any time from any thread.
        #[derive(Debug, Default)]
        pub struct Stats {
            $( pub(crate) $name: Count, )+
            refusing: AtomicBool,
        }

        impl Stats {
            /// Whether the journal takes records; when not, nothing is accepted.
            #[must_use]
            pub fn is_writing(&self) -> bool {
                !self.refusing.load(Relaxed)
            }

            pub(crate) fn set_writing(&self, writing: bool) {
                self.refusing.store(!writing, Relaxed);
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
    /// Messages that arrived in a session, one for each recipient.
    delivered,
    /// Messages handled and settled.
    acknowledged,
    /// Attempts that failed.
    failed_attempts,
    /// Messages given up.
    dead_letters,
    /// Circuits opened.
    tripped,
    /// Batches written with one fsync each.
    commits,
    /// Lines written in them.
    lines,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Relaxed);
    }
}
