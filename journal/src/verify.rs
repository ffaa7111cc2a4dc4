//! Verification: proves that no record was changed, removed, inserted or moved.
//!
//! # What is proven
//! The hash of a record covers its bytes and the hash of the record before, so that one pass over the
//! chain proves everything between its ends. Two things need more:
//! - The end: a chain whose last records were cut off is still valid. Only a head stored outside of
//!   the chain reveals the cut ([`head_file`], or given by the caller).
//! - The beginning: retention removes old records. A later `removed` event must explain the gap.
//!
//! # Flow
//! ```text
//! source (segments, or blocks and then segments, or an open journal)
//!    ─▶ pass 1: every hash and link, known heads          ─▶ Verified
//!    ─▶ pass 2, only after a fault: neighbours of the line ─▶ Fault, with what was done
//! ```
//! `source` provides the lines, `report` has the results.

pub(crate) mod head_file;
pub(crate) mod report;
pub(crate) mod source;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::record::RemovedForm;
use crate::record::batch::RecordKind;
use crate::record::chain::{Hash, Head, check_seal, read_seal};
use crate::record::decode::{decode, peek};
use crate::{Fault, Removed, Tampering, Verified, VerifyError};

/// Position of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinePlace<'a> {
    pub file: Option<&'a Path>,
    pub line: u64,
}

/// Callback for each line.
pub(crate) type Visit<'a> = dyn FnMut(LinePlace<'_>, &[u8]) -> ControlFlow<()> + 'a;

/// A source of lines that can be read repeatedly, in order.
pub(crate) trait LineSource {
    /// Passes every line without its newline to `visit`; returns the bytes of an unfinished line at
    /// the end.
    fn visit_lines(&self, visit: &mut Visit<'_>) -> Result<u64, VerifyError>;

    /// Whether a removal of this form removed lines from this source.
    fn has_lost(&self, form: RemovedForm) -> bool;
}

/// Verifies everything in a source, and that it contains the `known` heads.
pub(crate) fn verify(source: &dyn LineSource, known: &[Head]) -> Result<Verified, VerifyError> {
    let known = known.iter().filter(|head| head.seq > 0).map(|head| (head.seq, head.hash));
    let mut chain = Chain::new(known.collect());
    let unfinished = source.visit_lines(&mut |place, bytes| chain.line(place, bytes))?;
    if let Some(start) = chain.start.take() {
        let explained = chain.removed.iter().any(|removed| removed.explains(&start, source));
        // The record that explains it may follow the one at which the pass stopped.
        if !explained && (chain.suspect.is_none() || !is_explained(source, &start)?) {
            chain.suspect = Some(start);
        }
    }
    let suspect = chain.suspect.take().or_else(|| chain.missing());
    if let Some(suspect) = suspect {
        return Err(VerifyError::Fault(explain(source, suspect, &chain.known)?));
    }
    let Chain { records, lines, head, from, .. } = chain;
    Ok(Verified { records, lines, head, from, unfinished })
}

/// A line with a fault, or at which a fault shows.
#[derive(Debug, Clone)]
struct Suspect {
    file: Option<PathBuf>,
    line: u64,
    /// Number of lines before it.
    at: u64,
    seq: Option<u64>,
    hash: Option<Hash>,
    prev: Option<Hash>,
    /// The record before it.
    before: Head,
    why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Unreadable,
    WrongHash,
    WrongPrev,
    /// Its number is not above the one before.
    NumberBack,
    NotAsKnown,
    CutOff,
}

/// The chain as far as it was verified.
struct Chain {
    known: BTreeMap<u64, Hash>,
    /// Number of the next known head.
    next_known: u64,
    records: u64,
    lines: u64,
    head: Head,
    from: u64,
    last: (Option<PathBuf>, u64),
    /// The first line, if the one before it is missing.
    start: Option<Suspect>,
    /// Removals before it, according to later events.
    removed: Vec<Removed>,
    suspect: Option<Suspect>,
}

impl Chain {
    fn new(known: BTreeMap<u64, Hash>) -> Self {
        let next_known = known.keys().next().copied().unwrap_or(u64::MAX);
        let (head, last) = (Head::START, (None, 0));
        let (records, lines, from) = (0, 0, 0);
        let (start, removed, suspect) = (None, Vec::new(), None);
        Self { known, next_known, records, lines, head, from, last, start, removed, suspect }
    }

    fn line(&mut self, place: LinePlace<'_>, bytes: &[u8]) -> ControlFlow<()> {
        let peek = peek(bytes);
        let seal = check_seal(bytes);
        let why = match (seal, peek) {
            (None, _) => {
                Some(match read_seal(bytes).is_some() || bytes.starts_with(b"{\"seq\":") {
                    true => Why::WrongHash,
                    false => Why::Unreadable,
                })
            }
            (Some(_), None) => Some(Why::Unreadable),
            (Some(seal), _) if seal.prev != self.head.hash => Some(Why::WrongPrev),
            (_, Some((seq, _))) if seq <= self.head.seq => Some(Why::NumberBack),
            (Some(seal), Some((seq, _))) => {
                let is_known = self.is_as_known(Head { seq, hash: seal.hash });
                (!is_known).then_some(Why::NotAsKnown)
            }
        };
        if let Some(why) = why {
            let seal = seal.or_else(|| read_seal(bytes));
            let suspect = Suspect {
                file: place.file.map(Path::to_owned),
                line: place.line,
                at: self.lines,
                seq: peek.map(|(seq, _)| seq),
                hash: seal.map(|seal| seal.hash),
                prev: seal.map(|seal| seal.prev),
                before: self.head,
                why,
            };
            if why == Why::WrongPrev && self.lines == 0 {
                // A later event must explain that.
                self.start = Some(suspect);
            } else {
                self.suspect = Some(suspect);
                return ControlFlow::Break(());
            }
        }
        let (Some(seal), Some((seq, kind))) = (seal, peek) else {
            return ControlFlow::Break(());
        };
        if self.lines == 0 {
            self.from = seq;
        }
        if self.lines == 0 && self.start.is_some() {
            // Older heads are of removed records.
            self.next_known = self.known.range(seq..).next().map_or(u64::MAX, |(seq, _)| *seq);
            if !self.is_as_known(Head { seq, hash: seal.hash }) {
                self.suspect = self.start.clone().map(|s| Suspect { why: Why::NotAsKnown, ..s });
                return ControlFlow::Break(());
            }
        }
        self.head = Head { seq, hash: seal.hash };
        self.lines += 1;
        self.records += u64::from(kind == RecordKind::Message);
        if self.start.is_some() && kind == RecordKind::Event {
            self.removed.extend(removed_by(bytes));
        }
        if self.last.0.as_deref() != place.file {
            self.last.0 = place.file.map(Path::to_owned);
        }
        self.last.1 = place.line;
        ControlFlow::Continue(())
    }

    /// Whether the record matches the known head of its number, and no known head was skipped.
    fn is_as_known(&mut self, head: Head) -> bool {
        if self.next_known > head.seq {
            return true;
        }
        let is_known = self.next_known == head.seq
            && self.known.get(&head.seq).is_some_and(|hash| *hash == head.hash);
        let next = self.known.range(head.seq + 1..).next();
        self.next_known = next.map_or(u64::MAX, |(seq, _)| *seq);
        is_known
    }

    /// A known head behind the end.
    fn missing(&self) -> Option<Suspect> {
        let (&seq, &hash) = self.known.range(self.head.seq + 1..).next_back()?;
        Some(Suspect {
            file: self.last.0.clone(),
            line: self.last.1,
            at: self.lines,
            seq: Some(seq),
            hash: Some(hash),
            prev: None,
            before: self.head,
            why: Why::CutOff,
        })
    }
}

/// Whether a later event explains that records before the first were removed.
fn is_explained(source: &dyn LineSource, start: &Suspect) -> Result<bool, VerifyError> {
    let mut explained = false;
    source.visit_lines(&mut |_, bytes| {
        explained = removed_by(bytes).iter().any(|removed| removed.explains(start, source));
        if explained { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(explained)
}

impl Removed {
    /// Whether this removal explains that a source begins with this line. After an interrupted removal
    /// some of its lines are left.
    fn explains(&self, start: &Suspect, source: &dyn LineSource) -> bool {
        source.has_lost(self.what)
            && (Some(self.hash) == start.prev || start.seq.is_some_and(|seq| seq <= self.last))
    }
}

/// The removals in a line; empty for any other record.
pub(crate) fn removed_by(bytes: &[u8]) -> Vec<Removed> {
    let is_event = peek(bytes).is_some_and(|(_, kind)| kind == RecordKind::Event);
    // The event name is near the front, so that most events need no parsing.
    let front = &bytes[..bytes.len().min(100)];
    if !is_event || memchr::memmem::find(front, b"\"event\":\"removed\"").is_none() {
        return Vec::new();
    }
    decode(bytes).map(|line| line.removed()).unwrap_or_default()
}

/// The neighbours of a suspect, found anywhere in the source.
#[derive(Default)]
struct Neighbours {
    /// The line before it, and the one that follows the record of its `prev`.
    before: Option<(Option<PathBuf>, u64, Option<u64>)>,
    after_its_prev: Option<(Option<PathBuf>, u64, Option<u64>)>,
    is_copy: bool,
    prev_comes_later: bool,
    continues_without: bool,
    is_other_log: bool,
}

/// Determines what was done.
fn explain(
    source: &dyn LineSource,
    suspect: Suspect,
    known: &BTreeMap<u64, Hash>,
) -> Result<Fault, VerifyError> {
    let near = neighbours(source, &suspect, known)?;
    let Suspect { file, line, seq, before, why, .. } = suspect;
    let here = (file, line, seq);
    let follows_closely = seq.is_some_and(|seq| seq == before.seq + 1);
    let (what, (file, line, seq)) = match why {
        Why::CutOff => (Tampering::CutOff, here),
        Why::NotAsKnown => (Tampering::Swapped, here),
        Why::NumberBack => (Tampering::Inserted, here),
        Why::Unreadable | Why::WrongHash if near.continues_without => (Tampering::Inserted, here),
        Why::Unreadable => (Tampering::Unreadable, here),
        Why::WrongHash => (Tampering::Changed, here),
        Why::WrongPrev if near.is_copy => (Tampering::Inserted, here),
        Why::WrongPrev if near.prev_comes_later => (Tampering::Reordered, here),
        Why::WrongPrev if near.continues_without => (Tampering::Inserted, here),
        Why::WrongPrev => match (near.after_its_prev, near.before) {
            (Some(inserted), _) => (Tampering::Inserted, inserted),
            _ if near.is_other_log => (Tampering::Swapped, here),
            // No number is missing in between, so that the line before was rewritten.
            (None, Some(before)) if follows_closely => (Tampering::Changed, before),
            _ => (Tampering::Removed, here),
        },
    };
    Ok(Fault { file, line, seq, what })
}

fn neighbours(
    source: &dyn LineSource,
    suspect: &Suspect,
    known: &BTreeMap<u64, Hash>,
) -> Result<Neighbours, VerifyError> {
    let mut near = Neighbours::default();
    let (mut at, mut was_its_prev) = (0, false);
    source.visit_lines(&mut |place, bytes| {
        let seal = read_seal(bytes);
        let (hash, prev) = (seal.map(|seal| seal.hash), seal.map(|seal| seal.prev));
        let seq = peek(bytes).map(|(seq, _)| seq);
        let here = || Some((place.file.map(Path::to_owned), place.line, seq));
        if at < suspect.at {
            if was_its_prev {
                near.after_its_prev = here();
            }
            was_its_prev = hash.is_some() && hash == suspect.prev;
            if at + 1 == suspect.at {
                near.before = here();
            }
        } else if at > suspect.at {
            near.prev_comes_later |= hash.is_some() && hash == suspect.prev;
            near.continues_without |= at == suspect.at + 1 && prev == Some(suspect.before.hash);
        }
        near.is_copy |= at != suspect.at && hash.is_some() && hash == suspect.hash;
        let noted = seq.and_then(|seq| known.get(&seq));
        near.is_other_log |= at >= suspect.at && noted.is_some() && noted != hash.as_ref();
        at += 1;
        ControlFlow::Continue(())
    })?;
    Ok(near)
}
