//! `[audit]`: what of the log is shown.

use serde::Deserialize;

use crate::gateway::Redaction;

/// `[audit]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AuditValues {
    /// Fields of payloads, or JSON Pointers into messages, that nobody is shown.
    redact: Vec<String>,
}

impl AuditValues {
    pub(super) fn redaction(&self) -> Result<Redaction, String> {
        Redaction::new(&self.redact)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn what_is_hidden_is_named_or_pointed_to() {
        let parse = |text: &str| toml::from_str::<Config>(text).unwrap().redaction();
        assert!(parse("").unwrap().is_empty());
        let some = parse("[audit]\nredact = [\"description\", \"/payload/result/summary\"]");
        assert!(!some.unwrap().is_empty());
        assert!(parse("[audit]\nredact = [\"/from\"]").unwrap_err().contains("/payload/"));
        assert!(toml::from_str::<Config>("[audit]\nredakt = []").is_err());
    }
}
