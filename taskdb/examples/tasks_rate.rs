//! Throughput of the task store in durable tasks per second: `cargo run --release -p a2a-taskdb
//! --example tasks_rate`. Each pair of writes creates a task with a message id and an event, and
//! completes it with an artifact and an event.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use a2a_protocol::operation::{StatusUpdateEvent, StreamEvent};
use a2a_protocol::task::{
    Artifact, ContextId, Message, OpaqueId, Part, Role, Task, TaskState, TaskStatus,
};
use a2a_protocol::{CorrelationId, TaskId};
use a2a_taskdb::{
    ListQuery, NewEvent, Options, SentMessage, StoredTask, TaskDb, TaskWriter, Write, WriteOutcome,
};
use chrono::DateTime;

const PAIRS: u64 = 20_000;

type Failed = Box<dyn Error>;

fn new_task(n: u64, text: &str) -> Result<StoredTask, Failed> {
    let ms = 1_771_698_600_000 + i64::try_from(n)?;
    let moment = DateTime::from_timestamp_millis(ms).ok_or("no such moment")?.into();
    let id: TaskId = format!("0192a4c8-7e1a-7b3c-9d4e-{n:012x}").parse()?;
    let context_id = ContextId::try_from(format!("context {}", n % 1_000).as_str())?;
    let message = Message {
        message_id: OpaqueId::try_from(n.to_string().as_str())?,
        context_id: Some(context_id.clone()),
        task_id: None,
        role: Role::User,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    };
    let status = TaskStatus { state: TaskState::Working, message: None, timestamp: moment };
    let (artifacts, history, metadata) = (Vec::new(), vec![Arc::new(message)], None);
    Ok(StoredTask {
        task: Arc::new(Task { id, context_id, status, artifacts, history, metadata }),
        owner: "client:acme".into(),
        principal: "acme".parse()?,
        agent: "tim".parse()?,
        correlation: CorrelationId::try_from(id.as_uuid())?,
        trace: None,
        version: 1,
        last_event: 1,
        queued: None,
        dispatched: true,
        spoken_version: None,
        worked_ms: 0,
        working_since: Some(moment),
        applied_seqs: Vec::new(),
        created: moment,
        updated: moment,
    })
}

fn event(stored: &StoredTask) -> Vec<NewEvent> {
    let status = StatusUpdateEvent {
        task_id: stored.task.id,
        context_id: stored.task.context_id.clone(),
        status: stored.task.status.clone(),
        metadata: None,
    };
    let event = Arc::new(StreamEvent::StatusUpdate(Box::new(status)));
    vec![NewEvent { number: stored.last_event, event, at: stored.updated }]
}

/// The write that creates the task.
fn create(stored: &StoredTask) -> Write {
    let message = stored.task.history.first().map(|message| SentMessage::of(message));
    Write::Create { stored: stored.clone(), message, events: event(stored), push: Vec::new() }
}

/// The write that updates the task, or completes it with an artifact.
fn update(stored: &mut StoredTask, end: Option<&str>) -> Result<Write, Failed> {
    stored.version += 1;
    stored.last_event += 1;
    if let Some(text) = end {
        let task = Arc::make_mut(&mut stored.task);
        task.status.state = TaskState::Completed;
        task.artifacts.push(Arc::new(Artifact {
            artifact_id: OpaqueId::try_from("result")?,
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: Vec::new(),
        }));
    }
    let events = event(stored);
    let expected = stored.version - 1;
    Ok(Write::Update { stored: stored.clone(), expected, events, message: None })
}

fn commit(tasks: &mut dyn TaskWriter, writes: Vec<Write>) -> Result<(), Failed> {
    let fits = tasks.commit(writes)?.iter().all(|written| *written == WriteOutcome::Done);
    if fits { Ok(()) } else { Err("a write did not fit".into()) }
}

/// Pairs per second with so many tasks per commit.
fn rate(tasks: &mut dyn TaskWriter, pairs: u64, batch: u64, text: &str) -> Result<f64, Failed> {
    let mut all = (0..pairs).map(|n| new_task(n, text)).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    for part in all.chunks_mut(usize::try_from(batch)?) {
        commit(tasks, part.iter().map(create).collect())?;
        commit(
            tasks,
            part.iter_mut().map(|stored| update(stored, Some(text))).collect::<Result<_, _>>()?,
        )?;
    }
    Ok(pairs as f64 / begun.elapsed().as_secs_f64())
}

/// Status updates per second of tasks with a history of this length, 64 per commit.
fn changes(history: usize) -> Result<f64, Failed> {
    let dir = tempfile::tempdir()?;
    let mut tasks = TaskDb::open(&Options::new(dir.path()))?;
    let text = "x".repeat(history);
    let mut all = (0..64).map(|n| new_task(n, &text)).collect::<Result<Vec<_>, _>>()?;
    commit(&mut tasks, all.iter().map(create).collect())?;
    let begun = Instant::now();
    for _ in 0..50 {
        commit(
            &mut tasks,
            all.iter_mut().map(|stored| update(stored, None)).collect::<Result<_, _>>()?,
        )?;
    }
    Ok(50.0 * 64.0 / begun.elapsed().as_secs_f64())
}

fn main() -> Result<(), Failed> {
    let text = "x".repeat(400);
    for (batch, pairs) in [(1, 2_000), (64, PAIRS), (512, PAIRS)] {
        let dir = tempfile::tempdir()?;
        let mut tasks = TaskDb::open(&Options::new(dir.path()))?;
        let found = rate(&mut tasks, pairs, batch, &text)?;
        println!("file, {batch} a commit: {found:.0} tasks made and ended a second");
        if batch == 512 {
            read_rates(&tasks)?;
        }
    }
    let found = rate(&mut TaskDb::open_in_memory()?, PAIRS, 64, &text)?;
    println!("memory, 64 a commit: {found:.0} tasks made and ended a second");
    for history in [1_000, 10_000, 100_000] {
        let found = changes(history)?;
        println!(
            "file, 64 a commit, history of {history} bytes: {found:.0} changes of status a second"
        );
    }
    Ok(())
}

fn read_rates(tasks: &TaskDb) -> Result<(), Failed> {
    let reader = tasks.reader();
    let begun = Instant::now();
    for n in 0..10_000 {
        let id = format!("0192a4c8-7e1a-7b3c-9d4e-{:012x}", (n * 7_919) % PAIRS).parse()?;
        reader.get(id)?.ok_or("a task is gone")?;
    }
    println!(
        "file, of {PAIRS}: {:.0} tasks looked at a second",
        10_000.0 / begun.elapsed().as_secs_f64()
    );
    let contexts = [None, Some(ContextId::try_from("context 7")?)];
    for context in contexts {
        let query = ListQuery {
            owner: Some("client:acme".into()),
            page_size: 50,
            context,
            ..ListQuery::default()
        };
        let begun = Instant::now();
        for _ in 0..100 {
            reader.list(&query)?;
        }
        let each = begun.elapsed().as_secs_f64() * 10.0;
        println!("file, of {PAIRS}: a page in {each:.2} ms, context {:?}", query.context);
    }
    Ok(())
}
