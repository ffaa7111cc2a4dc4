//! Selectors of access rules: `roman`, `squad:core`, `c-suite`.

use std::fmt;
use std::str::FromStr;

use a2a_protocol::AgentId;
use serde::{Serialize, Serializer};

use super::Party;
use crate::Profile;
use crate::admission::directory::tier_number;

/// A set of agents, by id or profile.
///
/// ```
/// use a2a_policy::Selector;
/// assert_eq!("squad:core".parse(), Ok(Selector::Squad("core".into())));
/// assert_eq!(Selector::Tier("T4".into()).to_string(), "tier:T4");
/// assert!("sqad:core".parse::<Selector>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// `*`: all agents.
    Anyone,
    /// `roman`: this agent. An agent whose id is also a keyword is written `agent:c-suite`.
    Agent(AgentId),
    /// `squad:core`: the agents of this squad.
    Squad(String),
    /// `tier:T4`: the agents of this tier. A bare number as here also matches `T4-Mid`.
    Tier(String),
    /// `role:VP Architecture`: the agents with this role.
    Role(String),
    /// `c-suite`: its members.
    CSuite,
    /// `outside-c-suite`: all agents that are not members.
    OutsideCSuite,
    /// `same-squad`: the sender's squad; valid for recipients only.
    SameSquad,
}

/// The text is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} selects nobody; write \"*\", an agent's id, \"squad:NAME\", \"tier:T4\", \"role:NAME\", \"c-suite\", \"outside-c-suite\" or \"same-squad\""
)]
pub struct BadSelector(pub String);

impl Selector {
    /// Whether it selects the agent; `sender` is the profile of the message's sender.
    pub(super) fn matches(&self, (id, profile): Party<'_>, sender: &Profile) -> bool {
        match self {
            Self::Anyone => true,
            Self::Agent(name) => name == id,
            Self::Squad(name) => profile.squad.as_ref() == Some(name),
            Self::Tier(tier) => profile.tier.as_deref().is_some_and(|own| is_tier(own, tier)),
            Self::Role(name) => profile.role.as_ref() == Some(name),
            Self::CSuite => profile.c_suite,
            Self::OutsideCSuite => !profile.c_suite,
            Self::SameSquad => profile.squad == sender.squad,
        }
    }

    /// The clause that explains why it selects `agent`.
    pub(super) fn clause(&self, agent: &AgentId) -> String {
        match self {
            Self::Anyone => format!("`{agent}` is anyone"),
            Self::Agent(_) => format!("`{agent}` is named in it"),
            Self::Squad(name) => format!("`{agent}` is in the squad `{name}`"),
            Self::Tier(tier) => format!("`{agent}` is of tier `{tier}`"),
            Self::Role(name) => format!("`{agent}` has the role `{name}`"),
            Self::CSuite => format!("`{agent}` is in the c-suite"),
            Self::OutsideCSuite => format!("`{agent}` is outside the c-suite"),
            Self::SameSquad => format!("`{agent}` is in the sender's squad"),
        }
    }
}

fn is_tier(own: &str, wanted: &str) -> bool {
    let only_a_number = || {
        let digits = wanted.strip_prefix(['T', 't']).unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    own == wanted
        || only_a_number() && tier_number(wanted).is_some_and(|n| tier_number(own) == Some(n))
}

impl FromStr for Selector {
    type Err = BadSelector;

    fn from_str(text: &str) -> Result<Self, BadSelector> {
        let bad = || BadSelector(text.to_owned());
        let agent = |name: &str| name.parse().map(Self::Agent).map_err(|_| bad());
        match text {
            "*" => return Ok(Self::Anyone),
            "c-suite" => return Ok(Self::CSuite),
            "outside-c-suite" => return Ok(Self::OutsideCSuite),
            "same-squad" => return Ok(Self::SameSquad),
            _ => {}
        }
        let Some((what, value)) = text.split_once(':') else { return agent(text) };
        // A value that no profile can have would make a rule that silently never matches.
        let sayable = Profile { role: Some(value.to_owned()), ..Profile::default() }.check();
        let value = sayable.ok().and_then(|profile| profile.role).ok_or_else(bad)?;
        match what {
            "agent" => agent(&value),
            "squad" => Ok(Self::Squad(value)),
            "tier" => Ok(Self::Tier(value)),
            "role" => Ok(Self::Role(value)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.write_str("*"),
            Self::Agent(name) => match name.as_str() {
                "c-suite" | "outside-c-suite" | "same-squad" => write!(f, "agent:{name}"),
                _ => write!(f, "{name}"),
            },
            Self::Squad(name) => write!(f, "squad:{name}"),
            Self::Tier(tier) => write!(f, "tier:{tier}"),
            Self::Role(name) => write!(f, "role:{name}"),
            Self::CSuite => f.write_str("c-suite"),
            Self::OutsideCSuite => f.write_str("outside-c-suite"),
            Self::SameSquad => f.write_str("same-squad"),
        }
    }
}

impl Serialize for Selector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_parses_back_from_its_text() {
        for text in [
            "*",
            "roman",
            "agent:c-suite",
            "squad:core",
            "squad:a:b",
            "tier:T4",
            "tier:T1-VP Arch",
            "role:VP Architecture",
            "c-suite",
            "outside-c-suite",
            "same-squad",
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().to_string(), text);
        }
        assert_eq!("agent:roman".parse::<Selector>().unwrap().to_string(), "roman");
    }

    #[test]
    fn invalid_selector_is_refused_with_the_keywords() {
        for text in ["", "a b", "squad:", "squad: ", "tier:\n", "sqad:core", "agent:a b", "**"] {
            let refused = text.parse::<Selector>().unwrap_err().to_string();
            assert!(refused.contains("squad:NAME") && refused.contains("same-squad"), "{refused}");
        }
        assert!(format!("role:{}", "x".repeat(129)).parse::<Selector>().is_err());
    }

    #[test]
    fn selector_matches_its_agents() {
        let id = |name: &str| name.parse::<AgentId>().unwrap();
        let profile = |squad: Option<&str>, tier: &str, c_suite| Profile {
            role: Some("VP Architecture".into()),
            squad: squad.map(str::to_owned),
            tier: Some(tier.into()),
            c_suite,
            capabilities: Vec::new(),
        };
        let tim = (&id("tim"), &profile(Some("core"), "T4-Mid", false));
        let ceo = (&id("ceo"), &profile(None, "T40", true));
        let from_core = &profile(Some("core"), "T1", false);
        for (selector, matches_tim, matches_ceo) in [
            ("*", true, true),
            ("tim", true, false),
            ("squad:core", true, false),
            ("tier:T4", true, false),
            ("tier:t04", true, false),
            ("tier:T4-Mid", true, false),
            ("tier:T4-Mi", false, false),
            ("tier:T40", false, true),
            ("tier:T", false, false),
            ("role:VP Architecture", true, true),
            ("role:VP", false, false),
            ("c-suite", false, true),
            ("outside-c-suite", true, false),
            ("same-squad", true, false),
        ] {
            let selector: Selector = selector.parse().unwrap();
            assert_eq!(selector.matches(tim, from_core), matches_tim, "{selector} tim");
            assert_eq!(selector.matches(ceo, from_core), matches_ceo, "{selector} ceo");
        }
        let squadless = &profile(None, "T1", false);
        assert!(Selector::SameSquad.matches(ceo, squadless), "who has no squad shares one");
    }
}
