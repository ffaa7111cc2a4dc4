//! How much memory the server has, while it is under load and nobody troubles it.

use std::time::{Duration, Instant};

use crate::place::Place;
use crate::trouble::Trouble;

/// Samples of resident memory, in KiB.
#[derive(Default)]
pub(crate) struct Memory(Vec<u64>);

/// Looks every second.
pub(crate) fn watch(place: &Place, trouble: &Trouble<'_>, time: Duration) -> Memory {
    let mut memory = Memory::default();
    let Some(id) = trouble.server.as_ref().map(crate::server::Server::id) else { return memory };
    let until = Instant::now() + time;
    while Instant::now() < until {
        memory.0.extend(resident(id));
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
        let quarter = self.0.len() / 4;
        if quarter == 0 {
            return None;
        }
        let of = |n: usize| median(&self.0[n * quarter..(n + 1) * quarter]) as f64 / 1024.0;
        Some([of(0), of(1), of(2), of(3)])
    }
}
