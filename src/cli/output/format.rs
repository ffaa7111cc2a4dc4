//! Rule of `--format`.
//!
//! `json` is one document as the server returned it. `jsonl` is one object per line: the items of a
//! list, or the document. Streams are one object per line in both.

use std::io::Write;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::stdout::{Out, output};
use crate::cli::Format;

/// Writes one answer, unchanged or rendered by `text`.
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

/// Writes a list: as one document under `name`, one item per line, or rendered by `text`.
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

/// Deserializes the part of an answer that text output needs.
pub(in crate::cli) fn read<'de, T: Deserialize<'de>>(item: &'de RawValue) -> anyhow::Result<T> {
    let older = "the server's answer is not what it should be; is it older?";
    serde_json::from_str(item.get()).map_err(|error| anyhow::Error::new(error).context(older))
}
