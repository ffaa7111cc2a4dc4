//! Progress bars: Tim fetches and indexes files, and Roman sees the progress of his task.
//!
//! `cargo run --example progress`

use std::time::Duration;

use openclaw_a2a::{Agent, Bus, Delivery, NewTask, ProgressTracker, TaskUpdate};

/// Updates two progress bars. The SDK coalesces updates and sends about one snapshot a second.
async fn fetch(
    tim: Agent,
    delivery: Delivery,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    tim.accept(&delivery).await?;
    let bars = tim.progress(&delivery);
    for file in 1..=20_u32 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        bars.update("download", file.into(), Some(20.0), format!("{file} of 20 files"))?;
        bars.update("index", (file / 4).into(), None, "how many there will be is not known")?;
    }
    // An invalid update returns an error; nothing is sent.
    if let Err(mistake) = bars.update("download", 21.0, Some(20.0), "too far") {
        println!("tim's mistake: {}", mistake.violations()[0]);
    }
    bars.done("download")?;
    bars.failed("index", "the disk is full")?;
    // Pending progress is sent before the answer.
    tim.complete(&delivery, "20 files are here; the index is not.").await?;
    Ok(())
}

fn line(tracker: &ProgressTracker) -> String {
    let (progress, total) = (tracker.progress.unwrap_or_default(), tracker.total);
    let total = total.map_or_else(|| "?".to_owned(), |total| total.to_string());
    let status = tracker.status.map(|status| status.to_string()).unwrap_or_default();
    format!("{:>10} {progress}/{total} {status}", tracker.id)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bus = Bus::builder().in_memory().start()?;
    bus.attach("tim", fetch).await?;
    let roman = bus.connect("roman").await?;

    let task = NewTask::new("Fetch the files", "Fetch all 20 files and index them.");
    let mut work = roman.request_task("tim", task).await?;
    while let Some(update) = work.next().await {
        let TaskUpdate::Progress { text, report, .. } = update else { continue };
        println!("roman hears: {text}");
        let progress = report.metadata.as_ref().and_then(|all| all.progress.clone());
        for tracker in progress.iter().flat_map(|progress| &progress.trackers) {
            println!("{}", line(tracker));
        }
    }
    println!("the result: {}", work.result().await?.summary());
    bus.stop().await;
    Ok(())
}
