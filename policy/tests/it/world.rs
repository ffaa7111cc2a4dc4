//! A bus reduced to its breaker, with a virtual clock and a deterministic random generator.

use std::time::Duration;

use a2a_policy::{
    Audience, Breaker, BreakerDecision, BreakerInput, BreakerSettings, Circuit, Now, SendCause,
    Sketch, WorkProgress,
};
use a2a_protocol::{AgentId, CorrelationId, Kind, TaskId};
use chrono::DateTime;

pub fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

pub fn correlation(n: u64) -> CorrelationId {
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

/// SplitMix64: small, and deterministic on every machine.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low + 1)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.from(0, i as u64) as usize);
        }
    }
}

/// One message of a script.
#[derive(Debug, Clone)]
pub struct Message {
    pub from: AgentId,
    /// `None`: a fan-out to `crowd` agents.
    pub to: Option<AgentId>,
    pub crowd: usize,
    pub conversation: u64,
    pub kind: Kind,
    pub content: u64,
    pub task: Option<u64>,
    pub progress: WorkProgress,
}

impl Message {
    pub fn new(from: &AgentId, to: &AgentId, conversation: u64, kind: Kind, content: u64) -> Self {
        let (from, to) = (from.clone(), Some(to.clone()));
        Self {
            from,
            to,
            crowd: 0,
            conversation,
            kind,
            content,
            task: None,
            progress: WorkProgress::None,
        }
    }

    pub fn fan_out(self, crowd: usize) -> Self {
        Self { to: None, crowd, ..self }
    }

    pub fn about(self, task: u64, progress: WorkProgress) -> Self {
        Self { task: Some(task), progress, ..self }
    }

    pub fn input(&self) -> BreakerInput<'_> {
        BreakerInput {
            from: &self.from,
            to: self.to.as_ref().map_or(Audience::Many(self.crowd), Audience::One),
            correlation: correlation(self.conversation),
            kind: self.kind,
            content: self.content,
            sketch: Sketch::of_json(format!("\"{}\"", letters(self.content)).as_bytes()),
            is_news: false,
            cause: SendCause::Unknown,
            task: self.task.map(task),
            progress: self.progress,
        }
    }
}

pub struct World {
    pub breaker: Breaker,
    pub ms: u64,
}

impl World {
    pub fn new() -> Self {
        Self { breaker: Breaker::new(BreakerSettings::default()), ms: 0 }
    }

    pub fn now(&self) -> Now {
        let uptime = Duration::from_millis(self.ms);
        Now { utc: DateTime::UNIX_EPOCH + uptime, uptime }
    }

    /// Sends a message if it passes, and opens what trips; returns the circuit that refused it.
    pub fn send(&mut self, message: &Message) -> Result<(), Box<Circuit>> {
        let input = message.input();
        match self.breaker.check(&input, self.now()) {
            BreakerDecision::Pass => {}
            BreakerDecision::Refused(circuit) => return Err(Box::new(circuit.clone())),
            BreakerDecision::Trips(circuit) => {
                self.breaker.trip(circuit.clone());
                return Err(Box::new(circuit));
            }
        }
        let now = self.now();
        self.breaker.accept(&input, now);
        Ok(())
    }
}
