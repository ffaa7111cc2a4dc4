//! The calls of the OPT extension to a running server.

use std::io::{Read, Write};

use a2a_protocol::AgentId;
use a2a_protocol::opt::OPT_EXTENSION;
use anyhow::{Context, anyhow, bail};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::log::server::{Events, Server};
use crate::cli::log::source::{Place, note};
use crate::cli::stdout::{harmless, output};
use crate::cli::{Answer, Format, Global};

/// What A2A answers when there is no such thing.
const NOT_FOUND: i64 = -32001;
/// What JSON-RPC answers when there is no such method.
const NO_METHOD: i64 = -32601;
/// Far more than an objective has.
const MOST_BYTES: u64 = 1 << 28;

/// A server, and whom we call there.
pub(super) struct Calls {
    server: Server,
    path: String,
}

impl Calls {
    pub(super) fn to(agent: Option<&AgentId>, global: &Global) -> anyhow::Result<Self> {
        let Some(server) = Place::of(global)?.server()? else {
            bail!(
                "no server is running; start one with `openclaw-a2a serve`, or name its folder with --state-dir"
            );
        };
        let below = agent.map(|agent| format!("/agents/{agent}")).unwrap_or_default();
        Ok(Self { server, path: format!("{below}/a2a") })
    }

    /// What came of a call; `None` if what it names is not there.
    pub(super) fn find(&self, method: &str, params: &Value) -> anyhow::Result<Option<Value>> {
        let response = self.post(method, params)?;
        let status = response.status().as_u16();
        let body = response.into_body();
        let text = body.into_with_config().limit(MOST_BYTES).read_to_string()?;
        judged(status, &text)
    }

    /// The same where something always is.
    pub(super) fn ask(&self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.find(method, params)?.ok_or_else(|| anyhow!("the server knows nothing of it"))
    }

    /// What happens to an objective; `None` if there is none.
    pub(super) fn events(&self, id: &str) -> anyhow::Result<Option<Events<impl Read + use<>>>> {
        let response = self.post("objectives/subscribe", &json!({ "id": id }))?;
        let status = response.status().as_u16();
        let streams = response.headers().get("content-type");
        let streams = streams.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let body = response.into_body().into_with_config();
        if streams {
            return Ok(Some(Events::new(body.limit(u64::MAX).reader(), 0)));
        }
        match judged(status, &body.limit(MOST_BYTES).read_to_string()?)? {
            None => Ok(None),
            Some(_) => bail!("the server's answer is no stream"),
        }
    }

    fn post(
        &self,
        method: &str,
        params: &Value,
    ) -> anyhow::Result<ureq::http::Response<ureq::Body>> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.server.post(&self.path, &[("a2a-extensions", OPT_EXTENSION)], &body)
    }
}

fn judged(status: u16, text: &str) -> anyhow::Result<Option<Value>> {
    let mut answer: Value = serde_json::from_str(text).unwrap_or_default();
    let fault = &answer["error"];
    match (status, fault["code"].as_i64()) {
        (200, None) if answer.get("result").is_some() => Ok(Some(answer["result"].take())),
        (_, Some(NOT_FOUND)) => Ok(None),
        (_, Some(NO_METHOD)) => bail!("the server knows no objectives; is it older?"),
        (_, Some(_)) => Err(refused(fault)),
        (status, None) => {
            let said = answer["detail"].as_str().map(harmless);
            let said = said.unwrap_or_else(|| format!("it answered with status {status}"));
            let hint = match status {
                401 => " (give a token with --token, or in OPENCLAW_TOKEN)",
                404 => " (name another agent with --agent)",
                _ => "",
            };
            Err(anyhow!("the server refuses: {said}{hint}"))
        }
    }
}

/// What the server says, and what exactly is wrong where it says that.
fn refused(fault: &Value) -> anyhow::Error {
    let mut said = vec![fault["message"].as_str().unwrap_or("without a word").to_owned()];
    let details = match &fault["data"] {
        Value::Array(details) => details.as_slice(),
        Value::Null => &[],
        detail => std::slice::from_ref(detail),
    };
    for detail in details {
        let violations = ["fieldViolations", "violations", "errors"];
        let violations = violations.iter().filter_map(|key| detail[*key].as_array()).flatten();
        for violation in violations {
            let why = violation["description"].as_str().or(violation["message"].as_str());
            said.extend(why.filter(|why| !said[0].contains(why)).map(str::to_owned));
        }
    }
    anyhow!("the server refuses: {}", harmless(&said.join(" ")))
}

/// What is in a result.
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
    fn an_answer_is_a_result_nothing_or_a_reason() {
        let judge = |status, body: Value| judged(status, &body.to_string());
        assert_eq!(judge(200, json!({"result": {"id": 1}})).unwrap(), Some(json!({"id": 1})));
        assert_eq!(judge(200, json!({"error": {"code": NOT_FOUND}})).unwrap(), None);
        let cases = [
            (
                200,
                json!({"error": {"code": -32602, "message": "no\u{1b}",
                    "data": [{"fieldViolations": [{"description": "This cannot be."}]}]}}),
                "the server refuses: no\\u{1b} This cannot be.",
            ),
            (
                401,
                json!({"detail": "who are you?"}),
                "the server refuses: who are you? (give a token with --token, or in OPENCLAW_TOKEN)",
            ),
            (500, json!("x"), "the server refuses: it answered with status 500"),
        ];
        for (status, body, expected) in cases {
            assert_eq!(judge(status, body).unwrap_err().to_string(), expected);
        }
    }
}
