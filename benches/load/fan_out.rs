//! Fan-out: a broadcast to 1,000 sessions, and an `Arc` to 1,000 bare actors.
//!
//! A delivery counts when it is durable and in the session's inbox; in the bare case when the actor
//! received it. The second figure includes handlers and durable acknowledgements.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use a2a_protocol::{Body, Kind};
use actix::prelude::*;
use openclaw_a2a::{Bus, Delivery, Profile};

use crate::{per_second, route, sample};

const SESSIONS: usize = 1_000;
const SENDERS: usize = 16;
const BROADCASTS: usize = 160;

pub async fn bus() -> (f64, f64) {
    (run(SESSIONS, BROADCASTS, false).await, run(SESSIONS, BROADCASTS, true).await)
}

/// The same number of deliveries, in broadcasts to 100 and to 10,000 sessions.
pub async fn to_few_and_many() -> (f64, f64) {
    (run(100, 10 * BROADCASTS, false).await, run(10_000, BROADCASTS / 10, false).await)
}

async fn run(sessions: usize, broadcasts: usize, handled: bool) -> f64 {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let mut settings = sample::settings();
    settings.max_recipients = usize::MAX;
    // All agents are in the c-suite, the scope of the broadcast. Agents without a handler are
    // registered only, and their inboxes keep the messages.
    let profile = Profile { c_suite: true, ..Profile::default() };
    let senders = (0..SENDERS).map(|i| format!("s{i}"));
    let names = (0..sessions).map(|i| format!("r{i}")).chain(senders.clone());
    settings.agents = names.map(|name| (sample::agent(&name), profile.clone())).collect();
    let bus = Bus::builder().state_dir(folder.path()).settings(settings).start();
    let bus = bus.unwrap_or_else(|error| panic!("{error}"));
    if handled {
        for i in 0..sessions {
            route::attach(&bus, &format!("r{i}"), |_: Delivery| async {}).await;
        }
    }
    let mut agents = Vec::new();
    for name in senders {
        agents.push(route::attach(&bus, &name, |_: Delivery| async {}).await);
    }
    let reached = sessions + SENDERS - 1;
    let stats = bus.system();
    let total = (reached * broadcasts) as u64;
    let start = Instant::now();
    let tasks: Vec<_> = agents
        .into_iter()
        .map(|sender| {
            tokio::spawn(async move {
                for _ in 0..broadcasts / SENDERS {
                    let receipt = sender.send(broadcast(&sender)).await;
                    assert!(receipt.outcome.is_accepted(), "{receipt:?}");
                    assert_eq!(receipt.recipients.len(), reached);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap_or_else(|error| panic!("{error}"));
    }
    let done = || if handled { stats.stats().acknowledged() } else { stats.stats().delivered() };
    while done() < total {
        tokio::time::sleep(Duration::from_micros(50)).await;
    }
    let elapsed = start.elapsed();
    bus.stop().await;
    per_second(reached * broadcasts, elapsed)
}

/// A broadcast with new text each time: repeated text from many senders would trip the breaker.
fn broadcast(from: &openclaw_a2a::Agent) -> a2a_protocol::Envelope {
    let mut message = Kind::Broadcast.example_message();
    message.message_id = sample::new_id();
    message.correlation_id = sample::new_id();
    message.from.agent_id = from.id().clone();
    message.from.session_key = None;
    if let Body::Broadcast(body) = &mut message.body {
        body.scope = a2a_protocol::body::Scope::CSuite;
        let text = format!("No merges today, says {}", message.message_id);
        body.message = text.try_into().unwrap_or_else(|error| panic!("{error}"));
    }
    message
}

#[derive(actix::Message)]
#[rtype(result = "()")]
struct Payload(Arc<[u8]>);

struct Listener {
    received: Arc<AtomicUsize>,
    payloads: Vec<Arc<[u8]>>,
}

impl Actor for Listener {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1_024);
    }
}

impl Handler<Payload> for Listener {
    type Result = ();

    fn handle(&mut self, Payload(bytes): Payload, _: &mut Self::Context) {
        self.payloads.push(bytes);
        self.received.fetch_add(1, Relaxed);
    }
}

/// Deliveries per second to bare actors, sent from outside the actors' thread.
pub async fn bare() -> f64 {
    let received = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&received);
    let (ready, started) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let system = System::new();
        let listeners: Vec<_> = system.block_on(async {
            (0..SESSIONS)
                .map(|_| Listener { received: Arc::clone(&counter), payloads: Vec::new() }.start())
                .collect()
        });
        let _ = ready.send((listeners, System::current()));
        let _ = system.run();
    });
    let (listeners, system) = started.recv().unwrap_or_else(|error| panic!("{error}"));
    let bytes: Arc<[u8]> = vec![b'x'; 500].into();
    let start = Instant::now();
    for _ in 0..BROADCASTS {
        for listener in &listeners {
            listener.do_send(Payload(Arc::clone(&bytes)));
        }
    }
    while received.load(Relaxed) < SESSIONS * BROADCASTS {
        tokio::time::sleep(Duration::from_micros(50)).await;
    }
    let elapsed = start.elapsed();
    drop(listeners);
    system.stop();
    thread.join().unwrap_or_else(|_| panic!("the system panicked"));
    per_second(SESSIONS * BROADCASTS, elapsed)
}
