//! An agent that passes on whatever it gets, and a way to wait for it.

use std::time::Duration;

use openclaw_a2a::{Agent, Bus, Delivery};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Long enough for a busy machine; after it a test has failed.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// An agent that passes on whatever it gets.
pub(crate) async fn listener(bus: &Bus, name: &str) -> (Agent, UnboundedReceiver<Delivery>) {
    let (received, inbox) = unbounded_channel();
    let agent = bus
        .attach(name, move |delivery: Delivery| {
            let received = received.clone();
            async move { received.send(delivery).map_err(|_| "the test has ended") }
        })
        .await
        .unwrap();
    (agent, inbox)
}

/// The next that arrives.
pub(crate) async fn next<T>(inbox: &mut UnboundedReceiver<T>) -> T {
    tokio::time::timeout(SOON, inbox.recv()).await.expect("in time").unwrap()
}
