//! How often progress is passed on, and what takes it along.

use std::time::Duration;

use a2a_actors::tasks::{TaskEvent, TaskSettings};
use a2a_protocol::task::TaskState;
use futures_util::StreamExt;
use openclaw_a2a::{StatusReport, TaskAnswer};
use serde_json::{Value, json};

use super::{asked, of_event, of_task, snapshot, tell};
use crate::a2a_side::{Side, all, at_once, more, output, soon, text, words};
use crate::listener::listener;

const NEVER: Duration = Duration::from_secs(3_600);

/// Updates go out once in this time.
fn every(progress_interval: Duration) -> Side {
    Side::with(TaskSettings { progress_interval, ..TaskSettings::default() })
}

fn snapshots(events: &[TaskEvent]) -> Vec<Option<Value>> {
    events.iter().map(|happened| of_event(&happened.event)).collect()
}

#[tokio::test]
async fn a_thousand_updates_are_few_events_and_the_last_is_never_dropped() {
    let side = every(NEVER);
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let task = side.task("tim", at_once(text("x"))).await;
    let watching = side.subscribe("tim", &task, None).await.unwrap();
    let delivery = asked(&mut inbox).await;
    for n in 1..=1_000 {
        tell(&tim, &delivery, &format!("{n} of 1000"), &snapshot(n, 1_000)).await;
    }
    tim.complete(&delivery, "done").await.unwrap();
    let seen = all(watching).await;
    assert_eq!(words(&seen), ["task working", "working", "artifact.", "completed"]);
    assert_eq!(
        snapshots(&seen),
        [None, Some(snapshot(1, 1_000)), None, Some(snapshot(1_000, 1_000))]
    );
    let done = side.get("tim", &task).await.unwrap();
    assert_eq!((output(&done).as_str(), of_task(&done)), ("done", Some(snapshot(1_000, 1_000))));
    assert!(done.metadata.is_none(), "{:?}", done.metadata);
    let history: Vec<_> = done.history.iter().map(|message| message.text()).collect();
    assert_eq!(history, ["x", "1 of 1000"], "bars do not fill the history");
    // Each was acknowledged: none is redelivered.
    soon(async {
        while side.bus.agents().await.iter().any(|agent| agent.pending > 0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    side.stop().await;
}

#[tokio::test]
async fn what_waits_goes_out_when_its_time_has_come() {
    let side = every(Duration::from_millis(300));
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let task = side.task("tim", at_once(text("x"))).await;
    let mut watching = side.subscribe("tim", &task, None).await.unwrap();
    let delivery = asked(&mut inbox).await;
    soon(watching.next()).await.unwrap();
    for n in 1..=3 {
        tell(&tim, &delivery, &n.to_string(), &snapshot(n, 3)).await;
    }
    // Nothing else happens, and the newest comes all the same. On a slow machine each has its time.
    let mut seen = Vec::new();
    while seen.last() != Some(&Some(snapshot(3, 3))) {
        seen.push(of_event(&soon(watching.next()).await.unwrap().event));
    }
    assert_eq!(seen[0], Some(snapshot(1, 3)));
    let shown = side.get("tim", &task).await.unwrap();
    assert_eq!((output(&shown).as_str(), of_task(&shown)), ("3", Some(snapshot(3, 3))));
    assert_eq!(shown.status.state, TaskState::Working);
    side.stop().await;
}

#[tokio::test]
async fn other_updates_are_sent_at_once_with_the_newest_progress() {
    let side = every(NEVER);
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let task = side.task("tim", at_once(text("x"))).await;
    let mut watching = side.subscribe("tim", &task, None).await.unwrap();
    let delivery = asked(&mut inbox).await;
    soon(watching.next()).await.unwrap();
    let mut happens = async || soon(watching.next()).await.unwrap();
    tell(&tim, &delivery, "1", &snapshot(1, 9)).await;
    assert_eq!(of_event(&happens().await.event), Some(snapshot(1, 9)));
    // A text.
    tell(&tim, &delivery, "2", &snapshot(2, 9)).await;
    tim.report(&delivery, "a word").await.unwrap();
    assert_eq!(of_event(&happens().await.event), Some(snapshot(2, 9)));
    let shown = side.get("tim", &task).await.unwrap();
    assert_eq!((output(&shown).as_str(), of_task(&shown)), ("a word", Some(snapshot(2, 9))));
    // A text when nothing is new: the task still shows how far it is, the event has no news of it.
    tim.report(&delivery, "another").await.unwrap();
    assert_eq!(of_event(&happens().await.event), None);
    assert_eq!(of_task(&side.get("tim", &task).await.unwrap()), Some(snapshot(2, 9)));
    // A piece that comes with progress.
    let artifact = serde_json::from_value(json!({"artifactId": "a", "parts": [{"text": "x"}]}));
    let piece = super::update("3", &snapshot(3, 9)).artifact(&artifact.unwrap(), false, true);
    tim.send_status_update(&delivery, piece).await.unwrap();
    assert_eq!(words(&[happens().await]), ["artifact."]);
    assert_eq!(of_event(&happens().await.event), Some(snapshot(3, 9)));
    // A question.
    tell(&tim, &delivery, "4", &snapshot(4, 9)).await;
    tim.send_status_update(&delivery, StatusReport::blocked("stuck", "which?")).await.unwrap();
    let asks = happens().await;
    assert_eq!(
        (words(std::slice::from_ref(&asks)), of_event(&asks.event)),
        (vec!["input_required".to_owned()], Some(snapshot(4, 9)))
    );
    assert_eq!(output(&side.get("tim", &task).await.unwrap()), "which?");
    side.task("tim", at_once(more(&task, "this"))).await;
    assert_eq!(words(&[happens().await]), ["working"]);
    let delivery = asked(&mut inbox).await;
    // The end, by the caller: the last progress is all that it carries.
    tell(&tim, &delivery, "6", &snapshot(6, 9)).await;
    let end = side.cancel("tim", &task).await.unwrap();
    // Whether the last snapshot came before the cancellation is a race.
    let known = of_task(&end);
    assert_eq!(end.status.state, TaskState::Canceled);
    assert!(known.is_none() || known == Some(snapshot(6, 9)), "{known:?}");
    assert_eq!(of_event(&happens().await.event), known);
    side.stop().await;
}

#[tokio::test]
async fn progress_never_ends_a_task_however_much_of_it_there_is() {
    let settings = TaskSettings {
        progress_interval: Duration::ZERO,
        task_bytes: 20_000,
        ..TaskSettings::default()
    };
    let side = Side::with(settings);
    let (tim, mut inbox) = listener(&side.bus, "tim").await;
    let task = side.task("tim", at_once(text("x"))).await;
    let watching = side.subscribe("tim", &task, None).await.unwrap();
    let delivery = asked(&mut inbox).await;
    for n in 1..=200 {
        tell(&tim, &delivery, &n.to_string(), &snapshot(n, 200)).await;
    }
    tim.send_task_response(&delivery, TaskAnswer::failed("no")).await.unwrap();
    let seen = all(watching).await;
    assert!(seen.len() < 40, "{} events", seen.len());
    let end = side.get("tim", &task).await.unwrap();
    assert_eq!((end.status.state, output(&end).as_str()), (TaskState::Failed, "no"));
    assert_eq!(of_task(&end), Some(snapshot(200, 200)));
    side.stop().await;
}
