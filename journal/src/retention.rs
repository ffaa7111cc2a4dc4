//! What is old enough to go: a pure decision about whole, closed days.
//!
//! Days go oldest first and without gaps, so that the rest is still one chain. A day
//! with a message that is still owed stays, and with it every day after.

pub(crate) mod rebuild;
pub(crate) mod removal;
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
    /// Bytes that the day files and what sled holds of them may take together; the oldest
    /// days go when it is more. `None` for no limit.
    pub max_bytes: Option<u64>,
    /// Whether the day files of closed days are packed with zstd.
    pub pack: bool,
    /// Whether the day files of closed days are kept once sled has them. Without them sled
    /// is the only copy.
    pub keep_jsonl: bool,
}

impl Default for Retention {
    /// Everything is kept, closed days packed.
    fn default() -> Self {
        Self { max_age_days: None, max_bytes: None, pack: true, keep_jsonl: true }
    }
}

/// What applying the retention did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retained {
    /// What was removed, as the record of it says.
    pub removed: Vec<Removed>,
    /// Number of the message that is still owed and keeps days that should go.
    pub held_by: Option<u64>,
}

/// What sled and the folder hold of one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Day {
    pub first: u64,
    pub last: Head,
    pub lines: u64,
    /// Bytes in sled.
    pub stored: u64,
    /// Whether its first block begins in the day before, as those of older versions may.
    pub straddles: bool,
    /// Bytes of its file, if there is one.
    pub file: Option<u64>,
}

/// What there is to decide about.
pub(crate) struct Holdings {
    pub days: BTreeMap<NaiveDate, Day>,
    /// Every day before this one is closed, in sled, and behind the last checkpoint.
    pub settled_before: NaiveDate,
    /// The oldest message still owed.
    pub owed: Option<u64>,
}

/// Decides what goes.
pub(crate) fn plan(retention: &Retention, holdings: &Holdings, now: DateTime<Utc>) -> Retained {
    let mut plan = Retained::default();
    let end = records_end(retention, holdings, now, &mut plan.held_by);
    let gone = holdings.days.range(..end);
    plan.removed.extend(removed(gone, RemovedForm::Records));
    if !retention.keep_jsonl {
        let closed = holdings.days.range(end..holdings.settled_before.max(end));
        let files = closed.filter(|(_, day)| day.file.is_some());
        plan.removed.extend(removed(files, RemovedForm::Files));
    }
    plan
}

/// The first day that stays.
fn records_end(
    retention: &Retention,
    holdings: &Holdings,
    now: DateTime<Utc>,
    held_by: &mut Option<u64>,
) -> NaiveDate {
    let today = now.date_naive();
    let mut bytes: u64 = holdings.days.values().map(|day| day.stored + day.file.unwrap_or(0)).sum();
    let mut days = holdings.days.iter().peekable();
    let mut end = NaiveDate::MIN;
    while let Some((&date, day)) = days.next() {
        let age = (today - date).num_days();
        let is_old = retention.max_age_days.is_some_and(|most| age > i64::from(most));
        let is_much = retention.max_bytes.is_some_and(|most| bytes > most);
        if !is_old && !is_much || date >= holdings.settled_before {
            break;
        }
        if let Some(owed) = holdings.owed.filter(|owed| *owed <= day.last.seq) {
            *held_by = Some(owed);
            break;
        }
        bytes -= day.stored + day.file.unwrap_or(0);
        // The log is only cut where a block ends too.
        if let Some((next, _)) = days.peek().filter(|(_, next)| !next.straddles) {
            end = **next;
        }
    }
    end
}

fn removed<'a>(
    mut days: impl Iterator<Item = (&'a NaiveDate, &'a Day)>,
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

    /// Days 1 to 9 with ten lines and 100 bytes each; all but the last two are settled.
    fn holdings() -> Holdings {
        let day = |n: u32| Day {
            first: u64::from(n) * 10,
            last: Head { seq: u64::from(n) * 10 + 9, hash: Hash::from_bytes([n as u8; 32]) },
            lines: 10,
            stored: 60,
            straddles: false,
            file: Some(40),
        };
        let days = (1..=9).map(|n| (date(n), day(n))).collect();
        Holdings { days, settled_before: date(8), owed: None }
    }

    /// `what from-to first..last` of each removal, on the tenth.
    fn planned(retention: Retention, holdings: &Holdings) -> (Vec<String>, Option<u64>) {
        let now = date(10).and_hms_opt(1, 0, 0).unwrap().and_utc();
        let plan = plan(&retention, holdings, now);
        let texts = plan.removed.iter().map(|r| {
            assert_eq!(r.hash, holdings.days[&r.to_day].last.hash);
            let days = (r.from_day.format("%-d"), r.to_day.format("%-d"));
            format!("{:?} {}-{} {}..{} {}", r.what, days.0, days.1, r.first, r.last, r.lines)
        });
        (texts.collect(), plan.held_by)
    }

    fn by_age(days: u32) -> Retention {
        Retention { max_age_days: Some(days), ..Retention::default() }
    }

    #[test]
    fn whole_days_go_by_age_and_by_size_and_never_the_last() {
        let none = (Vec::new(), None);
        let all = holdings();
        assert_eq!(planned(Retention::default(), &all), none);
        assert_eq!(planned(by_age(9), &all), none);
        assert_eq!(planned(by_age(7), &all).0, ["Records 1-2 10..29 20"]);
        assert_eq!(planned(by_age(0), &all).0, ["Records 1-7 10..79 70"]);
        let by_size = |bytes| Retention { max_bytes: Some(bytes), ..Retention::default() };
        assert_eq!(planned(by_size(900), &all), none);
        assert_eq!(planned(by_size(899), &all).0, ["Records 1-1 10..19 10"]);
        assert_eq!(planned(by_size(0), &all).0, ["Records 1-7 10..79 70"]);
        let empty = Holdings { days: BTreeMap::new(), settled_before: date(8), owed: None };
        assert_eq!(planned(by_age(0), &empty), none);
    }

    #[test]
    fn what_is_owed_keeps_its_day_and_those_after() {
        let held = Holdings { owed: Some(35), ..holdings() };
        assert_eq!(planned(by_age(5), &held), (vec!["Records 1-2 10..29 20".to_owned()], Some(35)));
        let held = Holdings { owed: Some(12), ..holdings() };
        assert_eq!(planned(by_age(5), &held), (Vec::new(), Some(12)));
        let held = Holdings { owed: Some(85), ..holdings() };
        assert_eq!(planned(by_age(5), &held).1, None);
    }

    #[test]
    fn files_go_where_sled_has_them() {
        let mut all = holdings();
        let retention = Retention { keep_jsonl: false, ..Retention::default() };
        assert_eq!(planned(retention, &all).0, ["Files 1-7 10..79 70"]);
        let both = Retention { keep_jsonl: false, ..by_age(7) };
        assert_eq!(planned(both, &all).0, ["Records 1-2 10..29 20", "Files 3-7 30..79 50"]);
        all.days.values_mut().take(4).for_each(|day| day.file = None);
        assert_eq!(planned(retention, &all).0, ["Files 5-7 50..79 30"]);
    }

    #[test]
    fn a_block_over_two_days_is_not_cut() {
        let mut all = holdings();
        all.days.get_mut(&date(3)).unwrap().straddles = true;
        assert_eq!(planned(by_age(7), &all).0, ["Records 1-1 10..19 10"]);
        assert_eq!(planned(by_age(6), &all).0, ["Records 1-3 10..39 30"]);
    }
}
