//! Access rules: may an agent send a kind of message to another agent, or to a broadcast scope.
//!
//! The rules are an ordered list and the first match decides. A refusal contains the name of that
//! rule, so that its cause is never a guess. Two built-in rules end the list; the last of them
//! matches everything.

mod explain;
mod selector;

use std::collections::HashSet;

use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Kind};
use serde::Serialize;

pub use explain::Explanation;
pub use selector::{BadSelector, Selector};

use crate::Profile;

/// An agent and its profile.
pub type Party<'a> = (&'a AgentId, &'a Profile);

/// One rule. An empty list matches anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The name shown in refusals; empty for `rule-N`, after the rule's position in the list.
    pub name: String,
    /// Whether a match allows or refuses the message.
    pub allow: bool,
    /// The sender matches any of these.
    pub from: Vec<Selector>,
    /// The recipient matches any of these.
    pub to: Vec<Selector>,
    /// The kind is any of these.
    pub kinds: Vec<Kind>,
    /// The broadcast scope is any of these. A rule with scopes matches only broadcasts.
    pub scopes: Vec<Scope>,
}

/// A query: may this message go to this recipient.
#[derive(Debug, Clone, Copy)]
pub struct AccessQuery<'a> {
    /// The sender.
    pub from: Party<'a>,
    /// The recipient.
    pub to: Party<'a>,
    /// The kind of message.
    pub kind: Kind,
    /// The scope of a broadcast.
    pub scope: Option<Scope>,
}

/// The result, and the rule that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Whether the message may be sent.
    pub allowed: bool,
    /// The name of the rule that decided.
    pub rule: &'a str,
}

/// An invalid rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// Too many rules to evaluate per message.
    #[error(
        "there are {count} access rules; {} are allowed, so put several agents into one rule",
        AccessRules::MAX_RULES
    )]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// Two rules with the same name.
    #[error("more than one access rule is called `{name}`; give each a name of its own")]
    SameName {
        /// The name.
        name: String,
    },
    /// The name of a built-in rule.
    #[error("`{name}` is the name of a built-in access rule; choose another")]
    BuiltInName {
        /// The name.
        name: String,
    },
    /// A name that is too long or not printable.
    #[error(
        "the name of access rule {position} is too long or no plain text; write at most {} characters on one line",
        Profile::MAX_CHARS
    )]
    Name {
        /// The rule's position in the list, from 1.
        position: usize,
    },
    /// `same-squad` as a sender.
    #[error(
        "access rule `{rule}`: `same-squad` compares the recipient with the sender; write it in `to`, not in `from`"
    )]
    SameSquadSends {
        /// The rule.
        rule: String,
    },
    /// Scopes for kinds that have none.
    #[error(
        "access rule `{rule}` never matches: it has `scopes`, which only a `broadcast` has, but its `kinds` leave `broadcast` out. Add it there, or leave out the scopes"
    )]
    NeverMatches {
        /// The rule.
        rule: String,
    },
}

/// The ordered rules of a bus, ending with the built-in ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRules(Vec<Rule>);

/// The built-in rule that reserves broadcasts to the c-suite for its members.
const C_SUITE_SCOPE: &str = "c-suite-scope";
/// The built-in rule that matches everything.
const DEFAULT: &str = "default";

impl Default for AccessRules {
    /// Only the built-in rules.
    fn default() -> Self {
        Self(built_in().into())
    }
}

fn built_in() -> [Rule; 2] {
    let any = Rule {
        name: DEFAULT.into(),
        allow: true,
        from: Vec::new(),
        to: Vec::new(),
        kinds: Vec::new(),
        scopes: Vec::new(),
    };
    let c_suite_scope = Rule {
        name: C_SUITE_SCOPE.into(),
        allow: false,
        from: vec![Selector::OutsideCSuite],
        kinds: vec![Kind::Broadcast],
        scopes: vec![Scope::CSuite],
        ..any.clone()
    };
    [c_suite_scope, any]
}

impl AccessRules {
    /// The maximum number of rules, besides the built-in ones.
    pub const MAX_RULES: usize = 1_000;

    /// These rules in this order, followed by the built-in ones.
    ///
    /// # Errors
    /// [`BadRule`] with the first invalid rule.
    pub fn new(mut rules: Vec<Rule>) -> Result<Self, BadRule> {
        if rules.len() > Self::MAX_RULES {
            return Err(BadRule::TooMany { count: rules.len() });
        }
        for (position, rule) in (1..).zip(&mut rules) {
            if rule.name.is_empty() {
                rule.name = Self::unnamed(position);
            }
            rule.check(position)?;
        }
        let mut names = HashSet::new();
        if let Some(twice) = rules.iter().find(|rule| !names.insert(rule.name.as_str())) {
            return Err(BadRule::SameName { name: twice.name.clone() });
        }
        rules.extend(built_in());
        Ok(Self(rules))
    }

    /// The name of an unnamed rule at this position, from 1.
    #[must_use]
    pub fn unnamed(position: usize) -> String {
        format!("rule-{position}")
    }

    /// All rules in evaluation order, including the built-in ones.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// Whether the message may go to this recipient.
    #[must_use]
    pub fn decide(&self, query: &AccessQuery<'_>) -> Decision<'_> {
        decision(self.deciding(query))
    }

    /// One decision for all recipients, when no candidate rule depends on the recipient: a fan-out
    /// to ten thousand evaluates the rules once.
    #[must_use]
    pub fn decide_for_all(
        &self,
        from: Party<'_>,
        kind: Kind,
        scope: Option<Scope>,
    ) -> Option<Decision<'_>> {
        let first = self.0.iter().find(|rule| rule.concerns(from, kind, scope));
        first.is_none_or(Rule::is_for_everyone).then(|| decision(first))
    }

    /// The candidate rules for messages of `from`, for a fan-out that is decided per recipient.
    /// Rules about other senders are skipped once instead of for each recipient.
    #[must_use]
    pub fn narrow<'a>(
        &'a self,
        from: Party<'a>,
        kind: Kind,
        scope: Option<Scope>,
    ) -> NarrowedRules<'a> {
        let mut rules = Vec::new();
        for rule in self.0.iter().filter(|rule| rule.concerns(from, kind, scope)) {
            rules.push(rule);
            // A rule for every recipient ends the search.
            if rule.is_for_everyone() {
                break;
            }
        }
        NarrowedRules { from, rules }
    }

    /// The agents `from` may send to with any kind of message, and may therefore see.
    #[must_use]
    pub fn reach<'a>(&'a self, from: Party<'a>) -> Reach<'a> {
        let mut narrowed = Vec::new();
        let broadcasts = [Scope::Org, Scope::CSuite, Scope::Squad].map(Some);
        let scoped = broadcasts.into_iter().map(|scope| (Kind::Broadcast, scope));
        let direct = Kind::ALL.iter().copied().filter(|kind| *kind != Kind::Broadcast);
        for (kind, scope) in direct.map(|kind| (kind, None)).chain(scoped) {
            match self.decide_for_all(from, kind, scope) {
                Some(Decision { allowed: true, .. }) => return Reach(None),
                Some(_) => {}
                None => narrowed.push(self.narrow(from, kind, scope)),
            }
        }
        Reach(Some(narrowed))
    }

    fn deciding(&self, query: &AccessQuery<'_>) -> Option<&Rule> {
        self.0.iter().find(|rule| {
            rule.concerns(query.from, query.kind, query.scope) && rule.reaches(query.to, query.from)
        })
    }
}

/// The candidate rules once sender, kind and scope are known.
#[derive(Debug, Clone)]
pub struct NarrowedRules<'a> {
    from: Party<'a>,
    rules: Vec<&'a Rule>,
}

impl<'a> NarrowedRules<'a> {
    /// Decides for this recipient, like [`AccessRules::decide`].
    #[must_use]
    pub fn decide(&self, to: Party<'_>) -> Decision<'a> {
        decision(self.rules.iter().copied().find(|rule| rule.reaches(to, self.from)))
    }
}

/// The agents one sender may send to; `None` for all of them.
#[derive(Debug, Clone)]
pub struct Reach<'a>(Option<Vec<NarrowedRules<'a>>>);

impl Reach<'_> {
    /// Whether the sender may send any kind of message to this agent.
    #[must_use]
    pub fn includes(&self, to: Party<'_>) -> bool {
        let Self(Some(rules)) = self else { return true };
        rules.iter().any(|rules| rules.decide(to).allowed)
    }
}

/// The decision of the matching rule; the last rule matches everything, so there is always one.
fn decision(rule: Option<&Rule>) -> Decision<'_> {
    rule.map_or(Decision { allowed: true, rule: DEFAULT }, |rule| Decision {
        allowed: rule.allow,
        rule: &rule.name,
    })
}

impl Rule {
    /// Whether it could match a message of `from`, whatever the recipient.
    fn concerns(&self, from: Party<'_>, kind: Kind, scope: Option<Scope>) -> bool {
        let fits_kind = self.kinds.is_empty() || self.kinds.contains(&kind);
        let broadcast_to = scope.filter(|_| kind == Kind::Broadcast);
        let fits_scope = self.scopes.is_empty()
            || broadcast_to.is_some_and(|scope| self.scopes.contains(&scope));
        fits_kind && fits_scope && selects(&self.from, from, from.1)
    }

    fn reaches(&self, to: Party<'_>, from: Party<'_>) -> bool {
        selects(&self.to, to, from.1)
    }

    fn is_for_everyone(&self) -> bool {
        self.to.is_empty() || self.to.contains(&Selector::Anyone)
    }

    fn check(&self, position: usize) -> Result<(), BadRule> {
        let name = self.name.as_str();
        let blank = name.trim().is_empty();
        if blank || name.chars().count() > Profile::MAX_CHARS || name.chars().any(char::is_control)
        {
            return Err(BadRule::Name { position });
        }
        let rule = self.name.clone();
        if [C_SUITE_SCOPE, DEFAULT].contains(&name) {
            return Err(BadRule::BuiltInName { name: rule });
        }
        if self.from.contains(&Selector::SameSquad) {
            return Err(BadRule::SameSquadSends { rule });
        }
        let has_broadcast = self.kinds.is_empty() || self.kinds.contains(&Kind::Broadcast);
        if !self.scopes.is_empty() && !has_broadcast {
            return Err(BadRule::NeverMatches { rule });
        }
        Ok(())
    }
}

fn selects(selectors: &[Selector], agent: Party<'_>, sender: &Profile) -> bool {
    selectors.is_empty() || selectors.iter().any(|selector| selector.matches(agent, sender))
}

#[cfg(test)]
mod tests;
