//! Random commits, faults and restarts against a simple model.
//!
//! The model is the list of committed records. After any steps the journal must recover exactly the
//! fold of that list.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

use a2a_journal::{Commit, Journal, Options, Record, Recovered};
use a2a_protocol::Event;
use proptest::prelude::*;

use crate::faulty_disk::{Faults, FaultyDisk};
use crate::setup::*;

const AGENTS: [&str; 3] = ["ann", "bob", "tim"];

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Draft>),
    /// A commit that fails after this many bytes.
    Fail(Vec<Draft>, usize, bool),
    /// A commit whose sync fails, and a restart.
    FailSync(Vec<Draft>),
    Close,
    Drop,
    Kill,
    LoseSled,
}

/// A record without a number.
#[derive(Debug, Clone)]
enum Draft {
    Message(Vec<&'static str>),
    Refused,
    /// About the message this many records back.
    Event(Event, usize, &'static str),
    Joined(&'static str),
}

fn draft() -> impl Strategy<Value = Draft> {
    let agent = proptest::sample::select(&AGENTS[..]);
    let event = proptest::sample::select(Event::ALL)
        .prop_filter("needs a message", |e| !matches!(e, Event::Joined | Event::Left));
    prop_oneof![
        4 => proptest::sample::subsequence(&AGENTS[..], 0..=3).prop_map(Draft::Message),
        1 => Just(Draft::Refused),
        6 => (event, 0..8_usize, agent.clone()).prop_map(|(e, back, who)| Draft::Event(e, back, who)),
        1 => agent.prop_map(Draft::Joined),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let batch = || proptest::collection::vec(draft(), 1..20);
    prop_oneof![
        8 => batch().prop_map(Step::Commit),
        // Enough to fill blocks.
        1 => proptest::collection::vec(draft(), 400..900).prop_map(Step::Commit),
        2 => (batch(), 0..3_000_usize, any::<bool>()).prop_map(|(b, n, full)| Step::Fail(b, n, full)),
        1 => batch().prop_map(Step::FailSync),
        1 => Just(Step::Close),
        1 => Just(Step::Drop),
        1 => Just(Step::Kill),
        1 => Just(Step::LoseSled),
    ]
}

#[derive(Default)]
struct Model {
    lines: Vec<Record>,
    records: Vec<u64>,
}

impl Model {
    fn next_seq(&self) -> u64 {
        self.lines.last().map_or(1, |line| line.seq() + 1)
    }

    fn lines(&self, drafts: &[Draft]) -> Vec<Record> {
        let mut records = self.records.clone();
        let numbered = drafts.iter().zip(self.next_seq()..);
        numbered
            .map(|(draft, seq)| match draft {
                Draft::Message(to) => {
                    records.push(seq);
                    message(seq, to)
                }
                Draft::Refused => {
                    records.push(seq);
                    refused(seq)
                }
                Draft::Event(what, back, who) => {
                    let of = records.iter().rev().nth(*back).copied().unwrap_or(9_999_999);
                    event(seq, *what, of, who)
                }
                Draft::Joined(who) => joined(seq, who),
            })
            .collect()
    }

    fn promise(&mut self, lines: Vec<Record>) {
        for line in &lines {
            self.records.extend(matches!(line, Record::Message(_)).then_some(line.seq()));
        }
        self.lines.extend(lines);
    }

    /// Pending deliveries and dead letters as [`pending`] and [`dead`] list them, computed separately.
    fn owed(&self) -> (Vec<String>, Vec<String>, BTreeSet<String>) {
        let mut live: BTreeMap<(u64, usize), (String, u32)> = BTreeMap::new();
        let mut failed: BTreeMap<(u64, usize), String> = BTreeMap::new();
        let mut agents = BTreeSet::new();
        for line in &self.lines {
            match line {
                Record::Message(m) if m.outcome.is_accepted() => {
                    for (i, to) in m.recipients.iter().enumerate() {
                        live.insert((m.seq, i), (to.agent_id.to_string(), 0));
                    }
                }
                Record::Message(_) => {}
                Record::Event(e) => {
                    let who = e.agent_id.as_ref().unwrap().to_string();
                    let Some(of) = e.of else {
                        agents.insert(who);
                        continue;
                    };
                    let at = live.iter().find(|(k, v)| k.0 == of && v.0 == who).map(|(k, _)| *k);
                    let gone =
                        failed.iter().find(|(k, v)| k.0 == of && **v == who).map(|(k, _)| *k);
                    match (e.event, at, gone) {
                        (Event::Delivered | Event::AttemptFailed, Some(at), _) => {
                            live.get_mut(&at).unwrap().1 = 1;
                        }
                        (Event::Acknowledged | Event::Cancelled, Some(at), _) => {
                            drop(live.remove(&at))
                        }
                        (Event::Acknowledged | Event::Cancelled | Event::Dropped, _, Some(at)) => {
                            failed.remove(&at);
                        }
                        (Event::Expired | Event::DeadLetter, Some(at), _) => {
                            live.remove(&at);
                            failed.insert(at, who);
                        }
                        (Event::Returned, _, Some(at)) => {
                            failed.remove(&at);
                            live.insert(at, (who, 0));
                        }
                        _ => {}
                    }
                }
            }
        }
        let live = live.iter().map(|((seq, _), (who, n))| format!("{seq} {who} {n}")).collect();
        let failed = failed.iter().map(|((seq, _), who)| format!("{seq} {who} why")).collect();
        (live, failed, agents)
    }

    fn check_recovered(&self, recovered: &Recovered) {
        let (live, failed, agents) = self.owed();
        assert_eq!(recovered.next_seq, self.next_seq());
        assert_eq!(pending(recovered), live);
        assert_eq!(dead(recovered), failed);
        assert_eq!(
            recovered.agents.iter().map(ToString::to_string).collect::<BTreeSet<_>>(),
            agents
        );
        let accepted = self.lines.iter().filter_map(|line| match line {
            Record::Message(m) if m.outcome.is_accepted() => Some(m.seq),
            _ => None,
        });
        assert!(recovered.seen.iter().map(|seen| seen.seq).eq(accepted));
        let report = &recovered.report;
        assert_eq!((report.unreadable_lines, report.broken_links, report.lost_messages), (0, 0, 0));
    }

    fn check_pages(&self, journal: &Journal) {
        let mut expected: BTreeMap<u64, Vec<String>> =
            self.records.iter().map(|seq| (*seq, Vec::new())).collect();
        for line in &self.lines {
            if let Record::Event(e) = line
                && let Some(list) = e.of.and_then(|of| expected.get_mut(&of))
            {
                list.push(e.event.to_string());
            }
        }
        let expected: Vec<_> = expected.into_iter().rev().collect();
        assert_eq!(all(&journal.reader(), 100), expected);
    }
}

fn run(steps: &[Step]) {
    let disk = FaultyDisk::default();
    let mut dir = tempfile::tempdir().unwrap();
    let options = |dir: &tempfile::TempDir| Options {
        checkpoint_lines: 30,
        tail_bytes: 20_000,
        disk: Arc::new(disk.clone()),
        ..Options::new(dir.path())
    };
    let mut model = Model::default();
    let (mut journal, _) = Journal::open(&options(&dir)).unwrap();
    for step in steps {
        match step {
            Step::Commit(drafts) => {
                let lines = model.lines(drafts);
                journal.commit(&lines).unwrap();
                model.promise(lines);
                continue;
            }
            Step::Fail(drafts, written, full) => {
                let kind = if *full { ErrorKind::StorageFull } else { ErrorKind::Other };
                disk.fail(Faults { append: Some((*written, kind)), ..Faults::default() });
                journal.commit(&model.lines(drafts)).unwrap_err();
                continue;
            }
            Step::FailSync(drafts) => {
                disk.fail(Faults { sync: true, ..Faults::default() });
                journal.commit(&model.lines(drafts)).unwrap_err();
                drop(journal);
            }
            Step::Close => {
                model.check_pages(&journal);
                journal.close().unwrap();
                drop(journal);
            }
            Step::Drop => drop(journal),
            Step::Kill => {
                let copy = tempfile::tempdir().unwrap();
                copy_dir(dir.path(), copy.path());
                drop(journal);
                dir = copy;
            }
            Step::LoseSled => {
                drop(journal);
                std::fs::remove_dir_all(dir.path().join("data")).unwrap();
            }
        }
        let (opened, recovered) = Journal::open(&options(&dir)).unwrap();
        journal = opened;
        model.check_recovered(&recovered);
        model.check_pages(&journal);
    }
    model.check_pages(&journal);
    assert_eq!(checked_log(dir.path()).len(), model.lines.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_recover_what_was_committed(steps in proptest::collection::vec(step(), 1..14)) {
        run(&steps);
    }
}
