//! A running server as a source, over HTTP.

use std::io::Read;
use std::str::FromStr;

use a2a_gateway::log::write_query;
use a2a_journal::{Head, HistoryCursor, Query};
use a2a_policy::CircuitKey;
use a2a_protocol::MessageId;
use anyhow::anyhow;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Page, Source};
use crate::cli::server::{EventStream, Server};
use crate::cli::server_error::ServerError;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordPage {
    #[serde(alias = "events")]
    records: Vec<Box<RawValue>>,
    #[serde(default)]
    next_cursor: String,
}

impl RecordPage {
    fn page<Cursor: FromStr>(self) -> anyhow::Result<Page<Cursor>> {
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

/// Result of the server's own verification.
#[derive(Deserialize)]
pub(in crate::cli::log) struct VerifyAnswer {
    pub(in crate::cli::log) ok: bool,
    pub(in crate::cli::log) line: Option<u64>,
    pub(in crate::cli::log) seq: Option<u64>,
    pub(in crate::cli::log) problem: Option<String>,
    pub(in crate::cli::log) head: Option<String>,
}

impl Server {
    /// Verifies the journal on the server.
    pub(in crate::cli::log) fn verify(&self, known: &[Head]) -> anyhow::Result<VerifyAnswer> {
        let known: Vec<_> = known.iter().map(|head| ("head", head.to_string())).collect();
        self.ask("/bus/log/verify", &known)
    }

    /// Streams lines after `last`.
    pub(in crate::cli::log) fn stream(
        &self,
        query: &Query,
        last: u64,
    ) -> anyhow::Result<EventStream<impl Read>> {
        let headers = [("last-event-id", last.to_string())];
        let response = self.get("/bus/log/stream", &write_query(query, false), &headers)?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        if status != 200 {
            return Err(ServerError::from_response(status, &body.read_to_string()?).into());
        }
        let reader = body.into_with_config().limit(u64::MAX).reader();
        Ok(EventStream::new(reader, last))
    }
}

impl Source for Server {
    fn page(&mut self, query: &Query) -> anyhow::Result<Page> {
        self.ask::<RecordPage>("/bus/log", &write_query(query, true))?.page()
    }

    fn message(
        &mut self,
        id: MessageId,
        from: HistoryCursor,
    ) -> anyhow::Result<Page<HistoryCursor>> {
        let cursor = [("cursor", from.to_string())];
        let cursor = if from == HistoryCursor::default() { &[][..] } else { &cursor };
        match self.find::<RecordPage>(&format!("/bus/log/{id}"), cursor)? {
            Some(found) => found.page(),
            None => Ok(Page { records: Vec::new(), next: None }),
        }
    }

    fn circuit(&mut self, key: &CircuitKey, after: u64) -> anyhow::Result<Page> {
        let cursor = [("cursor", after.to_string())];
        self.ask::<RecordPage>(&format!("/bus/circuits/{key}/log"), &cursor)?.page()
    }

    fn head(&mut self) -> anyhow::Result<Head> {
        let current: CurrentHead = self.ask("/bus/log/head", &[])?;
        Ok(current.head.parse()?)
    }
}
