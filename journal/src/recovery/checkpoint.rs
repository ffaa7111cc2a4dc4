//! The folded state as one value, with the place in the log to read on from.

use std::io::{self, BufReader, BufWriter, Write};

use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Serialize};

use crate::record::batch::LogPos;
use crate::record::chain::{Hash, Head};
use crate::recovery::delivery_state::DeliveryState;

/// State after a line, and where that line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub head: Head,
    pub at: LogPos,
    pub state: DeliveryState,
}

/// A checkpoint to be stored once the index has come as far as `seq`.
#[derive(Debug)]
pub(crate) struct PendingCheckpoint {
    pub seq: u64,
    /// The day of the line.
    pub day: NaiveDate,
    stored: CheckpointValue,
}

impl PendingCheckpoint {
    /// The value to store. Writing and compressing are left to whoever stores: the commit must not
    /// wait for them.
    pub fn value(&self) -> io::Result<Vec<u8>> {
        let mut packed = zstd::Encoder::new(Vec::new(), 1)?;
        // The writer hands on every word by itself.
        let mut writer = BufWriter::with_capacity(1 << 16, &mut packed);
        serde_json::to_writer(&mut writer, &self.stored)?;
        writer.flush()?;
        drop(writer);
        packed.finish()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct CheckpointValue {
    seq: u64,
    hash: [u8; 32],
    day: i32,
    offset: u64,
    state: DeliveryState,
}

/// Packs the state at `head`, whose line ends at `at`. Its texts are shared, not copied, so this
/// takes a fraction of what writing them would.
pub(crate) fn prepare(head: Head, at: LogPos, state: &DeliveryState) -> PendingCheckpoint {
    let stored = CheckpointValue {
        seq: head.seq,
        hash: *head.hash.as_bytes(),
        day: at.day.num_days_from_ce(),
        offset: at.offset,
        state: state.clone(),
    };
    PendingCheckpoint { seq: head.seq, day: at.day, stored }
}

/// Reads a checkpoint; one that cannot be read is none, and the log is read instead.
pub(crate) fn decode(value: &[u8]) -> Option<Checkpoint> {
    let reader = zstd::Decoder::new(value).ok()?;
    let stored: CheckpointValue = serde_json::from_reader(BufReader::new(reader)).ok()?;
    Some(Checkpoint {
        head: Head { seq: stored.seq, hash: Hash::from_bytes(stored.hash) },
        at: LogPos {
            day: NaiveDate::from_num_days_from_ce_opt(stored.day)?,
            offset: stored.offset,
        },
        state: stored.state,
    })
}
