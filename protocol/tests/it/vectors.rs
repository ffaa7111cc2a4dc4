use std::collections::BTreeSet;

use a2a_protocol::{Envelope, Progress, Report};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Vector<'a> {
    name: String,
    valid: bool,
    #[serde(default)]
    errors: Vec<Expected>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    raw: Option<String>,
}

#[derive(Deserialize, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Expected {
    path: String,
    code: String,
}

fn each_vector(lines: &str, mut check: impl FnMut(&Vector<'_>, &[u8])) {
    let mut count = 0;
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let vector: Vector<'_> = serde_json::from_str(line).unwrap();
        let document = vector.message.or(vector.payload).map(RawValue::get);
        let bytes = document.or(vector.raw.as_deref()).expect("a vector has a document");
        check(&vector, bytes.as_bytes());
        count += 1;
    }
    assert!(count > 0, "no vectors were read");
}

fn found(report: Report) -> BTreeSet<Expected> {
    report
        .into_violations()
        .into_iter()
        .map(|v| Expected { path: v.path, code: v.code.to_string() })
        .collect()
}

#[test]
fn every_message_vector_gets_exactly_its_violations() {
    each_vector(include_str!("../../../tests/vectors/openclaw-a2a-v1.jsonl"), |vector, bytes| {
        let found = Envelope::parse(bytes).map_or_else(found, |_| BTreeSet::new());
        assert_eq!(found.is_empty(), vector.valid, "{}: {found:?}", vector.name);
        assert_eq!(found, vector.errors.iter().map(copy).collect(), "{}", vector.name);
    });
}

fn copy(expected: &Expected) -> Expected {
    Expected { path: expected.path.clone(), code: expected.code.clone() }
}

#[test]
fn every_progress_vector_gets_its_verdict() {
    each_vector(include_str!("../../../tests/vectors/task-progress-v1.jsonl"), |vector, bytes| {
        let verdict = Progress::parse(bytes);
        assert_eq!(verdict.is_ok(), vector.valid, "{}: {verdict:?}", vector.name);
    });
}

#[derive(Deserialize)]
struct Sequence<'a> {
    name: String,
    #[serde(borrow)]
    updates: Vec<&'a RawValue>,
    accepted: Vec<bool>,
}

#[test]
fn every_progress_sequence_is_accepted_update_by_update() {
    let lines = include_str!("../../../tests/vectors/task-progress-sequences-v1.jsonl");
    for line in lines.lines() {
        let sequence: Sequence<'_> = serde_json::from_str(line).unwrap();
        let verdicts: Vec<_> = sequence
            .updates
            .iter()
            .map(|update| Progress::parse(update.get().as_bytes()).is_ok())
            .collect();
        assert_eq!(verdicts, sequence.accepted, "{}", sequence.name);
    }
}
