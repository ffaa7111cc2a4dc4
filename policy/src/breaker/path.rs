//! Causal path of a message: the agents whose sends led to it.
//!
//! A path is short in normal work, since it grows only with a response to a received message. In a
//! loop it grows with every message, so it is cut to the latest hops: enough for a ring of the
//! maximum depth to complete the allowed rounds.

use std::fmt::Write as _;
use std::sync::Arc;

use a2a_protocol::AgentId;

/// One send on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hop {
    agent: AgentId,
    /// How deep the work was delegated; returning to an earlier agent is not deeper.
    depth: u32,
}

/// The agents whose sends led to a message, first to last. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path(Option<Arc<[Hop]>>);

impl Path {
    /// The path of an agent that sends without having received anything.
    pub(super) const EMPTY: Self = Self(None);

    /// This path with one more send by `agent`, cut to the latest `max` hops.
    pub(super) fn then(&self, agent: &AgentId, max: usize) -> Self {
        let hop = Hop { agent: agent.clone(), depth: self.depth_with(agent) };
        let hops = self.hops();
        let kept = &hops[hops.len().saturating_sub(max.saturating_sub(1))..];
        Self(Some(kept.iter().cloned().chain(std::iter::once(hop)).collect()))
    }

    /// The depth of a send by `agent`: its earlier depth on the path, or one more than the last.
    pub(super) fn depth_with(&self, agent: &AgentId) -> u32 {
        let before = self.hops().iter().find(|hop| hop.agent == *agent);
        let last = self.hops().last();
        before.map_or_else(|| last.map_or(1, |hop| hop.depth.saturating_add(1)), |hop| hop.depth)
    }

    /// How often the hop from `from` to `to` is on the path that a send by `from` would extend.
    pub(super) fn rounds_of(&self, from: &AgentId, to: &AgentId) -> u32 {
        let hops = self.hops();
        let pairs = hops.windows(2).filter(|pair| pair[0].agent == *from && pair[1].agent == *to);
        let to_itself = from == to && hops.last().is_some_and(|hop| hop.agent == *from);
        count(pairs) + u32::from(to_itself)
    }

    /// How often `agent` sent on this path.
    pub(super) fn sends_of(&self, agent: &AgentId) -> u32 {
        count(self.hops().iter().filter(|hop| hop.agent == *agent))
    }

    pub(super) fn len(&self) -> usize {
        self.hops().len()
    }

    /// The agents on the path, with repetitions.
    pub(super) fn agents(&self) -> impl Iterator<Item = &AgentId> {
        self.hops().iter().map(|hop| &hop.agent)
    }

    /// The latest hops as text, extended to `from` and `to`, for the evidence.
    pub(super) fn describe(&self, from: &AgentId, to: Option<&AgentId>) -> String {
        const SHOWN: usize = 12;
        let skipped = self.len().saturating_sub(SHOWN);
        let mut text = String::from(if skipped > 0 { "… → " } else { "" });
        for agent in self.agents().skip(skipped) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{agent} → ");
        }
        let to = to.map_or("everyone", AgentId::as_str);
        let _ = write!(text, "{from} → {to}");
        text
    }

    fn hops(&self) -> &[Hop] {
        self.0.as_deref().unwrap_or_default()
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    fn path(names: &str) -> Path {
        names.chars().fold(Path::default(), |path, name| path.then(&id(&name.to_string()), 8))
    }

    #[test]
    fn rounds_of_counts_sends_from_one_to_the_other() {
        for (hops, from, to, rounds) in [
            ("", "a", "b", 0),
            ("ab", "a", "b", 1),
            ("abab", "a", "b", 2),
            ("abab", "b", "a", 1),
            ("abcabc", "c", "a", 1),
            ("acbc", "a", "b", 0),
            ("a", "a", "a", 1),
            ("aa", "a", "a", 2),
        ] {
            assert_eq!(path(hops).rounds_of(&id(from), &id(to)), rounds, "{hops}: {from} → {to}");
        }
        assert_eq!(path("abcab").sends_of(&id("a")), 2);
    }

    #[test]
    fn returning_to_an_agent_is_not_deeper() {
        for (hops, next, depth) in
            [("", "a", 1), ("abc", "d", 4), ("abac", "a", 1), ("aba", "c", 2)]
        {
            assert_eq!(path(hops).depth_with(&id(next)), depth, "{hops} then {next}");
        }
    }

    #[test]
    fn long_path_keeps_latest_hops_in_description() {
        let path = path("abcdefghij");
        assert_eq!(path.len(), 8);
        assert_eq!(path.agents().next(), Some(&id("c")));
        assert_eq!(path.depth_with(&id("k")), 11);
        assert_eq!(Path::default().describe(&id("a"), None), "a → everyone");
        let long = (0..20).fold(Path::default(), |path, _| path.then(&id("a"), 20));
        assert!(long.describe(&id("a"), Some(&id("b"))).starts_with("… → a → a"));
    }
}
