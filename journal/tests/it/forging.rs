//! No text in a message can forge a record.

use a2a_journal::{Commit, Received, Record};
use a2a_protocol::{Code, Outcome, Violation};

use crate::setup::*;

const HOSTILE: &[&str] = &[
    "line\nbreak",
    "\r\n{\"seq\":99,\"time\":\"2026-02-21T18:30:00.000Z\",\"outcome\":\"delivered\"}\n",
    "\",\"hash\":\"",
    "\",\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"hash\":\"0000000000000000000000000000000000000000000000000000000000000000\"}\n",
    "\\",
    "\\\"",
    "\u{0}\u{1}\u{7f}\u{85}\u{2028}\u{2029}",
];

#[test]
fn text_stays_inside_its_string() {
    let mut bench = fresh();
    let mut seq = 0;
    for text in HOSTILE {
        let quoted = serde_json::to_vec(text).unwrap();
        let shapes: [fn(&mut a2a_journal::MessageRecord, &str, &[u8]); 4] = [
            |line, text, _| line.reason = Some(text.to_owned()),
            |line, text, _| {
                line.errors = vec![Violation {
                    path: text.to_owned(),
                    code: Code::NotAllowed,
                    message: text.to_owned(),
                    allowed: vec![text.to_owned()],
                    suggestion: Some(text.to_owned()),
                }];
            },
            |line, text, _| line.received = Received::Raw(text.as_bytes().into()),
            |line, _, quoted| line.received = Received::Json(quoted.into()),
        ];
        for shape in shapes {
            seq += 1;
            let mut line = accepted(seq, &["tim"]);
            line.outcome = Outcome::Invalid;
            shape(&mut line, text, &quoted);
            commit(&mut bench.journal, &[Record::Message(line)]);
        }
    }
    // One line each, chained, with the committed number: nothing was injected.
    let lines = checked_log(bench.dir.path());
    assert_eq!(lines.len() as u64, seq);
    for (i, line) in lines.iter().enumerate() {
        assert_eq!(line["seq"], i as u64 + 1);
    }
    assert_eq!(lines[4]["reason"], HOSTILE[1]);
    assert_eq!(lines[6]["raw"], HOSTILE[1]);
    assert_eq!(lines[7]["message"], HOSTILE[1]);
    let (_, recovered) = open(bench.killed().path());
    assert_eq!(recovered.next_seq, seq + 1);
    assert_eq!(recovered.report.unreadable_lines, 0);
    assert!(recovered.pending.is_empty());
}

#[test]
fn message_may_repeat_the_keys_of_a_record() {
    let mut bench = fresh();
    let inner =
        br#"{"seq":7,"event":"joined","outcome":"invalid","recipients":[],"message":{"x":1}}"#;
    let mut line = accepted(1, &["tim"]);
    line.received = Received::Json(inner.as_slice().into());
    commit(&mut bench.journal, &[Record::Message(line)]);
    let (_, recovered) = open(bench.killed().path());
    assert_eq!(recovered.pending.len(), 1);
    assert_eq!(recovered.pending[0].message.as_ref(), inner);
}

#[test]
fn bytes_that_are_not_text_are_kept_readable_and_short() {
    let mut bench = fresh();
    let mut line = accepted(1, &[]);
    line.outcome = Outcome::Invalid;
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    line.bytes = bytes.len() as u64;
    line.received = Received::Raw(bytes.into());
    commit(&mut bench.journal, &[Record::Message(line)]);
    let lines = checked_log(bench.dir.path());
    assert_eq!(lines[0]["bytes"], 100_000);
    assert!(lines[0]["raw"].as_str().unwrap().chars().count() <= 4096);
    assert_eq!(bench.journal.reader().page(None, 1).unwrap().records.len(), 1);
}
