//! Who decides when an agent's own judgement is not enough: the next one above it.

use a2a_protocol::AgentId;

use super::{AgentKey, Directory};

impl Directory {
    /// Whom an escalated review of `agent` goes to; `None` when there is nobody.
    ///
    /// It is somebody of the next tier above that anybody has. Above the last tier, or for an
    /// agent without one, it is a member of the c-suite. Of several, those of the agent's own
    /// squad come first, and then whoever joined first; it is never the agent itself.
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

/// The first that is preferred, else the first.
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

    /// The name, the squad, the tier and whether it is in the c-suite; `-` stands for none.
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
    fn it_is_the_next_tier_above_the_own_squad_first() {
        for (agent, expected) in [
            ("mid-core", "staff"), // T3 is next above T4, though its squad is another
            ("mid-lone", "staff"),
            ("staff", "vp-web"), // nobody has T2, and of T1 the own squad comes first
            ("vp-web", "cto"),
            ("vp-core", "cto"),
            ("cto", "ceo"),    // above the last tier: the c-suite, not itself
            ("helper", "cto"), // no number in the tier: the c-suite, the own squad first
            ("guest", "ceo"),  // and else whoever joined first
            ("ceo", "cto"),
            ("nobody-knows", "ceo"),
        ] {
            assert_eq!(senior(TEAM, agent).as_deref(), Some(expected), "{agent}");
        }
    }

    #[test]
    fn there_may_be_nobody() {
        let alone: &[Row] = &[("ceo", "board", "T1", true)];
        assert_eq!(senior(alone, "ceo"), None);
        let peers: &[Row] = &[("a", "core", "T2", false), ("b", "core", "T2", false)];
        assert_eq!(senior(peers, "a"), None);
        assert_eq!(senior(&[], "a"), None);
    }
}
