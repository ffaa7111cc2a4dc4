//! Assembly of a configuration from single values, with every problem located.
//!
//! When the values do not form a valid configuration, binary search finds the first value that
//! makes it invalid. That value is reported and removed, and the search is repeated.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::environment::Environment;
use super::keys::{Section, sections};
use super::problem::{Place, Problem};
use super::{Config, document};

/// Maximum number of reported problems.
const MOST_PROBLEMS: usize = 100;
/// Longer values are not repeated in a message.
const LONGEST_SHOWN: usize = 60;

/// A value, or an entry of a list of tables.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// Section and name.
    pub(super) path: Vec<String>,
    pub(super) value: Value,
    /// Whether it is a list entry.
    pub(super) is_entry: bool,
    /// Where it was set.
    pub(super) place: Place,
}

/// Locations of the values that were set, by path: `limits.burst`, or `agents.0` for list entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, Place>);

/// Origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// Not set.
    Default,
    /// Set in this line of the file.
    File(usize),
    /// Set by this environment variable.
    Environment(&'a str),
}

impl Origins {
    /// Origin of a value.
    #[must_use]
    pub fn of(&self, path: &str) -> Origin<'_> {
        match self.0.get(path) {
            None => Origin::Default,
            Some(Place::Line(line)) => Origin::File(*line),
            Some(Place::Variable(name)) => Origin::Environment(name),
        }
    }

    /// All values that were set, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Origin<'_>)> {
        self.0.keys().map(|path| (path.as_str(), self.of(path)))
    }

    /// Location of the first value in a section, else the start of the file.
    pub(super) fn place_in(&self, section: &str) -> Place {
        let inside = format!("{section}.");
        let found = self.0.iter().find(|(path, _)| path.starts_with(&inside));
        found.map_or(Place::Line(1), |(_, place)| place.clone())
    }
}

/// Why values form no configuration.
enum Bad {
    /// A value has the wrong type.
    Type(String),
    /// A value has the right type and is invalid.
    Value(String),
}

/// Reads the file's text, overridden by the environment.
pub(super) fn read(text: &str, environment: &Environment) -> Result<Config, Vec<Problem>> {
    let sections = sections();
    let (mut units, mut problems) = document::read(text, &sections);
    say_it_once(&mut units, &mut problems);
    let (set, unknown) = environment.read(&sections);
    units.retain(|unit| !set.iter().any(|other| other.path == unit.path));
    units.extend(set);
    problems.extend(unknown);
    let config = loop {
        match build(&units) {
            Ok(config) => break config,
            Err(_) if problems.len() >= MOST_PROBLEMS => return Err(problems),
            Err(bad) => {
                let (at, bad) = blame(&units, bad);
                let unit = units.remove(at);
                problems.push(explain(&unit, bad, &sections));
            }
        }
    };
    if problems.is_empty() { Ok(config) } else { Err(in_order(problems)) }
}

/// Removes values given in both spellings of a key. It is a problem if they differ.
fn say_it_once(units: &mut Vec<Unit>, problems: &mut Vec<Problem>) {
    let mut at = 0;
    while at < units.len() {
        let (before, unit) = (&units[..at], &units[at]);
        let before = if unit.is_entry { &[] } else { before };
        let twin = before.iter().find(|other| other.path == unit.path);
        let Some(twin) = twin else {
            at += 1;
            continue;
        };
        if number(&twin.value) != number(&unit.value) {
            let message = format!("{} is given twice, with different values", unit.written());
            problems.push(Problem { place: unit.place.clone(), message });
        }
        units.remove(at);
    }
}

fn number(value: &Value) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "only compared with its like")]
    value.as_float().or(value.as_integer().map(|whole| whole as f64))
}

fn build(units: &[Unit]) -> Result<Config, Bad> {
    let (mut all, mut origins) = (Table::new(), Origins::default());
    for unit in units {
        put(&mut all, &mut origins, unit);
    }
    let config = Value::Table(all).try_into::<Config>();
    let mut config = config.map_err(|error| Bad::Type(error.message().to_owned()))?;
    config.check().map_err(Bad::Value)?;
    config.origins = origins;
    Ok(config)
}

fn put(all: &mut Table, origins: &mut Origins, unit: &Unit) {
    let Some((name, section)) = unit.path.split_last() else { return };
    let mut table = all;
    for part in section {
        let inside = table.entry(part.as_str()).or_insert_with(|| Value::Table(Table::new()));
        // A value in place of a section is reported as that value.
        let Value::Table(inside) = inside else { return };
        table = inside;
    }
    let mut path = unit.path.join(".");
    if unit.is_entry {
        let list = table.entry(name.as_str()).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(list) = list else { return };
        path = format!("{path}.{}", list.len());
        list.push(unit.value.clone());
    } else {
        table.insert(name.clone(), unit.value.clone());
    }
    origins.0.insert(path, unit.place.clone());
}

/// Finds the value that makes the configuration invalid, by binary search between no values (valid)
/// and all (invalid).
fn blame(units: &[Unit], bad: Bad) -> (usize, Bad) {
    let (mut good, mut wrong, mut why) = (0, units.len(), bad);
    while wrong - good > 1 {
        let middle = good.midpoint(wrong);
        match build(&units[..middle]) {
            Ok(_) => good = middle,
            Err(bad) => (wrong, why) = (middle, bad),
        }
    }
    (good, why)
}

fn explain(unit: &Unit, bad: Bad, sections: &[Section]) -> Problem {
    let message = match bad {
        Bad::Value(reason) => reason,
        Bad::Type(reason) if unit.is_entry => format!("{}: {reason}", unit.written()),
        Bad::Type(reason) => {
            let mut keys = sections.iter().flat_map(|section| &section.keys);
            let path = unit.path.join(".");
            let key = keys.find(|key| key.path() == path);
            let list = sections.iter().find(|section| section.name == path && section.is_list);
            let advice = match (key, list) {
                (Some(key), _) => format!("; write {}", key.kind.expected()),
                (None, Some(list)) => format!("; write {} before each entry", list.header()),
                (None, None) => format!("; write [{path}] and its keys below it"),
            };
            let value = unit.value.to_string();
            let shown = value.chars().count() <= LONGEST_SHOWN;
            let value = if shown { format!(" = {value}") } else { String::new() };
            format!("{}{value}: {reason}{advice}", unit.written())
        }
    };
    Problem { place: unit.place.clone(), message }
}

impl Unit {
    /// Name for messages: `[limits] burst`, `[[agents]]`.
    fn written(&self) -> String {
        let path = self.path.join(".");
        match self.path.split_last() {
            _ if self.is_entry => format!("[[{path}]]"),
            Some((name, section)) if !section.is_empty() => {
                format!("[{}] {name}", section.join("."))
            }
            _ => path,
        }
    }
}

/// Sorts problems by line; those of the environment come last.
fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| match &problem.place {
        Place::Line(line) => (*line, String::new()),
        Place::Variable(name) => (usize::MAX, name.clone()),
    });
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str, variables: &[(&str, &str)]) -> Vec<(String, String)> {
        let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
        let problems = read(text, &pairs.collect()).err().unwrap_or_default();
        let place = |place| match place {
            Place::Line(line) => line.to_string(),
            Place::Variable(name) => name,
        };
        problems.into_iter().map(|problem| (place(problem.place), problem.message)).collect()
    }

    #[test]
    fn unknown_names_are_reported_with_a_suggestion() {
        for (text, line, message) in [
            (
                "[limits]\nburst = 3\nper_agent_per_minut = 5",
                "3",
                "unknown key `per_agent_per_minut` in [limits]; did you mean `per_agent_per_minute`?",
            ),
            ("\n[limitz]\nburst = 3", "2", "unknown section [limitz]; did you mean [limits]?"),
            ("[http.tsl]\ncert = 'c'", "1", "unknown section [http.tsl]; did you mean [http.tls]?"),
            ("[[agent]]\nid = 'tim'", "1", "unknown section [agent]; did you mean [[agents]]?"),
            (
                "[[agents]]\nid = 'tim'\nsqad = 'x'",
                "3",
                "unknown key `sqad` in [[agents]]; did you mean `squad`?",
            ),
            (
                "[[auth.token]]\nagent = 'x'",
                "1",
                "unknown section [auth.token]; did you mean [[auth.tokens]]?",
            ),
            (
                "burst = 3",
                "1",
                "unknown key `burst` before any section; did you mean the one in [limits]?",
            ),
            (
                "[http]\nburst = 3",
                "2",
                "unknown key `burst` in [http]; did you mean the one in [limits]?",
            ),
            (
                "[a2a.tasks]\nttlDay = 3",
                "2",
                "unknown key `ttlDay` in [a2a.tasks]; did you mean `ttlDays`?",
            ),
            (
                "[ledger]\nx = 1",
                "2",
                "unknown key `x` in [ledger]; known are `enabled`, `max_open`, `max_finished`, `max_text_mb`, `overdue_minutes`",
            ),
        ] {
            assert_eq!(problems(text, &[]), [(line.to_owned(), message.to_owned())], "{text}");
        }
        let far = problems("[everything]\na = 1", &[]);
        assert!(far[0].1.contains("known are agents, directory"), "{far:?}");
    }

    #[test]
    fn values_of_a_wrong_type_are_reported_with_the_accepted_ones() {
        for (text, line, words) in [
            (
                "[breaker]\nrounds = \"many\"",
                "2",
                &["[breaker] rounds = \"many\"", "a whole number of at least 1"][..],
            ),
            ("[breaker]\nenabled = 1", "2", &["true or false"]),
            ("[http]\nhosts = 'x'", "2", &["a list of texts"]),
            ("[tasks]\nafter_restart = 'x'", "2", &["\"resume\" or \"fail\""]),
            ("limits = 5", "1", &["limits = 5", "write [limits] and its keys below it"]),
            ("[agents]\nid = 'tim'", "1", &["write [[agents]] before each entry"]),
            ("[[agents]]\nrole = 'x'", "1", &["[[agents]]: missing field `id`"]),
            ("[http]\nhead_seconds = 0", "2", &["head_seconds = 0"]),
            ("[http]\nlisten = 'here'", "2", &["listen", "127.0.0.1:7420"]),
            ("[limits\nburst = 1", "1", &["table"]),
            (
                "[breaker]\ncooldown_seconds = 61\nlongest_cooldown_minutes = 1",
                "3",
                &["at most 60"],
            ),
            ("[tasks]\nttl_days = 2\n[a2a.tasks]\nttlDays = 3", "4", &["twice, with different"]),
        ] {
            let found = problems(text, &[]);
            assert_eq!((found.len(), found[0].0.as_str()), (1, line), "{text}: {found:?}");
            for words in words {
                assert!(found[0].1.contains(words), "{text}: {found:?}");
            }
        }
    }

    #[test]
    fn all_problems_are_reported_in_file_order() {
        let text = "[limits]\nburst = 0\nbrust = 1\n[[agents]]\nid = \"a b\"\n[[agents]]\n\
                    id = \"tim\"\n[[agents]]\nid = \"tim\"\n[http]\nidle_seconds = -1\n\
                    [[access]]\nallow = true\nfrom = \"sqad:x\"\n";
        let found = problems(
            text,
            &[("OPENCLAW_A2A_LIMITS_BRUST", "1"), ("OPENCLAW_A2A_HTTP_WORKERS", "x")],
        );
        let places: Vec<_> = found.iter().map(|(place, _)| place.as_str()).collect();
        let variables = ["OPENCLAW_A2A_HTTP_WORKERS", "OPENCLAW_A2A_LIMITS_BRUST"];
        assert_eq!(places[..6], ["2", "3", "4", "8", "11", "12"], "{found:#?}");
        assert_eq!(places[6..], variables, "{found:#?}");
        assert!(found[7].1.contains("did you mean `OPENCLAW_A2A_LIMITS_BURST`?"), "{found:#?}");
    }

    #[test]
    fn environment_overrides_the_file_and_origins_are_recorded() {
        let text =
            "[limits]\nburst = 30\ninbox = 7\n[[agents]]\nid = 'tim'\n[a2a.tasks]\nttlDays = 2";
        let variables = [
            ("OPENCLAW_A2A_LIMITS_BURST", "80"),
            ("OPENCLAW_A2A_HTTP_LISTEN", "127.0.0.1:0"),
            ("OPENCLAW_A2A_HTTP_HOSTS", "[\"one\"]"),
            ("OPENCLAW_A2A_A2A_AGENT", "7"),
            ("OPENCLAW_A2A_TASKS_AFTER_RESTART", "fail"),
            ("OPENCLAW_A2A_TASKS_TIMEOUT_MINUTES", "0.5"),
            ("OPENCLAW_STATE_DIR", "elsewhere"),
            ("OPENCLAW_LOG", "info"),
        ];
        let pairs = variables.map(|(name, value)| (name.to_owned(), value.into()));
        let config = read(text, &pairs.into_iter().collect()).unwrap();
        let bus = config.settings().unwrap();
        assert_eq!((bus.rates.agent_burst.get(), bus.inbox_limit), (80, 7));
        assert_eq!(
            (config.listen(), &config.http().unwrap().hosts[..]),
            ("127.0.0.1:0", &["one".to_owned()][..])
        );
        assert_eq!(config.a2a().unwrap().host.as_str(), "7");
        assert_eq!(config.tasks().unwrap().timeout.as_secs(), 30);
        let origins = config.origins();
        assert_eq!(origins.of("limits.burst"), Origin::Environment("OPENCLAW_A2A_LIMITS_BURST"));
        assert_eq!(origins.of("limits.inbox"), Origin::File(3));
        assert_eq!(origins.of("agents.0"), Origin::File(4));
        assert_eq!(origins.of("tasks.ttl_days"), Origin::File(7));
        assert_eq!(origins.of("tasks.queue_per_context"), Origin::Default);
    }

    #[test]
    fn list_variables_and_unknown_variables_are_refused() {
        for (name, value, words) in [
            ("OPENCLAW_A2A_AGENTS", "[]", "[[agents]] is a list of tables"),
            ("OPENCLAW_A2A_AGENTS_0_ID", "tim", "in the file only"),
            ("OPENCLAW_A2A_AUTH_TOKENS", "[]", "[[auth.tokens]]"),
            ("OPENCLAW_A2A_LIMIT_BURST", "1", "did you mean `OPENCLAW_A2A_LIMITS_BURST`?"),
            ("OPENCLAW_A2A_BIN", "x", "no key has this variable; a key has its section's"),
            ("OPENCLAW_A2A_LIMITS_BURST", "", "a whole number"),
        ] {
            let found = problems("", &[(name, value)]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].0 == name && found[0].1.contains(words), "{found:?}");
        }
    }
}
