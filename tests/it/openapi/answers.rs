use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{calls, document, resolved};
use crate::new_task;
use crate::server::{Answer, Server, id_of, message, new_id, serve};

/// A server whose answers are held against the document.
struct Described {
    server: Server,
    document: Value,
    /// Calls that were answered with a 2xx.
    done: BTreeSet<String>,
}

impl Described {
    /// Calls and checks; `at` fills the path's parameters, in order.
    #[track_caller]
    fn call(&mut self, status: u16, verb: &str, path: &str, at: &[&str], body: &Value) -> Value {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut url = path.to_owned();
        for value in at {
            let (from, to) = (url.find('{').unwrap(), url.find('}').unwrap());
            url.replace_range(from..=to, value);
        }
        let url = if query.is_empty() { url } else { format!("{url}?{query}") };
        // One of the calls needs its content type.
        let answer = if verb == "PUT" {
            self.server.put(&url, body)
        } else {
            self.server.call(verb, &url, body)
        };
        assert_eq!(answer.status, status, "{verb} {url}: {answer:?}");
        self.fits(verb, path, &answer);
        if status < 300 {
            self.done.insert(format!("{verb} {path}"));
        }
        answer.body
    }

    /// Panics unless the answer is one of those described.
    #[track_caller]
    fn fits(&self, verb: &str, path: &str, answer: &Answer) {
        let Answer { status, content_type, body, .. } = answer;
        let operation = &self.document["paths"][path][verb.to_ascii_lowercase()];
        let described = resolved(&self.document, &operation["responses"][status.to_string()]);
        assert!(described.is_object(), "{verb} {path}: {status} is not described: {answer:?}");
        if described.get("content").is_none() {
            return;
        }
        let media = content_type.split(';').next().unwrap();
        let schema = &described["content"][media]["schema"];
        assert!(!schema.is_null(), "{verb} {path}: {status} {media} is not described");
        let whole = json!({ "components": self.document["components"], "allOf": [schema] });
        let validator = jsonschema::validator_for(&whole).unwrap();
        let faults: Vec<_> =
            validator.iter_errors(body).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(faults.is_empty(), "{verb} {path}: {faults:?}\n{body:#}");
    }

    #[track_caller]
    fn get(&mut self, path: &str, at: &[&str]) -> Value {
        self.call(200, "GET", path, at, &Value::Null)
    }

    #[track_caller]
    fn post(&mut self, status: u16, path: &str, at: &[&str], body: &Value) -> Value {
        self.call(status, "POST", path, at, body)
    }
}

fn task_for(to: &str) -> Value {
    let mut sent = message("roman", to, "");
    sent["type"] = json!("task_request");
    sent["payload"] = json!(new_task());
    sent
}

#[test]
fn what_the_server_answers_is_what_is_described() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        "[delivery]\nattempts = 1\n[limits]\nburst = 1000\n[a2a]\nallow_private_webhooks = true\n";
    std::fs::write(folder.path().join("a2a.toml"), config).unwrap();
    let mut command = serve(folder.path());
    command.args(["--agent", "conformance"]);
    let server = Server::start_by(command, folder.path());
    let mut it = Described { server, document: document(), done: BTreeSet::new() };
    directory(&mut it);
    let task = messages(&mut it);
    oversight(&mut it, &task);
    log(&mut it);
    a2a(&mut it, "", "", &[]);
    a2a(&mut it, "/agents/{agent}", "/v1", &["conformance"]);
    a2a(&mut it, "/agents/{agent}", "", &["conformance"]);
    a2a(&mut it, "", "/v1", &[]);
    let streams = |operation: &Value| {
        let answer = resolved(&it.document, &operation["responses"]["200"]);
        answer["content"]["text/event-stream"].is_object()
    };
    for (verb, path, operation) in calls(&it.document) {
        let apart = path.ends_with("/session")
            || operation["operationId"].as_str().unwrap().contains("Extended")
            || (streams(operation) && !path.ends_with("/a2a"));
        assert!(apart || it.done.contains(&format!("{verb} {path}")), "not tried: {verb} {path}");
    }
}

fn directory(it: &mut Described) {
    let profile = json!({"role": "VP Architecture", "squad": "core", "tier": "T1", "capabilities": ["review"]});
    it.call(200, "PUT", "/bus/agents/{agent}", &["tim"], &profile);
    it.call(200, "PUT", "/bus/agents/{agent}", &["roman"], &json!({}));
    it.call(400, "PUT", "/bus/agents/{agent}", &["tim"], &json!({"roel": "x"}));
    it.call(422, "PUT", "/bus/agents/{agent}", &["tim"], &json!({"role": " "}));
    it.get("/bus/agents", &[]);
    it.get("/bus/agents/{agent}", &["tim"]);
    it.call(404, "GET", "/bus/agents/{agent}", &["nobody"], &Value::Null);
    it.get("/bus/names", &[]);
    it.get("/bus/names/{name}", &["TIM"]);
    it.call(404, "GET", "/bus/names/{name}", &["nobody"], &Value::Null);
    it.call(200, "PUT", "/bus/agents/{agent}", &["ann"], &json!({}));
    it.call(200, "DELETE", "/bus/agents/{agent}?drop=false", &["ann"], &Value::Null);
    it.call(404, "DELETE", "/bus/agents/{agent}", &["ann"], &Value::Null);
    it.call(409, "DELETE", "/bus/agents/{agent}", &["conformance"], &Value::Null);
    it.get("/bus/access?from=roman&to=tim&type=task_request", &[]);
    it.call(404, "GET", "/bus/access?from=roman&to=nobody&type=broadcast", &[], &Value::Null);
    it.call(400, "GET", "/bus/access?from=roman", &[], &Value::Null);
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
        it.get(path, &[]);
    }
    it.get("/schemas/{name}.json", &["task_request"]);
    it.call(404, "GET", "/schemas/{name}.json", &["gossip"], &Value::Null);
    it.get("/.well-known/agent-card.json", &[]);
    it.get("/agents/{agent}/.well-known/agent-card.json", &["tim"]);
    it.get("/agents/{agent}", &["tim"]);
    it.call(426, "GET", "/bus/agents/{agent}/session", &["tim"], &Value::Null);
}

/// Leaves a dead letter and a task that was taken, whose id it returns.
fn messages(it: &mut Described) -> String {
    let first = task_for("tim");
    it.post(202, "/bus/messages", &[], &first);
    it.post(200, "/bus/messages", &[], &first);
    let mut other = first.clone();
    other["payload"]["title"] = json!("another");
    it.post(409, "/bus/messages", &[], &other);
    it.post(422, "/bus/messages", &[], &json!({"type": "gossip"}));
    it.post(404, "/bus/messages", &[], &task_for("nobody"));
    it.post(403, "/bus/messages", &[], &message("system", "tim", "x"));
    it.post(202, "/bus/messages", &[], &message("roman", "tim", "second"));
    let inbox = "/bus/agents/{agent}/inbox";
    let seen = it.get(&format!("{inbox}?peek=true"), &["tim"]);
    assert_eq!(seen["messages"][0]["state"], "waiting", "{seen}");
    let taken = it.get(&format!("{inbox}?limit=5"), &["tim"]);
    let ids: Vec<_> = taken["messages"].as_array().unwrap().iter().map(id_of).collect();
    assert_eq!(ids.len(), 2);
    it.post(200, &format!("{inbox}/{{messageId}}/ack"), &["tim", ids[0]], &json!({}));
    it.post(404, &format!("{inbox}/{{messageId}}/ack"), &["tim", ids[0]], &json!({}));
    it.post(200, &format!("{inbox}/{{messageId}}/nack"), &["tim", ids[1]], &json!({"reason": "x"}));
    it.call(400, "GET", &format!("{inbox}?wait=soon"), &["tim"], &Value::Null);
    first["payload"]["taskId"].as_str().unwrap().to_owned()
}

fn oversight(it: &mut Described, task: &str) {
    it.get("/bus/tasks?agent=tim&limit=5", &[]);
    it.get("/bus/tasks/a2a?limit=5", &[]);
    it.call(400, "GET", "/bus/tasks/a2a?cursor=x", &[], &Value::Null);
    it.get("/bus/tasks/{taskId}", &[task]);
    it.call(404, "GET", "/bus/tasks/{taskId}", &[&new_id()], &Value::Null);
    it.post(200, "/bus/tasks/{taskId}/cancel", &[task], &json!({"reason": "no longer"}));
    it.post(409, "/bus/tasks/{taskId}/cancel", &[task], &json!({}));
    let key = format!("correlation:{}", new_id());
    it.post(200, "/bus/circuits/{key}/trip", &[&key], &json!({}));
    let open = it.get("/bus/circuits", &[]);
    assert_eq!(open["circuits"][0]["until"], Value::Null, "{open}");
    it.post(200, "/bus/circuits/{key}/reset", &[&key], &json!({}));
    it.post(404, "/bus/circuits/{key}/reset", &[&key], &json!({}));
    it.get("/bus/circuits/{key}/log", &[&key]);
    let dead = it.get("/bus/dead-letters", &[]);
    let seq = dead["deadLetters"][0]["seq"].to_string();
    let path = "/bus/dead-letters/{seq}/{agent}/{what}";
    it.post(200, path, &[&seq, "tim", "retry"], &json!({}));
    it.post(404, path, &[&seq, "tim", "drop"], &json!({}));
    it.post(400, path, &["first", "tim", "drop"], &json!({}));
}

fn log(it: &mut Described) {
    let page = it.get("/bus/log?agent=tim&limit=50", &[]);
    let records = page["records"].as_array().unwrap();
    assert!(records.iter().any(|record| record["deliveries"][0].is_object()), "{page}");
    let id = records.last().unwrap()["messageId"].as_str().unwrap();
    it.get("/bus/log/{messageId}", &[id]);
    it.call(404, "GET", "/bus/log/{messageId}", &[&new_id()], &Value::Null);
    it.call(400, "GET", "/bus/log?agnet=tim", &[], &Value::Null);
    it.call(400, "POST", "/bus/log/rebuild", &[], &json!({"before": "soon"}));
    it.post(200, "/bus/log/rebuild", &[], &json!({"before": "2026-01-01"}));
    let head = it.get("/bus/log/head", &[]);
    it.get(&format!("/bus/log/verify?head={}", head["head"].as_str().unwrap()), &[]);
}

/// All of A2A below one prefix.
fn a2a(it: &mut Described, prefix: &str, below: &str, agent: &[&str]) {
    let path = |rest: &str| format!("{prefix}{below}{rest}");
    let is_old = !below.is_empty();
    let output = |id: &str| {
        let (role, part) = if is_old {
            ("user", json!({"kind": "text", "text": "hello"}))
        } else {
            ("ROLE_USER", json!({"text": "hello"}))
        };
        let id = format!("{id}-{}", new_id());
        json!({"message": {"messageId": id, "role": role, "parts": [part]}})
    };
    let task_of = |sent: &Value| {
        let task = [sent, &sent["task"]].into_iter().find_map(|it| it["id"].as_str());
        task.unwrap_or_else(|| panic!("no task: {sent}")).to_owned()
    };
    let done = it.post(200, &path("/message:send"), agent, &output("tck-artifact-file"));
    it.post(200, &path("/message:send"), agent, &output("tck-message-response"));
    it.post(400, &path("/message:send"), agent, &json!({}));
    let done = task_of(&done);
    let at = [agent, &[done.as_str()]].concat();
    it.get(&path("/tasks/{id}?historyLength=1"), &at);
    it.get(&path("/tasks?pageSize=2&includeArtifacts=true"), agent);
    it.post(400, &path("/tasks/{id}:cancel"), &at, &json!({}));
    it.call(404, "GET", &path("/tasks/{id}"), &[agent, &["none"]].concat(), &Value::Null);

    let asks = it.post(200, &path("/message:send"), agent, &output("tck-input-required"));
    let asks = task_of(&asks);
    let at = [agent, &[asks.as_str()]].concat();
    it.get("/bus/tasks/{taskId}/a2a", &[&asks]);
    let pushes = path("/tasks/{id}/pushNotificationConfigs");
    let wish = json!({"id": "p", "url": "http://127.0.0.1:9/hook"});
    let wish = if is_old { json!({ "pushNotificationConfig": wish }) } else { wish };
    it.post(200, &pushes, &at, &wish);
    it.get(&pushes, &at);
    let of_it = [at.as_slice(), &["p"]].concat();
    it.get(&format!("{pushes}/{{configId}}"), &of_it);
    it.call(200, "DELETE", &format!("{pushes}/{{configId}}"), &of_it, &Value::Null);
    it.call(409, "DELETE", "/bus/tasks/{taskId}/a2a", &[&asks], &Value::Null);
    it.post(200, &path("/tasks/{id}:cancel"), &at, &json!({}));
    it.call(200, "DELETE", "/bus/tasks/{taskId}/a2a", &[&asks], &Value::Null);

    let rpc = format!("{prefix}/a2a");
    let mut call = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}});
    it.post(200, &rpc, agent, &call);
    it.post(200, &rpc, agent, &json!([call, {"jsonrpc": "2.0", "id": 2, "method": "x"}]));
    it.post(200, &rpc, agent, &json!({}));
    call.as_object_mut().unwrap().remove("id");
    it.post(204, &rpc, agent, &call);
}
