//! The folded state as one value, with the place in the log to read on from.

use std::borrow::Cow;

use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Serialize};

use crate::batch::LogPos;
use crate::hash::{Hash, Head};
use crate::state::State;

/// State after a line, and where that line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub head: Head,
    pub at: LogPos,
    pub state: State,
}

/// A checkpoint to be stored once the index has come as far as `seq`.
#[derive(Debug)]
pub(crate) struct Packed {
    pub seq: u64,
    /// The day of the line.
    pub day: NaiveDate,
    json: Vec<u8>,
}

impl Packed {
    /// The value to store. Compressing is left to whoever stores: the commit must not wait for it.
    pub fn value(&self) -> std::io::Result<Vec<u8>> {
        zstd::stream::encode_all(self.json.as_slice(), 1)
    }
}

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    seq: u64,
    hash: [u8; 32],
    day: i32,
    offset: u64,
    state: Cow<'a, State>,
}

/// Packs the state at `head`, whose line ends at `at`.
pub(crate) fn pack(head: Head, at: LogPos, state: &State) -> std::io::Result<Packed> {
    let stored = Stored {
        seq: head.seq,
        hash: *head.hash.as_bytes(),
        day: at.day.num_days_from_ce(),
        offset: at.offset,
        state: Cow::Borrowed(state),
    };
    Ok(Packed { seq: head.seq, day: at.day, json: serde_json::to_vec(&stored)? })
}

/// Reads a checkpoint; one that cannot be read is none, and the log is read instead.
pub(crate) fn unpack(value: &[u8]) -> Option<Checkpoint> {
    let reader = zstd::Decoder::new(value).ok()?;
    let stored: Stored<'_> = serde_json::from_reader(std::io::BufReader::new(reader)).ok()?;
    Some(Checkpoint {
        head: Head { seq: stored.seq, hash: Hash::from_bytes(stored.hash) },
        at: LogPos {
            day: NaiveDate::from_num_days_from_ce_opt(stored.day)?,
            offset: stored.offset,
        },
        state: stored.state.into_owned(),
    })
}
