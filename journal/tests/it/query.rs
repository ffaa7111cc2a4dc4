//! Every filter of a query, against a scan of all lines.

use std::sync::Arc;

use a2a_journal::{
    Commit, Journal, JournalReader, MAX_PAGE, MemoryJournal, MessageRecord, Options, Page, Query,
    Received, Record,
};
use a2a_protocol::{CorrelationId, Event, Kind, Outcome, RecipientOutcome, TaskId};
use proptest::prelude::*;
use serde_json::Value;

use crate::gaps::in_sled;
use crate::setup::*;

const AGENTS: [&str; 4] = ["ann", "bob", "tim", "eve.2"];
const WORDS: [&str; 6] = ["Alpha", "beta", "ΓΑΜΜΑ", "caf\\u00e9", "\\\"quoted\\\"", "<tag>"];
/// Values to search for, some in another spelling than in the log.
const QUESTIONS: [&str; 8] =
    ["alpha", "BETA alpha", "γαμμα", "CAFÉ", "\"quoted\"", "<TAG> beta", "nowhere", " "];

fn correlation(n: u64) -> CorrelationId {
    format!("0192a4c8-7e1a-7b3c-9d4e-c{n:011x}").parse().unwrap()
}

fn task(n: u64) -> TaskId {
    format!("0192a4c8-7e1a-7b3c-9d4e-a{n:011x}").parse().unwrap()
}

/// Ingredients of a message.
#[derive(Debug, Clone)]
struct Draft {
    from: usize,
    to: Vec<usize>,
    kind: Kind,
    outcome: Outcome,
    correlation: u64,
    task: Option<u64>,
    text: usize,
    /// Of an unexpected structure, or not JSON.
    odd: u8,
    acknowledged: bool,
}

fn draft() -> impl Strategy<Value = Draft> {
    (
        0..AGENTS.len(),
        proptest::collection::vec(0..AGENTS.len(), 0..3),
        proptest::sample::select(Kind::ALL),
        proptest::sample::select(Outcome::ALL),
        (0..6_u64, proptest::option::of(0..6_u64)),
        0..WORDS.len(),
        0..12_u8,
        any::<bool>(),
    )
        .prop_map(|(from, to, kind, outcome, (correlation, task), text, odd, acknowledged)| {
            Draft { from, to, kind, outcome, correlation, task, text, odd, acknowledged }
        })
}

impl Draft {
    fn lines(&self, seq: u64) -> Vec<Record> {
        let names: Vec<&str> = self.to.iter().map(|to| AGENTS[*to]).collect();
        let mut line = MessageRecord { outcome: self.outcome, ..accepted(seq, &[]) };
        line.by = (self.odd != 0).then(|| agent(AGENTS[self.from]));
        line.message_id = Some(id(seq / 3));
        // Times sometimes go back, as clocks do.
        line.time = at((seq as i64 / 7) * 1_000 - (seq as i64 % 3) * 2_500);
        line.recipients = names
            .iter()
            .map(|name| RecipientOutcome { agent_id: agent(name), outcome: self.outcome })
            .collect();
        let odd_case = correlation(self.correlation).to_string().to_uppercase();
        let task = self.task.map(|n| format!(",\"taskId\":\"{}\"", task(n))).unwrap_or_default();
        line.received = match self.odd {
            1 => Received::Json(Arc::from(&b"[1,{\"type\":\"broadcast\"}]"[..])),
            2 => Received::Json(Arc::from(&br#"{"from":"ann","to":7,"type":[],"payload":0}"#[..])),
            3 => Received::Raw(Arc::from(&b"alpha beta \xff"[..])),
            odd => Received::Json(
                format!(
                    r#"{{"from":{{"agentId":"{}"}},"to":{{"agentId":"{}"}},"type":"{}","correlationId":"{}","payload":{{"text":"{}"{task}}}}}"#,
                    if odd == 4 { "\\u0061nn" } else { AGENTS[self.from] },
                    names.first().unwrap_or(&"nobody"),
                    self.kind,
                    if odd == 5 { odd_case } else { correlation(self.correlation).to_string() },
                    WORDS[self.text],
                )
                .into_bytes()
                .into(),
            ),
        };
        let mut lines = vec![Record::Message(line)];
        if self.acknowledged {
            lines.push(event(seq + 1, Event::Acknowledged, seq, "tim"));
        }
        lines
    }
}

fn queries() -> impl Strategy<Value = Query> {
    fn maybe<T: std::fmt::Debug + Clone>(
        of: impl Strategy<Value = T>,
    ) -> impl Strategy<Value = Option<T>> {
        prop_oneof![3 => Just(None), 1 => of.prop_map(Some)]
    }
    (
        maybe(proptest::sample::select(&AGENTS[..])),
        maybe(proptest::sample::select(Kind::ALL)),
        maybe(proptest::sample::select(Outcome::ALL)),
        (maybe(-5_000..400_000_i64), maybe(-5_000..400_000_i64)),
        maybe(0..7_u64),
        maybe(0..7_u64),
        maybe(proptest::sample::select(&QUESTIONS[..])),
        maybe(0..3_000_u64),
        1..40_usize,
    )
        .prop_map(|(who, kind, outcome, (since, until), c, t, text, before, limit)| Query {
            agent: who.map(agent),
            kind,
            outcome,
            since: since.map(at),
            until: until.map(at),
            correlation: c.map(correlation),
            task: t.map(task),
            text: text.map(str::to_owned),
            before,
            limit,
        })
}

/// Whether a record matches, without the index.
fn wanted(query: &Query, record: &Value) -> bool {
    let is = |value: &Value, word: &str| value.as_str().is_some_and(|text| text == word);
    let is_id =
        |value: &Value, id: String| value.as_str().is_some_and(|text| text.to_lowercase() == id);
    let message = &record["message"];
    let time: chrono::DateTime<chrono::Utc> = record["time"].as_str().unwrap().parse().unwrap();
    let recipients = record["recipients"].as_array().unwrap();
    let strings = strings(record);
    query.agent.as_ref().is_none_or(|a| {
        is(&record["by"], a.as_str())
            || is(&message["from"]["agentId"], a.as_str())
            || is(&message["to"]["agentId"], a.as_str())
            || recipients.iter().any(|r| is(&r["agentId"], a.as_str()))
    }) && query.kind.is_none_or(|kind| is(&message["type"], kind.as_str()))
        && query.outcome.is_none_or(|outcome| is(&record["outcome"], outcome.as_str()))
        && query.since.is_none_or(|since| time >= since)
        && query.until.is_none_or(|until| time < until)
        && query.correlation.is_none_or(|id| is_id(&message["correlationId"], id.to_string()))
        && query.task.is_none_or(|id| is_id(&message["payload"]["taskId"], id.to_string()))
        && query.before.is_none_or(|before| record["seq"].as_u64().unwrap() < before)
        && query.text.as_ref().is_none_or(|text| {
            text.split_whitespace().all(|word| strings.contains(&word.to_lowercase()))
        })
}

/// All strings in a value, in lower case, concatenated.
fn strings(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{}\n", text.to_lowercase()),
        Value::Array(list) => list.iter().map(strings).collect(),
        Value::Object(map) => map.values().map(strings).collect(),
        _ => String::new(),
    }
}

/// The numbers on all pages of a query.
fn all_pages(reader: &Arc<dyn JournalReader>, query: &Query) -> Vec<u64> {
    let mut query = query.clone();
    let mut found = Vec::new();
    loop {
        let Page { records, next } = reader.query(&query).unwrap();
        assert!(records.len() <= query.limit);
        found.extend(records.iter().map(|record| record.seq));
        query.before = next;
        if next.is_none() {
            return found;
        }
    }
}

fn check(reader: &Arc<dyn JournalReader>, lines: &[Value], queries: &[Query]) {
    let records: Vec<&Value> = lines.iter().filter(|line| line.get("outcome").is_some()).collect();
    for query in queries {
        let expected: Vec<u64> = records
            .iter()
            .rev()
            .filter(|record| wanted(query, record))
            .map(|record| record["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(all_pages(reader, query), expected, "{query:?}");
    }
    for n in [0, 1, 5, 99_999] {
        let expected: Vec<u64> = records
            .iter()
            .filter(|record| record["messageId"] == id(n).to_string().as_str())
            .map(|record| record["seq"].as_u64().unwrap())
            .collect();
        let found = reader.find(&id(n)).unwrap();
        assert_eq!(found.iter().map(|record| record.seq).collect::<Vec<_>>(), expected);
    }
    let mut seq = 0;
    for limit in [1, 7, 1_000, 1_000, 1_000, 1_000] {
        let above = lines.iter().filter(|line| line["seq"].as_u64().unwrap() > seq).take(limit);
        let expected: Vec<&Value> = above.collect();
        let found: Vec<Value> = reader
            .after(seq, limit)
            .unwrap()
            .iter()
            .map(|line| serde_json::from_str(line.get()).unwrap())
            .collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        seq = found.last().map_or(seq, |line| line["seq"].as_u64().unwrap());
    }
}

fn run(drafts: &[Draft], batch: usize, repeat: usize, queries: &[Query], restart: bool) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { tail_bytes: 50_000, ..Options::new(dir.path()) };
    let (mut journal, _) = Journal::open(&options).unwrap();
    let mut memory = MemoryJournal::new();
    let mut seq = 1;
    let mut lines = Vec::new();
    for draft in drafts.iter().cycle().take(drafts.len() * repeat) {
        lines.extend(draft.lines(seq));
        seq += 2;
    }
    for batch in lines.chunks(batch) {
        commit(&mut journal, batch);
        commit(&mut memory, batch);
    }
    let lines = checked_log(dir.path());
    check(&memory.reader(), &lines, queries);
    check(&journal.reader(), &lines, queries);
    if restart {
        drop(journal);
        let (mut journal, _) = open(dir.path());
        check(&journal.reader(), &lines, queries);
        journal.close().unwrap();
        let (journal, _) = open(dir.path());
        check(&journal.reader(), &lines, queries);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn filters_match_a_scan_of_all_lines(
        drafts in proptest::collection::vec(draft(), 1..60),
        batch in 1..300_usize,
        repeat in 1..20_usize,
        queries in proptest::collection::vec(queries(), 1..12),
        restart in any::<bool>(),
    ) {
        run(&drafts, batch, repeat, &queries, restart);
    }
}

#[test]
fn long_search_returns_partial_pages() {
    let text = "x".repeat(200_000);
    let mut memory = MemoryJournal::new();
    let bench = &mut fresh();
    for journal in [&mut bench.journal as &mut dyn Commit, &mut memory] {
        for seq in 1..=700 {
            let mut line = accepted(seq, &["tim"]);
            let word = if seq == 3 { "needle" } else { "hay" };
            line.received = Received::Json(format!("\"{word} {text}\"").into_bytes().into());
            commit(journal, &[Record::Message(line)]);
        }
        let reader = journal.reader();
        let mut query = Query { text: Some("NEEDLE".to_owned()), ..Query::default() };
        let mut pages = 0;
        let found = loop {
            let page = reader.query(&query).unwrap();
            pages += 1;
            if let Some(record) = page.records.first() {
                break record.seq;
            }
            assert!(page.next < query.before.or(Some(u64::MAX)), "every page comes further");
            query.before = Some(page.next.unwrap());
        };
        assert_eq!(found, 3);
        assert!((2..10).contains(&pages), "{pages}");
    }
}

#[test]
fn page_is_bounded() {
    for journal in [&mut fresh().journal as &mut dyn Commit, &mut MemoryJournal::new()] {
        let lines: Vec<Record> = (1..=1_500)
            .map(|seq| {
                Record::Message(MessageRecord { message_id: Some(id(1)), ..accepted(seq, &[]) })
            })
            .collect();
        commit(journal, &lines);
        let reader = journal.reader();
        assert_eq!(reader.find(&id(1)).unwrap().len(), MAX_PAGE);
        assert_eq!(reader.find(&id(1)).unwrap()[0].seq, 1);
        assert_eq!(reader.after(0, usize::MAX).unwrap().len(), MAX_PAGE);
        assert_eq!(reader.after(u64::MAX, 5).unwrap().len(), 0);
        assert_eq!(reader.after(1_499, 0).unwrap().len(), 1);
        let query = Query { limit: usize::MAX, ..Query::default() };
        assert_eq!(reader.query(&query).unwrap().records.len(), MAX_PAGE);
    }
}

/// Records as the bus writes them: most with parsed messages, some without, with events in between.
fn with_messages(count: u64) -> Vec<Record> {
    (1..=count)
        .map(|seq| {
            if seq % 5 == 0 {
                return event(seq, Event::Acknowledged, seq - 1, "tim");
            }
            let mut message = Kind::ALL[seq as usize % Kind::ALL.len()].example_message();
            message.message_id = id(seq);
            message.correlation_id = correlation(seq);
            message.from.agent_id = agent(&format!("agent-{seq}"));
            message.from.session_key = None;
            let bytes = message.to_json();
            Record::Message(MessageRecord {
                received: Received::Json(bytes.into()),
                message: (seq % 7 != 0).then(|| Arc::new(message)),
                ..accepted(seq, &["ann"])
            })
        })
        .collect()
}

/// The metadata of all blocks.
fn metas(dir: &std::path::Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    in_sled(dir, "metas", |metas| {
        let pairs = metas.iter().map(Result::unwrap);
        found.extend(pairs.map(|(key, value)| (key.to_vec(), value.to_vec())));
    });
    found
}

#[test]
fn index_from_messages_equals_index_from_lines() {
    let lines = with_messages(1_200);
    // With the second limit the tail drops its bytes, and the indexer parses the lines.
    for tail_bytes in [1 << 30, 0] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { tail_bytes, ..Options::new(dir.path()) };
        let (mut journal, _) = Journal::open(&options).unwrap();
        commit(&mut journal, &lines);
        journal.close().unwrap();
        drop(journal);
        let made = metas(dir.path());
        assert!(made.len() > 2, "the test needs several blocks");
        let (journal, _) = open(dir.path());
        for line in lines.iter().filter(|line| matches!(line, Record::Message(_))).step_by(97) {
            let seq = line.seq();
            for query in [
                Query { correlation: Some(correlation(seq)), ..Query::default() },
                Query { agent: Some(agent(&format!("agent-{seq}"))), ..Query::default() },
            ] {
                let found = journal.reader().query(&query).unwrap().records;
                assert_eq!(found.iter().map(|record| record.seq).collect::<Vec<_>>(), [seq]);
            }
        }
        drop(journal);
        std::fs::remove_dir_all(dir.path().join("data/a2a-journal")).unwrap();
        drop(open(dir.path()));
        assert!(metas(dir.path()) == made);
    }
}
