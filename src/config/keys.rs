//! Registry of keys, derived from the section structs. `config init`, `config show`, the
//! environment and docs/configuration.md are generated from it.

use schemars::generate::SchemaSettings;
use serde_json::Value as Json;
use toml::{Table, Value};

use super::Config;
use super::changes::value_at;
use super::environment::PREFIX;

/// A table of the file, or the entry of a list of tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Name, such as `limits` or `http.tls`.
    pub name: String,
    /// Whether it is a list of tables, such as `[[agents]]`.
    pub is_list: bool,
    /// Description.
    pub meaning: String,
    /// Keys in declaration order.
    pub keys: Vec<Key>,
}

/// A key.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Name of its section.
    pub section: String,
    /// Name within the section.
    pub name: String,
    /// Description.
    pub meaning: String,
    /// Accepted values.
    pub kind: Kind,
    /// Whether a list entry must have it.
    pub required: bool,
    /// Default, if it can be written as a value.
    pub default: Option<Value>,
    /// Default in words, where no value expresses it.
    pub default_in_words: Option<String>,
    /// Example value.
    pub example: Option<Value>,
    /// Whether a running server applies a change.
    pub reloads: bool,
    /// Environment variable; `None` for keys of list entries.
    pub variable: Option<String>,
}

/// Accepted values of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A string.
    Text,
    /// One of these strings.
    Word(Vec<String>),
    /// A boolean.
    Flag,
    /// A whole number with this minimum.
    Whole(u64),
    /// A number, which may have a fraction.
    Number,
    /// A list of strings.
    List,
}

impl Section {
    /// Header in the file: `[limits]`, `[[agents]]`.
    #[must_use]
    pub fn header(&self) -> String {
        let name = &self.name;
        if self.is_list { format!("[[{name}]]") } else { format!("[{name}]") }
    }

    /// Key by name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Key {
    /// Full name, such as `limits.burst`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }
}

impl Kind {
    /// Describes the accepted values, for error messages.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::Text => "a text in quotes".to_owned(),
            Self::Word(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
                words.join(" or ")
            }
            Self::Flag => "true or false".to_owned(),
            Self::Whole(least) => format!("a whole number of at least {least}"),
            Self::Number => "a number, which may have a fraction".to_owned(),
            Self::List => "a list of texts, such as [\"one\", \"two\"]".to_owned(),
        }
    }

    fn of(schema: &Json) -> Self {
        let types = &schema["type"];
        let is = |name: &str| {
            types == name || types.as_array().is_some_and(|all| all.iter().any(|one| one == name))
        };
        if let Some(words) = schema["enum"].as_array() {
            return Self::Word(words.iter().filter_map(Json::as_str).map(str::to_owned).collect());
        }
        match () {
            () if is("boolean") => Self::Flag,
            () if is("integer") => Self::Whole(schema["minimum"].as_u64().unwrap_or(0)),
            () if is("number") => Self::Number,
            () if is("array") => Self::List,
            () => Self::Text,
        }
    }
}

/// All sections with their keys, in declaration order.
#[must_use]
pub fn sections() -> Vec<Section> {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<Config>();
    let mut sections = Vec::new();
    let reader = SchemaReader { defaults: Config::default().values().unwrap_or_default() };
    for (name, part) in properties(schema.as_value()) {
        reader.visit(name, part, false, &mut sections);
    }
    sections
}

struct SchemaReader {
    /// Effective values of the default configuration.
    defaults: Table,
}

impl SchemaReader {
    fn visit(&self, name: &str, schema: &Json, reloads: bool, sections: &mut Vec<Section>) {
        let reloads = reloads || schema["x-reload"] == true;
        let (table, is_list) = match schema.get("items") {
            Some(items) => (items, true),
            None => (schema, false),
        };
        let is_key = |part: &Json| part["properties"].is_null() && !is_list_of_tables(part);
        let (keys, inner): (Vec<_>, Vec<_>) = properties(table).partition(|(_, part)| is_key(part));
        let keys = keys.into_iter().map(|(key, part)| {
            let required = table["required"].as_array();
            let required = required.is_some_and(|all| all.iter().any(|each| each == key));
            Key { required, ..self.key(name, key, part, is_list, reloads) }
        });
        let keys: Vec<_> = keys.collect();
        if !keys.is_empty() {
            let (name, meaning) = (name.to_owned(), text(schema, "description"));
            sections.push(Section { name, is_list, meaning, keys });
        }
        for (inside, part) in inner {
            self.visit(&format!("{name}.{inside}"), part, reloads, sections);
        }
    }

    fn key(&self, section: &str, name: &str, schema: &Json, in_list: bool, reloads: bool) -> Key {
        let of_entry = || schema.get("default").and_then(toml_of);
        let of_table = || value_at(&self.defaults, &format!("{section}.{name}")).cloned();
        let variable = format!("{PREFIX}{section}_{name}").replace('.', "_").to_ascii_uppercase();
        Key {
            section: section.to_owned(),
            name: name.to_owned(),
            meaning: text(schema, "description"),
            kind: Kind::of(schema),
            required: false,
            default: if in_list { of_entry() } else { of_table() },
            default_in_words: schema["x-default"].as_str().map(str::to_owned),
            example: schema["examples"].get(0).and_then(toml_of),
            reloads: reloads || schema["x-reload"] == true,
            variable: (!in_list).then_some(variable),
        }
    }
}

fn properties(schema: &Json) -> impl Iterator<Item = (&str, &Json)> {
    let all = schema["properties"].as_object();
    all.into_iter().flatten().map(|(name, part)| (name.as_str(), part))
}

fn is_list_of_tables(schema: &Json) -> bool {
    !schema["items"]["properties"].is_null()
}

/// Joins a doc comment into one line.
fn text(schema: &Json, name: &str) -> String {
    let words = schema[name].as_str().unwrap_or_default().split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}

/// Converts a value to TOML; `None` for null and the empty string.
fn toml_of(value: &Json) -> Option<Value> {
    let is_nothing = value.is_null() || value == "";
    if is_nothing { None } else { Value::try_from(value).ok() }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_key_has_a_description_and_a_default() {
        let sections = sections();
        assert!(sections.len() > 10);
        for section in &sections {
            assert!(!section.meaning.is_empty(), "{}", section.header());
            for key in &section.keys {
                assert!(!key.meaning.is_empty(), "{}: give it a doc comment", key.path());
                assert!(!key.meaning.ends_with('.'), "{}", key.path());
                let known = key.default.is_some() || key.default_in_words.is_some();
                let known = known || (section.is_list && key.example.is_some());
                assert!(known, "{}: what is so when it is left out?", key.path());
                let value = key.default.as_ref().or(key.example.as_ref());
                assert!(value.is_some(), "{}: give it an example", key.path());
            }
        }
    }

    #[test]
    fn every_variable_belongs_to_one_key() {
        let mut names = HashSet::new();
        for key in sections().iter().flat_map(|section| &section.keys) {
            if let Some(name) = &key.variable {
                assert!(names.insert(name.clone()), "{name}");
                assert!(
                    name.bytes().all(|b| b.is_ascii_uppercase() || b"_0123456789".contains(&b))
                );
            }
        }
        assert!(names.contains("OPENCLAW_A2A_LIMITS_BURST"));
        assert!(names.contains("OPENCLAW_A2A_HTTP_TLS_CERT"));
    }

    #[test]
    fn kinds_and_defaults_match_the_structs() {
        let sections = sections();
        let find = |path: &str| {
            let all = sections.iter().flat_map(|section| &section.keys);
            all.clone().find(|key| key.path() == path).unwrap().clone()
        };
        for (path, kind, default, reloads) in [
            ("limits.burst", Kind::Whole(1), Some(Value::Integer(40)), true),
            ("limits.inbox", Kind::Whole(0), Some(Value::Integer(10_000)), true),
            ("http.idle_seconds", Kind::Number, Some(Value::Float(75.0)), false),
            ("http.listen", Kind::Text, Some(Value::String("127.0.0.1:7420".into())), false),
            ("http.workers", Kind::Whole(1), None, false),
            ("http.hosts", Kind::List, Some(Value::Array(Vec::new())), false),
            ("tasks.ttl_days", Kind::Number, Some(Value::Float(7.0)), true),
            ("audit.pack", Kind::Flag, Some(Value::Boolean(true)), false),
            ("audit.redact", Kind::List, Some(Value::Array(Vec::new())), true),
            ("agents.id", Kind::Text, None, true),
            ("access.from", Kind::List, None, true),
            ("auth.tokens.sha256", Kind::Text, None, true),
        ] {
            let key = find(path);
            assert_eq!((key.kind, key.default, key.reloads), (kind, default, reloads), "{path}");
        }
        let words = Kind::Word(vec!["resume".into(), "fail".into()]);
        assert_eq!(find("tasks.after_restart").kind, words);
    }
}
