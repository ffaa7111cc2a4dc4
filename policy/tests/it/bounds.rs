//! Bounds of the breaker: memory, independence of circuits, and the cost of a message.

use std::time::{Duration, Instant};

use a2a_policy::{
    Breaker, BreakerDecision, BreakerSettings, Circuit, CircuitKey, CircuitState, Now, TripReason,
    WorkProgress,
};
use a2a_protocol::Kind;
use chrono::DateTime;
use proptest::prelude::*;

use crate::honest::Team;
use crate::world::{Dice, Message, World, correlation, id};

#[test]
fn a_million_conversations_leave_memory_bounded() {
    let settings = BreakerSettings::default();
    let limits = (settings.max_correlations, settings.max_pairs);
    let mut world = World::new();
    let agents: Vec<_> = (0..1_000).map(|i| id(&format!("a{i}"))).collect();
    let mut dice = Dice(1);
    for i in 0..1_000_000u64 {
        let [from, to] = [0, 1].map(|_| &agents[dice.from(0, 999) as usize]);
        world.ms = i / 10;
        world.send(&Message::new(from, to, i, Kind::StatusUpdate, i)).unwrap();
    }
    assert_eq!(world.breaker.tracked(), limits);
}

#[test]
fn storm_trips_probes_trips_longer_and_resumes_with_progress() {
    let mut world = World::new();
    let (a, b) = (id("a"), id("b"));
    let chat = |i: u64| {
        let (from, to) = if i.is_multiple_of(2) { (&a, &b) } else { (&b, &a) };
        Message::new(from, to, 1, Kind::StatusUpdate, i % 2)
    };
    let first = (0..20).find_map(|i| world.send(&chat(i)).err()).unwrap();
    assert_eq!((first.reason, first.trips), (TripReason::Loop, 1));
    assert_eq!(first.retry_after(world.now()), Some(Duration::from_secs(30)));
    world.ms += 30_000;
    let second = (20..40).find_map(|i| world.send(&chat(i)).err()).unwrap();
    assert_eq!(second.retry_after(world.now()), Some(Duration::from_secs(60)));

    // A restart: the stored circuit is restored on a bus whose uptime starts at 0.
    let mut restarted = World::new();
    let kept = serde_json::to_string(world.breaker.get(&second.key).unwrap()).unwrap();
    restarted.breaker.trip(serde_json::from_str(&kept).unwrap());
    restarted.ms = world.ms + 59_999;
    assert!(restarted.send(&chat(0)).is_err());
    restarted.ms += 1;
    let circuit = restarted.breaker.get(&second.key).unwrap();
    assert_eq!(circuit.state(restarted.now()), CircuitState::HalfOpen);
    restarted.send(&chat(0)).unwrap();
    restarted.send(&chat(1).about(1, WorkProgress::Moves)).unwrap();
    assert_eq!(restarted.breaker.circuits().count(), 0);
    let third = (0..20).find_map(|i| restarted.send(&chat(i)).err()).unwrap();
    assert_eq!(third.trips, 3);
}

/// Not a test: prints the cost of a message. Run it with `--release`.
#[test]
fn what_it_costs() {
    for (content, habit) in [("ever new words", false), ("a third always the same words", true)] {
        let names = (0..200).map(|i| id(&format!("agent-{i}"))).collect();
        let mut team = Team::new(3, names);
        let count = if cfg!(debug_assertions) { 500 } else { 10_000 };
        let scripts = (0..count).map(|_| team.conversation()).collect();
        let mut messages = crate::honest::interleave_in_batches(&mut team.dice, scripts, 500);
        if !habit {
            messages.iter_mut().zip(1_000..).for_each(|(message, new)| message.content = new);
        }
        let passages: Vec<_> = messages.iter().map(Message::input).collect();
        let (mut world, mut checks) = (World::new(), Duration::ZERO);
        let begun = Instant::now();
        for (i, input) in passages.iter().enumerate() {
            world.ms = i as u64 * 500;
            let now = world.now();
            // Only every 16th is timed: reading the clock costs nearly as much as a check.
            let started = (i % 16 == 0).then(Instant::now);
            assert!(!matches!(world.breaker.check(input, now), BreakerDecision::Refused(_)));
            checks += started.map_or(Duration::ZERO, |started| started.elapsed());
            world.breaker.accept(input, now);
        }
        let count = passages.len() as u32;
        let (both, check) = (begun.elapsed() / count, checks * 16 / count);
        println!("{count} messages, {content}: check and accept {both:?}, check {check:?}");
    }
}

fn any_message() -> impl Strategy<Value = (Message, u64)> {
    let progress = prop_oneof![4 => Just(WorkProgress::None), 1 => Just(WorkProgress::Moves), 1 => Just(WorkProgress::Ends)];
    let sides = (0..5u8, 0..6u8, 1..4u64, 0..Kind::ALL.len());
    (sides, 0..3u64, 0..4u64, progress, 0..40_000u64).prop_map(
        |((from, to, conversation, kind), content, task, progress, gap)| {
            let (from, other) = (id(&format!("a{from}")), id(&format!("a{to}")));
            let mut message = Message::new(&from, &other, conversation, Kind::ALL[kind], content);
            message.task = (task > 0).then_some(task);
            message.progress = progress;
            (if to == 5 { message.fan_out(3) } else { message }, gap)
        },
    )
}

proptest! {
    #[test]
    fn message_is_refused_only_by_its_own_circuit(
        messages in prop::collection::vec(any_message(), 1..200),
        (rounds, max_hops, max_turns) in (0..4u32, 0..6u32, 0..20u32),
        (repeats, probes, max_circuits) in (0..5u32, 0..4u32, 0..4usize),
        (max_correlations, max_pairs) in (0..4usize, 0..4usize),
        back in 0..200usize,
    ) {
        let settings = BreakerSettings {
            rounds, max_hops, max_turns, repeats, probes, max_circuits, max_correlations, max_pairs,
            ..BreakerSettings::default()
        };
        let mut breaker = Breaker::new(settings);
        let (mut ms, mut utc) = (0, 1_000_000_000);
        for (i, (message, gap)) in messages.iter().enumerate() {
            ms += gap;
            utc += gap;
            if i == back {
                // The wall clock may jump back, by more than the time so far.
                utc = 0;
            }
            let utc = DateTime::UNIX_EPOCH + Duration::from_millis(utc);
            let now = Now { utc, uptime: Duration::from_millis(ms) };
            let input = message.input();
            let own = |circuit: &Circuit| match &circuit.key {
                CircuitKey::Correlation(id) => *id == correlation(message.conversation),
                CircuitKey::Pair { from, to, content: Some(content) } => {
                    (from, to, *content) == (&message.from, &message.to, message.content)
                }
                CircuitKey::Pair { content: None, .. } => {
                    [Some(&message.from), message.to.as_ref()]
                        .into_iter()
                        .flatten()
                        .all(|agent| circuit.participants.contains(agent))
                }
            };
            let trips = match breaker.check(&input, now) {
                BreakerDecision::Pass => None,
                BreakerDecision::Refused(circuit) => {
                    prop_assert!(own(circuit));
                    prop_assert_ne!(message.progress, WorkProgress::Ends);
                    continue;
                }
                BreakerDecision::Trips(circuit) => {
                    prop_assert!(own(&circuit));
                    Some(circuit)
                }
            };
            match trips {
                Some(circuit) => drop(breaker.trip(circuit)),
                None => drop(breaker.accept(&input, now)),
            }
            prop_assert!(breaker.circuits().count() <= max_circuits.max(1));
            prop_assert!(breaker.tracked().0 <= max_correlations.max(1));
            prop_assert!(breaker.tracked().1 <= max_pairs.max(1));
        }
    }

    #[test]
    fn separate_conversation_passes_whatever_circuits_are_open(
        messages in prop::collection::vec(any_message(), 1..200),
    ) {
        let mut world = World::new();
        for (i, (message, gap)) in messages.iter().enumerate() {
            world.ms += gap;
            let _ = world.send(message);
            let own = Message { conversation: 1_000 + i as u64, content: 1_000 + i as u64, ..message.clone() };
            prop_assert!(world.send(&own).is_ok());
        }
    }
}
