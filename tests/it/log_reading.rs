//! Reading a log that is not as logs usually are: much about one message, a clock that was set
//! back, places beyond the end, deep messages, bytes that terminals act on.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use a2a_journal::{
    Commit, EventRecord, Journal, MessageRecord, Options, Received, Record, Retention,
};
use a2a_protocol::{AgentId, Event, MessageId, Outcome, RecipientOutcome};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::log_command::log;
use crate::log_stream::Stream;
use crate::server::{Server, id_of, message, new_id};

/// A log that was written before any server started here.
fn written(folder: &Path, lines: &[Record]) {
    let retention = Retention { compress: false, ..Retention::default() };
    let options = Options { retention, ..Options::new(folder) };
    let (mut journal, _) = Journal::open(&options).unwrap();
    lines.chunks(500).for_each(|lines| journal.commit(lines).unwrap());
    journal.close().unwrap();
}

fn record(seq: u64, time: DateTime<Utc>, sent: &Value, to: &[String]) -> Record {
    let agent = |name: &str| name.parse::<AgentId>().unwrap();
    let recipient =
        |name: &String| RecipientOutcome { agent_id: agent(name), outcome: Outcome::Queued };
    Record::Message(MessageRecord {
        seq,
        time,
        outcome: Outcome::Queued,
        message_id: Some(id_of(sent).parse::<MessageId>().unwrap()),
        by: Some(agent("roman")),
        bytes: sent.to_string().len() as u64,
        took_us: 7,
        received: Received::Json(Arc::from(sent.to_string().into_bytes())),
        message: None,
        fingerprint: Some(seq),
        recipients: to.iter().map(recipient).collect(),
        reason: None,
        retry_after_ms: None,
        errors: Vec::new(),
        via: None,
        trace: None,
        facts: Vec::new(),
    })
}

fn event(seq: u64, time: DateTime<Utc>, of: u64, who: &str, reason: &str) -> Record {
    Record::Event(EventRecord {
        of: Some(of),
        agent_id: Some(who.parse().unwrap()),
        reason: Some(reason.to_owned()),
        ..EventRecord::new(seq, time, Event::Acknowledged)
    })
}

/// One message to 3,000, each with many events; one more to one, before it.
fn loud(folder: &Path) -> Value {
    let begun: DateTime<Utc> = "2026-02-21T18:30:00Z".parse().unwrap();
    let names: Vec<_> = (0..3_000).map(|n| format!("agent-{n}")).collect();
    let sent = message("roman", "agent-0", "to all");
    let mut lines = vec![
        record(1, begun, &message("roman", "agent-0", "before"), &names[..1]),
        record(2, begun, &sent, &names),
        event(3, begun, 1, "agent-0", "done"),
    ];
    for (seq, name) in (4..).zip(&names) {
        lines.push(event(seq, begun + TimeDelta::seconds(1), 2, name, &"z".repeat(4_000)));
    }
    written(folder, &lines);
    sent
}

#[test]
fn a_message_to_thousands_comes_in_answers_of_a_size() {
    let folder = tempfile::tempdir().unwrap();
    let sent = loud(folder.path());
    let server = Server::start(folder.path());
    let page = server.get("/bus/log?until=2026-02-22");
    assert!(page.body.to_string().len() < 9 << 20);
    let [first] = page.body["records"].as_array().unwrap().as_slice() else { panic!("one fits") };
    let count = |record: &Value| record["deliveries"].as_array().unwrap().len() as u64;
    assert_eq!(count(first) + first["moreDeliveries"].as_u64().unwrap(), 3_000);
    assert!(count(first) > 1_500);
    let rest = page.body["nextCursor"].as_str().unwrap();
    let page = server.get(&format!("/bus/log?until=2026-02-22&cursor={rest}"));
    assert_eq!(page.body["records"][0]["seq"], 1);
    assert_eq!(page.body["records"][0]["moreDeliveries"], Value::Null);
    // All of it, part by part.
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/bus/log/{}?limit=700&cursor={cursor}", id_of(&sent));
        let part = server.get(&path).body;
        let record = &part["records"][0];
        assert_eq!((part["records"].as_array().unwrap().len(), &record["seq"]), (1, &json!(2)));
        assert!(count(record) <= 700);
        seen.extend(record["deliveries"].as_array().unwrap().iter().map(|e| e["seq"].as_u64()));
        let left = record["moreDeliveries"].as_u64().unwrap_or(0);
        assert_eq!(left, 3_000 - seen.len() as u64);
        cursor = part["nextCursor"].as_str().unwrap().to_owned();
        if cursor.is_empty() {
            break;
        }
    }
    assert!(seen.into_iter().eq((4..3_004).map(Some)));
    // Whatever the source, the command assembles it.
    let shown = |args: &[&str]| {
        let output = log(folder.path(), args);
        assert_eq!(output.code, Some(0), "{args:?}: {}", output.err);
        output.out
    };
    let ask = || {
        let whole = shown(&["show", id_of(&sent), "--format", "jsonl"]);
        assert_eq!(whole, shown(&["show", "2", "--format", "jsonl"]));
        let whole: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!((count(&whole), &whole["moreDeliveries"]), (3_000, &Value::Null));
        let people = shown(&["show", id_of(&sent)]);
        assert_eq!(people.matches("acknowledged agent-").count(), 3_000);
        let table = shown(&["--limit", "1", "--until", "2026-02-22"]);
        assert!(table.contains("at least ") && table.contains("of 3000 acknowledged"), "{table}");
        whole
    };
    let online = ask();
    assert_eq!(server.terminate().code(), Some(0));
    assert_eq!(ask(), online);
}

#[test]
fn parts_of_a_message_are_asked_for_sensibly() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    let sent = message("roman", "tim", "hi");
    server.accepted(&sent);
    let ask = |query: &str| server.get(&format!("/bus/log/{}?{query}", id_of(&sent)));
    for (name, value) in [("limit", "all"), ("cursor", "7"), ("cursor", "a.b"), ("agent", "tim")] {
        let refused = ask(&format!("{name}={value}"));
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body["detail"].as_str().unwrap().contains(&format!("`{name}`")));
    }
    assert_eq!(ask("limit=1&limit=2").status, 400);
    let beyond = format!("cursor={}.{}", u64::MAX, u64::MAX);
    assert_eq!(ask(&beyond).body, json!({"records": [], "nextCursor": ""}));
    assert_eq!(ask("").body["records"].as_array().unwrap().len(), 1);
}

#[test]
fn places_beyond_the_end_are_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    server.accepted(&message("roman", "tim", "before"));
    let cursor = u64::MAX;
    let page = server.get(&format!("/bus/log?cursor={cursor}"));
    assert_eq!(page.body["records"].as_array().unwrap().len(), 1, "{page:?}");
    let head = server.get("/bus/log/head").body["seq"].as_u64().unwrap();
    let mut stream = Stream::open(&server, "", Some(cursor));
    assert_eq!(stream.id, head, "the end, as it is");
    let sent = message("roman", "tim", "after");
    server.accepted(&sent);
    assert_eq!(stream.next().unwrap()["message"], sent);
    let key = format!("correlation:{}", new_id());
    let notes = server.get(&format!("/bus/circuits/{key}/log?cursor={cursor}"));
    assert_eq!(notes.body, json!({"events": [], "nextCursor": ""}));
    assert_eq!(server.get("/bus/log?cursor=18446744073709551616").status, 400);
    let output = log(folder.path(), &["show", &u64::MAX.to_string()]);
    assert_eq!(output.code, Some(1), "{}", output.err);
}

#[test]
fn a_stream_misses_nothing_when_the_clock_was_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let noon: DateTime<Utc> = "2026-02-21T12:00:00Z".parse().unwrap();
    // Early, then an hour ahead, then early again for long.
    let time = |seq: u64| match seq {
        1..1_000 => noon + TimeDelta::milliseconds(seq as i64),
        1_000..1_100 => noon + TimeDelta::hours(1),
        _ => noon + TimeDelta::milliseconds(seq as i64),
    };
    let lines: Vec<_> =
        (1..=3_000).map(|seq| record(seq, time(seq), &message("roman", "tim", "x"), &[])).collect();
    written(folder.path(), &lines);
    let server = Server::start(folder.path());
    let seqs = |query: &str| {
        let mut stream = Stream::open(&server, query, query.contains("until").then_some(0));
        let mut seqs = Vec::new();
        while seqs.last().is_none_or(|last| *last < 3_000)
            && (query.contains("until") || seqs.len() < 100)
            && let Some(event) = stream.next()
        {
            seqs.push(event["seq"].as_u64().unwrap());
        }
        seqs
    };
    assert!(seqs("since=2026-02-21T12:30:00Z").into_iter().eq(1_000..1_100));
    let early = seqs("until=2026-02-21T12:30:00Z&agent=roman");
    assert!(early.into_iter().eq((1..1_000).chain(1_100..=3_000)));
}

#[test]
fn a_look_of_a_stream_is_small() {
    let folder = tempfile::tempdir().unwrap();
    let time: DateTime<Utc> = "2026-02-21T12:00:00Z".parse().unwrap();
    let long = "w".repeat(20_000);
    let lines: Vec<_> =
        (1..=500).map(|seq| record(seq, time, &message("roman", "tim", &long), &[])).collect();
    written(folder.path(), &lines);
    let server = Server::start(folder.path());
    let host = server.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let request =
        format!("GET /bus/log/stream HTTP/1.1\r\nhost: {host}\r\nlast-event-id: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).unwrap();
    }
    let (mut largest, mut all) = (0, 0);
    while all < 400 * long.len() {
        line.clear();
        stream.read_line(&mut line).unwrap();
        let size = usize::from_str_radix(line.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk).unwrap();
        largest = largest.max(size);
        all += size;
    }
    assert!((100_000..300_000).contains(&largest), "{largest}");
}

#[test]
fn programs_get_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    let sent = message("roman", "tim", "a\u{7f}b\u{9b}31mc\u{202e}d");
    server.accepted(&sent);
    let page = server.whole_log(1);
    assert!(page[0].to_string().contains("a\u{7f}b\u{9b}31mc\u{202e}d"));
    let correlation = sent["correlationId"].as_str().unwrap();
    for args in [&[][..], &["show", id_of(&sent)], &["thread", correlation]] {
        for format in ["json", "jsonl"] {
            let output = log(folder.path(), &[args, &["--format", format]].concat());
            assert!(output.out.contains("a\u{7f}b\u{9b}31mc\u{202e}d"), "{args:?}: {}", output.out);
        }
        let output = log(folder.path(), args);
        assert!(!output.out.contains(['\u{7f}', '\u{9b}', '\u{202e}']), "{args:?}: {}", output.out);
    }
    let file = std::fs::read_dir(folder.path().join("a2a-log")).unwrap().next().unwrap().unwrap();
    let file = std::fs::read_to_string(file.path()).unwrap();
    let line = file.lines().find(|line| line.contains("31mc")).unwrap();
    let output = log(folder.path(), &["--format", "jsonl"]);
    assert_eq!(output.out.split(",\"deliveries\":").next(), line.strip_suffix('}'));
}

#[test]
fn a_conversation_shows_when_it_was_stopped_and_went_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for agent in ["roman", "tim"] {
        server.inbox(agent, "");
    }
    let sent = message("roman", "tim", "first");
    server.accepted(&sent);
    let correlation = sent["correlationId"].as_str().unwrap();
    let circuit = format!("/bus/circuits/correlation:{correlation}");
    let mut stream = Stream::open(&server, "", None);
    assert_eq!(server.post(&format!("{circuit}/trip"), br#"{"reason": "enough"}"#).status, 200);
    let mut refused = message("tim", "roman", "second");
    refused["correlationId"] = json!(correlation);
    assert_eq!(server.send(&refused).status, 409);
    assert_eq!(server.post(&format!("{circuit}/reset"), b"").status, 200);
    // No caller waits for such a line, so it is written a moment later.
    while stream.next().unwrap()["event"] != "closed" {}
    let events = server.get(&format!("{circuit}/log"));
    let words: Vec<_> =
        events.body["events"].as_array().unwrap().iter().map(|e| &e["event"]).collect();
    assert_eq!(words, ["tripped", "closed"], "{events:?}");
    let after = &events.body["events"][0]["seq"];
    let later = server.get(&format!("{circuit}/log?cursor={after}")).body;
    assert_eq!(later["events"].as_array().unwrap().len(), 1, "{later}");
    assert_eq!(server.get("/bus/circuits/nonsense/log").status, 400);
    assert_eq!(server.get(&format!("{circuit}/log?limit=1")).status, 400);
    let ask = || {
        let drawn = log(folder.path(), &["thread", correlation]);
        assert_eq!(drawn.code, Some(0), "{}", drawn.err);
        let at = |part: &str| drawn.out.find(part).unwrap_or_else(|| panic!("{}", drawn.out));
        let places = [at("first"), at(" tripped "), at("enough"), at("second"), at(" closed ")];
        assert!(places.is_sorted(), "{}", drawn.out);
        let lines = log(folder.path(), &["thread", correlation, "--format", "jsonl"]).out;
        let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert!(lines.iter().map(|line| line["seq"].as_u64()).is_sorted());
        assert_eq!(lines.iter().filter(|line| line["event"].is_string()).count(), 2);
        let document = log(folder.path(), &["thread", correlation, "--format", "json"]).out;
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["events"].as_array().unwrap().len(), 2);
        (drawn.out, document)
    };
    let online = ask();
    // The files alone, then the journal itself.
    let address = folder.path().join("a2a.addr");
    std::fs::remove_file(address).unwrap();
    assert_eq!(ask(), online);
    server.kill();
    assert_eq!(ask(), online);
}

#[test]
fn a_deep_message_is_found_by_who_sent_it() {
    let folder = tempfile::tempdir().unwrap();
    let hash: String = Sha256::digest(b"roman-token").iter().map(|b| format!("{b:02x}")).collect();
    let boss: String = Sha256::digest(b"boss-token").iter().map(|b| format!("{b:02x}")).collect();
    let config = format!(
        "[[auth.tokens]]\nagent = \"roman\"\nsha256 = \"{hash}\"\n[[auth.tokens]]\noperator = \"boss\"\nsha256 = \"{boss}\"\n"
    );
    let server = Server::with_config(folder.path(), &config);
    let roman = server.client().with("authorization", "Bearer roman-token");
    for depth in [120, 124, 125, 126, 127] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let body = format!(r#"{{"type":"broadcast","type":"status_update","payload":{deep}}}"#);
        assert_eq!(roman.post("/bus/messages", body.as_bytes()).status, 422, "{depth}");
    }
    let found = |more: &[&str]| {
        let args = [&["--token", "boss-token", "--format", "jsonl", "--agent", "roman"], more];
        let output = log(folder.path(), &args.concat());
        assert_eq!(output.code, Some(0), "{}", output.err);
        output.out.lines().filter(|line| line.contains(r#""by":"roman""#)).count()
    };
    assert_eq!(found(&[]), 5);
    // The deepest cannot be read at all. Of a key that is there twice the last counts.
    assert_eq!((found(&["--type", "status_update"]), found(&["--type", "broadcast"])), (4, 0));
}
