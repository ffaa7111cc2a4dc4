//! The state transitions of a circuit.

use super::*;

#[test]
fn open_circuit_passes_only_ends_and_stays_open() {
    let mut harness = BreakerHarness::new();
    let key = harness.cut().key;
    assert!(harness.chat("c", "d").is_some());
    assert!(harness.post("b", "a", Kind::TaskResponse, Moves, 1).is_some());
    assert!(harness.post("b", "a", Kind::TaskResponse, Ends, 1).is_none());
    assert!(harness.breaker.get(&key).is_some() && harness.chat("a", "b").is_some());
}

#[test]
fn failed_probe_doubles_the_cooldown_up_to_the_longest() {
    let mut harness = BreakerHarness::new();
    let mut circuit = harness.cut();
    for (trips, cooldown) in [
        (1, 30),
        (2, 60),
        (3, 120),
        (4, 240),
        (5, 480),
        (6, 960),
        (7, 1_920),
        (8, 3_600),
        (9, 3_600),
    ] {
        assert_eq!(circuit.trips, trips);
        assert_eq!(circuit.retry_after(at(harness.now)), Some(Duration::from_secs(cooldown)));
        harness.now += cooldown;
        for _ in 0..3 {
            assert!(harness.chat("a", "b").is_none(), "a probe");
        }
        circuit = harness.chat("a", "b").unwrap();
    }
    assert_eq!(harness.breaker.circuits().count(), 1);
}

#[test]
fn progress_closes_a_half_open_circuit_and_trips_are_remembered_for_a_window() {
    for (progress, later, trips) in [(Moves, 0, 2), (Ends, 3_599, 2), (Ends, 3_600, 1)] {
        let mut harness = BreakerHarness::new();
        let key = harness.cut().key;
        harness.now = 30;
        assert!(harness.chat("a", "b").is_none());
        let (from, to) = (id("b"), id("a"));
        let (correlation, task) = (correlation(1), Some(task(1)));
        let (to, kind) = (Audience::One(&to), Kind::TaskResponse);
        let message = BreakerInput {
            from: &from,
            to,
            correlation,
            kind,
            content: 0,
            sketch: Sketch::default(),
            is_news: false,
            cause: SendCause::Unknown,
            task,
            progress,
        };
        assert!(matches!(harness.breaker.check(&message, at(30)), BreakerDecision::Pass));
        assert_eq!(harness.breaker.accept(&message, at(30)), Some(key.clone()));
        assert!(harness.breaker.get(&key).is_none());
        harness.now += later;
        assert_eq!(harness.cut().trips, trips, "{progress:?} {later}");
    }
}

#[test]
fn half_open_circuit_idle_for_a_window_is_dropped() {
    let mut harness = BreakerHarness::new();
    let key = harness.cut().key;
    harness.now = 30 + 3_600;
    assert_eq!(harness.cut().trips, 1);
    assert_eq!(harness.breaker.get(&key).map(|circuit| circuit.since), Some(at(3_630).utc));
}

#[test]
fn circuit_tripped_by_hand_refuses_ends_until_reset() {
    for enabled in [true, false] {
        let mut harness =
            BreakerHarness::with(BreakerSettings { enabled, ..BreakerSettings::default() });
        let key = CircuitKey::Correlation(correlation(1));
        let named =
            harness.breaker.trip_manually(key.clone(), "enough".into(), [id("b"), id("a")], at(0));
        assert_eq!((named.reason, named.until), (TripReason::Manual, None));
        assert_eq!(named.participants, [id("a"), id("b")]);
        harness.now = 1_000_000;
        assert_eq!(harness.post("a", "b", Kind::TaskResponse, Ends, 1), Some(named.clone()));
        assert_eq!(harness.breaker.reset(&key), Some(named));
        assert!(harness.chat("a", "b").is_none() && harness.breaker.reset(&key).is_none());
    }
}

#[test]
fn reset_clears_counters_and_trips() {
    let mut harness = BreakerHarness::new();
    let key = harness.cut().key;
    harness.breaker.reset(&key);
    assert_eq!(harness.cut().trips, 1);
    harness.now = 30;
    for _ in 0..3 {
        harness.chat("a", "b");
    }
    assert_eq!(harness.chat("a", "b").unwrap().trips, 2);
    harness.breaker.reset(&key);
    assert_eq!(harness.cut().trips, 1);
}

#[test]
fn circuit_restored_after_restart_continues() {
    let mut harness = BreakerHarness::new();
    let circuit = harness.cut();
    let json = serde_json::to_string(&circuit).unwrap();
    let mut harness = BreakerHarness::new();
    harness.breaker.trip(serde_json::from_str(&json).unwrap());
    assert_eq!(harness.chat("a", "b"), Some(circuit));
    harness.now = 30;
    for _ in 0..3 {
        assert!(harness.chat("a", "b").is_none());
    }
    assert_eq!(harness.chat("a", "b").unwrap().trips, 2);
}

#[test]
fn circuits_are_bounded_and_manual_ones_are_evicted_last() {
    let mut harness =
        BreakerHarness::with(BreakerSettings { max_circuits: 3, ..BreakerSettings::default() });
    let by_hand = CircuitKey::Correlation(correlation(99));
    harness.breaker.trip_manually(by_hand.clone(), "enough".into(), [], at(0));
    for conversation in 1..10 {
        (harness.conversation, harness.now) = (conversation, conversation);
        harness.cut();
        assert!(harness.breaker.circuits().count() <= 3);
    }
    assert!(harness.breaker.get(&by_hand).is_some());
    assert!(harness.breaker.get(&CircuitKey::Correlation(correlation(9))).is_some());
    assert!(harness.breaker.get(&CircuitKey::Correlation(correlation(1))).is_none());
}

#[test]
fn reconfigure_keeps_open_circuits_and_counters() {
    let mut harness = BreakerHarness::new();
    let cut = harness.cut();
    harness.conversation = 2;
    for _ in 0..2 {
        assert!(harness.chat("a", "b").is_none() && harness.chat("b", "a").is_none());
    }
    let cooldown = Duration::from_secs(5);
    harness.breaker.reconfigure(BreakerSettings {
        rounds: 1,
        cooldown,
        ..BreakerSettings::default()
    });
    assert_eq!(harness.breaker.get(&cut.key), Some(&cut), "as it was told");
    let second = harness.chat("a", "b").expect("one round is enough now");
    assert_eq!(second.until, Some(at(5).utc));
    // While disabled the breaker lets messages pass; the circuit is still there.
    harness.conversation = 1;
    let off = BreakerSettings { enabled: false, ..BreakerSettings::default() };
    harness.breaker.reconfigure(off);
    assert!(harness.chat("a", "b").is_none());
    harness.breaker.reconfigure(BreakerSettings::default());
    assert!(harness.chat("a", "b").is_some());
}

#[test]
fn reconfigure_to_smaller_tables_evicts_the_oldest() {
    let mut harness = BreakerHarness::new();
    for conversation in 1..=10 {
        harness.conversation = conversation;
        harness.chat("a", "b");
    }
    assert_eq!(harness.breaker.tracked(), (10, 10));
    let few = BreakerSettings { max_correlations: 3, max_pairs: 2, ..BreakerSettings::default() };
    harness.breaker.reconfigure(few);
    assert_eq!(harness.breaker.tracked(), (3, 2));
    harness.conversation = 11;
    harness.chat("a", "b");
    assert_eq!(harness.breaker.tracked(), (3, 2));
}
