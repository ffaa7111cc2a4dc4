//! Escalation order: the agent that decides a review its reviewer escalated.

use a2a_protocol::AgentId;

use super::{AgentKey, Directory};

impl Directory {
    /// The agent an escalated review of `agent` goes to; `None` when there is none.
    ///
    /// It is an agent of the nearest more senior tier that is not empty. Above the most senior
    /// tier, or for an agent without a tier, it is a member of the c-suite. The agent's own squad
    /// is preferred, then registration order. Never the agent itself.
    #[must_use]
    pub fn senior_to(&self, agent: &AgentId) -> Option<AgentKey> {
        let own = self.agents.get(agent);
        let above = own.and_then(|entry| entry.tier).and_then(|tier| {
            self.agents.values().filter_map(|entry| entry.tier).filter(|other| *other < tier).max()
        });
        let squad = own.and_then(|entry| entry.profile.squad.as_deref());
        let in_squad = |key: &AgentKey| {
            let entry = self.agents.get_index(key.0).map(|(_, entry)| entry);
            entry.is_some_and(|entry| entry.profile.squad.as_deref() == squad)
        };
        match above {
            Some(above) => {
                let numbered = self.agents.values().enumerate();
                let seniors = numbered.filter(|(_, entry)| entry.tier == Some(above));
                first_of(seniors.map(|(i, _)| AgentKey(i)), in_squad)
            }
            None => {
                let itself = self.key(agent);
                let members = self.groups.c_suite().iter().copied();
                first_of(members.filter(|key| Some(*key) != itself), in_squad)
            }
        }
    }
}

/// The first preferred one, else the first.
fn first_of(
    mut keys: impl Iterator<Item = AgentKey>,
    preferred: impl Fn(&AgentKey) -> bool,
) -> Option<AgentKey> {
    let first = keys.next()?;
    if preferred(&first) { Some(first) } else { keys.find(preferred).or(Some(first)) }
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::*;

    /// Name, squad, tier and c-suite membership; `-` for none.
    type Row = (&'static str, &'static str, &'static str, bool);

    fn senior(rows: &[Row], agent: &str) -> Option<String> {
        let text = |text: &str| (text != "-").then(|| text.to_owned());
        let mut directory = Directory::new(true, 100);
        for (name, squad, tier, c_suite) in rows {
            let (squad, tier) = (text(squad), text(tier));
            let profile = Profile { squad, tier, c_suite: *c_suite, ..Profile::default() };
            directory.insert(name.parse().unwrap(), profile, true);
        }
        let key = directory.senior_to(&agent.parse().unwrap())?;
        directory.id(key).map(ToString::to_string)
    }

    const TEAM: &[Row] = &[
        ("ceo", "board", "-", true),
        ("vp-web", "web", "T1-VP Web", false),
        ("vp-core", "core", "T1-VP Arch", false),
        ("staff", "web", "T3-Staff", false),
        ("mid-core", "core", "T4-Mid", false),
        ("mid-lone", "-", "T4-Mid", false),
        ("cto", "core", "T0", true),
        ("helper", "core", "helping out", false),
        ("guest", "-", "-", false),
    ];

    #[test]
    fn senior_is_next_tier_above_own_squad_first() {
        for (agent, expected) in [
            ("mid-core", "staff"), // T3 is next above T4, in another squad
            ("mid-lone", "staff"),
            ("staff", "vp-web"), // T2 is empty, and of T1 the own squad comes first
            ("vp-web", "cto"),
            ("vp-core", "cto"),
            ("cto", "ceo"),    // above the last tier: the c-suite, except itself
            ("helper", "cto"), // no number in the tier: the c-suite, the own squad first
            ("guest", "ceo"),  // otherwise registration order
            ("ceo", "cto"),
            ("nobody-knows", "ceo"),
        ] {
            assert_eq!(senior(TEAM, agent).as_deref(), Some(expected), "{agent}");
        }
    }

    #[test]
    fn senior_of_most_senior_is_none() {
        let alone: &[Row] = &[("ceo", "board", "T1", true)];
        assert_eq!(senior(alone, "ceo"), None);
        let peers: &[Row] = &[("a", "core", "T2", false), ("b", "core", "T2", false)];
        assert_eq!(senior(peers, "a"), None);
        assert_eq!(senior(&[], "a"), None);
    }
}
