//! A cancelled task is one that the task store and the ledger of the bus both know as cancelled.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use a2a_actors::tasks::{TaskSettings, TaskSystem};
use a2a_protocol::operation::{CancelTask, StreamEvent};
use a2a_protocol::task::{Task, TaskState};
use a2a_taskdb::{Options, TaskDb, TaskWriter, Write, WriteOutcome};
use futures_util::StreamExt;
use futures_util::poll;
use openclaw_a2a::Bus;

use crate::a2a_side::{Side, acme, at_once, id, label, settings, soon, text};
use crate::unreliable_journal::UnreliableBus;

fn start(folder: &Path) -> Side {
    let bus = Bus::builder().state_dir(folder).settings(settings()).start().unwrap();
    let store = TaskDb::open(&Options::new(folder)).unwrap();
    Side::on(bus, TaskSettings::default(), Box::new(store))
}

async fn on_the_bus(side: &Side, task: &Task) -> a2a_protocol::AssignmentState {
    side.bus.system().task(task.id).await.unwrap().state
}

/// A task whose request waits for an agent that is not there.
async fn waiting(side: &Side) -> Task {
    side.bus.system().register(id("tim"), openclaw_a2a::Profile::default()).await.unwrap();
    let task = side.task("tim", at_once(text("work"))).await;
    assert_eq!(task.status.state, TaskState::Working);
    // Until the bus has it.
    let limit = std::time::Instant::now() + crate::listener::SOON;
    while side.bus.system().task(task.id).await.is_none() {
        assert!(std::time::Instant::now() < limit, "the request never came");
        tokio::task::yield_now().await;
    }
    task
}

fn cancel(task: &Task) -> CancelTask {
    CancelTask { id: label(task), metadata: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_is_answered_when_the_journal_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let bus = UnreliableBus::start(folder.path(), settings());
    let store = Box::new(TaskDb::open_in_memory().unwrap());
    let (tasks, _work) =
        TaskSystem::start(TaskSettings::default(), bus.system.clone(), store).unwrap();
    bus.system.register(id("tim"), openclaw_a2a::Profile::default()).await.unwrap();
    let (caller, tim) = (acme(), id("tim"));
    let mut events = soon(tasks.stream(&caller, &tim, text("work"), None)).await.unwrap();
    let first = soon(events.next()).await.unwrap();
    let StreamEvent::Task(task) = &*first.event else { panic!("{first:?}") };
    let limit = std::time::Instant::now() + crate::listener::SOON;
    while bus.system.task(task.id).await.is_none() {
        assert!(std::time::Instant::now() < limit, "the request never came");
        tokio::task::yield_now().await;
    }
    bus.fate.refuse.store(usize::MAX, SeqCst);
    let mut answer = pin!(tasks.cancel(&caller, &tim, cancel(task)));
    // The store has it, and subscribers have the event.
    let seen = tokio::select! {
        seen = soon(events.next()) => seen.unwrap(),
        answer = &mut answer => panic!("answered before the journal has it: {answer:?}"),
    };
    assert!(seen.last, "{seen:?}");
    // What follows from that has happened in the service.
    assert!(tasks.load().await.is_some());
    assert!(poll!(&mut answer).is_pending());
    bus.fate.refuse.store(0, SeqCst);
    assert_eq!(soon(answer).await.unwrap().status.state, TaskState::Canceled);
    let id = task.id;
    // Nothing but what was answered survives.
    bus.crash().await;
    let bus = UnreliableBus::start(folder.path(), settings());
    assert_eq!(bus.system.task(id).await.unwrap().state, a2a_protocol::AssignmentState::Cancelled);
    bus.stop().await;
}

/// What a crash leaves behind that comes between the two.
#[tokio::test]
async fn task_canceled_in_the_store_alone_is_cancelled_on_the_bus_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path());
    let task = waiting(&side).await;
    side.stop().await;
    let mut store = TaskDb::open(&Options::new(folder.path())).unwrap();
    let mut stored = store.reader().get(task.id).unwrap().unwrap();
    let expected = stored.version;
    stored.version += 1;
    Arc::make_mut(&mut stored.task).status.state = TaskState::Canceled;
    let write = Write::Update { stored, expected, events: Vec::new(), message: None };
    assert_eq!(store.commit(vec![write]).unwrap(), [WriteOutcome::Done]);
    drop(store);

    let side = start(folder.path());
    assert_eq!(on_the_bus(&side, &task).await, a2a_protocol::AssignmentState::Cancelled);
    let agents = side.bus.system().agents().await;
    let tim = agents.iter().find(|agent| agent.agent_id.as_str() == "tim").unwrap();
    assert_eq!(tim.pending, 0, "its request is not handed out");
    side.stop().await;
}

#[tokio::test]
async fn task_cancelled_on_the_bus_alone_is_canceled_in_the_store_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut side = start(folder.path());
    let task = waiting(&side).await;
    side.stop_tasks().await;
    let by = Some(acme().principal);
    side.bus.system().cancel_task(task.id, by, "not needed".into()).await.unwrap();
    side.stop().await;

    let side = start(folder.path());
    assert_eq!(side.get("tim", &task).await.unwrap().status.state, TaskState::Canceled);
    assert_eq!(on_the_bus(&side, &task).await, a2a_protocol::AssignmentState::Cancelled);
    side.stop().await;
}
