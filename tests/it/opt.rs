//! Objectives, plans and tasks through the door of A2A, with an agent of the bus that does the work.

/// Which callers activate OPT and how, and that no other caller sees it.
mod activation;
/// What a plan or an objective waits for, and which statuses a caller may set.
mod blocked;
/// What the calls take and give, as the texts of the extension print it.
mod calls;
/// `openclaw-a2a objective`.
mod command;
/// Which context an objective gets, and when the caller of its message is answered.
mod contexts;
/// Objectives under SIGKILL.
mod crash;
/// Random plans, several agents.
mod graphs;
/// The history that a step gets of the steps before it.
mod history;
/// What calls about objectives cost, and how large an objective may be.
mod limits;
/// Messages of which the server makes plans: options A, B and C.
mod messages;
/// Whose objectives they are.
mod owners;
/// Another planner, and questions that need none.
mod planner;
/// How plans run: order, failures, approval, questions, cancelling.
mod running;
/// What must be true of every objective.
mod truth;
/// Waiting for a change, and streams of them.
mod watching;

use std::time::{Duration, Instant};

use a2a_protocol::opt::OPT_EXTENSION;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::a2a_caller::FAR;
use crate::a2a_events::Events;
use crate::a2a_worker::Worker;
use crate::server::{Answer, Client, Server};

/// What A2A calls the two versions.
const VERSIONS: [&str; 2] = ["0.3", "1.0"];

/// A server, its agent tim, and a caller of tim that has activated OPT.
struct Opt {
    folder: TempDir,
    server: Server,
    tim: Worker,
    caller: OptCaller,
}

/// One who calls tim by JSON-RPC.
#[derive(Clone)]
struct OptCaller(Client);

impl Opt {
    fn start() -> Self {
        Self::on(tempfile::tempdir().unwrap(), Worker::tim)
    }

    fn on(folder: TempDir, tim: fn(&Server) -> Worker) -> Self {
        let server = Server::with_config(folder.path(), FAR);
        let tim = tim(&server);
        let caller = OptCaller::new(&server.client(), "1.0");
        Self { folder, server, tim, caller }
    }

    /// The same after a crash.
    fn restarted(self) -> Self {
        let Self { folder, server, .. } = self;
        server.kill();
        Self::on(folder, Worker::tim_again)
    }

    fn speaking(&self, version: &str) -> OptCaller {
        OptCaller::new(&self.server.client(), version)
    }

    /// A new objective's id.
    fn objective(&self) -> String {
        text(&self.caller.ok("objectives/create", json!({"name": "Write a post"}))["id"])
    }

    /// A new plan of it with tasks of these names, and more fields.
    fn plan(&self, objective: &str, tasks: &[&str], more: Value) -> Value {
        let tasks: Vec<_> = tasks.iter().map(|name| json!({ "name": name })).collect();
        let mut params = json!({"objectiveId": objective, "name": "Research", "tasks": tasks});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.caller.ok("plans/create", params)
    }

    /// The whole objective.
    fn whole(&self, id: &str) -> Value {
        let params = json!({"id": id, "includePlans": true, "includeTasks": true});
        self.caller.ok("objectives/get", params)["objective"].clone()
    }

    /// The whole objective as soon as it is like this.
    fn until(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            let now = self.whole(id);
            if is_so(&now) {
                return now;
            }
            assert!(Instant::now() < limit, "never: {now:#}");
            let since = json!({"id": id, "sinceRevision": revision(&now), "waitMs": 1_000});
            self.caller.ok("objectives/get", since);
        }
    }

    fn until_status(&self, id: &str, status: &str) -> Value {
        self.until(id, |now| now["status"] == status)
    }

    /// Does the next task; what it was asked for.
    fn work(&self) -> String {
        let request = self.tim.next();
        self.tim.complete(&request, "done");
        text(&request["payload"]["title"])
    }

    /// Cannot do the next one.
    fn fail(&self) {
        let failed = json!({"action": "failed", "reason": "no"});
        let request = self.tim.next();
        assert_eq!(self.tim.say(&request, "task_response", failed).status, 202);
    }
}

impl OptCaller {
    fn new(client: &Client, version: &str) -> Self {
        Self(client.with("a2a-version", version).with("a2a-extensions", OPT_EXTENSION))
    }

    fn answer(&self, method: &str, params: Value) -> Answer {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.0.call("POST", "/agents/tim/a2a", &body)
    }

    fn ok(&self, method: &str, params: Value) -> Value {
        let mut answer = self.answer(method, params);
        assert!(answer.body.get("result").is_some(), "{method}: {answer:?}");
        answer.body["result"].take()
    }

    /// The error of a call that is refused.
    fn refused(&self, method: &str, params: Value) -> Value {
        let mut answer = self.answer(method, params);
        assert!(answer.body.get("error").is_some(), "{method}: {answer:?}");
        answer.body["error"].take()
    }

    fn stream(&self, method: &str, params: Value) -> Events {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let response = self.0.open("POST", "/agents/tim/a2a", &body).unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let body = response.into_body().into_with_config().limit(u64::MAX).reader();
        Events::new(true, Box::new(body))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn revision(objective: &Value) -> u64 {
    objective["metadata"]["opt/v1/revision"].as_u64().unwrap_or_else(|| panic!("{objective}"))
}

/// The states of a plan's tasks.
fn statuses(plan: &Value) -> Vec<String> {
    plan["tasks"].as_array().unwrap().iter().map(|task| text(&task["status"])).collect()
}

/// The name of a method of A2A, and a message, in a version.
fn send(version: &str, text: &str, more: Value) -> (&'static str, Value) {
    let mut message = json!({"messageId": crate::server::new_id()});
    let method = if version == "0.3" {
        message["role"] = "user".into();
        // The shape of the extension's own text.
        message["parts"] = json!([{"type": "text", "text": text}]);
        "message/send"
    } else {
        message["role"] = "ROLE_USER".into();
        message["parts"] = json!([{ "text": text }]);
        "SendMessage"
    };
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    // Both wait for the end by default.
    let configuration = match version {
        "0.3" => json!({"blocking": false}),
        _ => json!({"returnImmediately": true}),
    };
    (method, json!({"message": message, "configuration": configuration}))
}
