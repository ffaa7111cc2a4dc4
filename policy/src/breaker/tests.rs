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

/// A number in letters, because numbers are not new words.
fn letters(mut number: u64) -> String {
    let mut text = String::new();
    loop {
        text.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
        if number == 0 {
            return text;
        }
    }
}

/// A breaker with a virtual clock; every message has new content, and a new text unless `repeats`.
struct BreakerHarness {
    breaker: Breaker,
    repeats: bool,
    cause: SendCause,
    now: u64,
    counter: u64,
    conversation: u64,
}

impl BreakerHarness {
    fn new() -> Self {
        Self::with(BreakerSettings::default())
    }

    fn with(settings: BreakerSettings) -> Self {
        Self {
            breaker: Breaker::new(settings),
            repeats: false,
            cause: SendCause::Unknown,
            now: 0,
            counter: 0,
            conversation: 1,
        }
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
        let text = if self.repeats { "the same".to_owned() } else { letters(content) };
        let sketch = Sketch::of_json(format!("\"{text}\"").as_bytes());
        self.send(&BreakerInput {
            from: &from,
            to,
            correlation,
            kind,
            content,
            sketch,
            is_news: false,
            cause: self.cause,
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
        self.post(from, to, Kind::KnowledgeShare, WorkProgress::None, 0)
    }

    /// Sends the same text in a loop until a circuit opens.
    fn cut(&mut self) -> Circuit {
        self.repeats = true;
        (0..9)
            .find_map(|i| if i % 2 == 0 { self.chat("a", "b") } else { self.chat("b", "a") })
            .expect("a loop is cut")
    }
}

#[test]
fn ping_pong_of_the_same_text_trips_after_three_repeated_rounds_with_evidence() {
    let mut harness = BreakerHarness { repeats: true, ..BreakerHarness::new() };
    for _ in 0..4 {
        assert!(harness.chat("roman", "tim").is_none() && harness.chat("tim", "roman").is_none());
    }
    let circuit = harness.chat("roman", "tim").unwrap();
    assert_eq!(circuit.reason, TripReason::Loop);
    let route = ["roman", "tim"].repeat(5).join(" → ");
    assert_eq!(circuit.evidence, format!("{route}: 9 messages without progress"));
    assert_eq!(circuit.participants, [id("roman"), id("tim")]);
    assert_eq!(circuit.until, Some(at(30).utc));
    harness.conversation = 2;
    assert!(harness.chat("c", "d").is_none(), "another conversation");
}

#[test]
fn ping_pong_of_new_texts_trips_after_150_messages() {
    for changes_conversation in [false, true] {
        let mut harness = BreakerHarness::new();
        let circuit = (0..200).find_map(|i| {
            harness.conversation += u64::from(changes_conversation);
            let (from, to) = if i % 2 == 0 { ("a", "b") } else { ("b", "a") };
            harness.chat(from, to).map(|circuit| (i, circuit))
        });
        let (passed, circuit) = circuit.unwrap();
        assert_eq!((passed, circuit.reason), (150, TripReason::TooLong));
        assert!(circuit.evidence.contains("151 messages, each the answer to the one before"));
        let scope = if changes_conversation { "pair" } else { "correlation" };
        assert_eq!(circuit.key.scope().as_str(), scope);
        // Both directions of the loop are stopped, but not what the two send others.
        harness.conversation += u64::from(changes_conversation);
        assert!(harness.chat("b", "a").is_some());
        harness.conversation = 10_000;
        assert!(harness.chat("a", "c").is_none() && harness.chat("c", "a").is_none());
    }
}

#[test]
fn cause_that_the_bus_knows_continues_or_begins_a_path() {
    for (cause, is_cut) in [(SendCause::Nothing, false), (SendCause::Unknown, true)] {
        let mut harness = BreakerHarness { cause, ..BreakerHarness::new() };
        let cut = (0..200).any(|i| {
            harness.conversation += 1;
            let (from, to) = if i % 2 == 0 { ("a", "b") } else { ("b", "a") };
            harness.chat(from, to).is_some()
        });
        assert_eq!(cut, is_cut, "{cause:?}");
    }
    // Each answers in a new conversation what it received in the one before, while messages of
    // others arrive.
    let mut harness = BreakerHarness::new();
    let cut = (0..200u64).find_map(|i| {
        (harness.conversation, harness.cause) = (10_000 + i, SendCause::Nothing);
        assert!(harness.chat("c", "a").is_none() && harness.chat("c", "b").is_none());
        (harness.conversation, harness.cause) =
            (i, SendCause::Message(correlation(i.wrapping_sub(1) & 0xffff)));
        let (from, to) = if i % 2 == 0 { ("a", "b") } else { ("b", "a") };
        harness.chat(from, to).map(|circuit| (i, circuit.reason))
    });
    assert_eq!(cut, Some((150, TripReason::TooLong)));
}

#[test]
fn unanswered_status_updates_trip_and_slow_ones_do_not() {
    for (repeats, gap, limit) in
        [(false, 0, Some(170)), (true, 0, Some(41)), (true, 60, None), (false, 30, None)]
    {
        let mut harness = BreakerHarness { repeats, ..BreakerHarness::new() };
        let cut = (0..1_000).find_map(|i| {
            harness.now += gap;
            harness.chat("b", "a").map(|circuit| (i, circuit.reason, circuit.key.to_string()))
        });
        let expected = limit.map(|limit| (limit, TripReason::Repeated, "pair:b:a:*".to_owned()));
        assert_eq!(cut, expected, "every {gap} s");
    }
    let mut harness = BreakerHarness::new();
    for i in 0..1_000 {
        assert!(harness.chat("b", "a").is_none(), "{i}");
        if i % 100 == 99 {
            assert!(harness.chat("a", "b").is_none(), "an answer");
        }
    }
}

#[test]
fn third_failure_in_a_row_is_no_progress() {
    let mut harness = BreakerHarness { repeats: true, ..BreakerHarness::new() };
    let cut = (0..100u64).find_map(|n| {
        let refused = harness.post("a", "b", Kind::TaskRequest, WorkProgress::None, n);
        if refused.is_none() {
            assert!(harness.post("b", "a", Kind::TaskResponse, Moves, n).is_none());
            assert!(harness.post("b", "a", Kind::TaskResponse, WorkProgress::Fails, n).is_none());
        }
        refused.map(|circuit| (n, circuit.reason))
    });
    assert_eq!(cut, Some((5, TripReason::Loop)));
    let mut harness = BreakerHarness { repeats: true, ..BreakerHarness::new() };
    for n in 0..100u64 {
        assert!(harness.post("a", "b", Kind::TaskRequest, WorkProgress::None, n).is_none(), "{n}");
        let how = if n % 3 == 2 { Ends } else { WorkProgress::Fails };
        assert!(harness.post("b", "a", Kind::TaskResponse, how, n).is_none(), "{n}");
    }
}

#[test]
fn progress_of_others_excuses_no_loop() {
    let mut harness = BreakerHarness { repeats: true, ..BreakerHarness::new() };
    let cut = (0..100u64).find_map(|i| {
        assert!(harness.post("c", "d", Kind::TaskRequest, WorkProgress::None, i).is_none());
        assert!(harness.post("d", "c", Kind::TaskResponse, Ends, i).is_none());
        let (from, to) = if i % 2 == 0 { ("a", "b") } else { ("b", "a") };
        harness.chat(from, to).map(|circuit| (i, circuit.reason))
    });
    assert_eq!(cut, Some((8, TripReason::Loop)));
    let key = harness.breaker.circuits().next().unwrap().key.clone();
    harness.now = 30;
    harness.post("d", "c", Kind::TaskResponse, Ends, 1_000);
    assert!(harness.breaker.get(&key).is_some(), "half open");
    harness.post("b", "a", Kind::TaskResponse, Ends, 1_001);
    assert!(harness.breaker.get(&key).is_none(), "its own progress closes it");
}

#[test]
fn flood_without_response_does_not_trip() {
    let mut harness = BreakerHarness::new();
    harness.chat("a", "b");
    for n in 0..1_000 {
        let kind = [Kind::KnowledgeShare, Kind::TaskRequest][n as usize % 2];
        assert!(harness.post("b", "a", kind, WorkProgress::None, n).is_none());
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
    let mut harness = BreakerHarness { repeats: true, ..BreakerHarness::new() };
    for n in 0..4 {
        assert!(harness.post("a", "b", Kind::TaskRequest, WorkProgress::None, n).is_none());
        assert!(harness.chat("b", "a").is_none());
    }
    assert!(harness.post("a", "b", Kind::TaskRequest, WorkProgress::None, 4).is_some());
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
    let (mut harness, names) =
        (BreakerHarness { repeats: true, ..BreakerHarness::new() }, ["a", "b", "c"]);
    let cut = (0..20u64).find_map(|n| {
        let [from, to] = [names[n as usize % 3], names[(n as usize + 1) % 3]];
        let refused = harness.post(from, to, Kind::TaskRequest, WorkProgress::None, n);
        harness.post(to, from, Kind::TaskResponse, Moves, n);
        refused.map(|circuit| (n, circuit.reason))
    });
    assert_eq!(cut, Some((12, TripReason::Loop)));
}

#[test]
fn only_five_state_changes_of_a_task_are_free() {
    let mut harness = BreakerHarness { repeats: true, ..BreakerHarness::new() };
    let cut = (0..40)
        .position(|i| {
            let (from, to) = if i % 2 == 0 { ("a", "b") } else { ("b", "a") };
            harness.post(from, to, Kind::StatusUpdate, Moves, 1).is_some()
        })
        .unwrap();
    assert_eq!(cut, 5 + 8);
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
        assert!(harness.post("a", "everyone", Kind::Broadcast, WorkProgress::None, 0).is_none());
    }
    harness.repeats = true;
    let passed = (0..20).position(|i| harness.chat(["b", "c", "d"][i % 3], "everyone").is_some());
    assert!(passed.unwrap() <= 12, "{passed:?}");
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
    assert_eq!(circuit.evidence, "a → b: the same knowledge_share 120 times in 2 min");
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
    for round in 0..4 {
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
