use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Longer than the server takes for anything; a test that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(90);

/// A running server; dropping it kills it.
pub(crate) struct Server {
    child: Child,
    url: String,
    folder: PathBuf,
    client: Client,
    // Kept open: a server whose reader has left is a different test.
    _stdout: BufReader<ChildStdout>,
}

/// The command that serves `folder` on any free port.
pub(crate) fn serve(folder: &Path) -> Command {
    serve_on(folder, "127.0.0.1:0")
}

/// The command that serves `folder` on `address`.
pub(crate) fn serve_on(folder: &Path, address: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
    command.args(["serve", "--listen", address, "--state-dir"]).arg(folder);
    command.env("OPENCLAW_LOG", "warn").env_remove("OPENCLAW_STATE_DIR").stdin(Stdio::null());
    command
}

/// Starts the program on `folder` without waiting until it is ready.
pub(crate) fn spawn(folder: &Path) -> Child {
    spawned(serve(folder), folder)
}

fn spawned(mut command: Command, folder: &Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(stderr_file(folder));
    command.stdout(Stdio::piped()).stderr(log.unwrap()).spawn().unwrap()
}

fn stderr_file(folder: &Path) -> PathBuf {
    folder.join("stderr.txt")
}

/// Everything that servers on `folder` wrote to stderr.
pub(crate) fn stderr(folder: &Path) -> String {
    std::fs::read_to_string(stderr_file(folder)).unwrap_or_default()
}

/// Sends a signal by name, as a shell would.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success(), "kill -s {name}");
}

impl Server {
    /// Starts a server on `folder`; it is ready when its first line of output is there.
    pub(crate) fn start(folder: &Path) -> Self {
        Self::wait_for(spawn(folder), folder)
    }

    fn wait_for(mut child: Child, folder: &Path) -> Self {
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let Some(url) = line.trim().strip_prefix("OpenClaw A2A listens on ") else {
            let status = child.wait();
            panic!("the server did not start: {line:?}, {status:?}\n{}", stderr(folder));
        };
        let url = url.to_owned();
        let client = Client::new(&url);
        Self { child, url, folder: folder.to_owned(), client, _stdout: stdout }
    }

    /// Starts one by a command of the test's own.
    pub(crate) fn start_by(command: Command, folder: &Path) -> Self {
        Self::wait_for(spawned(command, folder), folder)
    }

    /// The same, with this `a2a.toml`.
    pub(crate) fn with_config(folder: &Path, config: &str) -> Self {
        std::fs::write(folder.join("a2a.toml"), config).unwrap();
        Self::start(folder)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its address and port.
    pub(crate) fn host(&self) -> &str {
        self.url.split_once("://").unwrap().1
    }

    /// A client with connections of its own, for another thread.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url)
    }

    /// The same, and everything it wrote to stdout after its first line.
    pub(crate) fn terminate_and_read(mut self) -> (ExitStatus, String) {
        signal(&self.child, "TERM");
        let mut output = String::new();
        std::io::Read::read_to_string(&mut self._stdout, &mut output).unwrap();
        (self.child.wait().unwrap(), output)
    }

    /// Sends SIGHUP; returns what the server logged about it, once it has. Needs its log at `info`.
    pub(crate) fn hang_up(&self) -> String {
        let before = stderr(&self.folder).len();
        signal(&self.child, "HUP");
        let deadline = std::time::Instant::now() + TOO_LONG;
        loop {
            let output = stderr(&self.folder).split_off(before);
            // The last line about it, whatever the result.
            let is_last = |line: &str| line.contains("reloaded");
            if output.ends_with('\n') && output.lines().any(is_last) {
                return output;
            }
            assert!(std::time::Instant::now() < deadline, "not reloaded: {output}");
            std::thread::yield_now();
        }
    }

    /// The most memory it has had, in kilobytes.
    pub(crate) fn peak_memory_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// SIGKILL, and gone when this returns.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and gone when this returns.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        signal(&self.child, "TERM");
        self.child.wait().unwrap()
    }
}

impl std::ops::Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // All of these fail when it has ended already, and then there is nothing to do. A process
        // that is killed writes no counters: where the tests' reach is measured it is asked to end.
        if std::env::var_os("LLVM_PROFILE_FILE").is_some() && !std::thread::panicking() {
            let id = self.child.id().to_string();
            let _ = Command::new("kill").args(["-s", "TERM", &id]).stderr(Stdio::null()).status();
        } else {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        if std::thread::panicking() {
            let output = stderr(&self.folder);
            let last = output.lines().rev().take(20).collect::<Vec<_>>();
            eprintln!("the server said, newest first:\n{}", last.join("\n"));
        }
    }
}

/// Speaks HTTP to a server.
#[derive(Clone)]
pub(crate) struct Client {
    url: String,
    agent: ureq::Agent,
    /// Sent with every request.
    headers: Vec<(&'static str, String)>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) retry_after: Option<String>,
    pub(crate) headers: ureq::http::HeaderMap,
    /// `null` when the body is no JSON.
    pub(crate) body: Value,
}

/// No answer: the connection was refused or broke.
#[derive(Debug)]
#[expect(dead_code, reason = "shown when a test did not expect it")]
pub(crate) struct NoAnswer(ureq::Error);

impl Client {
    fn new(url: &str) -> Self {
        let agent = Self::config().build().into();
        Self { url: url.to_owned(), agent, headers: Vec::new() }
    }

    fn config() -> ureq::config::ConfigBuilder<ureq::typestate::AgentScope> {
        ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(TOO_LONG))
    }

    /// The same client, sending this with every request.
    pub(crate) fn with(&self, name: &'static str, value: impl Into<String>) -> Self {
        let mut client = self.clone();
        client.headers.push((name, value.into()));
        client
    }

    /// The same client, with this token.
    pub(crate) fn bearing(&self, token: &str) -> Self {
        self.with("authorization", format!("Bearer {token}"))
    }

    /// The same client, over connections that trust this certificate alone.
    pub(crate) fn trusting(&self, certificate: &[u8]) -> Self {
        let certificate = ureq::tls::Certificate::from_der(certificate).to_owned();
        let tls = ureq::tls::TlsConfig::builder()
            .root_certs(ureq::tls::RootCerts::new_with_certs(&[certificate]))
            .unversioned_rustls_crypto_provider(rustls::crypto::ring::default_provider().into());
        Self { agent: Self::config().tls_config(tls.build()).build().into(), ..self.clone() }
    }

    fn headed<Any>(&self, mut request: ureq::RequestBuilder<Any>) -> ureq::RequestBuilder<Any> {
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request
    }

    pub(crate) fn try_get(&self, path: &str) -> Result<Answer, NoAnswer> {
        read(self.headed(self.agent.get(format!("{}{path}", self.url))).call())
    }

    pub(crate) fn try_post(&self, path: &str, body: &[u8]) -> Result<Answer, NoAnswer> {
        let request = self.headed(self.agent.post(format!("{}{path}", self.url)));
        read(request.header("content-type", "application/json").send(body))
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        let request = self.headed(self.agent.put(format!("{}{path}", self.url)));
        let request = request.header("content-type", "application/json");
        read(request.send(body.to_string().as_bytes())).unwrap()
    }

    /// Any verb; `GET` and `DELETE` have no body.
    pub(crate) fn call(&self, verb: &str, path: &str, body: &Value) -> Answer {
        read(self.open(verb, path, body)).unwrap()
    }

    /// The same, without reading the answer's body: what streams is read by the caller.
    pub(crate) fn open(
        &self,
        verb: &str,
        path: &str,
        body: &Value,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let url = format!("{}{path}", self.url);
        match verb {
            "GET" => self.headed(self.agent.get(url)).call(),
            "DELETE" => self.headed(self.agent.delete(url)).call(),
            "PUT" => self.headed(self.agent.put(url)).send(body.to_string()),
            _ => {
                let request = self.headed(self.agent.post(url));
                request.header("content-type", "application/json").send(body.to_string())
            }
        }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.try_get(path).unwrap()
    }

    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.try_post(path, body).unwrap()
    }

    pub(crate) fn try_send(&self, message: &Value) -> Result<Answer, NoAnswer> {
        self.try_post("/bus/messages", message.to_string().as_bytes())
    }

    pub(crate) fn send(&self, message: &Value) -> Answer {
        self.try_send(message).unwrap()
    }

    /// Sends what must be accepted.
    pub(crate) fn accepted(&self, message: &Value) -> Value {
        let answer = self.send(message);
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.body
    }

    /// Takes messages; `query` is such as `limit=5&wait=1s`.
    pub(crate) fn try_inbox(&self, agent: &str, query: &str) -> Result<Answer, NoAnswer> {
        self.try_get(&format!("/bus/agents/{agent}/inbox?{query}"))
    }

    pub(crate) fn inbox(&self, agent: &str, query: &str) -> Vec<Value> {
        let mut answer = self.try_inbox(agent, query).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        match answer.body["messages"].take() {
            Value::Array(messages) => messages,
            other => panic!("no messages: {other}"),
        }
    }

    /// `ack` or `nack`.
    pub(crate) fn try_settle(&self, agent: &str, id: &str, verb: &str) -> Result<Answer, NoAnswer> {
        self.try_post(&format!("/bus/agents/{agent}/inbox/{id}/{verb}"), b"")
    }

    pub(crate) fn settle(&self, agent: &str, id: &str, verb: &str) -> Answer {
        self.try_settle(agent, id, verb).unwrap()
    }

    /// Every record of the log, newest first, in pages of `limit`.
    pub(crate) fn whole_log(&self, limit: usize) -> Vec<Value> {
        let mut records = Vec::new();
        let mut cursor = String::new();
        for _ in 0..100_000 {
            let mut page = self.get(&format!("/bus/log?limit={limit}&cursor={cursor}"));
            assert_eq!(page.status, 200, "{page:?}");
            let Value::Array(found) = page.body["records"].take() else { panic!("no records") };
            assert!(found.len() <= limit);
            records.extend(found);
            cursor = page.body["nextCursor"].as_str().unwrap().to_owned();
            if cursor.is_empty() {
                return records;
            }
        }
        panic!("the log has no end");
    }
}

pub(crate) fn read(
    response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Answer, NoAnswer> {
    let response = response.map_err(NoAnswer)?;
    let (head, mut body) = response.into_parts();
    let text = body.with_config().limit(1 << 30).read_to_string().map_err(NoAnswer)?;
    let header = |name: &str| head.headers.get(name).map(|v| v.to_str().unwrap().to_owned());
    Ok(Answer {
        status: head.status.as_u16(),
        content_type: header("content-type").unwrap_or_default(),
        retry_after: header("retry-after"),
        headers: head.headers.clone(),
        body: serde_json::from_str(&text).unwrap_or(Value::Null),
    })
}

pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// A valid message with new ids.
pub(crate) fn message(from: &str, to: &str, text: &str) -> Value {
    json!({
        "protocol": "openclaw.a2a.v1",
        "messageId": new_id(),
        "correlationId": new_id(),
        "timestamp": chrono::Utc::now().to_rfc3339(),
        "from": {"agentId": from},
        "to": {"agentId": to},
        "type": "status_update",
        "priority": "normal",
        "payload": {"status": "in_progress", "progress": text},
    })
}

/// The id of a message, or of one that was handed out.
pub(crate) fn id_of(value: &Value) -> &str {
    let message = value.get("message").unwrap_or(value);
    message["messageId"].as_str().unwrap()
}
