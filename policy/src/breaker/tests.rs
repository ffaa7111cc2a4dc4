//! Each detection rule, on a virtual clock.

mod states;

use super::*;
use WorkProgress::{Ends, Moves};
use chrono::DateTime;

fn at(secs: u64) -> Now {
    let utc = DateTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + secs);
    Now { utc, uptime: Duration::from_secs(secs) }
}

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn correlation(n: u64) -> CorrelationId {
    format!("0192a4c8-7e1a-7000-8000-{n:012x}").parse().unwrap()
}

fn task(n: u64) -> TaskId {
    format!("0192a4c8-7e1a-7000-9000-{n:012x}").parse().unwrap()
}

/// A breaker with a virtual clock; every message has new content.
struct BreakerHarness {
    breaker: Breaker,
    now: u64,
    counter: u64,
    conversation: u64,
}

impl BreakerHarness {
    fn new() -> Self {
        Self::with(BreakerSettings::default())
    }

    fn with(settings: BreakerSettings) -> Self {
        Self { breaker: Breaker::new(settings), now: 0, counter: 0, conversation: 1 }
    }

    /// Sends a message if it passes, and opens what trips; `None` when it passed.
    fn send(&mut self, message: &BreakerInput<'_>) -> Option<Circuit> {
        let refused = match self.breaker.check(message, at(self.now)) {
            BreakerDecision::Pass => None,
            BreakerDecision::Refused(circuit) => Some((circuit.clone(), false)),
            BreakerDecision::Trips(circuit) => Some((circuit, true)),
        };
        let Some((circuit, trips)) = refused else {
            self.breaker.accept(message, at(self.now));
            return None;
        };
        if trips {
            self.breaker.trip(circuit.clone());
        }
        Some(circuit)
    }

    fn post(
        &mut self,
        from: &str,
        to: &str,
        kind: Kind,
        what: WorkProgress,
        n: u64,
    ) -> Option<Circuit> {
        self.counter += 1;
        let (from, to) = (id(from), id(to));
        let to = if to.as_str() == "everyone" { Audience::Many(5) } else { Audience::One(&to) };
        let (content, task) = (self.counter, Some(task(n)));
        let correlation = correlation(self.conversation);
        self.send(&BreakerInput {
            from: &from,
            to,
            correlation,
            kind,
            content,
            task,
            progress: what,
        })
    }

    fn chat(&mut self, from: &str, to: &str) -> Option<Circuit> {
        self.post(from, to, Kind::StatusUpdate, WorkProgress::None, 0)
    }

    fn repeat(&mut self, from: &str, to: &str, content: u64) -> Option<Circuit> {
        self.conversation += 1;
        self.counter = content - 1;
        self.chat(from, to)
    }

    /// Sends messages in a loop until a circuit opens.
    fn cut(&mut self) -> Circuit {
        (0..7)
            .find_map(|i| if i % 2 == 0 { self.chat("a", "b") } else { self.chat("b", "a") })
            .expect("a loop is cut")
    }
}

#[test]
fn ping_pong_trips_after_three_rounds_with_evidence() {
    let mut harness = BreakerHarness::new();
    for _ in 0..3 {
        assert!(harness.chat("roman", "tim").is_none() && harness.chat("tim", "roman").is_none());
    }
    let circuit = harness.chat("roman", "tim").unwrap();
    assert_eq!(circuit.reason, TripReason::Loop);
    assert_eq!(
        circuit.evidence,
        "roman → tim → roman → tim → roman → tim → roman → tim: 7 messages without progress"
    );
    assert_eq!(circuit.participants, [id("roman"), id("tim")]);
    assert_eq!(circuit.until, Some(at(30).utc));
    harness.conversation = 2;
    assert!(harness.chat("roman", "tim").is_none(), "another conversation");
}

#[test]
fn flood_without_response_does_not_trip() {
    let mut harness = BreakerHarness::new();
    harness.chat("a", "b");
    for _ in 0..1_000 {
        assert!(harness.chat("b", "a").is_none());
    }
}

#[test]
fn coordinator_writing_to_many_in_turn_does_not_trip() {
    let mut harness = BreakerHarness::new();
    for i in 0..40 {
        let worker = format!("w{i}");
        assert!(harness.chat("boss", &worker).is_none(), "{worker}");
        assert!(harness.chat(&worker, "boss").is_none(), "{worker}");
    }
}

#[test]
fn coordinator_whose_tasks_progress_does_not_trip() {
    let mut harness = BreakerHarness::new();
    for n in 0..20 {
        assert!(harness.post("boss", "w", Kind::TaskRequest, WorkProgress::None, n).is_none());
        assert!(harness.post("w", "boss", Kind::TaskResponse, Moves, n).is_none());
        assert!(harness.chat("w", "boss").is_none(), "{n}");
    }
}

#[test]
fn requests_without_progress_trip_as_loop() {
    let mut harness = BreakerHarness::new();
    for n in 0..3 {
        assert!(harness.post("a", "b", Kind::TaskRequest, WorkProgress::None, n).is_none());
        assert!(harness.chat("b", "a").is_none());
    }
    assert!(harness.post("a", "b", Kind::TaskRequest, WorkProgress::None, 3).is_some());
}

#[test]
fn accepted_task_resets_messages_but_not_path_of_request() {
    let mut harness = BreakerHarness::new();
    harness.post("boss", "w", Kind::TaskRequest, WorkProgress::None, 1);
    for _ in 0..2 {
        assert!(harness.chat("w", "boss").is_none() && harness.chat("boss", "w").is_none());
    }
    assert!(harness.post("w", "boss", Kind::TaskResponse, Moves, 1).is_none());
    for _ in 0..2 {
        assert!(harness.chat("w", "boss").is_none() && harness.chat("boss", "w").is_none());
    }
    let (mut harness, names) = (BreakerHarness::new(), ["a", "b", "c"]);
    let cut = (0..20u64).find_map(|n| {
        let [from, to] = [names[n as usize % 3], names[(n as usize + 1) % 3]];
        let refused = harness.post(from, to, Kind::TaskRequest, WorkProgress::None, n);
        harness.post(to, from, Kind::TaskResponse, Moves, n);
        refused.map(|circuit| (n, circuit.reason))
    });
    assert_eq!(cut, Some((9, TripReason::Loop)));
}

#[test]
fn only_five_state_changes_of_a_task_are_free() {
    let mut harness = BreakerHarness::new();
    let cut = (0..40)
        .position(|i| {
            let (from, to) = if i % 2 == 0 { ("a", "b") } else { ("b", "a") };
            harness.post(from, to, Kind::StatusUpdate, Moves, 1).is_some()
        })
        .unwrap();
    assert_eq!(cut, 5 + 6);
}

#[test]
fn ended_task_resets_the_conversation() {
    let mut harness = BreakerHarness::new();
    for n in 0..100 {
        for (from, to) in [("a", "b"), ("b", "a"), ("a", "b")] {
            assert!(harness.chat(from, to).is_none(), "{n}");
        }
        assert!(harness.post("b", "a", Kind::ReviewResponse, Ends, n).is_none());
    }
}

#[test]
fn delegation_to_ever_new_agents_trips_as_too_deep() {
    let mut harness = BreakerHarness::new();
    let hand_on = |harness: &mut BreakerHarness, i: u64| {
        let (from, to) = (format!("a{i}"), format!("a{}", i + 1));
        harness.post(&from, &to, Kind::TaskRequest, WorkProgress::None, i)
    };
    for i in 0..32 {
        assert!(hand_on(&mut harness, i).is_none(), "{i}");
    }
    let circuit = hand_on(&mut harness, 32).unwrap();
    assert_eq!(circuit.reason, TripReason::TooDeep);
    assert!(circuit.evidence.ends_with("handed on 33 times, 32 are allowed"));
}

#[test]
fn conversation_without_ended_task_trips_as_too_long() {
    let mut harness =
        BreakerHarness::with(BreakerSettings { max_turns: 10, ..BreakerSettings::default() });
    let mut turns = 0;
    let circuit = (0..100).find_map(|i| {
        let worker = format!("w{}", i % 15);
        turns += 1;
        harness.chat("boss", &worker).or_else(|| harness.chat(&worker, "boss"))
    });
    let circuit = circuit.unwrap();
    assert_eq!(circuit.reason, TripReason::TooLong, "{circuit:?}");
    assert!(turns > 20, "{turns}");
}

#[test]
fn echoed_fan_outs_trip_and_repeated_announcements_do_not() {
    let mut harness = BreakerHarness::new();
    for _ in 0..100 {
        assert!(harness.chat("a", "everyone").is_none());
    }
    let passed = (0..20).position(|i| harness.chat(["b", "c", "d"][i % 3], "everyone").is_some());
    assert!(passed.unwrap() <= 9, "{passed:?}");
}

#[test]
fn repeats_over_time_trip_and_a_burst_does_not() {
    let mut harness = BreakerHarness::new();
    for i in 0..100 {
        assert!(harness.repeat("a", "b", 7).is_none(), "{i}");
    }
    for i in 1..20 {
        harness.now = i * 5;
        assert!(harness.repeat("a", "b", 7).is_none(), "{i}");
    }
    harness.now = 100;
    let circuit = harness.repeat("a", "b", 7).unwrap();
    assert_eq!(circuit.reason, TripReason::Repeated);
    assert_eq!(circuit.evidence, "a → b: the same status_update 120 times in 2 min");
    assert_eq!(circuit.key.to_string(), "pair:a:b:0000000000000007");
    assert!(harness.repeat("a", "b", 8).is_none() && harness.repeat("a", "c", 7).is_none());
}

#[test]
fn rare_repeats_do_not_trip() {
    let mut harness = BreakerHarness::new();
    for i in 0..200 {
        harness.now = i * 200;
        assert!(harness.repeat("a", "b", 7).is_none(), "{i}");
    }
}

#[test]
fn ended_task_between_two_resets_their_repeats() {
    let mut harness = BreakerHarness::new();
    for i in 0..200 {
        harness.now = i * 10;
        assert!(harness.repeat("a", "b", 7).is_none(), "{i}");
        if i % 10 == 9 {
            assert!(harness.post("b", "a", Kind::TaskResponse, Ends, i).is_none());
        }
    }
}

#[test]
fn loop_over_new_conversations_trips_despite_other_repeats() {
    let mut harness = BreakerHarness::new();
    for round in 0..3 {
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a")] {
            assert!(harness.repeat(from, to, 7).is_none(), "{round}: {from}");
            assert!(harness.repeat("z", from, 9).is_none());
            assert!(harness.repeat(from, "boss", 10).is_none());
        }
    }
    let circuit = harness.repeat("a", "b", 7).unwrap();
    assert_eq!(circuit.reason, TripReason::Loop);
    assert_eq!(circuit.key.scope().as_str(), "pair");
    assert_eq!(circuit.participants, [id("a"), id("b"), id("c")]);
}

#[test]
fn idle_conversation_is_reset() {
    let mut harness = BreakerHarness::new();
    for i in 0..6 {
        assert!(if i % 2 == 0 { harness.chat("a", "b") } else { harness.chat("b", "a") }.is_none());
    }
    harness.now = 3_600;
    assert!(harness.chat("a", "b").is_none());
}

#[test]
fn disabled_breaker_detects_nothing() {
    let mut harness =
        BreakerHarness::with(BreakerSettings { enabled: false, ..BreakerSettings::default() });
    for _ in 0..100 {
        assert!(harness.chat("a", "b").is_none() && harness.chat("b", "a").is_none());
    }
    assert_eq!(harness.breaker.tracked(), (0, 0));
}

#[test]
fn participants_are_bounded_across_conversations() {
    let mut harness = BreakerHarness::with(BreakerSettings {
        max_correlations: 10,
        ..BreakerSettings::default()
    });
    for conversation in 0..10 {
        harness.conversation = conversation;
        for i in 0..30 {
            harness.chat("boss", &format!("w{i}"));
        }
    }
    assert!(harness.breaker.tracked().0 <= 3, "{:?}", harness.breaker.tracked());
}
