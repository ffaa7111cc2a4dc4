//! The exact bytes of a message record and an event, with hashes from another program.

use std::fs;

use a2a_journal::{Commit, Received, Record};
use a2a_protocol::{Envelope, Event, Outcome};

use crate::setup::*;

#[test]
fn record_and_event_have_the_exact_bytes() {
    let mut bench = fresh();
    let mut line = accepted(1, &["tim"]);
    line.received = Received::Json(b"{\"a\":\r\n [1,  2]}".as_slice().into());
    line.bytes = 16;
    line.fingerprint = Some(0xbeef);
    commit(&mut bench.journal, &[Record::Message(line), event(2, Event::AttemptFailed, 1, "tim")]);

    let record = concat!(
        r#"{"seq":1,"time":"2026-02-21T18:30:00.001Z","outcome":"delivered","#,
        r#""messageId":"0192a4c8-7e1a-7b3c-9d4e-000000000001","by":"roman","#,
        r#""bodyHash":"000000000000beef","bytes":16,"tookUs":41,"message":{"a":   [1,  2]},"#,
        r#""recipients":[{"agentId":"tim","outcome":"delivered"}],"#,
        r#""prev":"0000000000000000000000000000000000000000000000000000000000000000""#,
    );
    // From `sha256sum`, independent of this code.
    let record_hash = "9beb2b396c78f4f9ad2a8c67d0078729e2dff6d9898680a5a8b683ba137ab4b7";
    let event = format!(
        concat!(
            r#"{{"seq":2,"time":"2026-02-21T18:30:00.002Z","event":"attempt_failed","of":1,"#,
            r#""messageId":"0192a4c8-7e1a-7b3c-9d4e-000000000001","agentId":"tim","attempt":1,"#,
            r#""prev":"{}""#
        ),
        record_hash
    );
    let event_hash = "fa811815ea92a0265d0e9688594b3b588d088f52515d0ce2d45e74fdc7d80ee3";
    let expected =
        format!("{record},\"hash\":\"{record_hash}\"}}\n{event},\"hash\":\"{event_hash}\"}}\n");
    let file = bench.dir.path().join("a2a-log/2026-02-21.jsonl");
    assert_eq!(fs::read_to_string(file).unwrap(), expected);
    assert_eq!(bench.journal.reader().head().hash.to_string(), event_hash);
}

#[test]
fn refusal_has_every_field() {
    let mut bench = fresh();
    let mut line = accepted(1, &[]);
    line.outcome = Outcome::Invalid;
    line.message_id = None;
    line.by = None;
    line.fingerprint = None;
    line.received = Received::Raw(b"not\njson".as_slice().into());
    line.bytes = 8;
    line.reason = Some("It is no JSON.".to_owned());
    line.retry_after_ms = Some(20);
    line.errors = Envelope::parse(b"not\njson").unwrap_err().into_violations();
    let errors = serde_json::to_value(&line.errors).unwrap();
    commit(&mut bench.journal, &[Record::Message(line)]);

    let lines = checked_log(bench.dir.path());
    let mut record = lines[0].clone();
    let object = record.as_object_mut().unwrap();
    object.remove("prev");
    object.remove("hash");
    let expected = serde_json::json!({
        "seq": 1,
        "time": "2026-02-21T18:30:00.001Z",
        "outcome": "invalid",
        "raw": "not\njson",
        "bytes": 8,
        "tookUs": 41,
        "recipients": [],
        "reason": "It is no JSON.",
        "retryAfterMs": 20,
        "errors": errors,
    });
    assert_eq!(record, expected);
}

#[test]
fn each_day_has_its_segment_and_the_clock_never_reopens_one() {
    let mut bench = fresh();
    const DAY: i64 = 86_400_000;
    for (seq, ms) in [(1, 0), (2, DAY), (3, 0), (4, 3 * DAY)] {
        let mut line = accepted(seq, &["tim"]);
        line.time = at(ms);
        commit(&mut bench.journal, &[Record::Message(line)]);
    }
    let names: Vec<String> = log_files(bench.dir.path())
        .iter()
        .map(|path| {
            let lines = fs::read_to_string(path).unwrap().lines().count();
            format!("{} {lines}", path.file_name().unwrap().to_str().unwrap())
        })
        .collect();
    assert_eq!(names, ["2026-02-21.jsonl 1", "2026-02-22.jsonl 2", "2026-02-24.jsonl 1"]);
    assert_eq!(checked_log(bench.dir.path()).len(), 4);

    // A restart keeps the newest day.
    bench.journal.close().unwrap();
    let (mut journal, recovered) = open(bench.dir.path());
    assert_eq!(recovered.next_seq, 5);
    commit(&mut journal, &[message(5, &["tim"])]);
    assert_eq!(log_files(bench.dir.path()).len(), 3);
    assert_eq!(checked_log(bench.dir.path()).len(), 5);
}

/// A large refused message is kept as an excerpt, with the hash of all of it.
#[test]
fn large_refusal_keeps_an_excerpt_and_the_hash_of_all() {
    let mut bench = fresh();
    let text = "x".repeat(10_000);
    let json = format!(
        r#"{{"messageId":"7","from":{{"agentId":"roman"}},"payload":{{"taskId":"8","text":"{text}"}}}}"#
    );
    let lines = [
        Received::JsonExcerpt(json.as_bytes().into()),
        Received::JsonExcerpt(format!("[{json}]").as_bytes().into()),
        Received::RawExcerpt(text.as_bytes().into()),
    ];
    let lines: Vec<_> = (1..)
        .zip(lines)
        .map(|(seq, received)| {
            let mut line = accepted(seq, &[]);
            line.outcome = Outcome::RateLimited;
            line.bytes = if seq == 3 { 4 << 20 } else { json.len() as u64 + 2 * (seq - 1) };
            line.received = received;
            Record::Message(line)
        })
        .collect();
    commit(&mut bench.journal, &lines);

    let lines = checked_log(bench.dir.path());
    assert_eq!(
        lines[0]["message"],
        serde_json::json!({
            "messageId": "7", "from": { "agentId": "roman" }, "payload": { "taskId": "8" },
        })
    );
    let digest = format!("{:x}", <sha2::Sha256 as sha2::Digest>::digest(json.as_bytes()));
    assert_eq!(lines[0]["sha256"], digest);
    assert_eq!(lines[0]["bytes"], json.len());
    assert_eq!(lines[1]["raw"].as_str().unwrap().len(), 1_024);
    assert!(lines[1]["sha256"].is_string() && lines[1].get("message").is_none());
    assert_eq!(lines[2]["raw"].as_str().unwrap().len(), 1_024);
    assert!(lines[2].get("sha256").is_none(), "its end was never read");
}
