//! Day files as a source, when another process has the journal open and does not answer. Every
//! query reads all files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use a2a_actors::circuit_fact;
use a2a_gateway::Redaction;
use a2a_gateway::log::{LineHeader, LogFilter, joined};
use a2a_journal::{Head, HistoryCursor, Query, QueryPlan};
use a2a_policy::CircuitKey;
use a2a_protocol::MessageId;
use anyhow::Context;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Page, Source};
use crate::cli::server_locator::ServerLocator;

/// Day files of a state folder.
pub(in crate::cli::log) struct DayFiles<'a> {
    folder: PathBuf,
    redaction: &'a Redaction,
}

/// Matching records by sequence number, with their events.
type Matches = BTreeMap<u64, (String, Vec<String>)>;

#[derive(Deserialize)]
struct HashedLine {
    hash: Option<String>,
}

#[derive(Deserialize)]
struct FactLine {
    facts: BTreeMap<String, IgnoredAny>,
}

impl<'a> DayFiles<'a> {
    pub(in crate::cli::log) fn new(locator: &'a ServerLocator) -> Self {
        Self { folder: locator.state.path().join("a2a-log"), redaction: &locator.redaction }
    }

    /// Day files, oldest first; of a day that exists in both forms, the uncompressed one.
    fn days(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut days = BTreeMap::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let packed = name.strip_suffix(".jsonl.zst");
            if let Some(day) = packed.or(name.strip_suffix(".jsonl"))
                && day.len() == 10
                && (packed.is_none() || !days.contains_key(day))
            {
                days.insert(day.to_owned(), path.clone());
            }
        }
        Ok(days.into_values().collect())
    }

    /// Calls `see` for every complete line.
    fn each(&self, mut see: impl FnMut(&str, &LineHeader)) -> anyhow::Result<()> {
        for path in self.days()? {
            let fail = || format!("cannot read {}", path.display());
            let file = File::open(&path).with_context(fail)?;
            let mut reader: Box<dyn BufRead> =
                if path.extension().is_some_and(|extension| extension == "zst") {
                    Box::new(BufReader::new(zstd::Decoder::new(file).with_context(fail)?))
                } else {
                    Box::new(BufReader::with_capacity(1 << 20, file))
                };
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).with_context(fail)? > 0 {
                let text = std::str::from_utf8(&line).unwrap_or_default().trim_end();
                if let Ok(glance) = serde_json::from_str(text) {
                    see(text, &glance);
                }
                line.clear();
            }
        }
        Ok(())
    }

    /// Collects the newest `limit` matching records with their events, and whether there are more.
    fn gather(
        &self,
        limit: usize,
        wants: impl Fn(&str, &LineHeader) -> bool,
    ) -> anyhow::Result<(Matches, bool)> {
        let (mut found, mut more) = (Matches::new(), false);
        self.each(|line, glance| {
            if let Some(of) = glance.of {
                if let Some((_, events)) = found.get_mut(&of) {
                    events.push(line.to_owned());
                }
            } else if glance.event.is_none() && wants(line, glance) {
                found.insert(glance.seq, (line.to_owned(), Vec::new()));
                if found.len() > limit {
                    found.pop_first();
                    more = true;
                }
            }
        })?;
        Ok((found, more))
    }

    fn shown(&self, (line, events): (String, Vec<String>)) -> String {
        self.redaction.apply(joined(&line, events.iter().map(String::as_str), 0))
    }
}

impl Source for DayFiles<'_> {
    fn page(&mut self, query: &Query) -> anyhow::Result<Page> {
        let (wanted, before) = (LogFilter::of(query), query.before.unwrap_or(u64::MAX));
        let wants =
            |line: &str, glance: &LineHeader| glance.seq < before && wanted.matches_record(line);
        let (found, more) = self.gather(query.limit, wants)?;
        let next = found.keys().next().copied().filter(|_| more);
        let records = found.into_values().rev().map(|record| self.shown(record)).collect();
        Ok(Page { records, next })
    }

    /// Returns everything in one page, because every query reads all files.
    fn message(
        &mut self,
        id: MessageId,
        from: HistoryCursor,
    ) -> anyhow::Result<Page<HistoryCursor>> {
        let plan = QueryPlan::of_message(id);
        let wants = |line: &str, glance: &LineHeader| glance.seq >= from.record && plan.wants(line);
        let (mut found, _) = self.gather(usize::MAX, wants)?;
        if let Some((_, events)) = found.get_mut(&from.record) {
            let is_after = |event: &String| {
                serde_json::from_str::<LineHeader>(event).is_ok_and(|event| event.seq > from.after)
            };
            events.retain(is_after);
        }
        let records = found.into_values().map(|record| self.shown(record)).collect();
        Ok(Page { records, next: None })
    }

    fn circuit(&mut self, key: &CircuitKey, after: u64) -> anyhow::Result<Page> {
        let (key, mut records) = (circuit_fact(key), Vec::new());
        self.each(|line, glance| {
            let is_note = glance.event.is_some() && glance.of.is_none() && glance.seq > after;
            if is_note
                && line.contains(&key)
                && serde_json::from_str::<FactLine>(line).is_ok_and(|l| l.facts.contains_key(&key))
            {
                records.push(self.redaction.apply(line.to_owned()));
            }
        })?;
        Ok(Page { records, next: None })
    }

    fn head(&mut self) -> anyhow::Result<Head> {
        let mut head = Head::START;
        self.each(|line, glance| {
            let hash = serde_json::from_str::<HashedLine>(line).ok().and_then(|sealed| sealed.hash);
            let read = hash.and_then(|hash| format!("{}:{hash}", glance.seq).parse().ok());
            head = read.unwrap_or(head);
        })?;
        Ok(head)
    }
}
