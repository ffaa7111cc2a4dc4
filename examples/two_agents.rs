//! Two agents in one process: Roman requests a task from Tim, who reports progress and completes
//! it.
//!
//! `cargo run --example two_agents`

use openclaw_a2a::{
    Agent, Bus, Complexity, Delivery, Handlers, NewTask, SendError, TaskRequest, TaskType,
    TaskUpdate,
};

/// A handler is an async function. When it returns `Ok`, the message is acknowledged.
async fn count(tim: Agent, delivery: Delivery, task: TaskRequest) -> Result<(), SendError> {
    println!("tim hears from {}: {}", delivery.sender, task.title);
    tim.accept(&delivery).await?;
    tim.report(&delivery, "Found five, still looking").await?;
    tim.complete(&delivery, "There are seven.").await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let bus = Bus::builder().state_dir(folder.path()).start()?;
    bus.attach("tim", Handlers::new().on_task_request(count)).await?;
    let roman = bus.connect("roman").await?;

    let task = NewTask::new("Count the kinds", "How many kinds of message are there?")
        .task_type(TaskType::Research)
        .complexity(Complexity::Trivial);
    let mut work = roman.request_task("tim", task).await?;
    println!("roman asked tim: {}, record {:?}", work.sent().outcome(), work.sent().seq());
    while let Some(update) = work.next().await {
        match update {
            TaskUpdate::Accepted => println!("roman hears: tim is at it"),
            TaskUpdate::Progress { text, .. } => println!("roman hears: {text}"),
            other => println!("roman hears: {other:?}"),
        }
    }
    println!("the result: {}", work.result().await?.summary());
    bus.stop().await;
    Ok(())
}
