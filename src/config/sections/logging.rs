//! `[logging]`: the program's own log, on stderr.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Format of the program's own log.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line of text for people
    #[default]
    Text,
    /// A JSON object a line, for programs
    Json,
}

/// `[logging]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct LoggingValues {
    /// How the program's own log on stderr is written: as text, or as a JSON object a line
    format: Option<LogFormat>,
}

impl LoggingValues {
    pub(in crate::config) fn format(&self) -> LogFormat {
        self.format.unwrap_or_default()
    }

    /// Fills in the defaults.
    pub(in crate::config) fn in_force(&self) -> Self {
        Self { format: Some(self.format()) }
    }
}
