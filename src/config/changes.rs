//! Differences between two configurations, and which of them a running server applies.

use std::fmt;

use toml::{Table, Value};

use super::Config;
use super::keys::{Section, sections};

/// A key, or a list of tables, whose value differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Path, such as `limits.burst` or `agents`.
    pub path: String,
    /// Values before and after; `None` for lists, which are long and may contain hashes.
    pub values: Option<(Option<Value>, Option<Value>)>,
    /// Whether a running server applies it.
    pub reloads: bool,
}

/// Such as `limits.burst 40 -> 80`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        let Some((before, after)) = &self.values else { return Ok(()) };
        let word =
            |value: &Option<Value>| value.as_ref().map_or("nothing".into(), Value::to_string);
        write!(f, " {} -> {}", word(before), word(after))
    }
}

impl Config {
    /// Values in force, by section and key.
    ///
    /// # Errors
    /// Describes the invalid value.
    pub fn values(&self) -> Result<Table, String> {
        table(&self.in_force()?)
    }

    /// Values that are in force in `new` and differ here.
    ///
    /// # Errors
    /// Describes the invalid value.
    pub fn changes(&self, new: &Self) -> Result<Vec<Change>, String> {
        let (before, after) = (self.values()?, new.values()?);
        let mut changes = Vec::new();
        for section in sections() {
            for (path, reloads) in parts(&section) {
                let [before, after] = [&before, &after].map(|all| value_at(all, &path).cloned());
                if before != after {
                    let values = (!section.is_list).then_some((before, after));
                    changes.push(Change { path, values, reloads });
                }
            }
        }
        Ok(changes)
    }

    /// This configuration with the reloadable values of `new`.
    ///
    /// # Errors
    /// Describes the conflict when the two do not fit together.
    pub fn reloaded(&self, new: &Self) -> Result<Self, String> {
        let (before, mut after) = (table(self)?, table(new)?);
        for section in sections() {
            for (path, _) in parts(&section).into_iter().filter(|(_, reloads)| !reloads) {
                set(&mut after, &path, value_at(&before, &path).cloned());
            }
        }
        let merged = Value::Table(after).try_into::<Self>();
        let mut merged = merged.map_err(|error| error.message().to_owned())?;
        merged.folder.clone_from(&self.folder);
        merged.origins = new.origins.clone();
        merged.check()?;
        Ok(merged)
    }
}

/// Units of change with whether they reload: single keys, or a list as a whole.
fn parts(section: &Section) -> Vec<(String, bool)> {
    let reloads = section.keys.iter().any(|key| key.reloads);
    if section.is_list {
        return vec![(section.name.clone(), reloads)];
    }
    section.keys.iter().map(|key| (key.path(), key.reloads)).collect()
}

fn table(config: &Config) -> Result<Table, String> {
    Table::try_from(config).map_err(|error| error.to_string())
}

/// Value at a path, such as `limits.burst`.
#[must_use]
pub fn value_at<'a>(all: &'a Table, path: &str) -> Option<&'a Value> {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    match (all.get(first)?, rest) {
        (value, None) => Some(value),
        (Value::Table(inside), Some(rest)) => value_at(inside, rest),
        _ => None,
    }
}

fn set(all: &mut Table, path: &str, value: Option<Value>) {
    match (path.split_once('.'), value) {
        (Some((first, rest)), value) => {
            let inside = all.entry(first).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inside) = inside {
                set(inside, rest, value);
            }
        }
        (None, Some(value)) => drop(all.insert(path.to_owned(), value)),
        (None, None) => drop(all.remove(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text).unwrap()
    }

    #[test]
    fn values_in_force_round_trip() {
        let some = "[limits]\nburst = 7\n[breaker]\ncooldown_seconds = 7200\n[http]\nidle_seconds = 0.5\n\
                    [[agents]]\nid = \"tim\"\n[[access]]\nallow = true\nfrom = \"tim\"";
        for text in ["", some] {
            let config = config(text);
            let values = config.values().unwrap();
            let again = Config::parse(&values.to_string()).unwrap();
            assert_eq!(again.values().unwrap(), values);
            assert_eq!(config.changes(&again), Ok(Vec::new()));
            assert_eq!(format!("{:?}", config.settings()), format!("{:?}", again.settings()));
        }
        let values = config(some).values().unwrap();
        assert_eq!(value_at(&values, "limits.pair_burst"), Some(&Value::Integer(7)));
        assert_eq!(
            value_at(&values, "breaker.longest_cooldown_minutes"),
            Some(&Value::Integer(120))
        );
        assert_eq!(value_at(&values, "directory.open"), Some(&Value::Boolean(false)));
        assert_eq!(value_at(&values, "http.url"), None);
    }

    #[test]
    fn changes_contain_values_and_whether_they_reload() {
        let before = config("[limits]\nburst = 40\n[http]\nurl = \"https://a.example\"");
        let after =
            config("[limits]\nburst = 80\n[[agents]]\nid = \"tim\"\n[http]\nmax_streams = 9");
        let changes = before.changes(&after).unwrap();
        let texts: Vec<_> =
            changes.iter().map(|change| (change.to_string(), change.reloads)).collect();
        let expected = [
            ("agents", true),
            ("directory.open true -> false", true),
            ("limits.burst 40 -> 80", true),
            ("limits.pair_burst 40 -> 80", true),
            ("http.url \"https://a.example\" -> nothing", false),
            ("http.max_streams 4096 -> 9", false),
        ];
        assert_eq!(texts, expected.map(|(path, reloads)| (path.to_owned(), reloads)));
        let merged = before.reloaded(&after).unwrap();
        let left = merged.changes(&after).unwrap();
        let left: Vec<_> = left.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(left, ["http.url", "http.max_streams"]);
    }
}
