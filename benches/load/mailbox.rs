//! Request and reply through a bare mailbox: actix, and kameo as the alternative.

use std::sync::Arc;
use std::time::Instant;

use actix::prelude::*;

use crate::{SENDERS, per_second, sample};

const EACH: usize = 2_000;

#[derive(Clone, actix::Message)]
#[rtype(result = "usize")]
struct Ask(Arc<[u8]>);

struct Echo;

impl Actor for Echo {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1 << 16);
    }
}

impl Handler<Ask> for Echo {
    type Result = usize;

    fn handle(&mut self, Ask(bytes): Ask, _: &mut Self::Context) -> usize {
        bytes.len()
    }
}

fn payload() -> Arc<[u8]> {
    sample::message(&sample::agent("roman"), &sample::agent("tim")).to_json().into()
}

pub async fn actix() -> f64 {
    let (ready, started) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let system = System::new();
        let echo = system.block_on(async { Echo.start() });
        let _ = ready.send((echo, System::current()));
        let _ = system.run();
    });
    let (echo, system) = started.recv().unwrap_or_else(|error| panic!("{error}"));
    let ask = Ask(payload());
    let rate = measure(move || {
        let (echo, ask) = (echo.clone(), ask.clone());
        async move {
            for _ in 0..EACH {
                echo.send(ask.clone()).await.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    })
    .await;
    system.stop();
    thread.join().unwrap_or_else(|_| panic!("the system panicked"));
    rate
}

#[derive(kameo::Actor)]
struct KameoEcho;

impl kameo::message::Message<Ask> for KameoEcho {
    type Reply = usize;

    async fn handle(
        &mut self,
        Ask(bytes): Ask,
        _: &mut kameo::message::Context<Self, usize>,
    ) -> usize {
        bytes.len()
    }
}

pub async fn kameo() -> f64 {
    let echo = <KameoEcho as kameo::actor::Spawn>::spawn(KameoEcho);
    let ask = Ask(payload());
    measure(move || {
        let (echo, ask) = (echo.clone(), ask.clone());
        async move {
            for _ in 0..EACH {
                echo.ask(ask.clone()).await.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    })
    .await
}

async fn measure<Fut: Future<Output = ()> + Send + 'static>(sender: impl Fn() -> Fut) -> f64 {
    let start = Instant::now();
    let tasks: Vec<_> = (0..SENDERS).map(|_| tokio::spawn(sender())).collect();
    for task in tasks {
        task.await.unwrap_or_else(|error| panic!("{error}"));
    }
    per_second(SENDERS * EACH, start.elapsed())
}
