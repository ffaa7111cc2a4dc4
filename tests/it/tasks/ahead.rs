//! A caller that waits for the end hears of it when the journal has it, before the store does. What
//! it was told holds all the same: for whoever reads, and through a crash in between.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use a2a_actors::tasks::{Sent, TaskSettings};
use a2a_protocol::operation::{ListTasks, SendMessage};
use a2a_protocol::task::{Task, TaskState};
use a2a_store::tasks::{Memory, Options, Sqlite, TaskWriter};
use openclaw_a2a::{Agent, Bus, Letter, SendError, TaskAnswer};

use crate::a2a_side::{Refusing, Side, acme, at_once, id, in_context, settings, soon, task, text};

/// Does what it is asked: says a plain word to a question, and gives an artifact otherwise.
async fn work(me: Agent, letter: Letter) -> Result<(), SendError> {
    let a2a_protocol::Body::TaskRequest(request) = &letter.message.body else { return Ok(()) };
    let answer = TaskAnswer::completed("Done.").saying(format!("{}: done", &*request.title));
    let answer = if request.title.as_str().ends_with('?') {
        answer.directly()
    } else {
        answer.text_artifact("answer", "there you are")
    };
    me.send_task_response(&letter, answer).await.map(drop)
}

async fn start(folder: &Path, store: Box<dyn TaskWriter>) -> Side {
    let bus = Bus::builder().state_dir(folder).settings(settings()).start().unwrap();
    bus.attach("tim", work).await.unwrap();
    Side::on(bus, TaskSettings::default(), store)
}

fn refusing() -> Box<dyn TaskWriter> {
    Box::new(Refusing(Memory::new(), Arc::new(AtomicBool::new(true))))
}

fn sqlite(folder: &Path) -> Box<dyn TaskWriter> {
    Box::new(Sqlite::open(&Options::new(folder)).unwrap())
}

async fn listed(side: &Side) -> Vec<Task> {
    let list = ListTasks { page_size: Some(100), include_artifacts: true, ..ListTasks::default() };
    soon(side.tasks.list(&acme(), &id("tim"), list)).await.unwrap().tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_was_told_survives_a_crash_before_the_store_had_it() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path(), refusing()).await;
    let (asks, wants, again) = (text("why?"), text("count"), in_context("talk", "count again"));
    let told = side.task("tim", wants.clone()).await;
    assert_eq!(told.status.state, TaskState::Completed);
    let second = side.task("tim", again).await;
    let answer = side.send("tim", asks.clone()).await.unwrap();
    assert!(matches!(answer, Sent::Message(_)), "{answer:?}");
    // The store never got any of it.
    side.stop().await;

    let side = start(folder.path(), sqlite(folder.path())).await;
    assert_eq!(side.get("tim", &told).await.unwrap(), told);
    assert_eq!(side.get("tim", &second).await.unwrap(), second);
    let known: Vec<_> = listed(&side).await.iter().map(|task| task.id).collect();
    assert_eq!(known.len(), 2, "a question that was answered is no task");
    // Said again they are no news.
    assert_eq!(side.task("tim", wants).await, told);
    assert_eq!(side.send("tim", asks).await.unwrap(), answer);
    side.stop().await;

    // And nothing is made anew once more.
    let side = start(folder.path(), sqlite(folder.path())).await;
    assert_eq!(listed(&side).await.len(), 2);
    assert_eq!(side.get("tim", &told).await.unwrap(), told);
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_the_store_finds_what_callers_know() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path(), sqlite(folder.path())).await;
    for n in 1..=20 {
        let told = side.task("tim", text(&format!("count to {n}"))).await;
        let all = listed(&side).await;
        assert_eq!(all.len(), n);
        assert!(all.contains(&told), "not there yet: {told:?}");
        assert_eq!(side.get("tim", &told).await.unwrap(), told);
    }
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_journal_could_not_tell_waits_for_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path(), refusing()).await;
    // Its own metadata and large parts do not travel with the request.
    let mut noted = text("count");
    noted.metadata = serde_json::json!({"colour": "blue"}).as_object().cloned();
    let large = text(&"x".repeat(100_000));
    for waits in [noted, large] {
        let (tasks, caller, agent) = (side.tasks.clone(), acme(), id("tim"));
        let told = tokio::spawn(async move { tasks.send(&caller, &agent, waits).await });
        // The agent is done with the first before it gets this; nobody heard of that.
        let after: SendMessage = in_context("other", "count");
        assert_eq!(side.task("tim", after).await.status.state, TaskState::Completed);
        assert!(!told.is_finished());
        told.abort();
    }
    // Those who want to see a task before it ends wait, too.
    assert!(side.send("tim", at_once(text("count"))).await.is_err());
    side.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_told_is_found_by_its_own_id_alone() {
    let folder = tempfile::tempdir().unwrap();
    let side = start(folder.path(), sqlite(folder.path())).await;
    let sent = side.send("tim", text("count")).await.unwrap();
    let told = task(sent);
    assert_eq!(side.get("tim", &told).await.unwrap(), told);
    assert!(side.cancel("tim", &told).await.is_err(), "it has ended");
    side.stop().await;
}
