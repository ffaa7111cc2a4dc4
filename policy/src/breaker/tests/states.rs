//! Each change of a circuit's state.

use super::*;

#[test]
fn an_open_circuit_lets_only_ends_pass_and_they_do_not_close_it() {
    let mut bench = Bench::new();
    let key = bench.cut().key;
    assert!(bench.chat("c", "d").is_some());
    assert!(bench.say("b", "a", Kind::TaskResponse, Moves, 1).is_some());
    assert!(bench.say("b", "a", Kind::TaskResponse, Ends, 1).is_none());
    assert!(bench.breaker.get(&key).is_some() && bench.chat("a", "b").is_some());
}

#[test]
fn each_failed_try_doubles_the_cooldown_up_to_the_longest() {
    let mut bench = Bench::new();
    let mut circuit = bench.cut();
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
        assert_eq!(circuit.retry_after(at(bench.now)), Some(Duration::from_secs(cooldown)));
        bench.now += cooldown;
        for _ in 0..3 {
            assert!(bench.chat("a", "b").is_none(), "a probe");
        }
        circuit = bench.chat("a", "b").unwrap();
    }
    assert_eq!(bench.breaker.circuits().count(), 1);
}

#[test]
fn progress_closes_a_half_open_circuit_and_trips_are_remembered_for_a_window() {
    for (progress, later, trips) in [(Moves, 0, 2), (Ends, 3_599, 2), (Ends, 3_600, 1)] {
        let mut bench = Bench::new();
        let key = bench.cut().key;
        bench.now = 30;
        assert!(bench.chat("a", "b").is_none());
        let (from, to) = (id("b"), id("a"));
        let (correlation, task) = (correlation(1), Some(task(1)));
        let (to, kind) = (To::One(&to), Kind::TaskResponse);
        let message = Passage { from: &from, to, correlation, kind, content: 0, task, progress };
        assert!(matches!(bench.breaker.check(&message, at(30)), Gate::Pass));
        assert_eq!(bench.breaker.accept(&message, at(30)), Some(key.clone()));
        assert!(bench.breaker.get(&key).is_none());
        bench.now += later;
        assert_eq!(bench.cut().trips, trips, "{progress:?} {later}");
    }
}

#[test]
fn a_half_open_circuit_nobody_tries_for_a_window_is_forgotten() {
    let mut bench = Bench::new();
    let key = bench.cut().key;
    bench.now = 30 + 3_600;
    assert_eq!(bench.cut().trips, 1);
    assert_eq!(bench.breaker.get(&key).map(|circuit| circuit.since), Some(at(3_630).utc));
}

#[test]
fn by_hand_it_stays_open_even_for_ends_until_it_is_reset() {
    for enabled in [true, false] {
        let mut bench = Bench::with(BreakerSettings { enabled, ..BreakerSettings::default() });
        let key = CircuitKey::Correlation(correlation(1));
        let named = bench.breaker.trip(key.clone(), "enough".into(), [id("b"), id("a")], at(0));
        assert_eq!((named.reason, named.until), (TripReason::Manual, None));
        assert_eq!(named.participants, [id("a"), id("b")]);
        bench.now = 1_000_000;
        assert_eq!(bench.say("a", "b", Kind::TaskResponse, Ends, 1), Some(named.clone()));
        assert_eq!(bench.breaker.reset(&key), Some(named));
        assert!(bench.chat("a", "b").is_none() && bench.breaker.reset(&key).is_none());
    }
}

#[test]
fn a_reset_forgets_what_was_counted_and_how_often_it_tripped() {
    let mut bench = Bench::new();
    let key = bench.cut().key;
    bench.breaker.reset(&key);
    assert_eq!(bench.cut().trips, 1);
    bench.now = 30;
    for _ in 0..3 {
        bench.chat("a", "b");
    }
    assert_eq!(bench.chat("a", "b").unwrap().trips, 2);
    bench.breaker.reset(&key);
    assert_eq!(bench.cut().trips, 1);
}

#[test]
fn a_circuit_kept_across_a_restart_goes_on() {
    let mut bench = Bench::new();
    let circuit = bench.cut();
    let json = serde_json::to_string(&circuit).unwrap();
    let mut bench = Bench::new();
    bench.breaker.open(serde_json::from_str(&json).unwrap());
    assert_eq!(bench.chat("a", "b"), Some(circuit));
    bench.now = 30;
    for _ in 0..3 {
        assert!(bench.chat("a", "b").is_none());
    }
    assert_eq!(bench.chat("a", "b").unwrap().trips, 2);
}

#[test]
fn circuits_are_bounded_and_those_by_hand_stay_longest() {
    let mut bench = Bench::with(BreakerSettings { max_circuits: 3, ..BreakerSettings::default() });
    let by_hand = CircuitKey::Correlation(correlation(99));
    bench.breaker.trip(by_hand.clone(), "enough".into(), [], at(0));
    for talk in 1..10 {
        (bench.talk, bench.now) = (talk, talk);
        bench.cut();
        assert!(bench.breaker.circuits().count() <= 3);
    }
    assert!(bench.breaker.get(&by_hand).is_some());
    assert!(bench.breaker.get(&CircuitKey::Correlation(correlation(9))).is_some());
    assert!(bench.breaker.get(&CircuitKey::Correlation(correlation(1))).is_none());
}

#[test]
fn other_settings_leave_open_what_is_open_and_counted_what_was_counted() {
    let mut bench = Bench::new();
    let cut = bench.cut();
    bench.talk = 2;
    assert!(bench.chat("a", "b").is_none() && bench.chat("b", "a").is_none());
    let cooldown = Duration::from_secs(5);
    bench.breaker.reconfigure(BreakerSettings {
        rounds: 1,
        cooldown,
        ..BreakerSettings::default()
    });
    assert_eq!(bench.breaker.get(&cut.key), Some(&cut), "as it was told");
    let second = bench.chat("a", "b").expect("one round is enough now");
    assert_eq!(second.until, Some(at(5).utc));
    // What is turned off lets through; it was not forgotten.
    bench.talk = 1;
    let off = BreakerSettings { enabled: false, ..BreakerSettings::default() };
    bench.breaker.reconfigure(off);
    assert!(bench.chat("a", "b").is_none());
    bench.breaker.reconfigure(BreakerSettings::default());
    assert!(bench.chat("a", "b").is_some());
}

#[test]
fn where_less_may_be_remembered_the_oldest_goes() {
    let mut bench = Bench::new();
    for talk in 1..=10 {
        bench.talk = talk;
        bench.chat("a", "b");
    }
    assert_eq!(bench.breaker.tracked(), (10, 10));
    let few = BreakerSettings { max_correlations: 3, max_pairs: 2, ..BreakerSettings::default() };
    bench.breaker.reconfigure(few);
    assert_eq!(bench.breaker.tracked(), (3, 2));
    bench.talk = 11;
    bench.chat("a", "b");
    assert_eq!(bench.breaker.tracked(), (3, 2));
}
