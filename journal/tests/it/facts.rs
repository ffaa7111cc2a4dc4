//! A restart restores the latest value of each fact, however the journal ended.

use std::collections::BTreeMap;

use a2a_journal::{Commit, EventRecord, Fact, Journal, Options, Record, Recovered};
use a2a_protocol::Event;

use crate::setup::*;

fn fact(key: &str, value: Option<&str>) -> Fact {
    Fact { key: key.into(), value: value.map(Into::into) }
}

fn facts_of(recovered: &Recovered) -> BTreeMap<&str, &str> {
    recovered.facts.iter().map(|(key, value)| (&**key, &**value)).collect()
}

/// Two messages that set facts, and an event that removes one and sets another.
fn with_facts() -> Vec<Record> {
    let mut first = accepted(1, &["tim"]);
    first.facts = vec![fact("task:1", Some(r#"{"state":"requested"}"#)), fact("x", Some("1"))];
    let mut second = accepted(2, &["tim"]);
    second.facts = vec![fact("task:1", Some(r#"{"state":"accepted"}"#))];
    let mut third = EventRecord::new(3, at(3), Event::Closed);
    third.facts = vec![fact("x", None), fact("a \"key\"\n", Some("[1, 2]"))];
    vec![Record::Message(first), Record::Message(second), Record::Event(third)]
}

#[test]
fn facts_survive_a_crash_a_clean_stop_and_a_checkpoint() {
    let expected =
        BTreeMap::from([("task:1", r#"{"state":"accepted"}"#), ("a \"key\"\n", "[1, 2]")]);
    let mut bench = fresh();
    assert!(bench.recovered.facts.is_empty());
    commit(&mut bench.journal, &with_facts());
    let crashed = bench.killed();
    assert_eq!(facts_of(&open(crashed.path()).1), expected, "after a crash");
    // Its recovery made a checkpoint; the next start reads that.
    assert_eq!(facts_of(&open(crashed.path()).1), expected, "from a checkpoint");
    bench.journal.close().unwrap();
    drop(bench.journal);
    let (mut journal, recovered) = open(bench.dir.path());
    assert_eq!(facts_of(&recovered), expected, "after a clean stop");
    let mut line = EventRecord::new(4, at(4), Event::Closed);
    line.facts = vec![fact("task:1", None)];
    commit(&mut journal, &[Record::Event(line)]);
    drop(journal);
    let options = Options { checkpoint_lines: 1, ..Options::new(bench.dir.path()) };
    let (_, recovered) = Journal::open(&options).unwrap();
    assert_eq!(facts_of(&recovered).len(), 1, "a removed fact stays removed");
    let lines = checked_log(bench.dir.path());
    assert_eq!(lines[2]["facts"], serde_json::json!({ "x": null, "a \"key\"\n": [1, 2] }));
}
