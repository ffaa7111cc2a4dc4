//! Collector for the violations of parameters. Costs nothing while there are none.

use std::fmt;

use crate::fault::Fault;
use crate::limits::A2A_DEPTH;
use crate::task::{BadOpaqueId, Metadata, OpaqueId};
use crate::validate::document::push_token;
use crate::validate::violation::{Code, Violation};
use crate::wire::params::{Count, EnumValue};
use serde_json::Value;

/// Path of a parameter; formatted as a JSON Pointer only when a violation is reported.
#[derive(Clone, Copy)]
pub(super) enum ParamPath<'a> {
    Root,
    Key(&'a ParamPath<'a>, &'static str),
    Index(&'a ParamPath<'a>, usize),
}

impl fmt::Display for ParamPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(parent, key) => {
                let mut token = String::new();
                push_token(&mut token, key);
                write!(f, "{parent}{token}")
            }
            Self::Index(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

/// The violations so far.
pub(super) struct ParamErrors {
    violations: Vec<Violation>,
}

impl ParamErrors {
    pub(super) const fn new() -> Self {
        Self { violations: Vec::new() }
    }

    /// The result, if there are no violations.
    pub(super) fn finish<T>(self, result: Option<T>) -> Result<T, Fault> {
        match result {
            Some(result) if self.violations.is_empty() => Ok(result),
            _ => Err(Fault::InvalidParams(self.violations)),
        }
    }

    /// All violations.
    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    pub(super) fn wrong(&mut self, path: &ParamPath<'_>, code: Code, message: impl Into<String>) {
        self.violations.push(Violation::new(path.to_string(), code, message));
    }

    pub(super) fn missing(&mut self, path: &ParamPath<'_>, what: &str) {
        self.wrong(path, Code::Missing, format!("This must be given: {what}."));
    }

    /// Reports a value outside its set, with the most similar value as suggestion.
    pub(super) fn not_one_of(
        &mut self,
        path: &ParamPath<'_>,
        value: &EnumValue<'_>,
        names: impl Iterator<Item = &'static str>,
    ) {
        let allowed: Vec<String> = names.map(str::to_owned).collect();
        let message = format!("This must be one of {}.", allowed.join(", "));
        let near = match value {
            EnumValue::Text(text) if text.len() <= 64 => {
                let likeness = |name: &str| strsim::jaro_winkler(name, text);
                allowed
                    .iter()
                    .map(|name| (likeness(name), name))
                    .filter(|(like, _)| *like > 0.8)
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .map(|(_, name)| name.clone())
            }
            _ => None,
        };
        let plain = Violation::new(path.to_string(), Code::NotAllowed, message);
        self.violations.push(Violation { allowed, suggestion: near, ..plain });
    }

    /// An id parsed by another type; reports a failure.
    pub(super) fn accept<T>(
        &mut self,
        path: &ParamPath<'_>,
        name: Result<T, BadOpaqueId>,
    ) -> Option<T> {
        name.map_err(|rule| {
            self.wrong(path, Code::NotAllowed, format!("This cannot be such a name: {rule}."))
        })
        .ok()
    }

    /// An optional id.
    pub(super) fn optional_id(
        &mut self,
        path: &ParamPath<'_>,
        text: Option<&str>,
    ) -> Option<OpaqueId> {
        self.accept(path, OpaqueId::try_from(text?))
    }

    /// A required id.
    pub(super) fn required_id(
        &mut self,
        path: &ParamPath<'_>,
        text: Option<&str>,
    ) -> Option<OpaqueId> {
        if text.is_none() {
            self.missing(path, "a text of 1 to 256 characters");
        }
        self.optional_id(path, text)
    }

    /// The length of a history.
    pub(super) fn history_length(
        &mut self,
        at: &ParamPath<'_>,
        asked: Option<Count>,
    ) -> Option<usize> {
        let Count(length) = asked?;
        let read = usize::try_from(length).ok();
        if read.is_none() {
            let message =
                format!("A history has 0 or more messages, not {length}. Leave it out for all.");
            self.wrong(&ParamPath::Key(at, "historyLength"), Code::NotAllowed, message);
        }
        read
    }

    /// Refuses metadata that is nested too deep for a message of the bus.
    pub(super) fn check_metadata_depth(
        &mut self,
        path: ParamPath<'_>,
        metadata: Option<&Metadata>,
    ) {
        if metadata.is_some_and(|fields| fields.values().any(|value| deeper(value, A2A_DEPTH - 1)))
        {
            self.too_deep(path);
        }
    }

    /// Refuses any value that is nested too deep for a message of the bus.
    pub(super) fn check_depth(&mut self, path: ParamPath<'_>, value: &Value) {
        if deeper(value, A2A_DEPTH) {
            self.too_deep(path);
        }
    }

    fn too_deep(&mut self, path: ParamPath<'_>) {
        let message = format!(
            "This is nested more than {A2A_DEPTH} levels deep. Flatten it, or send it as text."
        );
        self.wrong(&path, Code::TooDeep, message);
    }
}

/// Whether objects and arrays are nested more than `levels` deep.
fn deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| deeper(item, levels - 1)),
        Value::Object(fields) => {
            levels == 0 || fields.values().any(|value| deeper(value, levels - 1))
        }
        _ => false,
    }
}
