//! Dedup entry: the id of an accepted message, so that a repeat is detected after a restart.

use a2a_protocol::MessageId;
use uuid::Uuid;

/// An accepted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DedupEntry {
    /// The id of the message.
    pub message_id: MessageId,
    /// Fingerprint of its body.
    pub fingerprint: u64,
    /// Sequence number of its record.
    pub seq: u64,
}

impl DedupEntry {
    /// Bytes of one encoded entry.
    pub(crate) const SIZE: usize = 32;

    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.message_id.as_uuid().as_bytes());
        out.extend_from_slice(&self.fingerprint.to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
    }

    /// Decodes a list of entries into `seen`; `None`, with `seen` unchanged, if it is malformed.
    pub(crate) fn read_all(listed: &[u8], seen: &mut Vec<Self>) -> Option<()> {
        let known = seen.len();
        let (entries, rest) = listed.as_chunks();
        seen.extend(entries.iter().map_while(Self::read));
        let is_whole = rest.is_empty() && seen.len() == known + entries.len();
        if !is_whole {
            seen.truncate(known);
        }
        is_whole.then_some(())
    }

    fn read(entry: &[u8; Self::SIZE]) -> Option<Self> {
        let (id, rest) = entry.split_first_chunk::<16>()?;
        let (fingerprint, seq) = rest.split_first_chunk::<8>()?;
        Some(Self {
            message_id: MessageId::try_from(Uuid::from_bytes(*id)).ok()?,
            fingerprint: u64::from_be_bytes(*fingerprint),
            seq: u64::from_be_bytes(*seq.first_chunk()?),
        })
    }
}
