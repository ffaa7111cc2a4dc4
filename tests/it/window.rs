//! A runtime that takes several messages at once and settles each from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use a2a_actors::{AgentRuntime, Failed, Handled, HandlerFuture};
use a2a_protocol::AgentId;
use openclaw_a2a::{Agent, Bus, BusSettings, Delivery, RetryPolicy};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::listener::{SOON, next};

type Settle = oneshot::Sender<Result<Handled, Failed>>;

/// Passes every message on, with the means to settle it.
struct Several {
    window: AtomicUsize,
    out: UnboundedSender<(Delivery, Settle)>,
}

impl AgentRuntime for Several {
    fn handle(&self, delivery: Delivery) -> HandlerFuture {
        let (settle, settled) = oneshot::channel();
        let _ = self.out.send((delivery, settle));
        Box::pin(async { settled.await.unwrap_or_else(|_| Err(Failed::new("gone"))) })
    }

    fn max_in_flight(&self) -> usize {
        self.window.load(Relaxed)
    }
}

struct Team {
    bus: Bus,
    tim: AgentId,
    roman: Agent,
}

impl Team {
    async fn start() -> Self {
        let retry = RetryPolicy {
            attempts: 3,
            initial_backoff: Duration::from_millis(1),
            max_backoff: Duration::from_millis(1),
        };
        let settings = BusSettings { retry, ..BusSettings::default() };
        let bus = Bus::builder().in_memory().settings(settings).start().unwrap();
        let roman = bus.connect("roman").await.unwrap();
        Self { bus, tim: "tim".parse().unwrap(), roman }
    }

    async fn attach(
        &self,
        window: usize,
    ) -> (u64, Arc<Several>, UnboundedReceiver<(Delivery, Settle)>) {
        let (out, inbox) = unbounded_channel();
        let several = Arc::new(Several { window: window.into(), out });
        let number =
            self.bus.system().attach(self.tim.clone(), Arc::clone(&several) as _).await.unwrap();
        (number, several, inbox)
    }

    async fn send(&self, count: usize) -> Vec<u64> {
        let mut sent = Vec::new();
        for _ in 0..count {
            let receipt =
                self.roman.send(self.roman.compose(Some(&self.tim), crate::new_task())).await;
            sent.push(receipt.seq.unwrap());
        }
        sent
    }

    fn events(&self, seq: u64) -> Vec<String> {
        let record = self.bus.system().reader().get(seq).unwrap().unwrap();
        let word = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap()["event"].as_str().unwrap().to_owned()
        };
        record.deliveries.iter().map(|line| word(line.get())).collect()
    }
}

fn nothing<T>(inbox: &mut UnboundedReceiver<T>) -> bool {
    inbox.try_recv().is_err()
}

#[tokio::test]
async fn in_flight_limit_holds_in_order_and_each_settlement_frees_a_permit() {
    let team = Team::start().await;
    let (_, _several, mut inbox) = team.attach(3).await;
    let sent = team.send(20).await;
    let mut hands = Vec::new();
    for seq in &sent[..3] {
        let (delivery, settle) = next(&mut inbox).await;
        assert_eq!((delivery.seq, delivery.attempt), (*seq, 1));
        hands.push(settle);
    }
    team.bus.agents().await; // whatever was to be handed out is
    assert!(nothing(&mut inbox));
    for seq in &sent[3..] {
        // The newest first: the one that is done frees a permit, not the first.
        let (answered, durable) = oneshot::channel();
        let done = Handled { note: None, durable: Some(answered) };
        hands.pop().unwrap().send(Ok(done)).unwrap();
        let (delivery, settle) = next(&mut inbox).await;
        assert_eq!(delivery.seq, *seq);
        hands.push(settle);
        tokio::time::timeout(SOON, durable).await.unwrap().unwrap();
    }
    assert_eq!(team.events(sent[2]), ["acknowledged"]);
    assert!(team.events(sent[0]).is_empty());
    team.bus.stop_within(Duration::ZERO).await;
}

#[tokio::test]
async fn failed_delivery_is_redelivered_and_a_lost_agent_fails_all_of_its_own() {
    let team = Team::start().await;
    let (number, _several, mut inbox) = team.attach(2).await;
    let sent = team.send(2).await;
    let (_, first) = next(&mut inbox).await;
    let (_, _second) = next(&mut inbox).await;
    let (answered, durable) = oneshot::channel();
    let failed = Failed { reason: "not today".into(), durable: Some(answered) };
    first.send(Err(failed)).unwrap();
    tokio::time::timeout(SOON, durable).await.unwrap().unwrap();
    let (delivery, _first) = next(&mut inbox).await;
    assert_eq!((delivery.seq, delivery.attempt), (sent[0], 2));
    team.bus.system().detach_failed(team.tim.clone(), number, "the line went dead".into());
    let (_, _several, mut inbox) = team.attach(2).await;
    for (seq, attempt) in [(sent[0], 3), (sent[1], 2)] {
        let (delivery, settle) = next(&mut inbox).await;
        assert_eq!((delivery.seq, delivery.attempt), (seq, attempt));
        let (answered, durable) = oneshot::channel();
        settle.send(Ok(Handled { note: None, durable: Some(answered) })).unwrap();
        tokio::time::timeout(SOON, durable).await.unwrap().unwrap();
    }
    let events = ["attempt_failed", "delivered", "attempt_failed", "delivered", "acknowledged"];
    assert_eq!(team.events(sent[0]), events);
    team.bus.stop_within(Duration::ZERO).await;
}

#[tokio::test]
async fn one_that_is_away_keeps_its_messages_and_what_waits_goes_to_another() {
    let team = Team::start().await;
    let (number, several, mut inbox) = team.attach(1).await;
    let sent = team.send(3).await;
    let (_, first) = next(&mut inbox).await;
    several.window.store(0, Relaxed);
    team.bus.system().set_reachable(team.tim.clone(), number, false);
    let agents = team.bus.agents().await;
    assert_eq!(agents.iter().find(|agent| agent.agent_id == team.tim).unwrap().sessions, 0);
    let (_, _other, mut other_inbox) = team.attach(5).await;
    for seq in &sent[1..] {
        assert_eq!(next(&mut other_inbox).await.0.seq, *seq);
    }
    // It is back, and what it was given before still counts.
    several.window.store(1, Relaxed);
    team.bus.system().set_reachable(team.tim.clone(), number, true);
    let (answered, durable) = oneshot::channel();
    first.send(Ok(Handled { note: None, durable: Some(answered) })).unwrap();
    tokio::time::timeout(SOON, durable).await.unwrap().unwrap();
    assert_eq!(team.events(sent[0]), ["acknowledged"]);
    let later = team.send(1).await;
    assert_eq!(next(&mut inbox).await.0.seq, later[0]); // the least loaded
    team.bus.stop_within(Duration::ZERO).await;
}
