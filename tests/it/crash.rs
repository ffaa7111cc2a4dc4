//! Clients write down what they were promised; at the end the promises are held against
//! the log and against each other.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::server::{Client, Server, id_of, message, spawn, stderr};

/// How the rounds end, in turn: 36 are killed under load, 6 while they start, 6 are stopped.
const ROUNDS: usize = 48;
const ENDS: [End; 8] = [
    End::Kill,
    End::Kill,
    End::Kill,
    End::KillEarly,
    End::Kill,
    End::Kill,
    End::Terminate,
    End::Kill,
];
/// No round lasts longer than this many answers.
const MOST_ANSWERS: u64 = 500;
/// One round in so many lasts as long as that, so that batches are written ahead for a while.
const LONG_EVERY: usize = 8;
/// So many rounds at least are killed while batches are written ahead.
const FEWEST_AHEAD: usize = 3;
const RECIPIENTS: [&str; 3] = ["tim", "ann", "bob"];
const SENDERS: [&str; 4] = ["roman", "tony", "xavier", "tim"];
const PRIORITIES: [&str; 4] = ["low", "normal", "high", "urgent"];

const CONFIG: &str = r#"
agents = [{ id = "tim" }, { id = "ann" }, { id = "bob" }]
[directory]
open = true
[limits]
per_agent_per_minute = 1000000000
per_pair_per_minute = 1000000000
urgent_per_minute = 1000000000
burst = 1000000000
inbox = 1000000
[delivery]
attempts = 1000
first_pause_ms = 1
longest_pause_ms = 4
"#;

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// SIGKILL after some number of answers.
    Kill,
    /// SIGKILL while it reads its journal, or about then.
    KillEarly,
    /// SIGTERM after some number of answers.
    Terminate,
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A message as its sender knows it.
struct Sent {
    message: Value,
    sender: String,
    /// Its place among the messages of its sender.
    nth: usize,
    /// The number on its receipt; `None` until it was answered.
    seq: Option<u64>,
}

impl Sent {
    fn to(&self) -> &str {
        self.message["to"]["agentId"].as_str().unwrap()
    }
}

/// All answers that the clients got.
#[derive(Default)]
struct Book {
    sent: BTreeMap<String, Sent>,
    /// By sender: the message that was on its way when the server died.
    unanswered: HashMap<String, String>,
    /// By recipient: what it was handed, in that order.
    handed: HashMap<String, Vec<String>>,
    /// Recipient and message: acknowledgements answered with 200.
    acknowledged: HashSet<(String, String)>,
    duplicates: usize,
}

type Shared<'a> = &'a Mutex<Book>;

fn open(book: Shared<'_>) -> MutexGuard<'_, Book> {
    // One thread's failure is not another's: the first is what counts.
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends until the server is gone.
fn send_on(
    client: &Client,
    name: &str,
    book: Shared<'_>,
    reported: &Sender<()>,
    mut random: Random,
) {
    for _ in 0..MOST_ANSWERS * 10 {
        let sent = next_message(name, &mut open(book), &mut random);
        let Ok(answer) = client.try_send(&sent) else { return };
        let mut book = open(book);
        let first = book.sent.get_mut(id_of(&sent)).unwrap();
        let seq = answer.body["seq"].as_u64();
        match (answer.status, answer.body["outcome"].as_str()) {
            (202, Some("queued" | "delivered")) => {
                assert_eq!(first.seq, None, "accepted twice: {answer:?}");
                first.seq = seq;
            }
            (200, Some("duplicate")) => {
                assert!(first.seq.is_none_or(|known| Some(known) == seq), "{answer:?}");
                first.seq = seq;
                book.duplicates += 1;
            }
            // It is being stopped; whether the message was written is unknown.
            (503, Some("unavailable")) => return,
            _ => panic!("{answer:?}"),
        }
        assert!(seq.is_some(), "{answer:?}");
        book.unanswered.remove(name);
        // No receiver is left once the round is over.
        let _ = reported.send(());
    }
    panic!("the round has no end");
}

/// Mostly a new message; else one that was not answered, or an old one once more.
fn next_message(name: &str, book: &mut Book, random: &mut Random) -> Value {
    if let Some(id) = book.unanswered.get(name)
        && random.percent(70)
    {
        return book.sent[id].message.clone();
    }
    if random.percent(8) {
        let old = book.sent.values().filter(|sent| sent.sender == name && sent.seq.is_some());
        let old: Vec<_> = old.collect();
        if !old.is_empty() {
            return random.one_of(&old).message.clone();
        }
    }
    let others: Vec<_> = RECIPIENTS.into_iter().filter(|to| *to != name).collect();
    let mut new = message(name, random.one_of(&others), "x");
    let nth = book.sent.values().filter(|sent| sent.sender == name).count();
    new["priority"] = json!(random.one_of(&PRIORITIES));
    let filler = "x".repeat(usize::try_from(random.below(2_000)).unwrap());
    new["payload"]["progress"] = json!(format!("{nth} {filler}"));
    let id = id_of(&new).to_owned();
    book.unanswered.insert(name.to_owned(), id.clone());
    book.sent.insert(id, Sent { message: new.clone(), sender: name.to_owned(), nth, seq: None });
    new
}

/// Takes and settles until the server is gone.
fn receive_on(
    client: &Client,
    name: &str,
    book: Shared<'_>,
    reported: &Sender<()>,
    mut random: Random,
) {
    for _ in 0..MOST_ANSWERS * 10 {
        let query = format!("wait=1s&limit={}", 1 + random.below(10));
        let Ok(answer) = client.try_inbox(name, &query) else { return };
        if answer.status == 503 {
            return;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        let taken = answer.body["messages"].as_array().unwrap();
        for delivery in taken {
            note_hand_out(name, delivery, &mut open(book));
        }
        let _ = reported.send(());
        for delivery in taken {
            let verb = match random.below(100) {
                0..75 => "ack",
                75..85 => "nack",
                _ => continue, // forgotten: it is redelivered after the restart
            };
            let Ok(answer) = client.try_settle(name, id_of(delivery), verb) else { return };
            if answer.status == 503 {
                return;
            }
            assert_eq!(answer.status, 200, "{answer:?}");
            if verb == "ack" {
                let done = (name.to_owned(), id_of(delivery).to_owned());
                open(book).acknowledged.insert(done);
            }
            let _ = reported.send(());
        }
    }
    panic!("the round has no end");
}

fn note_hand_out(name: &str, delivery: &Value, book: &mut Book) {
    let id = id_of(delivery).to_owned();
    let sent = book.sent.get(&id).unwrap_or_else(|| panic!("nobody sent {delivery}"));
    assert_eq!(sent.message, delivery["message"], "changed on the way");
    assert_eq!(sent.sender, delivery["sender"].as_str().unwrap());
    assert_eq!(sent.to(), name);
    let acknowledged = book.acknowledged.contains(&(name.to_owned(), id.clone()));
    assert!(!acknowledged, "handed out after its acknowledgement was answered: {delivery}");
    book.handed.entry(name.to_owned()).or_default().push(id);
}

/// One life of the server, and how it ends. Returns whether it was killed while its receipts
/// rested on what was written ahead of the day file.
fn round(folder: &Path, number: usize, book: Shared<'_>, random: &mut Random) -> bool {
    let end = ENDS[number % ENDS.len()];
    if end == End::KillEarly {
        let mut child = spawn(folder);
        // Not a wait for anything: a random moment of its start is what is wanted.
        let moment = Instant::now() + Duration::from_micros(random.below(60_000));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        return false;
    }
    let server = Server::start(folder);
    // Often early, when everything is new; now and then late.
    let longest = random.below(MOST_ANSWERS) + 1;
    let answers = match number % LONG_EVERY {
        0 => MOST_ANSWERS,
        _ => random.below(longest),
    };
    let newcomer = format!("new-{number}");
    let senders = SENDERS.into_iter().chain([newcomer.as_str()]);
    std::thread::scope(|scope| {
        let (reported, answered) = std::sync::mpsc::channel();
        for name in senders {
            let (client, reported, random) =
                (server.client(), reported.clone(), Random(random.next()));
            scope.spawn(move || send_on(&client, name, book, &reported, random));
        }
        for name in RECIPIENTS {
            let (client, reported, random) =
                (server.client(), reported.clone(), Random(random.next()));
            scope.spawn(move || receive_on(&client, name, book, &reported, random));
        }
        drop(reported);
        for _ in 0..answers {
            // All of them gone before their time: the scope has the reason.
            if answered.recv().is_err() {
                break;
            }
        }
        match end {
            End::Terminate => assert_eq!(server.terminate().code(), Some(0)),
            _ => server.kill(),
        }
    });
    // Made with zeros; a batch begins with something else. A clean stop removes them.
    let room = std::fs::read(folder.join("data/a2a-wal-0.bin")).unwrap_or_default();
    room.first().is_some_and(|first| *first != 0)
}

/// Receives and acknowledges until no message is pending.
fn drain(server: &Server, book: Shared<'_>) {
    for name in RECIPIENTS {
        for _ in 0..100_000 {
            if pending(server, name) == 0 {
                break;
            }
            let taken = server.inbox(name, "wait=1s&limit=100");
            for delivery in &taken {
                note_hand_out(name, delivery, &mut open(book));
                assert_eq!(server.settle(name, id_of(delivery), "ack").status, 200);
                let done = (name.to_owned(), id_of(delivery).to_owned());
                open(book).acknowledged.insert(done);
            }
        }
        assert_eq!(pending(server, name), 0);
    }
}

fn pending(server: &Server, name: &str) -> u64 {
    let agents = server.get("/bus/agents").body;
    let agent = agents["agents"].as_array().unwrap().iter().find(|a| a["agentId"] == name);
    agent.unwrap()["pending"].as_u64().unwrap()
}

#[test]
fn no_promise_is_broken_however_often_the_server_is_killed() {
    let seed = std::env::var("A2A_CRASH_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = seed.unwrap_or_else(|| uuid::Uuid::now_v7().as_u128() as u64);
    // Threads make each run its own; the seed repeats the numbers and the moments.
    println!("A2A_CRASH_SEED={seed}");
    let mut random = Random(seed);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a2a.toml"), CONFIG).unwrap();
    let book = Mutex::new(Book::default());
    let mut ahead = 0;
    for number in 0..ROUNDS {
        ahead += usize::from(round(folder.path(), number, &book, &mut random));
    }
    assert!(ahead >= FEWEST_AHEAD, "{ahead} rounds were killed while batches were written ahead");

    let server = Server::start(folder.path());
    drain(&server, &book);
    let book = book.into_inner().unwrap();
    sending_again_changes_nothing(&server, &book);
    senders_are_known(&server, &book);
    let log = server.whole_log(1_000);
    receipts_are_in_the_log(&log, &book);
    every_accepted_message_was_handed_out(&log, &book);
    first_hand_outs_are_in_order(&book);
    nothing_was_handed_out_after_its_acknowledgement(&log);
    assert_eq!(server.terminate().code(), Some(0));
    the_files_are_whole(folder.path(), &log);
    let output = stderr(folder.path());
    let bad: Vec<_> =
        output.lines().filter(|l| l.contains("ERROR") || l.contains("panicked")).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    let count = |seq: bool| book.sent.values().filter(|sent| sent.seq.is_some() == seq).count();
    println!(
        "{} receipts, {} never answered, {} duplicates, {} hand-outs, {} records, {ahead} rounds ahead",
        count(true),
        count(false),
        book.duplicates,
        book.handed.values().map(Vec::len).sum::<usize>(),
        log.len(),
    );
}

fn sending_again_changes_nothing(server: &Server, book: &Book) {
    for sent in book.sent.values().filter(|sent| sent.seq.is_some()).step_by(7) {
        let answer = server.send(&sent.message);
        assert_eq!((answer.status, answer.body["seq"].as_u64()), (200, sent.seq), "{answer:?}");
        assert_eq!(answer.body["outcome"], "duplicate");
    }
    for name in RECIPIENTS {
        assert!(server.inbox(name, "limit=100").is_empty(), "{name}");
        assert_eq!(pending(server, name), 0, "{name}");
    }
}

fn senders_are_known(server: &Server, book: &Book) {
    let agents = server.get("/bus/agents").body;
    let known: HashSet<_> = agents["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["agentId"].as_str().unwrap())
        .collect();
    for sent in book.sent.values().filter(|sent| sent.seq.is_some()) {
        assert!(known.contains(sent.sender.as_str()), "{} was forgotten", sent.sender);
    }
}

/// The record under which each message was accepted.
fn accepted(log: &[Value]) -> HashMap<&str, &Value> {
    let mut accepted = HashMap::new();
    for record in log.iter().filter(|r| r["outcome"] == "queued" || r["outcome"] == "delivered") {
        let id = record["messageId"].as_str().unwrap();
        assert!(accepted.insert(id, record).is_none(), "{id} was accepted twice");
    }
    accepted
}

fn receipts_are_in_the_log(log: &[Value], book: &Book) {
    let accepted = accepted(log);
    for (id, sent) in book.sent.iter().filter(|(_, sent)| sent.seq.is_some()) {
        let record = accepted.get(id.as_str()).unwrap_or_else(|| panic!("{id} is not in the log"));
        assert_eq!(record["seq"].as_u64(), sent.seq, "{id}");
        assert_eq!(record["message"], sent.message);
    }
}

/// Also the messages whose sender never got an answer: in the log means accepted.
fn every_accepted_message_was_handed_out(log: &[Value], book: &Book) {
    let handed: HashSet<_> = book.handed.values().flatten().map(String::as_str).collect();
    let accepted: HashSet<_> = accepted(log).into_keys().collect();
    let lost: Vec<_> = accepted.difference(&handed).collect();
    assert!(lost.is_empty(), "accepted and never handed out: {lost:?}");
    let invented: Vec<_> = handed.difference(&accepted).collect();
    assert!(invented.is_empty(), "handed out and not in the log: {invented:?}");
}

fn first_hand_outs_are_in_order(book: &Book) {
    for (recipient, handed) in &book.handed {
        let mut seen = HashSet::new();
        let mut last: HashMap<(&str, &str), usize> = HashMap::new();
        for id in handed.iter().filter(|id| seen.insert(id.as_str())) {
            let sent = &book.sent[id];
            let lane = (sent.sender.as_str(), sent.message["priority"].as_str().unwrap());
            if let Some(before) = last.insert(lane, sent.nth) {
                assert!(before < sent.nth, "{lane:?} to {recipient}: {before}, then {}", sent.nth);
            }
        }
    }
}

/// By the log's own word, which also knows of acknowledgements that were never answered.
fn nothing_was_handed_out_after_its_acknowledgement(log: &[Value]) {
    for (id, record) in accepted(log) {
        let events: Vec<_> = record["deliveries"].as_array().unwrap().iter().collect();
        let acknowledged: Vec<_> =
            events.iter().filter(|event| event["event"] == "acknowledged").collect();
        assert_eq!(acknowledged.len(), 1, "{id}: {events:?}");
        let last = events.iter().max_by_key(|event| event["seq"].as_u64()).unwrap();
        assert_eq!(last["event"], "acknowledged", "{id}: {events:?}");
    }
}

/// Every line is JSON and chained to the one before it, and the records are those of the log.
fn the_files_are_whole(folder: &Path, log: &[Value]) {
    let mut files: Vec<_> = std::fs::read_dir(folder.join("a2a-log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    let mut prev = "0".repeat(64);
    let mut last_seq = 0;
    let mut records = Vec::new();
    for file in files {
        let text = String::from_utf8(std::fs::read(file).unwrap()).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "a clean stop leaves no half line");
        for line in text.lines() {
            let (covered, _) = line.rsplit_once(",\"hash\":").unwrap();
            let hash: String =
                Sha256::digest(covered).iter().map(|byte| format!("{byte:02x}")).collect();
            let value: Value = serde_json::from_str(line).unwrap();
            assert_eq!(value["hash"], hash, "{line}");
            assert_eq!(value["prev"], prev, "{line}");
            let seq = value["seq"].as_u64().unwrap();
            assert!(seq > last_seq, "{line}");
            (prev, last_seq) = (hash.clone(), seq);
            if value.get("event").is_none() {
                records.push(hash);
            }
        }
    }
    records.reverse();
    let listed: Vec<_> = log.iter().map(|record| record["hash"].as_str().unwrap()).collect();
    assert_eq!(records, listed);
}

/// The kill comes with the receipt, when nothing that follows it can have been written.
#[test]
fn sender_with_a_receipt_can_be_answered_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a2a.toml"), CONFIG).unwrap();
    for round in 0..12 {
        let name = format!("new-{round}");
        let server = Server::start(folder.path());
        server.accepted(&message(&name, "tim", "hello"));
        server.kill();
        let server = Server::start(folder.path());
        server.accepted(&message("tim", &name, "hello to you"));
        server.kill();
    }
}

/// The kill comes with the answer to the last failed attempt.
#[test]
fn the_notice_of_a_dead_letter_survives_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("attempts = 1000", "attempts = 1");
    std::fs::write(folder.path().join("a2a.toml"), config).unwrap();
    for round in 0..12 {
        let name = format!("new-{round}");
        let server = Server::start(folder.path());
        let sent = message(&name, "tim", "impossible");
        server.accepted(&sent);
        assert_eq!(server.inbox("tim", "wait=30s").len(), 1);
        assert_eq!(server.settle("tim", id_of(&sent), "nack").status, 200);
        server.kill();
        let server = Server::start(folder.path());
        assert!(server.inbox("tim", "").is_empty());
        let notices = server.inbox(&name, "");
        assert_eq!(notices.len(), 1, "round {round}");
        assert_eq!(notices[0]["message"]["correlationId"], sent["correlationId"]);
        server.kill();
    }
}
