//! The log of a running server, asked over HTTP.

use std::io::Read;
use std::str::FromStr;

use a2a_gateway::log::write_query;
use a2a_journal::{Bookmark, Head, Query};
use a2a_policy::CircuitKey;
use a2a_protocol::MessageId;
use anyhow::anyhow;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::source::{Page, Source};
use crate::cli::refusal::Refusal;
use crate::cli::server::{Events, Server};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Records {
    #[serde(alias = "events")]
    records: Vec<Box<RawValue>>,
    #[serde(default)]
    next_cursor: String,
}

impl Records {
    fn page<Place: FromStr>(self) -> anyhow::Result<Page<Place>> {
        let records = self.records.into_iter().map(|record| Box::<str>::from(record).into());
        let next = Some(self.next_cursor).filter(|next| !next.is_empty());
        let next = next.map(|next| next.parse()).transpose();
        let next = next.map_err(|_| anyhow!("the server's answer is no log"))?;
        Ok(Page { records: records.collect(), next })
    }
}

#[derive(Deserialize)]
struct CurrentHead {
    head: String,
}

/// What a server says about its journal.
#[derive(Deserialize)]
pub(super) struct Verdict {
    pub(super) ok: bool,
    pub(super) line: Option<u64>,
    pub(super) seq: Option<u64>,
    pub(super) problem: Option<String>,
    pub(super) head: Option<String>,
}

impl Server {
    /// Has the server check its journal.
    pub(super) fn verify(&self, known: &[Head]) -> anyhow::Result<Verdict> {
        let known: Vec<_> = known.iter().map(|head| ("head", head.to_string())).collect();
        self.ask("/bus/log/verify", &known)
    }

    /// The lines after `last`, as they come.
    pub(super) fn stream(&self, query: &Query, last: u64) -> anyhow::Result<Events<impl Read>> {
        let headers = [("last-event-id", last.to_string())];
        let response = self.get("/bus/log/stream", &write_query(query, false), &headers)?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        if status != 200 {
            return Err(Refusal::of(status, &body.read_to_string()?).into());
        }
        let reader = body.into_with_config().limit(u64::MAX).reader();
        Ok(Events::new(reader, last))
    }
}

impl Source for Server {
    fn page(&mut self, query: &Query) -> anyhow::Result<Page> {
        self.ask::<Records>("/bus/log", &write_query(query, true))?.page()
    }

    fn message(&mut self, id: MessageId, from: Bookmark) -> anyhow::Result<Page<Bookmark>> {
        let place = [("cursor", from.to_string())];
        let place = if from == Bookmark::default() { &[][..] } else { &place };
        match self.find::<Records>(&format!("/bus/log/{id}"), place)? {
            Some(found) => found.page(),
            None => Ok(Page { records: Vec::new(), next: None }),
        }
    }

    fn circuit(&mut self, key: &CircuitKey, after: u64) -> anyhow::Result<Page> {
        let place = [("cursor", after.to_string())];
        self.ask::<Records>(&format!("/bus/circuits/{key}/log"), &place)?.page()
    }

    fn head(&mut self) -> anyhow::Result<Head> {
        let current: CurrentHead = self.ask("/bus/log/head", &[])?;
        Ok(current.head.parse()?)
    }
}
