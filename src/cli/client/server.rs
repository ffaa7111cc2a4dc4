//! HTTP client of a running server, used by every verb.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::server_error::ServerError;

/// Timeout of connecting to a server on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Upper bound of a response body.
const MAX_RESPONSE_BYTES: u64 = 1 << 30;

/// A server and the credentials for it.
pub(in crate::cli) struct Server {
    url: String,
    authorization: Option<String>,
    agent: ureq::Agent,
    /// Timeout of a call; `None` waits without a limit.
    timeout: Option<Duration>,
}

pub(in crate::cli) type Parameters<'a> = &'a [(&'static str, String)];
/// Headers of a call
pub(in crate::cli) type Headers<'a> = &'a [(&'a str, String)];
/// A response whose body has not been read.
pub(in crate::cli) type Response = ureq::http::Response<ureq::Body>;

impl Server {
    /// Connects to a server and checks that it is one of ours before it gets a token.
    ///
    /// Under TLS the server must present a certificate of `trusted`, or one issued by it.
    pub(in crate::cli) fn connect(
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
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .build();
        let authorization = token.map(|token| format!("Bearer {token}"));
        let (url, agent) = (url.to_owned(), config.into());
        let server = Self { url, authorization, agent, timeout: None };
        let health = server.agent.get(format!("{}/healthz", server.url));
        let health = health.config().timeout_global(Some(CONNECT_TIMEOUT)).build().call()?;
        if health.status() != 200 {
            bail!("it is no server of ours");
        }
        Ok(server)
    }

    /// The same server with its own connections and this timeout per call.
    pub(in crate::cli) fn with_timeout(&self, timeout: Duration) -> Self {
        Self {
            url: self.url.clone(),
            authorization: self.authorization.clone(),
            agent: self.agent.config().new_agent(),
            timeout: Some(timeout),
        }
    }

    /// Sends a GET request and returns the response, whatever its status.
    pub(in crate::cli) fn get(
        &self,
        path: &str,
        parameters: Parameters<'_>,
        headers: Headers<'_>,
    ) -> anyhow::Result<Response> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        for (name, value) in parameters {
            request = request.query(*name, value);
        }
        self.answered(self.headed(request, headers).call())
    }

    /// Sends a POST request with a JSON body and returns the response, whatever its status.
    pub(in crate::cli) fn post(
        &self,
        path: &str,
        headers: Headers<'_>,
        body: &[u8],
    ) -> anyhow::Result<Response> {
        let request = self.agent.post(format!("{}{path}", self.url));
        let request = request.header("content-type", "application/json");
        self.answered(self.headed(request, headers).send(body))
    }

    /// Sends a DELETE request and returns the answer.
    ///
    /// # Errors
    /// A [`ServerError`] when the server refuses.
    pub(in crate::cli) fn delete(&self, path: &str) -> anyhow::Result<Box<RawValue>> {
        let request = self.agent.delete(format!("{}{path}", self.url));
        read(self.answered(self.headed(request, &[]).call())?)
    }

    fn headed<Any>(
        &self,
        mut request: ureq::RequestBuilder<Any>,
        headers: Headers<'_>,
    ) -> ureq::RequestBuilder<Any> {
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.config().timeout_global(self.timeout).build()
    }

    fn answered(&self, response: Result<Response, ureq::Error>) -> anyhow::Result<Response> {
        response.with_context(|| {
            format!("the server at {} did not answer; does it still run?", self.url)
        })
    }

    /// Gets a resource; `None` when it does not exist (404).
    pub(in crate::cli) fn find<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: Parameters<'_>,
    ) -> anyhow::Result<Option<T>> {
        match self.ask(path, parameters) {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gets a resource.
    ///
    /// # Errors
    /// A [`ServerError`] when the server refuses.
    pub(in crate::cli) fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: Parameters<'_>,
    ) -> anyhow::Result<T> {
        read(self.get(path, parameters, &[])?)
    }

    /// Posts a JSON body and returns the answer.
    ///
    /// # Errors
    /// A [`ServerError`] when the server refuses.
    pub(in crate::cli) fn call(&self, path: &str, body: &Value) -> anyhow::Result<Box<RawValue>> {
        read(self.post(path, &[], body.to_string().as_bytes())?)
    }

    /// Deletes a resource; `None` when it does not exist (404).
    pub(in crate::cli) fn delete_found(&self, path: &str) -> anyhow::Result<Option<Box<RawValue>>> {
        match self.delete(path) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads a response: status and text.
pub(in crate::cli) fn text(mut response: Response) -> anyhow::Result<(u16, String)> {
    let status = response.status().as_u16();
    let text = response.body_mut().with_config().limit(MAX_RESPONSE_BYTES).read_to_string()?;
    Ok((status, text))
}

fn read<T: DeserializeOwned>(response: Response) -> anyhow::Result<T> {
    let (status, text) = text(response)?;
    if !(200..300).contains(&status) {
        return Err(ServerError::from_response(status, &text).into());
    }
    serde_json::from_str(&text)
        .context("the server's answer is not what it should be; is it older?")
}

/// Whether an error is a 404 of the server.
fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ServerError>().is_some_and(|refusal| refusal.status == 404)
}

/// Server-sent events of a response.
pub(in crate::cli) struct EventStream<R> {
    lines: BufReader<R>,
    /// Id of the last event.
    pub(in crate::cli) last: u64,
}

impl<R: Read> EventStream<R> {
    /// Reads events of a body; `last` is the id of the last event already seen.
    pub(in crate::cli) fn new(body: R, last: u64) -> Self {
        Self { lines: BufReader::new(body), last }
    }

    /// Waits for the data of the next event; `None` when the stream has ended.
    pub(in crate::cli) fn next(&mut self) -> Option<String> {
        let mut data = None;
        let mut line = String::new();
        loop {
            line.clear();
            // The end of the stream and an error are handled alike: the caller reconnects.
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
