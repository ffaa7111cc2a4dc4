//! One broadcast to 1,000 sessions, and an `Arc` to 1,000 bare actors.
//!
//! A delivery counts when it has arrived in the session (durable, its place taken), as it
//! counts in the bare case when it has arrived in the actor. The second figure also runs the
//! handlers and writes their acknowledgements.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use a2a_protocol::{Body, Kind, MessageId};
use actix::prelude::*;
use openclaw_a2a::{Bus, Letter, Profile};

use crate::{per_second, route, sample};

const SESSIONS: usize = 1_000;
const SENDERS: usize = 16;
const BROADCASTS: usize = 160;

pub async fn bus() -> (f64, f64) {
    (run(false).await, run(true).await)
}

async fn run(handled: bool) -> f64 {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let mut settings = sample::settings();
    // The listeners are the c-suite: senders, who join later, are not among them. Without
    // handlers their code is elsewhere; their sessions take the messages and keep them.
    let profile = Profile { c_suite: true, ..Profile::default() };
    settings.agents =
        (0..SESSIONS).map(|i| (sample::agent(&format!("r{i}")), profile.clone())).collect();
    settings.open = true;
    let bus = Bus::builder().state_dir(folder.path()).settings(settings).start();
    let bus = bus.unwrap_or_else(|error| panic!("{error}"));
    if handled {
        for i in 0..SESSIONS {
            route::attach(&bus, &format!("r{i}"), |_: Letter| async {}).await;
        }
    }
    let mut senders = Vec::new();
    for i in 0..SENDERS {
        senders.push(route::attach(&bus, &format!("s{i}"), |_: Letter| async {}).await);
    }
    let stats = bus.system();
    let total = (SESSIONS * BROADCASTS) as u64;
    let start = Instant::now();
    let tasks: Vec<_> = senders
        .into_iter()
        .map(|sender| {
            tokio::spawn(async move {
                for _ in 0..BROADCASTS / SENDERS {
                    let receipt = sender.send(broadcast(&sender)).await;
                    assert!(receipt.outcome.is_accepted(), "{:?}", receipt.outcome);
                    assert_eq!(receipt.recipients.len(), SESSIONS);
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
    per_second(SESSIONS * BROADCASTS, elapsed)
}

fn broadcast(from: &openclaw_a2a::Agent) -> a2a_protocol::Envelope {
    let mut message = Kind::Broadcast.example_message();
    message.message_id =
        MessageId::try_from(uuid::Uuid::now_v7()).unwrap_or_else(|error| panic!("{error}"));
    message.from.agent_id = from.id().clone();
    message.from.session_key = None;
    if let Body::Broadcast(body) = &mut message.body {
        body.scope = a2a_protocol::body::Scope::CSuite;
    }
    message
}

#[derive(actix::Message)]
#[rtype(result = "()")]
struct Hear(Arc<[u8]>);

struct Listener {
    heard: Arc<AtomicUsize>,
    kept: Vec<Arc<[u8]>>,
}

impl Actor for Listener {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1_024);
    }
}

impl Handler<Hear> for Listener {
    type Result = ();

    fn handle(&mut self, Hear(bytes): Hear, _: &mut Self::Context) {
        self.kept.push(bytes);
        self.heard.fetch_add(1, Relaxed);
    }
}

/// The same from outside the actors' thread, where senders are.
pub async fn bare() -> f64 {
    let heard = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&heard);
    let (ready, started) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let system = System::new();
        let listeners: Vec<_> = system.block_on(async {
            (0..SESSIONS)
                .map(|_| Listener { heard: Arc::clone(&counter), kept: Vec::new() }.start())
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
            listener.do_send(Hear(Arc::clone(&bytes)));
        }
    }
    while heard.load(Relaxed) < SESSIONS * BROADCASTS {
        tokio::time::sleep(Duration::from_micros(50)).await;
    }
    let elapsed = start.elapsed();
    drop(listeners);
    system.stop();
    thread.join().unwrap_or_else(|_| panic!("the system panicked"));
    per_second(SESSIONS * BROADCASTS, elapsed)
}
