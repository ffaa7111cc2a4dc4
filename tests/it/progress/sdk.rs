//! Bars, for an agent's author: under the limits of the bus as they are.

use a2a_protocol::body::StatusUpdate;
use a2a_protocol::{Code, TrackerStatus};
use openclaw_a2a::{
    Agent, Bus, Delivery, NewTask, Progress, SendError, TaskError, TaskHandle, TaskUpdate,
};

use crate::a2a_side::soon;

fn task() -> NewTask {
    NewTask::new("Fetch", "Fetch the files")
}

/// The snapshots of a task, and how it ended.
async fn snapshots(work: &mut TaskHandle) -> (Vec<Progress>, Result<String, TaskError>) {
    let mut seen = Vec::new();
    let of = |report: Box<StatusUpdate>| report.metadata.as_ref()?.progress.clone();
    while let Some(update) = soon(work.next()).await {
        if let TaskUpdate::Progress { report, .. } = update {
            seen.extend(of(report));
        }
    }
    let end = soon(work.result()).await;
    (seen, end.map(|finished| finished.summary().to_owned()))
}

async fn fetch(tim: Agent, delivery: Delivery) -> Result<(), SendError> {
    let bars = tim.progress(&delivery);
    for n in 1..=1_000 {
        bars.update("download", n.into(), Some(1_000.0), format!("{n} of 1000")).unwrap();
        bars.update("index", (n / 100).into(), None, "").unwrap();
        bars.overall((n * 2).into(), None, Some("all of it")).unwrap();
    }
    let refused = bars.update("download", 1_001.0, Some(1_000.0), "").unwrap_err();
    let found = &refused.violations()[0];
    assert_eq!((found.path.as_str(), found.code), ("/trackers/0/progress", Code::Mismatch));
    assert!(bars.done(&"x".repeat(129)).is_err());
    bars.flush().await;
    bars.done("download").unwrap();
    bars.flush().await;
    bars.failed("index", "the disk is full").unwrap();
    tim.complete(&delivery, "fetched").await?;
    Ok(())
}

#[tokio::test]
async fn bars_are_few_snapshots_and_what_ended_is_seen_once() {
    let bus = Bus::builder().in_memory().start().unwrap();
    bus.attach("tim", fetch).await.unwrap();
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", task()).await.unwrap();
    let (seen, end) = snapshots(&mut work).await;
    assert_eq!(end.unwrap(), "fetched");
    // At most one by itself, and the three that were asked for.
    assert!((3..=5).contains(&seen.len()), "{seen:#?}");
    let [whole, done, last] = &seen[seen.len() - 3..] else { panic!() };
    let ids = |progress: &Progress| {
        progress.trackers.iter().map(|tracker| tracker.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(whole), ["download", "index"]);
    let download = &whole.trackers[0];
    assert_eq!((download.progress, download.status), (Some(1_000.0), Some(TrackerStatus::Running)));
    assert!(download.started_at <= download.updated_at && download.started_at.is_some());
    assert_eq!(whole.aggregate.as_ref().unwrap().progress, Some(2_000.0));
    assert_eq!(ids(done), ["download", "index"]);
    assert_eq!(done.trackers[0].status, Some(TrackerStatus::Completed));
    assert_eq!(ids(last), ["index"], "what ended and was seen is left out");
    assert_eq!(last.trackers[0].status, Some(TrackerStatus::Failed));
    assert_eq!(last.trackers[0].message.as_deref(), Some("the disk is full"));
    bus.stop().await;
}

#[tokio::test]
async fn an_error_of_the_handler_takes_the_last_snapshot_along() {
    async fn break_off(tim: Agent, delivery: Delivery) -> Result<(), String> {
        let bars = tim.progress(&delivery);
        for n in 1..=3 {
            bars.update("a", n.into(), None, "").unwrap();
        }
        Err("no".to_owned())
    }
    let bus = Bus::builder().in_memory().start().unwrap();
    bus.attach("tim", break_off).await.unwrap();
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", task()).await.unwrap();
    let (seen, end) = snapshots(&mut work).await;
    assert_eq!(end, Err(TaskError::Failed { reason: "no".to_owned() }));
    assert_eq!(seen.last().unwrap().trackers[0].progress, Some(3.0));
    bus.stop().await;
}
