//! Two agents in one process: Roman asks Tim for work, Tim does it and reports back.
//!
//! `cargo run --example two_agents`

use openclaw_a2a::protocol::body::{TaskRequest, TaskResponse};
use openclaw_a2a::protocol::{AgentId, Body};
use openclaw_a2a::{Agent, Bus, Letter};
use tokio::sync::mpsc;

/// A handler is an async function; when it returns, the message is done.
async fn work(tim: Agent, letter: Letter) -> Result<(), serde_json::Error> {
    let Body::TaskRequest(task) = &letter.message.body else { return Ok(()) };
    println!("tim hears from {}: {}", letter.sender, task.title);
    let done: TaskResponse = serde_json::from_value(serde_json::json!({
        "taskId": task.task_id, "action": "completed", "result": {"summary": "There are seven."}
    }))?;
    tim.send(tim.reply(&letter, done)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let bus = Bus::builder().state_dir(folder.path()).start()?;
    bus.attach("tim", work).await?;
    let (heard, mut answers) = mpsc::unbounded_channel();
    let listen = move |letter| {
        let heard = heard.clone();
        async move { heard.send(letter).map_err(|_| "nobody listens") }
    };
    let roman = bus.attach("roman", listen).await?;

    let task: TaskRequest = serde_json::from_value(serde_json::json!({
        "taskId": uuid::Uuid::now_v7(), "title": "Count the kinds",
        "description": "How many kinds of message are there?",
        "taskType": "research", "complexity": "trivial"
    }))?;
    let tim: AgentId = "tim".parse()?;
    let receipt = roman.send(roman.compose(Some(&tim), task)).await;
    println!("roman asked tim: {}, record {:?}", receipt.outcome, receipt.seq);

    let answer: Letter = answers.recv().await.ok_or("no answer")?;
    if let Body::TaskResponse(response) = &answer.message.body {
        println!("roman hears from {}: {} {:?}", answer.sender, response.action, response.result);
    }
    bus.stop().await;
    Ok(())
}
