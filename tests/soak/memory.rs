//! How much memory the server has, while it is under load and nothing disturbs it.

use std::time::{Duration, Instant};

use crate::book::Book;
use crate::place::Place;
use crate::trouble::Trouble;

/// What the server remembers of every message as long as its record is kept, so that it is taken
/// once: 33 bytes in a table that is at least 7/16 full, and some in the summaries of the log.
const REMEMBERED: u64 = 100;

/// A look at the server.
struct Sample {
    /// Its resident memory, in KiB.
    resident: u64,
    /// How many messages it had accepted.
    accepted: u64,
}

#[derive(Default)]
pub(crate) struct Memory(Vec<Sample>);

/// Looks every second.
pub(crate) fn watch(place: &Place, book: &Book, trouble: &Trouble<'_>, time: Duration) -> Memory {
    let mut memory = Memory::default();
    let Some(id) = trouble.server.as_ref().map(crate::server::Server::id) else { return memory };
    let until = Instant::now() + time;
    while Instant::now() < until {
        let accepted = book.accepted();
        memory.0.extend(resident(id).map(|resident| Sample { resident, accepted }));
        place.pause(Duration::from_secs(1));
    }
    memory
}

fn resident(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn median(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

impl Memory {
    /// The medians of the quarters, in MiB; the first has the start in it.
    pub(crate) fn quarters(&self) -> Option<[f64; 4]> {
        self.medians(|sample, _| sample.resident)
    }

    /// The same without what is remembered of the messages that were accepted meanwhile.
    pub(crate) fn quarters_without_ids(&self) -> Option<[f64; 4]> {
        self.medians(|sample, first| {
            let accepted = sample.accepted.saturating_sub(first.accepted);
            sample.resident.saturating_sub(accepted * REMEMBERED / 1_024)
        })
    }

    fn medians(&self, of: impl Fn(&Sample, &Sample) -> u64) -> Option<[f64; 4]> {
        let first = self.0.first()?;
        let all: Vec<u64> = self.0.iter().map(|sample| of(sample, first)).collect();
        let quarter = all.len() / 4;
        if quarter == 0 {
            return None;
        }
        let of = |n: usize| median(&all[n * quarter..(n + 1) * quarter]) as f64 / 1024.0;
        Some([of(0), of(1), of(2), of(3)])
    }
}
