//! Causal path of a message: the agents whose sends led to it, since the last progress.
//!
//! A path is short in normal work, since it grows only with a response to a received message. In a
//! loop it grows with every message, so only the latest hops are kept: at least enough for a ring of
//! the maximum depth to complete the allowed rounds. All hops are counted. Paths share their
//! beginnings, so that one more hop costs the same on a long path as on a short one.

use std::fmt::Write as _;
use std::sync::Arc;

use a2a_protocol::AgentId;

/// The latest hops that are searched for a loop of new texts: three rounds of twenty agents. Hops
/// are spread all over the memory, so that a walk along all of them is slow.
const RECENT: usize = 64;

/// The agents whose sends led to a message. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path(Option<Arc<Hop>>);

/// One send on a path.
#[derive(Debug, PartialEq, Eq)]
struct Hop {
    agent: AgentId,
    /// How deep the work was delegated within a conversation; returning to an earlier agent is not
    /// deeper.
    depth: u32,
    /// Whether the message had nearly the same text as an earlier one.
    is_repeat: bool,
    /// The number of hops up to this one, with those that are not kept; and of those kept.
    total: u32,
    kept: usize,
    before: Path,
}

impl Path {
    /// The path of an agent that sends without having received anything.
    pub(super) const EMPTY: Self = Self(None);

    /// This path with one more send by `agent`, which may begin a conversation. At least the latest
    /// `max` hops are kept, at most twice as many.
    pub(super) fn then(&self, agent: &AgentId, opens: bool, is_repeat: bool, max: usize) -> Self {
        let max = max.max(1);
        if self.0.as_ref().is_some_and(|hop| hop.kept >= 2 * max) {
            return self.latest(max).then(agent, opens, is_repeat, max);
        }
        let (total, kept) = self.0.as_ref().map_or((0, 0), |hop| (hop.total, hop.kept));
        Self(Some(Arc::new(Hop {
            agent: agent.clone(),
            depth: if opens { 1 } else { self.depth_with(agent) },
            is_repeat,
            total: total.saturating_add(1),
            kept: kept + 1,
            before: self.clone(),
        })))
    }

    /// A copy with the latest hops only.
    fn latest(&self, max: usize) -> Self {
        let hops: Vec<&Hop> = self.hops().take(max).collect();
        hops.into_iter().rev().fold(Self::EMPTY, |before, hop| {
            let kept = before.0.as_ref().map_or(0, |hop| hop.kept) + 1;
            let Hop { depth, is_repeat, total, .. } = *hop;
            Self(Some(Arc::new(Hop {
                agent: hop.agent.clone(),
                depth,
                is_repeat,
                total,
                kept,
                before,
            })))
        })
    }

    /// How deep a send by `agent` delegates work: as deep as its latest send, if that is among the
    /// latest on the path, or one more than the last.
    pub(super) fn depth_with(&self, agent: &AgentId) -> u32 {
        let earlier = self.hops().take(RECENT).find(|hop| hop.agent == *agent);
        earlier.map_or_else(|| self.depth().saturating_add(1), |hop| hop.depth)
    }

    /// The depth of the last send.
    pub(super) fn depth(&self) -> u32 {
        self.0.as_ref().map_or(0, |hop| hop.depth)
    }

    /// How often the hop from `from` to `to` is among the latest on the path that a send by `from`
    /// would extend.
    pub(super) fn rounds_of(&self, from: &AgentId, to: &AgentId) -> u32 {
        self.rounds(from, to, RECENT, |_| true)
    }

    /// How often that hop was a message with nearly the same text as an earlier one.
    pub(super) fn repeats_of(&self, from: &AgentId, to: &AgentId) -> u32 {
        self.rounds(from, to, usize::MAX, |hop| hop.is_repeat)
    }

    fn rounds(
        &self,
        from: &AgentId,
        to: &AgentId,
        within: usize,
        counts: impl Fn(&Hop) -> bool,
    ) -> u32 {
        let is_hop = |hop: &Hop| hop.agent == *from && counts(hop);
        let next = self.hops().zip(self.hops().skip(1)).take(within);
        let pairs = next.filter(|(next, hop)| next.agent == *to && is_hop(hop));
        let to_itself = from == to && self.0.as_ref().is_some_and(|last| is_hop(last));
        count(pairs) + u32::from(to_itself)
    }

    /// How often `agent` sent recently on this path.
    pub(super) fn sends_of(&self, agent: &AgentId) -> u32 {
        count(self.hops().take(RECENT).filter(|hop| hop.agent == *agent))
    }

    /// How often `agent` repeated itself on this path.
    pub(super) fn repeated_sends_of(&self, agent: &AgentId) -> u32 {
        count(self.hops().filter(|hop| hop.agent == *agent && hop.is_repeat))
    }

    /// The number of hops, with those that are not kept.
    pub(super) fn total(&self) -> u32 {
        self.0.as_ref().map_or(0, |hop| hop.total)
    }

    /// The agents on the path, last to first, with repetitions.
    pub(super) fn agents(&self) -> impl Iterator<Item = &AgentId> {
        self.hops().map(|hop| &hop.agent)
    }

    /// The latest hops as text, extended to `from` and `to`, for the evidence.
    pub(super) fn describe(&self, from: &AgentId, to: Option<&AgentId>) -> String {
        const SHOWN: usize = 12;
        let shown: Vec<&AgentId> = self.agents().take(SHOWN).collect();
        let mut text = String::from(if self.total() as usize > SHOWN { "… → " } else { "" });
        for agent in shown.into_iter().rev() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{agent} → ");
        }
        let to = to.map_or("everyone", AgentId::as_str);
        let _ = write!(text, "{from} → {to}");
        text
    }

    /// The hops that are kept, last to first.
    fn hops(&self) -> impl Iterator<Item = &Hop> {
        std::iter::successors(self.0.as_deref(), |hop| hop.before.0.as_deref())
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

    /// A path of these agents; a capital letter repeats itself.
    fn path(names: &str) -> Path {
        names.chars().fold(Path::default(), |path, name| {
            path.then(
                &id(&name.to_ascii_lowercase().to_string()),
                false,
                name.is_ascii_uppercase(),
                8,
            )
        })
    }

    #[test]
    fn rounds_of_counts_sends_from_one_to_the_other() {
        for (hops, from, to, rounds, repeats) in [
            ("", "a", "b", 0, 0),
            ("ab", "a", "b", 1, 0),
            ("abAb", "a", "b", 2, 1),
            ("abab", "b", "a", 1, 0),
            ("abcABc", "c", "a", 1, 0),
            ("aBcabc", "b", "c", 2, 1),
            ("acbc", "a", "b", 0, 0),
            ("a", "a", "a", 1, 0),
            ("aA", "a", "a", 2, 1),
        ] {
            let found = (
                path(hops).rounds_of(&id(from), &id(to)),
                path(hops).repeats_of(&id(from), &id(to)),
            );
            assert_eq!(found, (rounds, repeats), "{hops}: {from} → {to}");
        }
        assert_eq!(path("abcAb").sends_of(&id("a")), 2);
        assert_eq!(path("abcAb").repeated_sends_of(&id("a")), 1);
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
    fn long_path_keeps_latest_hops_and_counts_all() {
        let path = path("abcdefghijklmnopq");
        assert_eq!((path.total(), path.hops().count()), (17, 9));
        assert_eq!(path.agents().last(), Some(&id("i")));
        assert_eq!((path.depth_with(&id("r")), path.depth_with(&id("m"))), (18, 13));
        assert_eq!(path.then(&id("r"), true, false, 8).depth(), 1);
        assert_eq!(Path::default().describe(&id("a"), None), "a → everyone");
        let long = (0..20).fold(Path::default(), |path, _| path.then(&id("a"), false, false, 20));
        assert!(long.describe(&id("a"), Some(&id("b"))).starts_with("… → a → a"));
    }
}
