//! Memory of 1,000 open streams, and whether it grows with the events they are sent.
//!
//! The tasks are created first, for an agent that never reads its inbox. A round opens the streams,
//! sends each of them a number of events and closes them.
//!
//! - The events also fill other parts of the server up to their bounds (caches, the index of the
//!   log, message ids). So the memory of the streams is what is freed when they are closed.
//! - Rounds with few and with many events alternate. When no event is retained, a stream uses the
//!   same memory after both.
//! - Every event replaces the same artifact, so the tasks do not grow.
//! - The first rounds fill caches and do not count. The server returns freed memory at once, and a
//!   figure is read when it no longer changes. Pages are returned only when they are empty, so
//!   single rounds differ by a tenth.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use serde_json::{Value, json};

use crate::http::Connection;
use crate::servers::Server;
use crate::{load_average, median};

const STREAMS: usize = 1_000;
/// Events per stream in a round, alternating.
const FEW: usize = 10;
const MANY: usize = 110;
/// Warm-up rounds and counted rounds.
const WARM_UP: usize = 4;
const ROUNDS: usize = 12;
/// The part of an event that a stream may retain and still count as flat.
const FLAT: f64 = 0.05;
/// Concurrent connections of the agent.
const SENDERS: usize = 64;

/// A registered agent that never reads its inbox.
const SLEEPER: &str = "/agents/sleeper/a2a";

/// A task in state working, and the correlation id of its status updates.
struct WorkingTask {
    id: String,
    correlation: uuid::Uuid,
}

/// Measurements of one round; memory in MiB.
struct Round {
    /// Events per stream.
    events: usize,
    /// Bytes sent to all streams.
    sent: usize,
    /// Memory before the streams are opened.
    before: f64,
    /// Memory with all streams open.
    open: f64,
    /// Memory after all events were sent.
    notified: f64,
    /// Memory after all streams were closed.
    closed: f64,
}

impl Round {
    /// Bytes per stream, when opened and after all events.
    fn of_a_stream(&self) -> [f64; 2] {
        [self.open - self.before, self.notified - self.closed]
            .map(|mib| mib * 1_024.0 * 1_024.0 / STREAMS as f64)
    }
}

pub async fn run() {
    allow_files();
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let server = Server::ours_for_memory(folder.path());
    println!("\n{STREAMS} streams at once; load average {}", load_average());
    let empty = settled(&server).await;
    let tasks = open_tasks(&server).await;
    let with_tasks = settled(&server).await;
    println!("{empty:.1} MiB at the start, {with_tasks:.1} MiB with {STREAMS} tasks at work");
    let mut rounds = Vec::new();
    for number in 0..WARM_UP + ROUNDS {
        let events = if number % 2 == 0 { FEW } else { MANY };
        let round = one_round(&server, &tasks, number, events).await;
        let [first, after] = round.of_a_stream();
        let counts = if number < WARM_UP { " (not counted)" } else { "" };
        println!(
            "round {number}{counts}: a stream holds {first:.0} bytes when opened, {after:.0} after \
             {events} events; everything else grew by {:+.2} MiB",
            round.closed - round.before
        );
        if number >= WARM_UP {
            rounds.push(round);
        }
    }
    report(&rounds);
}

fn report(rounds: &[Round]) {
    let opened: Vec<f64> = rounds.iter().map(|round| round.of_a_stream()[0]).collect();
    let after = |events: usize| -> Vec<f64> {
        let such = rounds.iter().filter(|round| round.events == events);
        such.map(|round| round.of_a_stream()[1]).collect()
    };
    let [few, many] = [after(FEW), after(MANY)];
    let [events, sent] = [
        rounds.iter().map(|round| round.events * STREAMS).sum::<usize>(),
        rounds.iter().map(|round| round.sent).sum(),
    ];
    let size = sent as f64 / events as f64;
    let kept = (median(&many) - median(&few)) / (MANY - FEW) as f64;
    let part = kept / size;
    println!("{events} events in {} rounds; what a stream holds, in bytes:", rounds.len());
    let after_few = format!("after {FEW} events");
    let after_many = format!("after {MANY} events");
    for (when, bytes) in [("when opened", &opened), (&*after_few, &few), (&*after_many, &many)] {
        let [least, most] = [f64::min, f64::max].map(|of| bytes.iter().copied().reduce(of));
        let (least, most) = (least.unwrap_or_default(), most.unwrap_or_default());
        println!("  {when:<16} {:>8.0}  ({least:.0} to {most:.0})", median(bytes));
    }
    println!("of an event of {size:.0} bytes it keeps {kept:.1}, {part:.4} of it");
    let verdict = if part <= FLAT { "met" } else { "MISSED" };
    println!("bar flat (at most {FLAT}): {verdict}");
    let rows: Vec<Value> = rounds
        .iter()
        .map(|round| {
            let Round { events, sent, before, open, notified, closed } = round;
            json!({
                "events": events, "sent": sent,
                "before": before, "open": open, "told": notified, "closed": closed,
            })
        })
        .collect();
    println!("{}", json!({"streams": STREAMS, "rounds": rows}));
}

async fn one_round(server: &Server, tasks: &[WorkingTask], number: usize, events: usize) -> Round {
    let before = settled(server).await;
    let opened = join_all(tasks.iter().map(|task| open(server, task))).await;
    let open = settled(server).await;
    let last = format!("round {number}, event {events}.");
    let readers = opened.into_iter().map(|mut stream| async {
        let sent = stream.until(last.as_bytes()).await;
        (stream, sent)
    });
    let (streams, ()) = join(join_all(readers), send_events(server, tasks, number, events)).await;
    let notified = settled(server).await;
    let sent = streams.iter().map(|(_, sent)| sent).sum();
    drop(streams);
    let closed = settled(server).await;
    Round { events, sent, before, open, notified, closed }
}

/// Sends so many status updates for each task, which differ in their number only.
async fn send_events(server: &Server, tasks: &[WorkingTask], round: usize, events: usize) {
    let left = Cell::new(0);
    let senders = (0..SENDERS.min(tasks.len())).map(|_| async {
        let mut connection = Connection::open(server.address()).await;
        while left.get() < tasks.len() {
            let task = &tasks[left.replace(left.get() + 1)];
            for event in 1..=events {
                let update = status_update(task, &format!("round {round}, event {event}."));
                connection.post(server.address(), "/bus/messages", &update).await;
                connection.answer().await;
            }
        }
    });
    join_all(senders).await;
}

fn status_update(task: &WorkingTask, text: &str) -> String {
    let artifact = json!({"artifactId": "out", "parts": [{"text": text}]});
    json!({
        "protocol": "openclaw.a2a.v1",
        "messageId": uuid::Uuid::now_v7(),
        "correlationId": task.correlation,
        "timestamp": chrono::Utc::now().to_rfc3339(),
        "from": {"agentId": "sleeper"},
        "to": {"agentId": "a2a-client"},
        "type": "status_update",
        "priority": "normal",
        "payload": {
            "taskId": task.id,
            "status": "in_progress",
            "progress": text,
            "metadata": {"urn:openclaw:a2a:artifact:v1": {"artifact": artifact}},
        },
    })
    .to_string()
}

/// Raises the limit on open files, which is often 1,000.
fn allow_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = STREAMS as u64 + 1_000;
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })
            .unwrap_or_else(|error| panic!("{wanted} files are not allowed: {error}"));
    }
}

async fn call(connection: &mut Connection, server: &Server, method: &str, params: &Value) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    connection.post(server.address(), SLEEPER, &body).await;
}

/// Creates the tasks, which stay in state working.
async fn open_tasks(server: &Server) -> Vec<WorkingTask> {
    let mut connection = Connection::open(server.address()).await;
    // Reading the inbox once registers the agent.
    connection.get(server.address(), "/bus/agents/sleeper/inbox").await;
    connection.answer().await;
    let mut tasks = Vec::with_capacity(STREAMS);
    for number in 0..STREAMS {
        let message = json!({
            "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER",
            "parts": [{"text": format!("work on number {number} for ever")}],
        });
        let configuration = json!({"returnImmediately": true});
        let params = json!({"message": message, "configuration": configuration});
        call(&mut connection, server, "SendMessage", &params).await;
        let answer: Value = serde_json::from_slice(connection.answer().await)
            .unwrap_or_else(|error| panic!("{error}"));
        let task = &answer["result"]["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_WORKING", "{answer}");
        let id = task["id"].as_str().unwrap_or_default().to_owned();
        tasks.push(WorkingTask { id, correlation: uuid::Uuid::now_v7() });
    }
    tasks
}

/// Opens a stream and reads its first event.
async fn open(server: &Server, task: &WorkingTask) -> Connection {
    let mut connection = Connection::open(server.address()).await;
    call(&mut connection, server, "SubscribeToTask", &json!({"id": task.id})).await;
    connection.until(b"TASK_STATE_WORKING").await;
    connection
}

/// The memory of the server once it no longer changes, or after ten seconds.
async fn settled(server: &Server) -> f64 {
    const STILL: usize = 5;
    let begun = Instant::now();
    let mut last = [f64::NAN; STILL];
    loop {
        last.rotate_left(1);
        last[STILL - 1] = server.memory();
        let moved = last.iter().fold(0.0_f64, |most, one| most.max((one - last[0]).abs()));
        let is_still = last.iter().all(|one| one.is_finite()) && moved < 0.05;
        if is_still || begun.elapsed() > Duration::from_secs(10) {
            return last[STILL - 1];
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
