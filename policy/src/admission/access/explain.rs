//! Explanation of an access decision, for people and language models.

use schemars::JsonSchema;
use serde::Serialize;

use super::{AccessQuery, AccessRules, C_SUITE_SCOPE, DEFAULT, Rule, Selector, decision};
use crate::Profile;

/// Why a message may or may not be sent to a recipient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Whether it may be sent.
    pub allowed: bool,
    /// The name of the rule that decided.
    pub rule: String,
    /// The rule that decided, why it matched, and what to do after a refusal.
    pub sentence: String,
}

impl AccessRules {
    /// Decides like [`AccessRules::decide`] and returns the reason.
    #[must_use]
    pub fn explain(&self, query: &AccessQuery<'_>) -> Explanation {
        let rule = self.deciding(query);
        let decision = decision(rule);
        let (may, verb) = if decision.allowed { ("may", "allows") } else { ("may not", "refuses") };
        let what = match query.scope.filter(|_| query.kind == a2a_protocol::Kind::Broadcast) {
            Some(scope) => format!("a `broadcast` with scope `{scope}`"),
            None => format!("a `{}`", query.kind),
        };
        let because = rule.map(|rule| rule.because(query)).unwrap_or_default();
        let mut sentence = format!(
            "`{}` {may} send {what} to `{}`: the access rule `{}` {verb} it, because {because}.",
            query.from.0, query.to.0, decision.rule
        );
        if !decision.allowed {
            sentence.push(' ');
            sentence.push_str(&what_to_do(decision.rule));
        }
        Explanation { allowed: decision.allowed, rule: decision.rule.to_owned(), sentence }
    }
}

fn what_to_do(rule: &str) -> String {
    if rule == C_SUITE_SCOPE {
        return "Use the scope `squad` or `org`, or write to a member of the c-suite directly."
            .to_owned();
    }
    format!(
        "Sending it again does not help. Ask an agent who may, or ask the operator for an `[[access]]` rule that allows it, before `{rule}`."
    )
}

impl Rule {
    /// Why it matches, limited to its own conditions.
    fn because(&self, query: &AccessQuery<'_>) -> String {
        let sender = query.from.1;
        let clause = |selectors: &[Selector], (agent, profile): (_, &Profile)| {
            let matching =
                selectors.iter().find(|selector| selector.matches((agent, profile), sender));
            matching.filter(|selector| **selector != Selector::Anyone).map(|s| s.clause(agent))
        };
        let kind = (!self.kinds.is_empty()).then(|| format!("the kind is `{}`", query.kind));
        let scope = query.scope.filter(|_| !self.scopes.is_empty());
        let clauses = [
            clause(&self.from, query.from),
            clause(&self.to, query.to),
            kind,
            scope.map(|scope| format!("the scope is `{scope}`")),
        ];
        let clauses: Vec<_> = clauses.into_iter().flatten().collect();
        match clauses.split_last() {
            None if self.name == DEFAULT => "no other rule is about it".to_owned(),
            None => "it is about every message that gets past the rules before it".to_owned(),
            Some((only, [])) => only.clone(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
        }
    }
}
