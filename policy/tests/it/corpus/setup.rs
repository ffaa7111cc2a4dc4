//! The bus of the corpus: envelopes in, accepted or refused by the breaker.

use std::time::Duration;

use a2a_policy::{
    Audience, Breaker, BreakerDecision, BreakerInput, BreakerSettings, Fingerprints, Ledger,
    LedgerSettings, Now, SendCause, WorkProgress,
};
use a2a_protocol::{Envelope, Kind};
use chrono::DateTime;
use serde_json::{Value, json};

use crate::world::Dice;

/// Words of generated texts: enough of them that two random sentences share few.
const WORDS: &str = "anchor basin cable delta ember fjord garnet harbor index jumper kernel lattice \
    meadow nickel orbit packet quartz ribbon socket timber umbra vector willow xenon yarrow zephyr \
    bridge cursor docket engine filter gasket hinge insert joiner kettle ledger module needle outlet \
    parser queue router schema thread upload volume worker yield zoning accept branch commit deploy \
    export format gather handle import jitter layout merge notify option patch query reject submit \
    trace unlock verify wrap average boundary checksum default element fallback gateway header \
    iterator journal keyboard latency manifest network overflow pipeline quorum replica snapshot";

/// A shape of traffic, from which scripts are generated.
pub struct Traffic {
    pub name: &'static str,
    /// Whether its messages repeat the same or nearly the same words.
    pub repeats: bool,
    pub generate: fn(&mut Scribe),
}

impl Traffic {
    pub fn script(&self, seed: u64) -> Script {
        let mut scribe = Scribe::new(seed);
        (self.generate)(&mut scribe);
        Script { steps: scribe.steps }
    }
}

pub struct Script {
    pub steps: Vec<Step>,
}

/// One message, and the pause before it.
pub struct Step {
    pub pause: Duration,
    pub message: Envelope,
    /// The number of recipients of a message without one.
    pub crowd: usize,
}

/// The words of the messages of a storm.
#[derive(Clone, Copy, PartialEq)]
pub enum Says {
    /// The same words every time.
    Same,
    /// A counter changes, and one word.
    Nearly,
    /// Other words every time.
    New,
}

/// Which conversation a message belongs to.
#[derive(Clone, Copy)]
pub enum Habit {
    One,
    EverySix,
    EachMessage,
}

/// Writes one script.
pub struct Scribe {
    pub dice: Dice,
    pub agents: Vec<String>,
    pub steps: Vec<Step>,
    longest_pause: u64,
    next: u64,
    /// The fixed sentence of each agent.
    fixed: Vec<String>,
}

impl Scribe {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9) + 1);
        let agents = (0..64).map(|i| format!("agent-{i}-{}", dice.from(100, 999))).collect();
        let longest_pause = [20, 1_500, 12_000][seed as usize % 3];
        let mut scribe =
            Self { dice, agents, steps: vec![], longest_pause, next: 0, fixed: vec![] };
        scribe.fixed = (0..64).map(|_| scribe.sentence()).collect();
        scribe
    }

    /// A number that was not used before, for tasks and conversations.
    pub fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn sentence(&mut self) -> String {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let length = self.dice.from(7, 18);
        let pick = |_| words[self.dice.from(0, words.len() as u64 - 1) as usize];
        (0..length).map(pick).collect::<Vec<_>>().join(" ")
    }

    /// The text of agent number `agent` in message number `i`.
    pub fn text(&mut self, says: Says, agent: usize, i: usize) -> String {
        match says {
            Says::Same => self.fixed[agent].clone(),
            Says::Nearly => format!("{} (attempt {i})", self.fixed[agent]),
            Says::New => self.sentence(),
        }
    }

    /// The conversation of message number `i`.
    pub fn conversation(&mut self, habit: Habit, i: usize) -> u64 {
        match habit {
            Habit::One => 0,
            Habit::EverySix => 1_000_000 + i as u64 / 6,
            Habit::EachMessage => 1_000_000 + self.fresh(),
        }
    }

    /// Adds a message from one agent to another, with fields of its payload.
    pub fn say(&mut self, kind: Kind, from: usize, to: usize, conversation: u64, fields: Value) {
        self.push(kind, from, Some(to), conversation, fields, 0);
    }

    /// Adds a message to a crowd.
    pub fn call(
        &mut self,
        kind: Kind,
        from: usize,
        conversation: u64,
        fields: Value,
        crowd: usize,
    ) {
        self.push(kind, from, None, conversation, fields, crowd);
    }

    /// Adds a text in the form of a status update about no task.
    pub fn chat(&mut self, from: usize, to: usize, conversation: u64, text: &str) {
        let fields = json!({ "status": "in_progress", "progress": text, "taskId": null });
        self.say(Kind::StatusUpdate, from, to, conversation, fields);
    }

    pub fn request(&mut self, from: usize, to: usize, conversation: u64, task: u64, text: &str) {
        let fields = json!({ "taskId": uuid(9, task), "title": text, "description": text });
        self.say(Kind::TaskRequest, from, to, conversation, fields);
    }

    pub fn answer(
        &mut self,
        from: usize,
        to: usize,
        conversation: u64,
        task: u64,
        (action, text): (&str, &str),
    ) {
        let fields = json!({
            "taskId": uuid(9, task), "action": action, "reason": text, "result": { "summary": text },
        });
        self.say(Kind::TaskResponse, from, to, conversation, fields);
    }

    pub fn report(
        &mut self,
        from: usize,
        to: usize,
        conversation: u64,
        task: u64,
        (status, text): (&str, &str),
    ) {
        let fields = json!({
            "taskId": uuid(9, task), "status": status, "progress": text, "blockedBy": text,
        });
        self.say(Kind::StatusUpdate, from, to, conversation, fields);
    }

    fn push(
        &mut self,
        kind: Kind,
        from: usize,
        to: Option<usize>,
        conversation: u64,
        fields: Value,
        crowd: usize,
    ) {
        let mut message = serde_json::to_value(kind.example_message()).unwrap();
        let number = self.fresh();
        message["messageId"] = uuid(8, number).into();
        message["correlationId"] = uuid(10, conversation).into();
        message["from"] = json!({ "agentId": self.agents[from] });
        let envelope = message.as_object_mut().unwrap();
        match to {
            Some(to) => envelope.insert("to".into(), json!({ "agentId": self.agents[to] })),
            None => envelope.remove("to"),
        };
        let payload = message["payload"].as_object_mut().unwrap();
        payload.remove("deadline");
        for (field, value) in fields.as_object().unwrap() {
            match value {
                Value::Null => payload.remove(field),
                value => payload.insert(field.clone(), value.clone()),
            };
        }
        let message = Envelope::parse(message.to_string().as_bytes())
            .unwrap_or_else(|report| panic!("{report:?}"));
        let pause = Duration::from_millis(self.dice.from(0, self.longest_pause));
        self.steps.push(Step { pause, message, crowd });
    }

    /// Sets the pause before the latest message.
    pub fn after(&mut self, pause: Duration) {
        self.steps.last_mut().unwrap().pause = pause;
    }
}

/// The id of thing number `n`; the first digit distinguishes the things.
pub fn uuid(of: u64, n: u64) -> String {
    format!("0192a4c8-7e1a-7000-{:04x}-{n:012x}", 0x8000 + of)
}

/// The ledger and the breaker, with a virtual clock.
pub struct Bus {
    ledger: Ledger,
    breaker: Breaker,
    uptime: Duration,
    records: u64,
}

impl Bus {
    pub fn new() -> Self {
        let ledger = Ledger::new(LedgerSettings::default());
        let breaker = Breaker::new(BreakerSettings::default());
        Self { ledger, breaker, uptime: Duration::ZERO, records: 0 }
    }

    pub fn minutes(&self) -> f64 {
        self.uptime.as_secs_f64() / 60.0
    }

    /// Whether the message was accepted. A message that the ledger refuses is a fault of the
    /// script, except for one about a task whose request the breaker refused.
    pub fn send(&mut self, step: &Step) -> bool {
        self.uptime += step.pause;
        let now = Now { utc: DateTime::UNIX_EPOCH + self.uptime, uptime: self.uptime };
        let message = &step.message;
        let Ok(change) = self.ledger.check(message, None, now) else { return false };
        let to = message.to.as_ref().map(|to| &to.agent_id);
        let fingerprints = Fingerprints::of(message);
        let input = BreakerInput {
            from: &message.from.agent_id,
            to: to.map_or(Audience::Many(step.crowd), Audience::One),
            correlation: message.correlation_id,
            kind: message.kind(),
            content: fingerprints.content,
            sketch: fingerprints.sketch,
            is_news: false,
            cause: SendCause::Unknown,
            task: message.body.task_id(),
            progress: change.as_ref().map_or(WorkProgress::None, |change| change.progress),
        };
        let tripped = match self.breaker.check(&input, now) {
            BreakerDecision::Pass => None,
            BreakerDecision::Refused(_) => return false,
            BreakerDecision::Trips(circuit) => Some(circuit),
        };
        if let Some(circuit) = tripped {
            self.breaker.trip(circuit);
            return false;
        }
        self.breaker.accept(&input, now);
        self.records += 1;
        if let Some(change) = change {
            self.ledger.apply(change, self.records);
        }
        true
    }
}
