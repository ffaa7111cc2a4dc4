//! Lines that were gathered before they are shown: for programs as they are, for people as
//! whoever gathered them draws them.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Out;
use super::record::{Event, Record};
use crate::cli::stdout::note;
use crate::cli::{Answer, Format};

/// Records with their events, and events that belong to no record; each oldest first.
pub(super) struct Gathered {
    pub(super) records: Vec<String>,
    pub(super) events: Vec<String>,
}

#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

impl Gathered {
    /// Writes all of it.
    pub(super) fn write(
        self,
        format: Format,
        out: &mut Out,
        draw: impl FnOnce(&[Record], &[Event], &mut Out) -> anyhow::Result<()>,
    ) -> anyhow::Result<Answer> {
        match format {
            Format::Json => {
                write!(out, "{{\"records\":[{}]", self.records.join(","))?;
                if !self.events.is_empty() {
                    write!(out, ",\"events\":[{}]", self.events.join(","))?;
                }
                writeln!(out, "}}")?;
            }
            Format::Jsonl => {
                let mut lines: Vec<_> = self.records.iter().chain(&self.events).collect();
                lines.sort_by_cached_key(|line| {
                    serde_json::from_str::<Numbered>(line).map_or(u64::MAX, |line| line.seq)
                });
                for line in lines {
                    writeln!(out, "{line}")?;
                }
            }
            Format::Text => draw(&read(&self.records), &read(&self.events), out)?,
        }
        out.flush()?;
        Ok(Answer::Yes)
    }
}

/// The lines that can be shown to people.
fn read<T: DeserializeOwned>(lines: &[String]) -> Vec<T> {
    let read: Vec<T> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if read.len() < lines.len() {
        let missing = lines.len() - read.len();
        note(&format!("{missing} lines cannot be shown; --format jsonl has them as they are"));
    }
    read
}
