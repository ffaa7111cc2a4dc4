//! Router, sessions and journal against a simple model, with refusing disks and crashes.
//!
//! Whatever happens in whatever order: an accepted message is handed out until it is
//! acknowledged, and never again afterwards; a refused one is never handed out; an id is
//! accepted once; order holds per sender, recipient and priority.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use a2a_actors::{BusSettings, Delivery, InboxError, Submission};
use a2a_policy::{BreakerSettings, Caller, RateSettings, RetryPolicy};
use a2a_protocol::{AgentId, Envelope, Kind, MessageId, Outcome, Priority};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::unreliable_journal::UnreliableBus;

const AGENTS: [&str; 3] = ["roman", "tim", "tony"];

#[derive(Debug, Clone)]
enum Step {
    Send { from: usize, to: usize, urgent: bool },
    SendAgain(Index),
    Pull { agent: usize, limit: usize },
    Acknowledge(Index),
    GiveBack(Index),
    RefuseCommits(usize),
    Crash,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3usize, 0..3usize, any::<bool>()).prop_map(|(from, to, urgent)| Step::Send { from, to, urgent }),
        2 => any::<Index>().prop_map(Step::SendAgain),
        6 => (0..3usize, 1..4usize).prop_map(|(agent, limit)| Step::Pull { agent, limit }),
        5 => any::<Index>().prop_map(Step::Acknowledge),
        2 => any::<Index>().prop_map(Step::GiveBack),
        1 => (1..3usize).prop_map(Step::RefuseCommits),
        1 => Just(Step::Crash),
        1 => Just(Step::Restart),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Owed,
    Done,
}

/// What must be true, in a few maps.
#[derive(Default)]
struct Model {
    sent: Vec<Envelope>,
    accepted: HashMap<MessageId, Fate>,
    /// Taken and not settled, by agent; a crash empties it.
    held: Vec<(usize, MessageId)>,
    /// The first time each was handed out, for order.
    first_seen: BTreeMap<(usize, usize, Priority), Vec<u64>>,
}

fn settings() -> BusSettings {
    BusSettings {
        agents: AGENTS.iter().map(|name| (id(name), a2a_policy::Profile::default())).collect(),
        rates: RateSettings::unlimited(),
        // Random talk goes in circles; here it is about delivery.
        breaker: BreakerSettings { enabled: false, ..BreakerSettings::default() },
        retry: RetryPolicy {
            attempts: 1_000,
            initial_backoff: Duration::ZERO,
            max_backoff: Duration::ZERO,
        },
        ..BusSettings::default()
    }
}

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn message(from: usize, to: usize, urgent: bool) -> Envelope {
    let mut message = Kind::TaskRequest.example_message();
    message.message_id = uuid::Uuid::now_v7().try_into().unwrap();
    message.body = crate::new_task().into();
    message.from.agent_id = id(AGENTS[from]);
    message.from.session_key = None;
    message.to.as_mut().unwrap().agent_id = id(AGENTS[to]);
    message.priority = if urgent { Priority::Urgent } else { Priority::Normal };
    message
}

async fn send(bus: &UnreliableBus, model: &mut Model, message: Envelope) {
    let known = model.accepted.contains_key(&message.message_id);
    let submission = Submission::from_message(message.clone(), std::time::Instant::now());
    let receipt = bus.system.send(Caller::Local, submission).await;
    match receipt.outcome {
        Outcome::Delivered | Outcome::Queued => {
            assert!(!known, "accepted twice: {receipt:?}");
            model.accepted.insert(message.message_id, Fate::Owed);
        }
        Outcome::Duplicate => assert!(known, "a duplicate of nothing: {receipt:?}"),
        Outcome::Unavailable => assert!(receipt.seq.is_none()),
        other => panic!("{other}: {receipt:?}"),
    }
}

fn taken(model: &mut Model, agent: usize, deliveries: Vec<Delivery>) {
    for delivery in deliveries {
        let fate = model.accepted.get(&delivery.message.message_id);
        assert_eq!(fate, Some(&Fate::Owed), "handed out: {delivery:?}");
        model.held.push((agent, delivery.message.message_id));
        let from = AGENTS.iter().position(|name| *name == delivery.sender.as_str()).unwrap();
        let seen = model.first_seen.entry((from, agent, delivery.message.priority)).or_default();
        if !seen.contains(&delivery.seq) {
            assert!(
                seen.last().is_none_or(|last| *last < delivery.seq),
                "out of order: {delivery:?}"
            );
            seen.push(delivery.seq);
        }
    }
}

async fn pull(bus: &UnreliableBus, model: &mut Model, agent: usize, limit: usize) {
    let deliveries = bus.system.pull(id(AGENTS[agent]), limit, Duration::ZERO).await.unwrap();
    taken(model, agent, deliveries);
}

async fn acknowledge(bus: &UnreliableBus, model: &mut Model, at: usize) {
    let (agent, message) = model.held.remove(at);
    match bus.system.acknowledge(id(AGENTS[agent]), message).await {
        Ok(()) => drop(model.accepted.insert(message, Fate::Done)),
        // It was given back after this hand-out and settled under a later one.
        Err(InboxError::NotTaken) => assert_eq!(model.accepted[&message], Fate::Done),
        Err(error) => panic!("{error}"),
    }
}

async fn run(steps: Vec<Step>) {
    let folder = tempfile::tempdir().unwrap();
    let mut bus = UnreliableBus::start(folder.path(), settings());
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Send { from, to, urgent } => {
                let message = message(from, to, urgent);
                model.sent.push(message.clone());
                send(&bus, &mut model, message).await;
            }
            Step::SendAgain(at) if !model.sent.is_empty() => {
                let message = model.sent[at.index(model.sent.len())].clone();
                send(&bus, &mut model, message).await;
            }
            Step::Pull { agent, limit } => pull(&bus, &mut model, agent, limit).await,
            Step::Acknowledge(at) if !model.held.is_empty() => {
                let at = at.index(model.held.len());
                acknowledge(&bus, &mut model, at).await;
            }
            Step::GiveBack(at) if !model.held.is_empty() => {
                let at = at.index(model.held.len());
                let (agent, message) = model.held[at];
                match bus.system.reject(id(AGENTS[agent]), message, "not now".into()).await {
                    Ok(()) | Err(InboxError::NotTaken) => drop(model.held.remove(at)),
                    Err(error) => panic!("{error}"),
                }
            }
            Step::RefuseCommits(count) => bus.fate.refuse.store(count, SeqCst),
            Step::Crash => {
                bus.crash().await;
                bus = UnreliableBus::start(folder.path(), settings());
                model.held.clear();
            }
            Step::Restart => {
                bus.stop().await;
                bus = UnreliableBus::start(folder.path(), settings());
                model.held.clear();
            }
            _ => {}
        }
    }
    // Whatever is still owed comes out after one more restart, in full.
    bus.fate.refuse.store(0, SeqCst);
    bus.crash().await;
    let bus = UnreliableBus::start(folder.path(), settings());
    model.held.clear();
    for agent in 0..AGENTS.len() {
        pull(&bus, &mut model, agent, 100_000).await;
        while !model.held.is_empty() {
            acknowledge(&bus, &mut model, 0).await;
        }
    }
    let owed = model.accepted.values().filter(|fate| **fate == Fate::Owed).count();
    assert_eq!(owed, 0, "accepted and never handed out");
    bus.stop().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_accepted_is_lost_and_nothing_acknowledged_is_redelivered(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
