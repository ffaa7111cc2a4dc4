//! Two agents in one process: Roman asks Tim for work, Tim takes it and reports back.
//!
//! `cargo run --example two_agents`

use openclaw_a2a::protocol::body::{TaskRequest, TaskResponse};
use openclaw_a2a::protocol::{AgentId, Body};
use openclaw_a2a::{Agent, Bus, Letter};
use tokio::sync::{OnceCell, mpsc};

static TIM: OnceCell<Agent> = OnceCell::const_new();

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let bus = Bus::builder().state_dir(folder.path()).start()?;

    // A handler is an async function; when it returns, the message is done.
    let tim = bus.attach("tim", work).await?;
    TIM.set(tim)?;
    let (done, mut answers) = mpsc::unbounded_channel();
    let roman = bus
        .attach("roman", move |letter: Letter| {
            let done = done.clone();
            async move { done.send(letter).map_err(|_| "nobody listens") }
        })
        .await?;

    let task: TaskRequest = serde_json::from_str(
        r#"{"taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003", "title": "Count the kinds",
            "description": "How many kinds of message are there?",
            "taskType": "research", "complexity": "trivial"}"#,
    )?;
    let tim: AgentId = "tim".parse()?;
    let receipt = roman.send(roman.compose(Some(&tim), task)).await;
    println!("roman asks tim: {} (record {:?})", receipt.outcome, receipt.seq);

    if let Some(answer) = answers.recv().await
        && let Body::TaskResponse(response) = &answer.message.body
    {
        println!("{} answers: {} {:?}", answer.sender, response.action, response.result);
    }
    bus.stop().await;
    Ok(())
}

async fn work(letter: Letter) -> Result<(), String> {
    let Body::TaskRequest(task) = &letter.message.body else { return Ok(()) };
    let done = format!(
        r#"{{"taskId": "{}", "action": "completed", "result": {{"summary": "There are seven."}}}}"#,
        task.task_id
    );
    let response: TaskResponse = serde_json::from_str(&done).map_err(|error| error.to_string())?;
    let tim = TIM.get().ok_or("not attached yet")?;
    tim.send(tim.reply(&letter, response)).await;
    Ok(())
}
