//! A server that stops and starts again on the same disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use a2a_actors::tasks::{AfterRestart, TaskSettings};
use a2a_protocol::operation::GetTask;
use a2a_protocol::task::TaskState;
use a2a_taskdb::{Options, TaskDb, TaskWriter, Write, WriteOutcome};
use openclaw_a2a::{Bus, Delivery, StatusReport, TaskAnswer};
use tokio::sync::mpsc::unbounded_channel;

use super::{asked, listener, place, states, title};
use crate::a2a_side::{
    Side, at_once, caller, id, in_context, label, more, output, settings, soon, task, text,
};

fn start(folder: &Path, after_restart: AfterRestart) -> Side {
    let bus = Bus::builder().state_dir(folder).settings(settings()).start().unwrap();
    let store = TaskDb::open(&Options::new(folder)).unwrap();
    let tasks = TaskSettings { after_restart, ..TaskSettings::default() };
    Side::on(bus, tasks, Box::new(store))
}

#[tokio::test]
async fn open_tasks_continue_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path(), AfterRestart::Resume);
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let mut tasks = Vec::new();
    for n in 0..4 {
        tasks.push(side.task("tim", at_once(in_context("talk", &n.to_string()))).await);
    }
    // The first asks, so the second runs; the answer to the first goes before the others.
    tim.block(&asked(&mut inbox).await, "which?").await.unwrap();
    assert_eq!(title(&asked(&mut inbox).await), "1");
    side.until("tim", &tasks[0], TaskState::InputRequired).await;
    side.task("tim", at_once(more(&tasks[0], "this"))).await;
    let asks = side.task("tim", at_once(in_context("other", "asks"))).await;
    tim.block(&asked(&mut inbox).await, "what?").await.unwrap();
    side.until("tim", &asks, TaskState::InputRequired).await;
    side.stop().await;

    let side = start(folder.path(), AfterRestart::Resume);
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    use TaskState::{InputRequired, Submitted, Working};
    assert_eq!(states(&side, &tasks).await, [Submitted, Working, Submitted, Submitted]);
    assert_eq!(states(&side, std::slice::from_ref(&asks)).await, [InputRequired]);
    for (at, expected) in [(0, 1), (2, 2), (3, 3)] {
        assert_eq!(place(&side.get("tim", &tasks[at]).await.unwrap()), Some(expected));
    }
    // The agent had taken the request before; it is not asked twice, and answers now.
    let done = TaskAnswer::completed("done").for_task(tasks[1].id);
    tim.send_task_response("acme", done).await.unwrap();
    side.until("tim", &tasks[1], TaskState::Completed).await;
    for expected in ["this", "2", "3"] {
        let delivery = asked(&mut inbox).await;
        assert_eq!(title(&delivery), expected);
        tim.complete(&delivery, "done").await.unwrap();
    }
    side.until("tim", &tasks[3], TaskState::Completed).await;
    side.stop().await;
}

#[tokio::test]
async fn answers_that_lay_there_when_the_server_started_count() {
    let folder = tempfile::tempdir().unwrap();
    let mut side = start(folder.path(), AfterRestart::Resume);
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let callers: Vec<_> = (0..8).map(|n| caller(&format!("client-{n}"))).collect();
    let mut tasks = Vec::new();
    for who in &callers {
        let sent = side.tasks.send(who, &id("tim"), at_once(text("work"))).await.unwrap();
        tasks.push((task(sent), asked(&mut inbox).await));
    }
    // The service is gone before the agent answers; the bus has the answers.
    side.stop_tasks().await;
    for (_, delivery) in &tasks {
        tim.complete(delivery, "done").await.unwrap();
    }
    side.stop().await;

    let side = start(folder.path(), AfterRestart::Resume);
    for (who, (task, _)) in callers.iter().zip(&tasks) {
        let get = || GetTask { id: label(task), history_length: None };
        let state = async || {
            let task = side.tasks.get(who, &id("tim"), get()).await.unwrap();
            task.status.state
        };
        soon(async {
            while !state().await.is_terminal() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(state().await, TaskState::Completed);
    }
    side.stop().await;
}

#[tokio::test]
async fn work_that_was_interrupted_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path(), AfterRestart::Resume);
    let (received, mut inbox) = unbounded_channel();
    let never_ends = move |delivery: Delivery| {
        let _ = received.send(delivery);
        std::future::pending::<()>()
    };
    side.bus.attach("tim", never_ends).await.unwrap();
    let task = side.task("tim", at_once(in_context("talk", "x"))).await;
    let first = asked(&mut inbox).await;
    side.stop().await;

    let side = start(folder.path(), AfterRestart::Resume);
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let again = asked(&mut inbox).await;
    assert_eq!(again.message.message_id, first.message.message_id);
    tim.complete(&again, "done").await.unwrap();
    side.until("tim", &task, TaskState::Completed).await;
    assert!(inbox.try_recv().is_err());
    side.stop().await;
}

#[tokio::test]
async fn or_it_fails_and_the_next_one_has_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path(), AfterRestart::Fail);
    let (_tim, mut inbox) = listener(&side.bus, "tim").await;
    let runs = side.task("tim", at_once(in_context("talk", "runs"))).await;
    let waits = side.task("tim", at_once(in_context("talk", "waits"))).await;
    let _delivery = asked(&mut inbox).await;
    side.stop().await;

    let side = start(folder.path(), AfterRestart::Fail);
    let (_tim, mut inbox) = listener(&side.bus, "tim").await;
    assert_eq!(title(&asked(&mut inbox).await), "waits");
    let failed = side.get("tim", &runs).await.unwrap();
    assert_eq!(failed.status.state, TaskState::Failed);
    assert!(output(&failed).starts_with("interrupted"), "{failed:?}");
    assert_eq!(states(&side, &[waits]).await, [TaskState::Working]);
    side.bus.stop_within(Duration::ZERO).await;
    side.stop().await;
}

/// What a crash left behind: the service had taken the message in, the bus did not know.
#[tokio::test]
async fn artifact_piece_redelivered_after_a_crash_is_applied_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut side = start(folder.path(), AfterRestart::Resume);
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let task = side.task("tim", at_once(text("work"))).await;
    let delivery = asked(&mut inbox).await;
    // The service is gone, so the piece stays on the bus.
    side.stop_tasks().await;
    let artifact = serde_json::json!({"artifactId": "a", "parts": [{"text": "once"}]});
    let artifact = serde_json::from_value(artifact).unwrap();
    let piece = StatusReport::in_progress("a piece").artifact(&artifact, true, false);
    let sent = tim.send_status_update(&delivery, piece).await.unwrap();
    side.stop().await;
    // Another one of the same store had it in the task already.
    let mut store = TaskDb::open(&Options::new(folder.path())).unwrap();
    let mut stored = store.reader().get(task.id).unwrap().unwrap();
    let expected = stored.version;
    stored.version += 1;
    stored.applied_seqs.push(sent.seq().unwrap());
    Arc::make_mut(&mut stored.task).artifacts.push(Arc::new(artifact.clone()));
    let write = Write::Update { stored, expected, events: Vec::new(), message: None };
    assert_eq!(store.commit(vec![write]).unwrap(), [WriteOutcome::Done]);
    drop(store);

    let side = start(folder.path(), AfterRestart::Resume);
    let (tim, _hears) = listener(&side.bus, "tim").await;
    let done = TaskAnswer::completed("done").for_task(task.id);
    tim.send_task_response("acme", done).await.unwrap();
    let done = side.until("tim", &task, TaskState::Completed).await;
    assert_eq!(done.artifacts, [Arc::new(artifact)]);
    side.stop().await;
}
