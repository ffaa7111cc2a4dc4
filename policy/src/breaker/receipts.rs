//! The latest messages that each agent received, in all conversations, with their causal paths.
//!
//! A message that begins a conversation continues the path of the message that led to it, so that a
//! loop does not start afresh with every new `correlationId`.

use std::time::Duration;

use a2a_protocol::{AgentId, CorrelationId, Kind};

use super::lru_map::LruMap;
use super::path::Path;
use super::{BreakerInput, SendCause};
use crate::{Audience, Now};

/// Receipts kept for one agent, at most one per sender; and fan-outs kept in all.
const MOST: usize = 8;
/// A message received longer ago than this has led to nothing, unless the bus knows better.
const CAUSE_WINDOW: Duration = Duration::from_secs(60);

/// The latest receipts of all agents.
pub(super) struct Receipts {
    agents: LruMap<AgentId, Vec<Receipt>>,
    /// Fan-outs, received by every agent except their sender.
    fan_outs: Vec<Receipt>,
    /// Counts messages, for their order.
    tick: u64,
}

struct Receipt {
    from: AgentId,
    correlation: CorrelationId,
    path: Path,
    /// The path of the latest request among these messages: what remains after progress.
    request_path: Path,
    at: u64,
    when: Duration,
}

impl Receipts {
    pub(super) fn new(max: usize) -> Self {
        Self { agents: LruMap::new(max / MOST), fan_outs: Vec::new(), tick: 0 }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.agents.set_max(max / MOST);
    }

    /// The path of the message that led the sender to begin a conversation.
    ///
    /// If the bus does not know which one it was, the latest counts; for a repeated text the one that
    /// comes closest to a loop.
    pub(super) fn path_to(&self, input: &BreakerInput<'_>, is_repeat: bool, now: Now) -> Path {
        let own = self.agents.peek(input.from).map_or(&[][..], Vec::as_slice);
        let fan_outs = self.fan_outs.iter().filter(|receipt| receipt.from != *input.from);
        let receipts = own.iter().chain(fan_outs);
        let led = match input.cause {
            SendCause::Nothing => None,
            SendCause::Message(cause) => receipts
                .filter(|receipt| receipt.correlation == cause)
                .max_by_key(|receipt| receipt.at),
            SendCause::Unknown => receipts
                .filter(|receipt| now.uptime.saturating_sub(receipt.when) < CAUSE_WINDOW)
                .max_by_key(|receipt| {
                    let path = &receipt.path;
                    let (repeats, rounds) = match input.to {
                        _ if !is_repeat => (0, 0),
                        Audience::One(to) => {
                            (path.repeats_of(input.from, to), path.rounds_of(input.from, to))
                        }
                        Audience::Many(_) => {
                            (path.repeated_sends_of(input.from), path.sends_of(input.from))
                        }
                    };
                    (repeats, rounds, receipt.at)
                }),
        };
        led.map_or(Path::EMPTY, |receipt| receipt.path.clone())
    }

    /// Records an admitted message with its path.
    pub(super) fn record(&mut self, input: &BreakerInput<'_>, path: &Path, now: Now) {
        self.tick += 1;
        let (from, path, at) = (input.from.clone(), path.clone(), self.tick);
        let request_path = if input.kind == Kind::TaskRequest { path.clone() } else { Path::EMPTY };
        let (correlation, when) = (input.correlation, now.uptime);
        let receipt = Receipt { from, correlation, path, request_path, at, when };
        match input.to {
            Audience::One(to) => match self.agents.touch(to) {
                Some(receipts) => put(receipts, receipt),
                None => drop(self.agents.insert(to.clone(), vec![receipt])),
            },
            Audience::Many(_) => put(&mut self.fan_outs, receipt),
        }
    }

    /// A task ended: what `to` received last is the end, on the path of its own request.
    pub(super) fn ended(&mut self, input: &BreakerInput<'_>, to: &AgentId, now: Now) {
        self.tick += 1;
        let receipts = self.agents.touch(to).into_iter().flatten();
        for receipt in receipts.filter(|receipt| receipt.from == *input.from) {
            receipt.path = receipt.request_path.clone();
            (receipt.correlation, receipt.at, receipt.when) =
                (input.correlation, self.tick, now.uptime);
        }
    }

    /// Forgets what an agent received in a conversation, and the fan-outs of that.
    pub(super) fn forget_conversation(&mut self, agent: &AgentId, conversation: CorrelationId) {
        let is_other = |receipt: &Receipt| receipt.correlation != conversation;
        if let Some(receipts) = self.agents.touch(agent) {
            receipts.retain(is_other);
        }
        self.fan_outs.retain(is_other);
    }

    /// Forgets what an agent received.
    pub(super) fn forget(&mut self, agent: &AgentId) {
        self.agents.remove(agent);
    }
}

/// Replaces the receipt of the same sender; when full, evicts the oldest.
fn put(receipts: &mut Vec<Receipt>, receipt: Receipt) {
    let index = receipts.iter().position(|old| old.from == receipt.from);
    let oldest = || (0..receipts.len()).min_by_key(|i| receipts[*i].at);
    match index.or_else(|| if receipts.len() < MOST { None } else { oldest() }) {
        Some(index) => {
            let before = std::mem::replace(&mut receipts[index].request_path, Path::EMPTY);
            let request_path = if receipt.request_path.total() > 0 {
                receipt.request_path.clone()
            } else {
                before
            };
            receipts[index] = Receipt { request_path, ..receipt };
        }
        None => receipts.push(receipt),
    }
}
