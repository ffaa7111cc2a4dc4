//! Review cycle: Roman builds, Tony requests changes, Tim approves.
//!
//! `cargo run --example review_cycle`

use std::time::Duration;

use openclaw_a2a::{
    Agent, Bus, Delivery, FollowUp, Handlers, NewReview, NewTask, ReviewAnswer, ReviewRequest,
    ReviewResponse, SendError, Severity, TaskAnswer, TaskRequest, Verdict,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const FILE: &str = "src/router.rs";

/// Roman completes the task and requests a review from Tony.
async fn build(roman: Agent, delivery: Delivery, task: TaskRequest) -> Result<(), SendError> {
    println!("roman  takes \"{}\" from {}", task.title, delivery.sender);
    roman.accept(&delivery).await?;
    roman.complete(&delivery, "Every message passes one pipeline.").await?;
    println!("roman  is done and asks tony for a review");
    let review = NewReview::new(task.task_id, "The router", "roman/router", "wt/router", [FILE])
        .author_tier("T3-Staff")
        .in_conversation(delivery.message.correlation_id);
    roman.send_review_request("tony", review).await?;
    Ok(())
}

/// Roman makes the requested changes and requests a review from Tim, who is more senior.
async fn change(
    roman: Agent,
    delivery: Delivery,
    verdict: ReviewResponse,
) -> Result<(), SendError> {
    println!("roman  hears from {}: {}", delivery.sender, verdict.verdict);
    if verdict.verdict != Verdict::ChangesRequested {
        return Ok(());
    }
    let (task, conversation) = (verdict.task_id, delivery.message.correlation_id);
    let done = TaskAnswer::completed("The size is checked first.").for_task(task);
    roman.send_task_response("claire", done.in_conversation(conversation)).await?;
    println!("roman  has changed it and asks tim");
    let review = NewReview::new(task, "The router, again", "roman/router", "wt/router", [FILE])
        .prior_notes("Tony: the size is checked too late")
        .in_conversation(conversation);
    roman.send_review_request("tim", review).await?;
    Ok(())
}

async fn send_back(
    tony: Agent,
    delivery: Delivery,
    review: ReviewRequest,
) -> Result<(), SendError> {
    println!("tony   reads {} and sends it back", review.files_for_review[0]);
    let why = "The size is checked after the message is read";
    let verdict = ReviewAnswer::changes_requested().concern_at(FILE, 47, Severity::MustFix, why);
    tony.send_review_response(&delivery, verdict).await.map(drop)
}

async fn approve(
    done: UnboundedSender<()>,
    tim: Agent,
    delivery: Delivery,
    _: ReviewRequest,
) -> Result<(), SendError> {
    println!("tim    finds it good and says what comes next");
    let next = FollowUp::new("Implement the SDK").assign_to("claire");
    tim.send_review_response(&delivery, ReviewAnswer::approved().next_task(next)).await?;
    done.send(()).ok();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let bus = Bus::builder().state_dir(folder.path()).start()?;
    let (done, mut is_done) = unbounded_channel();
    bus.attach("roman", Handlers::new().on_task_request(build).on_review_response(change)).await?;
    bus.attach("tony", Handlers::new().on_review_request(send_back)).await?;
    let approve = move |tim, delivery, review| approve(done.clone(), tim, delivery, review);
    bus.attach("tim", Handlers::new().on_review_request(approve)).await?;

    let claire = bus.connect("claire").await?;
    let task = NewTask::new("Build the router", "Route every message through one pipeline.");
    let mut work = claire.request_task("roman", task).await?;
    println!("claire hears: {}", work.result().await?.summary());
    tokio::time::timeout(Duration::from_secs(5), is_done.recv()).await?;
    bus.stop().await;

    let bus = Bus::builder().state_dir(folder.path()).start()?;
    let task = bus.task(work.task_id()).await.ok_or("the task is gone")?;
    let review = task.review.ok_or("there was no review")?;
    println!("after a restart: {}, {} by {}", task.state, review.state, review.reviewer);
    println!("proposed: {}", task.proposed[0].title);
    bus.stop().await;
    Ok(())
}
