//! A running server, asked over HTTP.

use std::io::{BufRead, BufReader, Read};
use std::str::FromStr;
use std::time::Duration;

use a2a_policy::CircuitKey;
use a2a_protocol::MessageId;
use a2a_store::{Bookmark, Head, Query};
use anyhow::{Context, anyhow, bail};
use openclaw_a2a::gateway::log::write_query;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::source::{Page, Source};

/// A server on this machine connects at once or not at all.
const CONNECT: Duration = Duration::from_secs(5);
/// Far more than a page has.
const MOST_BYTES: u64 = 1 << 30;

/// A server and how to speak to it.
pub(in crate::cli) struct Server {
    url: String,
    authorization: Option<String>,
    agent: ureq::Agent,
}

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

#[derive(Deserialize)]
struct Problem {
    detail: Option<String>,
}

pub(in crate::cli) type Parameters<'a> = &'a [(&'static str, String)];

impl Server {
    /// Makes sure that a server of ours is there, before it is shown a token. Under TLS that is
    /// one with a certificate that our own configuration names, or one that such a one vouches for.
    pub(super) fn connect(
        url: &str,
        token: Option<&str>,
        trusted: &[Vec<u8>],
    ) -> anyhow::Result<Self> {
        if url.starts_with("https://") && trusted.is_empty() {
            bail!("it speaks TLS, and [http.tls] of the configuration names no certificate");
        }
        if !url.starts_with("http://") && !url.starts_with("https://") {
            bail!("this is no address of a server");
        }
        let trusted: Vec<_> =
            trusted.iter().map(|cert| Certificate::from_der(cert).to_owned()).collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&trusted))
            .unversioned_rustls_crypto_provider(rustls::crypto::ring::default_provider().into());
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .tls_config(tls.build())
            .timeout_connect(Some(CONNECT))
            .build();
        let authorization = token.map(|token| format!("Bearer {token}"));
        let server = Self { url: url.to_owned(), authorization, agent: config.into() };
        let health = server.agent.get(format!("{url}/healthz"));
        let health = health.config().timeout_global(Some(CONNECT)).build().call()?;
        if health.status() != 200 {
            bail!("it is no server of ours");
        }
        Ok(server)
    }

    /// The answer, whatever it is.
    pub(in crate::cli) fn get(
        &self,
        path: &str,
        parameters: Parameters<'_>,
        headers: &[(&str, String)],
    ) -> anyhow::Result<ureq::http::Response<ureq::Body>> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        for (name, value) in parameters {
            request = request.query(*name, value);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.call().with_context(|| format!("the server at {} did not answer", self.url))
    }

    /// The same for a call with a body.
    pub(in crate::cli) fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &serde_json::Value,
    ) -> anyhow::Result<ureq::http::Response<ureq::Body>> {
        let mut request = self.agent.post(format!("{}{path}", self.url));
        request = request.header("content-type", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sent = request.send(body.to_string().as_bytes());
        sent.with_context(|| format!("the server at {} did not answer", self.url))
    }

    /// What is there, or `None` if nothing is.
    fn find<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: Parameters<'_>,
    ) -> anyhow::Result<Option<T>> {
        let mut response = self.get(path, parameters, &[])?;
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(MOST_BYTES).read_to_string()?;
        match status {
            200 => serde_json::from_str(&text).map(Some).context("the server's answer is no log"),
            404 => Ok(None),
            _ => Err(refused(status, &text)),
        }
    }

    fn ask<T: DeserializeOwned>(&self, path: &str, with: Parameters<'_>) -> anyhow::Result<T> {
        self.find(path, with)?.ok_or_else(|| anyhow!("the server has no {path}; is it older?"))
    }

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
            return Err(refused(status, &body.read_to_string()?));
        }
        let reader = body.into_with_config().limit(u64::MAX).reader();
        Ok(Events::new(reader, last))
    }
}

/// What a server says that does not do what it is asked.
pub(in crate::cli) fn refused(status: u16, text: &str) -> anyhow::Error {
    let detail = serde_json::from_str::<Problem>(text).ok().and_then(|problem| problem.detail);
    let detail = detail.unwrap_or_else(|| format!("it answered with status {status}"));
    let hint = match status {
        401 => " (give it with --token, or in OPENCLAW_TOKEN)",
        403 => " (an operator's token is needed)",
        _ => "",
    };
    anyhow!("the server refuses: {detail}{hint}")
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

/// Server-sent events.
pub(in crate::cli) struct Events<R> {
    lines: BufReader<R>,
    /// The place of the last event.
    pub(in crate::cli) last: u64,
}

impl<R: Read> Events<R> {
    /// The events of an answer, after the last one that was seen.
    pub(in crate::cli) fn new(body: R, last: u64) -> Self {
        Self { lines: BufReader::new(body), last }
    }

    /// The next line of the log; `None` when the server has ended the stream.
    pub(in crate::cli) fn next(&mut self) -> Option<String> {
        let mut data = None;
        let mut line = String::new();
        loop {
            line.clear();
            // Both ends and errors mean the same to whoever follows: connect again.
            if self.lines.read_line(&mut line).ok().is_none_or(|read| read == 0) {
                return None;
            }
            let text = line.trim_end_matches(['\r', '\n']);
            if let Some(id) = text.strip_prefix("id: ") {
                self.last = id.parse().unwrap_or(self.last);
            } else if let Some(text) = text.strip_prefix("data: ") {
                data = Some(text.to_owned());
            } else if text.is_empty() && data.is_some() {
                return data;
            }
        }
    }
}
