//! The one rule of `--format`: text for people, JSON for programs.
//!
//! `json` is one document, as the server gave it. `jsonl` is one object a line: the items of a
//! list, or the document. What streams is one object a line in both.

use std::io::Write;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::stdout::{Out, output};
use crate::cli::Format;

/// Writes one answer: as it came, or as `text` shows it.
pub(in crate::cli) fn document(
    format: Format,
    answer: &str,
    text: impl FnOnce(&mut Out) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = output(format);
    match format {
        Format::Json | Format::Jsonl => writeln!(out, "{answer}")?,
        Format::Text => text(&mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// Writes a list: its items in one document under `name`, each on its line, or as `text` shows them.
pub(in crate::cli) fn list(
    format: Format,
    name: &str,
    items: &[Box<RawValue>],
    text: impl FnOnce(&mut Out) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = output(format);
    match format {
        Format::Json => {
            let items: Vec<_> = items.iter().map(|item| item.get()).collect();
            writeln!(out, "{{\"{name}\":[{}]}}", items.join(","))?;
        }
        Format::Jsonl => items.iter().try_for_each(|item| writeln!(out, "{}", item.get()))?,
        Format::Text => text(&mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// What can be shown to people of what a server gave.
pub(in crate::cli) fn read<'de, T: Deserialize<'de>>(item: &'de RawValue) -> anyhow::Result<T> {
    let older = "the server's answer is not what it should be; is it older?";
    serde_json::from_str(item.get()).map_err(|error| anyhow::Error::new(error).context(older))
}
