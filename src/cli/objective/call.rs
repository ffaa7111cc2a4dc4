//! JSON-RPC calls of the OPT extension.

use std::io::{Read, Write};

use a2a_protocol::AgentId;
use a2a_protocol::opt::OPT_EXTENSION;
use anyhow::{Context, anyhow, bail};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::server::{EventStream, Response, Server, text};
use crate::cli::server_error::ServerError;
use crate::cli::server_locator::ServerLocator;
use crate::cli::stdout::{note, output};
use crate::cli::{Answer, Format, Global};

/// Error code of A2A for a missing resource.
const NOT_FOUND: i64 = -32001;
/// Error code of JSON-RPC for an unknown method.
const NO_METHOD: i64 = -32601;

/// A server and the endpoint of an agent on it.
pub(super) struct OptClient {
    server: Server,
    path: String,
}

impl OptClient {
    pub(super) fn to(agent: Option<&AgentId>, global: &Global) -> anyhow::Result<Self> {
        let server = ServerLocator::from_options(global)?.require_server()?;
        let below = agent.map(|agent| format!("/agents/{agent}")).unwrap_or_default();
        Ok(Self { server, path: format!("{below}/a2a") })
    }

    /// Calls a method; `None` when the resource does not exist.
    pub(super) fn find(&self, method: &str, params: &Value) -> anyhow::Result<Option<Value>> {
        let (status, text) = text(self.post(method, params)?)?;
        judged(status, &text)
    }

    /// Calls a method whose resource always exists.
    pub(super) fn ask(&self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.find(method, params)?.ok_or_else(|| anyhow!("the server knows nothing of it"))
    }

    /// Subscribes to an objective; `None` when it does not exist.
    pub(super) fn events(
        &self,
        id: &str,
    ) -> anyhow::Result<Option<EventStream<impl Read + use<>>>> {
        let response = self.post("objectives/subscribe", &json!({ "id": id }))?;
        let streams = response.headers().get("content-type");
        let streams = streams.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if streams {
            let body = response.into_body().into_with_config();
            return Ok(Some(EventStream::new(body.limit(u64::MAX).reader(), 0)));
        }
        let (status, text) = text(response)?;
        match judged(status, &text)? {
            None => Ok(None),
            Some(_) => bail!("the server's answer is no stream"),
        }
    }

    fn post(&self, method: &str, params: &Value) -> anyhow::Result<Response> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = [("a2a-extensions", OPT_EXTENSION.to_owned())];
        self.server.post(&self.path, &headers, body.to_string().as_bytes())
    }
}

fn judged(status: u16, text: &str) -> anyhow::Result<Option<Value>> {
    let mut answer: Value = serde_json::from_str(text).unwrap_or_default();
    match (status, answer["error"]["code"].as_i64()) {
        (200, None) if answer.get("result").is_some() => Ok(Some(answer["result"].take())),
        (_, Some(NOT_FOUND)) => Ok(None),
        (_, Some(NO_METHOD)) => bail!("the server knows no objectives; is it older?"),
        _ => Err(ServerError::from_response(status, text).into()),
    }
}

/// Deserializes a result.
pub(super) fn read<T: DeserializeOwned>(result: &Value) -> anyhow::Result<T> {
    T::deserialize(result).context("the server's answer is not what it should be")
}

pub(super) fn print(format: Format, lines: &[String]) -> anyhow::Result<()> {
    let mut out = output(format);
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}

pub(super) fn no_objective(id: &str) -> Answer {
    let hint = if id.starts_with("plan-") { "; this is the id of a plan" } else { "" };
    note(&format!("there is no objective {id} here{hint}; see `openclaw-a2a objective list`"));
    Answer::No
}

pub(super) fn no_plan(id: &str) -> Answer {
    let next = match id.strip_prefix("obj-") {
        Some(_) => format!("; this is an objective: see its plans with `objective show {id}`"),
        None => "; see the plans of an objective with `openclaw-a2a objective show`".to_owned(),
    };
    note(&format!("there is no plan {id} here{next}"));
    Answer::No
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_a_result_or_none_or_an_error() {
        let judge = |status, body: Value| judged(status, &body.to_string());
        assert_eq!(judge(200, json!({"result": {"id": 1}})).unwrap(), Some(json!({"id": 1})));
        assert_eq!(judge(200, json!({"error": {"code": NOT_FOUND}})).unwrap(), None);
        let refused = judge(200, json!({"error": {"code": -32602, "message": "no"}})).unwrap_err();
        assert_eq!(refused.to_string(), "the server refuses: no");
    }
}
