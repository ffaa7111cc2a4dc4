//! Output of the command line: text for people, JSON for programs.
//!
//! - `format`: writes one answer as `--format` asks for it.
//! - `table`: columns that fit the terminal.
//! - `human`: times, spans, summaries and colours in text output.
//! - `stdout`: the stream itself, and the removal of control characters from text of others.

pub(super) mod format;
pub(super) mod human;
pub(super) mod stdout;
pub(super) mod table;
