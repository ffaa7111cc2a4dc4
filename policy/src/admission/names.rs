//! The name table: agents, A2A clients and operators share one namespace, compared without regard
//! to case.
//!
//! Messages are routed by name: a client with the name of an agent would receive the agent's
//! messages, and people would confuse `Tim` with `tim`. The directory, the token registry and
//! `token create` all call [`Names::check`].

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a name identifies.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// An agent: it has an inbox under this name.
    Agent,
    /// An A2A client: responses to its tasks are addressed to this name.
    Client,
    /// A person with a token.
    Operator,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Client => "client",
            Self::Operator => "operator",
        })
    }
}

/// The name already identifies something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` would be {}: there is the {holder} `{held}`. Agents, clients and operators share one list of names, whatever their case; choose another name",
    both(*wanted, *holder)
)]
pub struct NameTaken {
    /// The requested name.
    pub name: String,
    /// What it was requested for.
    pub wanted: Holder,
    /// The name as its holder spells it.
    pub held: String,
    /// What it identifies.
    pub holder: Holder,
}

/// The phrase for a name that would have two holders.
fn both(one: Holder, other: Holder) -> String {
    let article = |holder| if holder == Holder::Client { "a" } else { "an" };
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    match first == second {
        true => format!("a second {first} of that name"),
        false => format!("{} {first} and {} {second}", article(first), article(second)),
    }
}

/// Names by their lower-case form; each identifies one thing.
#[derive(Debug, Clone, Default)]
pub struct Names(HashMap<Box<str>, (Box<str>, Holder)>);

impl Names {
    fn key(name: &str) -> Box<str> {
        name.to_lowercase().into()
    }

    /// Checks that `name` is free, or already identifies exactly that.
    ///
    /// # Errors
    /// [`NameTaken`] with the holder.
    pub fn check(&self, name: &str, wanted: Holder) -> Result<(), NameTaken> {
        match self.0.get(&Self::key(name)) {
            Some((held, holder)) if **held != *name || *holder != wanted => Err(NameTaken {
                name: name.to_owned(),
                wanted,
                held: held.to_string(),
                holder: *holder,
            }),
            _ => Ok(()),
        }
    }

    /// Takes a name, after the same [check](Self::check).
    ///
    /// # Errors
    /// [`NameTaken`]; nothing has changed then.
    pub fn take(&mut self, name: &str, wanted: Holder) -> Result<(), NameTaken> {
        self.check(name, wanted)?;
        self.keep(name, wanted);
        Ok(())
    }

    /// Records a name that is in use already, without a check: the first holder stays.
    pub fn keep(&mut self, name: &str, holder: Holder) {
        self.0.entry(Self::key(name)).or_insert_with(|| (name.into(), holder));
    }

    /// Frees a name, if it is spelled exactly so.
    pub fn release(&mut self, name: &str) {
        let key = Self::key(name);
        if self.0.get(&key).is_some_and(|(held, _)| **held == *name) {
            self.0.remove(&key);
        }
    }

    /// The holder of a name in any case, with its spelling.
    #[must_use]
    pub fn holder(&self, name: &str) -> Option<(&str, Holder)> {
        self.0.get(&Self::key(name)).map(|(held, holder)| (&**held, *holder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_in_any_case_has_one_holder() {
        let mut names = Names::default();
        names.take("tim", Holder::Agent).unwrap();
        assert_eq!(names.take("tim", Holder::Agent), Ok(()), "the same again");
        for (name, wanted) in
            [("tim", Holder::Client), ("Tim", Holder::Client), ("TIM", Holder::Agent)]
        {
            let taken = names.take(name, wanted).unwrap_err();
            assert_eq!((taken.held.as_str(), taken.holder), ("tim", Holder::Agent), "{name}");
        }
        let message = names.check("Tim", Holder::Client).unwrap_err().to_string();
        assert!(
            message.starts_with("`Tim` would be an agent and a client: there is the agent `tim`."),
            "{message}"
        );
        names.release("TIM");
        assert_eq!(names.holder("TIM"), Some(("tim", Holder::Agent)));
        names.release("tim");
        assert_eq!(names.take("TIM", Holder::Operator), Ok(()));
    }
}
