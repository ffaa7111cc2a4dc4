//! Checkpoint: the delivery state as one value, with the position in the log where to resume.

use std::io::{self, BufReader, BufWriter, Write};

use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Serialize};

use crate::record::batch::LogPos;
use crate::record::chain::{Hash, Head};
use crate::recovery::delivery_state::DeliveryState;

/// The state after a record, and the end of that record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub head: Head,
    pub at: LogPos,
    pub state: DeliveryState,
}

/// A checkpoint that is stored once the index holds every record up to `seq`.
#[derive(Debug)]
pub(crate) struct PendingCheckpoint {
    pub seq: u64,
    /// The day of that record.
    pub day: NaiveDate,
    stored: CheckpointValue,
}

impl PendingCheckpoint {
    /// Encodes the value to store. Called on the indexer thread: a commit must not wait for the
    /// serialisation and compression.
    pub fn value(&self) -> io::Result<Vec<u8>> {
        let mut packed = zstd::Encoder::new(Vec::new(), 1)?;
        // serde_json writes every token on its own.
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

/// Takes a snapshot of the state at `head`, whose record ends at `at`. Its strings are shared, not
/// copied, so that this is far cheaper than encoding it.
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

/// Decodes a checkpoint; `None` if it cannot be read, and then the log is read instead.
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
