//! `[audit]`: retention and redaction of the log.

use std::num::NonZeroU32;

use a2a_journal::Retention;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use a2a_gateway::Redaction;

/// `[audit]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct AuditValues {
    /// Fields of payloads, or JSON Pointers such as "/payload/result", whose values are hidden from
    /// all readers
    #[schemars(extend("x-reload" = true))]
    redact: Vec<String>,
    /// Days of the log older than this are removed
    #[schemars(example = 90, extend("x-default" = "kept for ever"))]
    max_age_days: Option<NonZeroU32>,
    /// Megabytes that the log and its index may take; the oldest days go first
    #[schemars(example = 10_000, extend("x-default" = "no limit"))]
    max_mb: Option<NonZeroU32>,
    /// Whether closed days are packed
    pack: Option<bool>,
    /// Whether the files of closed days are kept once the index has their lines
    keep_jsonl: Option<bool>,
}

impl AuditValues {
    pub(in crate::config) fn redaction(&self) -> Result<Redaction, String> {
        Redaction::new(&self.redact)
    }

    pub(in crate::config) fn retention(&self) -> Retention {
        let defaults = Retention::default();
        Retention {
            max_age_days: self.max_age_days.map(NonZeroU32::get).or(defaults.max_age_days),
            max_bytes: self.max_mb.map(|mb| u64::from(mb.get()) << 20).or(defaults.max_bytes),
            compress: self.pack.unwrap_or(defaults.compress),
            keep_jsonl: self.keep_jsonl.unwrap_or(defaults.keep_jsonl),
        }
    }

    /// Fills in the defaults that have a value.
    pub(in crate::config) fn in_force(&self) -> Self {
        let settings = self.retention();
        let mb = settings.max_bytes.and_then(|bytes| u32::try_from(bytes >> 20).ok());
        Self {
            redact: self.redact.clone(),
            max_age_days: settings.max_age_days.and_then(NonZeroU32::new),
            max_mb: mb.and_then(NonZeroU32::new),
            pack: Some(settings.compress),
            keep_jsonl: Some(settings.keep_jsonl),
        }
    }
}

#[cfg(test)]
mod tests {
    use a2a_journal::Retention;

    use crate::config::Config;

    #[test]
    fn redaction_accepts_names_and_pointers() {
        let parse = |text: &str| Config::parse(text)?.redaction();
        assert!(parse("").unwrap().is_empty());
        let some = parse("[audit]\nredact = [\"description\", \"/payload/result/summary\"]");
        assert!(!some.unwrap().is_empty());
        assert!(parse("[audit]\nredact = [\"/from\"]").unwrap_err().contains("/payload/"));
        assert!(Config::parse("[audit]\nredakt = []").unwrap_err().contains("`redact`"));
    }

    #[test]
    fn retention_keeps_everything_by_default() {
        let parse = |text: &str| Config::parse(text).map(|config| config.retention());
        assert_eq!(parse("").unwrap(), Retention::default());
        let all = "[audit]\nmax_age_days = 90\nmax_mb = 2\npack = false\nkeep_jsonl = false";
        let expected = Retention {
            max_age_days: Some(90),
            max_bytes: Some(2 << 20),
            compress: false,
            keep_jsonl: false,
        };
        assert_eq!(parse(all).unwrap(), expected);
        for bad in ["max_age_days = 0", "max_mb = 0", "max_mb = -1", "keep_jsonl = \"no\""] {
            assert!(parse(&format!("[audit]\n{bad}")).is_err(), "{bad}");
        }
    }
}
