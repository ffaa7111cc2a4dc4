//! Cost of the journal: writing with and without indexes, opening, queries, verification, disk and
//! memory.
//!
//! All is measured in one process and compared by ratio, so results are comparable between
//! machines. The last line is a JSON object.
//!
//! `cargo bench --bench audit`, or `cargo bench --bench audit -- follow` for the live stream only.

mod follow;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_journal::{
    Commit, EventRecord, Journal, JournalReader, MessageRecord, Options, Query, Received, Record,
    Retention, verify_log,
};
use a2a_protocol::{AgentId, Envelope, Event, MessageId, Outcome, RecipientOutcome};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use sha2::{Digest, Sha256};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH: usize = 512;
const AGENTS: usize = 100;
const SMALL: usize = 10_000;
const MIDDLE: usize = 100_000;
const LARGE: usize = 1_000_000;
/// Messages per round when writing with and without indexes is compared.
const WRITTEN: usize = 50_000;
const PAIRS: usize = 11;
const OPENINGS: usize = 11;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, option, folder] = args.as_slice()
        && option == "--memory"
    {
        return println!("{}", memory_of(Path::new(folder)));
    }
    // `cargo test` runs benches without `--bench`: measure nothing then.
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    if args.iter().any(|arg| arg == "follow") {
        let figures = follow::run().report();
        return println!("{figures}");
    }
    let (mut on, mut off) = (Writing::default(), Writing::default());
    for n in 0..PAIRS {
        // Alternating, so that neither always comes second.
        for indexes in [n % 2 == 0, n % 2 != 0] {
            if indexes { on.round(true) } else { off.round(false) }
        }
    }
    let [small, middle, large] = [SMALL, MIDDLE, LARGE].map(|messages| {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        write(folder.path(), messages, true);
        folder
    });
    let opening = opening([small.path(), middle.path(), large.path()]);
    let asked = [&small, &large].map(|folder| QueryTimes::of(folder.path()));
    let memory = memory_in_a_new_process(large.path());
    let (verify, sha) = verifying(large.path());
    let disk = Disk::of(large.path());
    let figures = report(&on, &off, opening, &asked, memory, (verify, sha), &disk);
    let following = follow::run().report();
    let all = [figures, following].into_iter().filter_map(|figures| figures.as_object().cloned());
    println!("{}", serde_json::Value::Object(all.flatten().collect()));
}

fn report(
    on: &Writing,
    off: &Writing,
    opening: [f64; 3],
    asked: &[QueryTimes; 2],
    memory: u64,
    (verify, sha): (f64, f64),
    disk: &Disk,
) -> serde_json::Value {
    let row = |name: &str, value: f64, note: String| println!("{name:<52} {value:>12.2}  {note}");
    let bar = |ratio: f64, limit: &str| format!("{ratio:.2}, must be {limit}");
    let [small, large] = asked;
    // Ratios of pairs, since the load of the machine changes over time.
    let committed = ratio(&on.committed, &off.committed);
    let indexed = ratio(&on.indexed, &off.indexed);
    row("writing, indexes on (messages/s)", median(&on.committed), bar(committed, "≥ 0.80"));
    row("writing, indexes off (messages/s)", median(&off.committed), String::new());
    row("  … until sled has them, on (messages/s)", median(&on.indexed), bar(indexed, "≥ 0.80"));
    row("  … until sled has them, off (messages/s)", median(&off.indexed), String::new());
    row("newest 50 of an agent, 10,000 messages (ms)", small.agent, String::new());
    row(
        "newest 50 of an agent, 1,000,000 messages (ms)",
        large.agent,
        bar(large.agent / small.agent, "≤ 3.00"),
    );
    row("all 50 of a rare agent, 10,000 messages (ms)", small.rare, String::new());
    row("all 50 of a rare agent, 1,000,000 messages (ms)", large.rare, String::new());
    row("one conversation of 1,000,000 (ms)", large.correlation, String::new());
    row("one message by its id of 1,000,000 (ms)", large.find, String::new());
    row("opening, 10,000 messages (ms)", opening[0], String::new());
    row("opening, 100,000 messages (ms)", opening[1], String::new());
    row("opening, 1,000,000 messages (ms)", opening[2], bar(opening[2] / opening[1], "≤ 5.00"));
    row("verify (MB/s)", verify, bar(verify / sha, "≥ 0.50"));
    row("SHA-256 of the same bytes (MB/s)", sha, String::new());
    row("a word nobody wrote, 1,000,000 messages (ms)", large.text_all, String::new());
    row("  … longest single answer (ms)", large.text_page, String::new());
    row("50 newest with a common word (ms)", large.text_common, String::new());
    row("JSON Lines (bytes a message, with its event)", disk.plain, String::new());
    row("JSON Lines of a closed day (bytes a message)", disk.packed, String::new());
    row("sled (bytes a message)", disk.sled, String::new());
    row("memory of the open journal, 1,000,000 (MB)", memory as f64 / 1e6, String::new());
    let round = |value: f64| (value * 100.0).round() / 100.0;
    json!({
        "write_ratio": round(committed),
        "write_indexed_ratio": round(indexed),
        "write_msgs_per_s": median(&on.committed).round(),
        "agent_50_ms_10k": round(small.agent),
        "agent_50_ms_1m": round(large.agent),
        "agent_50_ratio": round(large.agent / small.agent),
        "rare_agent_ms_1m": round(large.rare),
        "open_ms_100k": round(opening[1]),
        "open_ms_1m": round(opening[2]),
        "open_ratio": round(opening[2] / opening[1]),
        "verify_mb_per_s": verify.round(),
        "sha256_mb_per_s": sha.round(),
        "verify_ratio": round(verify / sha),
        "text_scan_ms_1m": round(large.text_all),
        "text_page_ms": round(large.text_page),
        "jsonl_bytes": disk.plain.round(),
        "jsonl_packed_bytes": disk.packed.round(),
        "sled_bytes": disk.sled.round(),
        "memory_mb": (memory as f64 / 1e6).round(),
    })
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn ratio(of: &[f64], to: &[f64]) -> f64 {
    median(&of.iter().zip(to).map(|(of, to)| of / to).collect::<Vec<_>>())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn options(folder: &Path) -> Options {
    let retention = Retention { compress: false, ..Retention::default() };
    Options { retention, ..Options::new(folder) }
}

fn open(folder: &Path) -> Journal {
    Journal::open(&options(folder)).unwrap_or_else(|error| panic!("{error}")).0
}

/// Messages per second: until they were durable, and until sled had indexed them.
#[derive(Default)]
struct Writing {
    committed: Vec<f64>,
    indexed: Vec<f64>,
}

impl Writing {
    fn round(&mut self, indexes: bool) {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let (committed, indexed) = write(folder.path(), WRITTEN, indexes);
        self.committed.push(WRITTEN as f64 / committed.as_secs_f64());
        self.indexed.push(WRITTEN as f64 / indexed.as_secs_f64());
    }
}

/// Writes so many messages, each with an acknowledgement. Generating them is not timed.
fn write(folder: &Path, messages: usize, indexes: bool) -> (Duration, Duration) {
    let (mut journal, _) = Journal::open(&Options { indexes, ..options(folder) })
        .unwrap_or_else(|error| panic!("{error}"));
    let mut maker = Maker::new(messages);
    let (mut committed, mut closed) = (Duration::ZERO, Duration::ZERO);
    let mut lines = Vec::new();
    while maker.made < messages {
        maker.fill(&mut lines, BATCH.min(2 * (messages - maker.made)));
        let start = Instant::now();
        journal.commit(&lines).unwrap_or_else(|error| panic!("{error}"));
        committed += start.elapsed();
    }
    let start = Instant::now();
    journal.close().unwrap_or_else(|error| panic!("{error}"));
    closed += committed + start.elapsed();
    (committed, closed)
}

/// Generates messages of about 1.1 KB: a hundred agents and a rare one, conversations of ten
/// messages, text of random words.
struct Maker {
    total: usize,
    made: usize,
    random: u64,
    agents: Vec<AgentId>,
    rare: AgentId,
}

impl Maker {
    fn new(total: usize) -> Self {
        let agents = (0..AGENTS).map(|n| agent(&format!("agent-{n}"))).collect();
        Self { total, made: 0, random: 0x9e37_79b9_7f4a_7c15, agents, rare: agent("rare") }
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn fill(&mut self, lines: &mut Vec<Record>, count: usize) {
        lines.clear();
        while lines.len() + 1 < count.max(2) {
            let seq = 2 * self.made as u64 + 1;
            let (message, event) = self.message(seq);
            lines.push(Record::Message(message));
            lines.push(Record::Event(event));
            self.made += 1;
        }
    }

    fn message(&mut self, seq: u64) -> (MessageRecord, EventRecord) {
        let n = self.made;
        let time = start() + TimeDelta::milliseconds(10 * n as i64);
        let is_rare = n % (self.total / 50) == 7;
        let from = if is_rare { self.rare.clone() } else { self.pick() };
        let to = self.pick();
        let words: String = (0..90).map(|_| format!("{} ", word(self.next()))).collect();
        let id = message_id(n);
        let body = format!(
            r#"{{"protocol":"openclaw.a2a.v1","messageId":"{id}","correlationId":"{}","timestamp":"{}","from":{{"agentId":"{from}","role":"engineer"}},"to":{{"agentId":"{to}"}},"type":"task_request","priority":"normal","payload":{{"taskId":"{}","title":"Look at number {n}","description":"{words}","taskType":"analysis","complexity":"medium"}}}}"#,
            uuid(2, n / 10),
            time.to_rfc3339(),
            uuid(3, n),
        );
        let recipient = RecipientOutcome { agent_id: to.clone(), outcome: Outcome::Delivered };
        let message = MessageRecord {
            seq,
            time,
            outcome: Outcome::Delivered,
            message_id: Some(id),
            by: Some(from),
            via: None,
            trace: None,
            bytes: body.len() as u64,
            took_us: 30 + self.next() % 200,
            message: Envelope::parse(body.as_bytes()).ok().map(Arc::new),
            received: Received::Json(body.into_bytes().into()),
            fingerprint: Some(self.next()),
            recipients: Arc::new([recipient]),
            reason: None,
            retry_after_ms: None,
            errors: Vec::new(),
            facts: Vec::new(),
        };
        let event = EventRecord {
            of: Some(seq),
            message_id: Some(id),
            agent_id: Some(to),
            ..EventRecord::new(seq + 1, time, Event::Acknowledged)
        };
        (message, event)
    }

    fn pick(&mut self) -> AgentId {
        let n = self.next() as usize % AGENTS;
        self.agents[n].clone()
    }
}

fn start() -> DateTime<Utc> {
    DateTime::from_timestamp(1_771_632_000, 0).unwrap_or_default()
}

fn agent(name: &str) -> AgentId {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A UUID that compresses as badly as a real one.
fn uuid(kind: u64, n: usize) -> String {
    let mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ kind << 40;
    let (high, low) = (mixed >> 32, mixed & 0xffff_ffff_ffff);
    format!("0192a4c8-{:04x}-7{:03x}-8{kind:03x}-{low:012x}", high & 0xffff, (n >> 8) & 0xfff)
}

fn message_id(n: usize) -> MessageId {
    uuid(1, n).parse().unwrap_or_else(|error| panic!("{error}"))
}

/// One of 2,000 words.
fn word(random: u64) -> String {
    const PARTS: [&str; 13] =
        ["ta", "re", "mo", "li", "ken", "sor", "vi", "dun", "pra", "shel", "gno", "bi", "fur"];
    let n = random as usize % 2_000;
    format!("{}{}{}", PARTS[n % 13], PARTS[n / 13 % 13], PARTS[n / 169 % 13])
}

/// Milliseconds to open a journal after a clean stop. The minimum of several rounds: the work is
/// constant, and other load only adds to it.
fn opening(folders: [&Path; 3]) -> [f64; 3] {
    let mut best = [f64::MAX; 3];
    for _ in 0..OPENINGS {
        for (best, folder) in best.iter_mut().zip(folders) {
            let start = Instant::now();
            let opened = Journal::open(&options(folder)).unwrap_or_else(|e| panic!("{e}"));
            *best = best.min(ms(start.elapsed()));
            let (mut journal, _) = opened;
            journal.close().unwrap_or_else(|error| panic!("{error}"));
        }
    }
    best
}

/// Query times in milliseconds.
struct QueryTimes {
    agent: f64,
    rare: f64,
    correlation: f64,
    find: f64,
    text_all: f64,
    text_page: f64,
    text_common: f64,
}

impl QueryTimes {
    fn of(folder: &Path) -> Self {
        let journal = open(folder);
        let reader = journal.reader();
        let of_agent = |name: &str| Query { agent: Some(agent(name)), ..Query::default() };
        let agents = (0..AGENTS).map(|n| time(&*reader, &of_agent(&format!("agent-{n}")), 50));
        let agent = median(&agents.collect::<Vec<_>>());
        let rare: Vec<f64> = (0..5).map(|_| time(&*reader, &of_agent("rare"), 50)).collect();
        let text = |text: &str| Query { text: Some(text.to_owned()), ..Query::default() };
        let correlations = (0..50).map(|n| {
            let correlation = Some(uuid(2, n * 20).parse().unwrap_or_else(|e| panic!("{e}")));
            time(&*reader, &Query { correlation, ..Query::default() }, 10)
        });
        let found = (0..50).map(|n| {
            let start = Instant::now();
            let found = reader.find(&message_id(n * 199)).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((found.len(), found[0].deliveries.len()), (1, 1));
            ms(start.elapsed())
        });
        let correlation = median(&correlations.collect::<Vec<_>>());
        let find = median(&found.collect::<Vec<_>>());
        let mut query = text("xylophone");
        let (mut text_all, mut text_page) = (0.0, 0.0_f64);
        loop {
            let start = Instant::now();
            let page = reader.query(&query).unwrap_or_else(|error| panic!("{error}"));
            assert!(page.records.is_empty());
            let took = ms(start.elapsed());
            text_all += took;
            text_page = text_page.max(took);
            query.before = page.next;
            if page.next.is_none() {
                break;
            }
        }
        let common = (0..9).map(|_| time(&*reader, &text("TATATA"), 50)).collect::<Vec<_>>();
        Self {
            agent,
            rare: median(&rare),
            correlation,
            find,
            text_all,
            text_page,
            text_common: median(&common),
        }
    }
}

/// Queries page by page until `wanted` records are found. Returns milliseconds.
fn time(reader: &dyn JournalReader, query: &Query, wanted: usize) -> f64 {
    let mut query = Query { limit: wanted, ..query.clone() };
    let start = Instant::now();
    let mut found = 0;
    while found < wanted {
        let page = reader.query(&query).unwrap_or_else(|error| panic!("{error}"));
        found += page.records.len();
        query.before = page.next;
        assert!(page.next.is_some() || found >= wanted, "{found} of {wanted}: {query:?}");
    }
    ms(start.elapsed())
}

/// Megabytes per second of verification, and of SHA-256 over the same bytes.
fn verifying(folder: &Path) -> (f64, f64) {
    let path = log_file(folder);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{error}"));
    let (mut verify, mut sha) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let start = Instant::now();
        let verified = verify_log(folder, &[]).unwrap_or_else(|error| panic!("{error}"));
        verify.push(bytes.len() as f64 / 1e6 / start.elapsed().as_secs_f64());
        assert_eq!(verified.records as usize, LARGE);
        let start = Instant::now();
        let digest = Sha256::digest(&bytes);
        sha.push(bytes.len() as f64 / 1e6 / start.elapsed().as_secs_f64());
        assert_ne!(digest[..], [0; 32]);
    }
    (median(&verify), median(&sha))
}

fn log_file(folder: &Path) -> std::path::PathBuf {
    folder.join("a2a-log/2026-02-21.jsonl")
}

/// Bytes per message, with its acknowledgement.
struct Disk {
    plain: f64,
    packed: f64,
    sled: f64,
}

impl Disk {
    /// Closes the day, so that its file is compressed.
    fn of(folder: &Path) -> Self {
        let size = |path: &Path| fs::metadata(path).map(|data| data.len()).unwrap_or_default();
        let plain = size(&log_file(folder)) as f64 / LARGE as f64;
        let sled = folder_size(&folder.join("data/a2a-journal")) as f64 / LARGE as f64;
        let (mut journal, recovered) =
            Journal::open(&Options::new(folder)).unwrap_or_else(|error| panic!("{error}"));
        let time = start() + TimeDelta::days(1);
        let line = EventRecord::new(recovered.next_seq, time, Event::Closed);
        journal.commit(&[Record::Event(line)]).unwrap_or_else(|error| panic!("{error}"));
        journal.retain(time).unwrap_or_else(|error| panic!("{error}"));
        let packed = size(&log_file(folder).with_extension("jsonl.zst"));
        Self { plain, packed: packed as f64 / LARGE as f64, sled }
    }
}

fn folder_size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => folder_size(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Growth of resident memory by opening the journal, without the recovered list of ids.
fn memory_of(folder: &Path) -> u64 {
    let before = resident();
    let journal = open(folder);
    let query = Query { agent: Some(agent("agent-1")), ..Query::default() };
    let page = journal.reader().query(&query);
    assert!(page.is_ok_and(|page| page.records.len() == 50));
    resident().saturating_sub(before)
}

/// Measured in a new process: this one holds memory from the benches before.
fn memory_in_a_new_process(folder: &Path) -> u64 {
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let output = std::process::Command::new(program).arg("--memory").arg(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4_096
}
