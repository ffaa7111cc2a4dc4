//! Circuit breaker: two agents answer each other without end, and the bus stops only their
//! conversation.
//!
//! `cargo run --example storm`

use std::time::Duration;

use openclaw_a2a::{Agent, Bus, Delivery, Handlers, SendError, StatusReport, StatusUpdate};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Answers every status update with thanks, until the bus refuses to deliver it.
async fn polite(
    stopped: UnboundedSender<String>,
    me: Agent,
    delivery: Delivery,
    status: StatusUpdate,
) -> Result<(), SendError> {
    let (name, text) = (me.id().to_string(), &status.progress);
    if delivery.sender.as_str() == "system" {
        println!("{name:5} hears from the bus: {text}");
        stopped.send(name).ok();
        return Ok(());
    }
    println!("{name:5} hears from {}: {text}", delivery.sender);
    let thanks = StatusReport::in_progress(format!("Thanks for \"{}\"", short(text)));
    match me.send_status_update(&delivery, thanks).await {
        Err(SendError::CircuitOpen(receipt)) => {
            println!("{name:5} is refused, record {:?}", receipt.seq);
            Ok(())
        }
        other => other.map(drop),
    }
}

fn short(text: &str) -> String {
    text.chars().take(24).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let bus = Bus::builder().state_dir(folder.path()).start()?;
    let (stopped, mut is_stopped) = unbounded_channel();
    let mut agents = Vec::new();
    for name in ["barry", "jerry"] {
        let stopped = stopped.clone();
        let handler = move |me, delivery, status| polite(stopped.clone(), me, delivery, status);
        agents.push(bus.attach(name, Handlers::new().on_status_update(handler)).await?);
    }
    let hello = StatusReport::in_progress("The audit log is done");
    let conversation = agents[0].send_status_update("jerry", hello).await?.correlation_id();
    for _ in 0..2 {
        tokio::time::timeout(Duration::from_secs(5), is_stopped.recv()).await?;
    }

    let circuits = bus.circuits().await;
    for view in &circuits {
        let circuit = &view.circuit;
        println!("stopped: {} ({}), {}", circuit.key, circuit.reason, circuit.evidence);
    }
    let claire = bus.connect("claire").await?;
    let question = StatusReport::in_progress("Who has time for a review?");
    let sent = claire.send_status_update("jerry", question).await?;
    println!("claire writes to jerry in another conversation: {}", sent.outcome());

    bus.reset_circuit(&circuits[0].circuit.key).await;
    let again = StatusReport::in_progress("Enough now").in_conversation(conversation);
    let sent = agents[0].send_status_update("claire", again).await?;
    println!("a person has reset it, barry goes on: {}", sent.outcome());
    bus.stop().await;
    Ok(())
}
