//! Retention: decides what is removed, records the removal in the log, and carries it out.
//!
//! # Constraints
//! - Only whole, closed days are removed, oldest first and without gaps, so that the rest is one
//!   chain.
//! - A day with an open delivery stays, and every day after it.
//! - A removal is in the log before anything is removed, with the facts and agents to preserve.
//! - The records of a day go from both copies. With `keep_jsonl = false` the segments of closed days
//!   go once the index has them; the index is synced before, as it is the last copy then.
//!
//! # Steps
//! ```text
//! plan           (here)    pure: input, retention, time ─▶ ranges to remove
//! removal_record           writes one or more `removed` events with the next free numbers
//! worker         (thread)  removes blocks and segments up to the recorded marks, compresses segments
//! ```
//! A stop at any step loses nothing: the marks are part of the delivery state, and the next start
//! wakes the worker. `rebuild` restores missing segments from the index.

pub(crate) mod rebuild;
pub(crate) mod removal_record;
pub(crate) mod worker;

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};

use crate::record::chain::Head;
use crate::record::{Removed, RemovedForm};

/// How much of the journal is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Days after which a day is removed; `None` to keep them all.
    pub max_age_days: Option<u32>,
    /// Limit of the bytes in segments and index together, above which the oldest days are removed.
    /// `None` for no limit.
    pub max_bytes: Option<u64>,
    /// Whether closed segments are compressed with zstd.
    pub compress: bool,
    /// Whether closed segments are kept once the index has their records. Without them the index is
    /// the only copy.
    pub keep_jsonl: bool,
}

impl Default for Retention {
    /// Everything is kept, closed segments are compressed.
    fn default() -> Self {
        Self { max_age_days: None, max_bytes: None, compress: true, keep_jsonl: true }
    }
}

/// Result of applying the retention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionPlan {
    /// The removed ranges, as recorded in the log.
    pub removed: Vec<Removed>,
    /// Number of the message with open deliveries that keeps days beyond their age; `None` if no
    /// message does.
    pub held_by: Option<u64>,
}

/// What index and segments hold of one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DaySummary {
    /// Number of its first record.
    pub first: u64,
    /// Its last record.
    pub last: Head,
    pub lines: u64,
    /// Bytes in the index.
    pub stored: u64,
    /// Whether its first block begins in the day before, as older versions wrote it.
    pub straddles: bool,
    /// Bytes of its segment; `None` if it was removed.
    pub file: Option<u64>,
}

/// Input of the decision.
pub(crate) struct RetentionInput {
    pub days: BTreeMap<NaiveDate, DaySummary>,
    /// Every day before this one is closed, in the index, and before the last checkpoint.
    pub settled_before: NaiveDate,
    /// Number of the oldest message with open deliveries.
    pub oldest_open: Option<u64>,
}

/// Decides what is removed.
pub(crate) fn plan(
    retention: &Retention,
    input: &RetentionInput,
    now: DateTime<Utc>,
) -> RetentionPlan {
    let mut plan = RetentionPlan::default();
    let end = records_end(retention, input, now, &mut plan.held_by);
    let gone = input.days.range(..end);
    plan.removed.extend(removed(gone, RemovedForm::Records));
    if !retention.keep_jsonl {
        let closed = input.days.range(end..input.settled_before.max(end));
        let files = closed.filter(|(_, day)| day.file.is_some());
        plan.removed.extend(removed(files, RemovedForm::Files));
    }
    plan
}

/// Returns the first day that stays.
fn records_end(
    retention: &Retention,
    input: &RetentionInput,
    now: DateTime<Utc>,
    held_by: &mut Option<u64>,
) -> NaiveDate {
    let today = now.date_naive();
    let mut bytes: u64 = input.days.values().map(|day| day.stored + day.file.unwrap_or(0)).sum();
    let mut days = input.days.iter().peekable();
    let mut end = NaiveDate::MIN;
    while let Some((&date, day)) = days.next() {
        let age = (today - date).num_days();
        let is_old = retention.max_age_days.is_some_and(|most| age > i64::from(most));
        let is_much = retention.max_bytes.is_some_and(|most| bytes > most);
        if !is_old && !is_much || date >= input.settled_before {
            break;
        }
        if let Some(oldest_open) =
            input.oldest_open.filter(|oldest_open| *oldest_open <= day.last.seq)
        {
            *held_by = Some(oldest_open);
            break;
        }
        bytes -= day.stored + day.file.unwrap_or(0);
        // The log is cut only where a block ends too.
        if let Some((next, _)) = days.peek().filter(|(_, next)| !next.straddles) {
            end = **next;
        }
    }
    end
}

fn removed<'a>(
    mut days: impl Iterator<Item = (&'a NaiveDate, &'a DaySummary)>,
    what: RemovedForm,
) -> Option<Removed> {
    let (&from_day, day) = days.next()?;
    let mut all = Removed {
        what,
        from_day,
        to_day: from_day,
        first: day.first,
        last: day.last.seq,
        lines: day.lines,
        hash: day.last.hash,
        agents: Vec::new(),
    };
    for (&date, day) in days {
        all.to_day = date;
        all.last = day.last.seq;
        all.hash = day.last.hash;
        all.lines += day.lines;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hash;

    fn date(day: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 2, day).unwrap()
    }

    /// Days 1 to 9 with ten records and 100 bytes each; all but the last two are settled.
    fn input() -> RetentionInput {
        let day = |n: u32| DaySummary {
            first: u64::from(n) * 10,
            last: Head { seq: u64::from(n) * 10 + 9, hash: Hash::from_bytes([n as u8; 32]) },
            lines: 10,
            stored: 60,
            straddles: false,
            file: Some(40),
        };
        let days = (1..=9).map(|n| (date(n), day(n))).collect();
        RetentionInput { days, settled_before: date(8), oldest_open: None }
    }

    /// `what from-to first..last lines` of each removal, on the tenth.
    fn planned(retention: Retention, input: &RetentionInput) -> (Vec<String>, Option<u64>) {
        let now = date(10).and_hms_opt(1, 0, 0).unwrap().and_utc();
        let plan = plan(&retention, input, now);
        let texts = plan.removed.iter().map(|r| {
            assert_eq!(r.hash, input.days[&r.to_day].last.hash);
            let days = (r.from_day.format("%-d"), r.to_day.format("%-d"));
            format!("{:?} {}-{} {}..{} {}", r.what, days.0, days.1, r.first, r.last, r.lines)
        });
        (texts.collect(), plan.held_by)
    }

    fn by_age(days: u32) -> Retention {
        Retention { max_age_days: Some(days), ..Retention::default() }
    }

    #[test]
    fn whole_days_are_removed_by_age_and_size_but_never_the_last() {
        let none = (Vec::new(), None);
        let all = input();
        assert_eq!(planned(Retention::default(), &all), none);
        assert_eq!(planned(by_age(9), &all), none);
        assert_eq!(planned(by_age(7), &all).0, ["Records 1-2 10..29 20"]);
        assert_eq!(planned(by_age(0), &all).0, ["Records 1-7 10..79 70"]);
        let by_size = |bytes| Retention { max_bytes: Some(bytes), ..Retention::default() };
        assert_eq!(planned(by_size(900), &all), none);
        assert_eq!(planned(by_size(899), &all).0, ["Records 1-1 10..19 10"]);
        assert_eq!(planned(by_size(0), &all).0, ["Records 1-7 10..79 70"]);
        let empty =
            RetentionInput { days: BTreeMap::new(), settled_before: date(8), oldest_open: None };
        assert_eq!(planned(by_age(0), &empty), none);
    }

    #[test]
    fn open_delivery_keeps_its_day_and_later_ones() {
        let held = RetentionInput { oldest_open: Some(35), ..input() };
        assert_eq!(planned(by_age(5), &held), (vec!["Records 1-2 10..29 20".to_owned()], Some(35)));
        let held = RetentionInput { oldest_open: Some(12), ..input() };
        assert_eq!(planned(by_age(5), &held), (Vec::new(), Some(12)));
        let held = RetentionInput { oldest_open: Some(85), ..input() };
        assert_eq!(planned(by_age(5), &held).1, None);
    }

    #[test]
    fn segments_in_the_index_are_removed_without_keep_jsonl() {
        let mut all = input();
        let retention = Retention { keep_jsonl: false, ..Retention::default() };
        assert_eq!(planned(retention, &all).0, ["Files 1-7 10..79 70"]);
        let both = Retention { keep_jsonl: false, ..by_age(7) };
        assert_eq!(planned(both, &all).0, ["Records 1-2 10..29 20", "Files 3-7 30..79 50"]);
        all.days.values_mut().take(4).for_each(|day| day.file = None);
        assert_eq!(planned(retention, &all).0, ["Files 5-7 50..79 30"]);
    }

    #[test]
    fn block_over_two_days_is_not_cut() {
        let mut all = input();
        all.days.get_mut(&date(3)).unwrap().straddles = true;
        assert_eq!(planned(by_age(7), &all).0, ["Records 1-1 10..19 10"]);
        assert_eq!(planned(by_age(6), &all).0, ["Records 1-3 10..39 30"]);
    }
}
