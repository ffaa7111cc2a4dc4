//! Environment variables: one for every key outside lists, overriding the file.

use std::ffi::OsString;

use toml::Value;

use super::assembly::Unit;
use super::document::advice;
use super::keys::{Key, Kind, Section};
use super::problem::{Place, Problem};

/// Prefix of the variables.
pub(super) const PREFIX: &str = "OPENCLAW_A2A_";

/// Variables with our prefix, sorted by name.
#[derive(Debug, Clone, Default)]
pub struct Environment(Vec<(String, OsString)>);

impl Environment {
    /// Environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let named = |(name, value): (OsString, _)| Some((name.into_string().ok()?, value));
        std::env::vars_os().filter_map(named).collect()
    }

    /// Reads the variables into values, and reports unknown ones.
    pub(super) fn read(&self, sections: &[Section]) -> (Vec<Unit>, Vec<Problem>) {
        let (mut units, mut problems) = (Vec::new(), Vec::new());
        for (name, value) in &self.0 {
            match read_one(name, value, sections) {
                Ok((path, value)) => {
                    let place = Place::Variable(name.clone());
                    units.push(Unit { path, value, is_entry: false, place });
                }
                Err(message) => {
                    problems.push(Problem { place: Place::Variable(name.clone()), message });
                }
            }
        }
        (units, problems)
    }
}

impl FromIterator<(String, OsString)> for Environment {
    fn from_iter<T: IntoIterator<Item = (String, OsString)>>(variables: T) -> Self {
        let ours = variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX));
        let mut ours: Vec<_> = ours.collect();
        ours.sort();
        Self(ours)
    }
}

fn read_one(
    name: &str,
    value: &OsString,
    sections: &[Section],
) -> Result<(Vec<String>, Value), String> {
    let mut keys = sections.iter().flat_map(|section| &section.keys);
    let Some(key) = keys.find(|key| key.variable.as_deref() == Some(name)) else {
        return Err(unknown(name, sections));
    };
    let text = value.to_str().ok_or("the value is no text in UTF-8")?;
    let path = key.section.split('.').chain([key.name.as_str()]).map(str::to_owned);
    Ok((path.collect(), meant(text, key)))
}

/// Parses a value as TOML, else takes it as text, so that texts need no quotes.
fn meant(text: &str, key: &Key) -> Value {
    let is_text = matches!(key.kind, Kind::Text | Kind::Word(_));
    match text.parse::<Value>() {
        Ok(value) if !is_text || value.is_str() => value,
        _ => Value::String(text.to_owned()),
    }
}

fn unknown(name: &str, sections: &[Section]) -> String {
    let variable = |text: &str| text.replace('.', "_").to_ascii_uppercase();
    let given = name.strip_prefix(PREFIX).unwrap_or(name);
    let mut lists = sections.iter().filter(|section| section.is_list);
    if let Some(list) = lists.find(|list| {
        let rest = given.strip_prefix(&variable(&list.name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    }) {
        let header = list.header();
        return format!("{header} is a list of tables and can be written in the file only");
    }
    // Compared without the prefix, which would make any two names similar.
    let keys = sections.iter().flat_map(|section| &section.keys);
    let known: Vec<_> =
        keys.filter_map(|key| key.variable.as_deref()?.strip_prefix(PREFIX)).collect();
    let known: Vec<_> = known.into_iter().map(str::to_owned).collect();
    match a2a_protocol::nearest(given, &known) {
        Some(near) => format!("no key has this variable; {}", advice(name, &[PREFIX.to_owned() + &near])),
        None => {
            "no key has this variable; a key has its section's and its own name in capitals, as burst in [limits] has OPENCLAW_A2A_LIMITS_BURST".to_owned()
        }
    }
}
