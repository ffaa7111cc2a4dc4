//! `[[access]]`: access rules. Errors name the rule.

use std::fmt;

use a2a_policy::{AccessRules, Rule, Selector};
use a2a_protocol::Kind;
use a2a_protocol::body::Scope;
use schemars::JsonSchema;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct AccessEntry {
    /// What the rule is called in answers
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(example = &"no-tasks-for-chiefs", extend("x-default" = "rule-1 and so on"))]
    name: String,
    /// Whether what it matches is allowed, or refused
    #[schemars(example = false)]
    allow: bool,
    /// Who sends: a selector or a list of them
    #[schemars(with = "Option<Vec<String>>", example = ["*"], extend("x-default" = "every agent"))]
    from: Option<Words>,
    /// Who receives: a selector or a list of them
    #[schemars(with = "Option<Vec<String>>", example = ["c-suite"], extend("x-default" = "every agent"))]
    to: Option<Words>,
    /// What is sent
    #[schemars(with = "Option<Vec<String>>", example = ["task_request"], extend("x-default" = "every kind"))]
    kinds: Option<Words>,
    /// How far a broadcast goes; a rule with scopes is about broadcasts only
    #[schemars(with = "Option<Vec<String>>", example = ["org"], extend("x-default" = "any"))]
    scopes: Option<Words>,
}

/// Rules of the file, followed by the built-in ones.
pub(in crate::config) fn read(entries: &[AccessEntry]) -> Result<AccessRules, String> {
    let rules = (1..).zip(entries).map(|(place, entry)| entry.read(place));
    let rules = rules.collect::<Result<Vec<_>, _>>()?;
    AccessRules::new(rules).map_err(|error| format!("[[access]]: {error}"))
}

impl AccessEntry {
    fn read(&self, place: usize) -> Result<Rule, String> {
        let unnamed = AccessRules::unnamed(place);
        let called = if self.name.is_empty() { &unnamed } else { &self.name };
        let selector = |word: &str| word.parse::<Selector>().map_err(|error| error.to_string());
        Ok(Rule {
            name: self.name.clone(),
            allow: self.allow,
            from: each(called, "from", self.from.as_ref(), selector)?,
            to: each(called, "to", self.to.as_ref(), selector)?,
            kinds: each(called, "kinds", self.kinds.as_ref(), |word| {
                Kind::from_name(word).ok_or_else(|| one_of(word, "kind", Kind::ALL))
            })?,
            scopes: each(called, "scopes", self.scopes.as_ref(), |word| {
                Scope::from_name(word).ok_or_else(|| one_of(word, "scope", Scope::ALL))
            })?,
        })
    }
}

/// Parses each word of a list; a missing list means any.
fn each<T>(
    rule: &str,
    key: &str,
    words: Option<&Words>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let Some(Words(words)) = words else { return Ok(Vec::new()) };
    // An empty list could be read as "none" or as "any", so it is refused.
    if words.is_empty() {
        return Err(format!(
            "[[access]] rule `{rule}`: `{key}` is an empty list; leave it out to mean any, or take the rule out"
        ));
    }
    let in_rule = |error| format!("[[access]] rule `{rule}`: {key}: {error}");
    words.iter().map(|word| read(word).map_err(in_rule)).collect()
}

fn one_of(word: &str, what: &str, all: &[impl fmt::Display]) -> String {
    let all: Vec<_> = all.iter().map(|word| format!("\"{word}\"")).collect();
    format!("{word:?} is no {what}; write one of {}", all.join(", "))
}

/// A string or a list of strings.
#[derive(Debug, Clone, Serialize)]
struct Words(Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Words, E> {
                Ok(Words(vec![word.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Words, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                Ok(Words(words))
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parse(text: &str) -> Result<AccessRules, String> {
        Config::parse(text)?.settings().map(|settings| settings.access)
    }

    #[test]
    fn access_rules_are_read_in_order() {
        let rules = parse(
            r#"
            [[access]]
            name = "workers-ask-their-own-squad"
            allow = true
            from = ["tier:T4", "roman"]
            to = "same-squad"
            kinds = ["task_request"]

            [[access]]
            allow = false
            kinds = "broadcast"
            scopes = ["org"]
            "#,
        );
        let rules = rules.unwrap();
        let [first, second, ..] = rules.rules() else { panic!("{rules:?}") };
        assert_eq!(
            *first,
            Rule {
                name: "workers-ask-their-own-squad".into(),
                allow: true,
                from: vec!["tier:T4".parse().unwrap(), "roman".parse().unwrap()],
                to: vec![Selector::SameSquad],
                kinds: vec![Kind::TaskRequest],
                scopes: vec![],
            }
        );
        assert_eq!((second.name.as_str(), second.allow), ("rule-2", false));
        assert_eq!((&second.from, &second.to), (&vec![], &vec![]));
        assert_eq!(second.scopes, [Scope::Org]);
        assert_eq!(parse("").unwrap(), AccessRules::default());
    }

    #[test]
    fn invalid_rule_is_refused_with_its_name_and_the_accepted_words() {
        for (rule, expected) in [
            ("allow = true\nfrom = \"sqad:core\"", &["rule-1", "from", "sqad:core", "squad:"][..]),
            ("allow = true\nname = \"x\"\nto = [\"tim\", \"\"]", &["`x`", "to", "same-squad"]),
            ("allow = true\nkinds = \"task\"", &["rule-1", "\"task\"", "\"task_request\""]),
            ("allow = true\nscopes = [\"all\"]", &["rule-1", "\"all\"", "\"org\""]),
            ("allow = false\nto = []", &["rule-1", "`to` is an empty list"]),
            ("allow = true\nfrom = \"same-squad\"", &["rule-1", "in `to`"]),
            ("allow = true\nname = \"default\"", &["built-in"]),
            ("from = \"tim\"", &["allow"]),
            ("allow = true\nfrom = 5", &["a string or a list of strings"]),
            (
                "allow = true\nkind = \"broadcast\"",
                &["unknown key `kind` in [[access]]", "`kinds`"],
            ),
        ] {
            let refused = parse(&format!("[[access]]\n{rule}")).unwrap_err();
            for words in expected {
                assert!(refused.contains(words), "{words} in {refused}");
            }
        }
    }
}
