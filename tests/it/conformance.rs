//! What the conformance kits showed, kept without them: each test is a rule that one of them checks
//! or a way of calling that one of them has.

use serde_json::{Value, json};

use crate::server::{Answer, Client, Server, serve};

const CARD: &str = "/.well-known/agent-card.json";

fn started(config: &str) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a2a.toml"), config).unwrap();
    let mut command = serve(folder.path());
    command.args(["--agent", "conformance"]);
    let server = Server::start_by(command, folder.path());
    (folder, server)
}

fn call(client: &Client, path: &str, method: &str, params: &Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    client.post(path, body.to_string().as_bytes())
}

fn send(client: &Client, id: &str, text: &str, task: Option<&str>) -> Value {
    let mut message =
        json!({"role": "ROLE_USER", "messageId": id, "parts": [{"text": text}], "taskId": task});
    if task.is_none() {
        message.as_object_mut().unwrap().remove("taskId");
    }
    // The slash that some clients put behind the card's URL.
    let mut answer = call(client, "/a2a/", "SendMessage", &json!({ "message": message }));
    assert_eq!(answer.body.get("error"), None);
    answer.body["result"]["task"].take()
}

#[test]
fn a_kit_may_use_its_ids_again() {
    let (_folder, server) = started("");
    let first = send(&server, "tck-input-required-1", "one", None);
    let second = send(&server, "tck-input-required-1", "two", None);
    assert_ne!(first["id"], second["id"]);
    let id = second["id"].as_str().unwrap();
    let more = send(&server, "tck-input-required-1", "three", Some(id));
    assert_eq!(more["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let done = send(&server, "tck-complete-task-1", "four", Some(id));
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
    let history = done["history"].as_array().unwrap();
    let output = history.iter().filter(|message| message["role"] == "ROLE_USER");
    let output: Vec<&str> = output.map(|m| m["parts"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(output, ["two", "three", "four"]);
}

#[test]
fn call_without_an_id_gets_only_its_error() {
    let (_folder, server) = started("");
    for (method, params, code) in [
        ("message/ssend", json!({}), -32601),
        ("message/send", json!({"": "not a message"}), -32602),
    ] {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let answer = server.post("/a2a", body.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{method}");
        assert_eq!(answer.body["error"]["code"], code, "{method}");
        assert_eq!(answer.body["id"], Value::Null, "{method}");
        assert!(answer.body.as_object().unwrap().contains_key("id"), "{method}");
        // In a batch there is silence, as JSON-RPC has it.
        let answer = server.post("/a2a", json!([body]).to_string().as_bytes());
        assert_eq!((answer.status, answer.body), (204, Value::Null), "{method}");
    }
    for (method, params) in [("ListTasks", json!({})), ("GetTask", json!({"id": "nobody"}))] {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let answer = server.post("/a2a", body.to_string().as_bytes());
        assert_eq!((answer.status, answer.body), (204, Value::Null), "{method}");
    }
}

#[test]
fn a_version_that_is_switched_off_is_neither_offered_nor_served() {
    let (_folder, server) = started("[a2a]\nversions = [\"1.0\"]");
    let card = server.get(CARD).body;
    let interfaces = card["supportedInterfaces"].as_array().unwrap();
    assert_eq!(interfaces.len(), 2);
    assert!(interfaces.iter().all(|interface| interface["protocolVersion"] == "1.0"));
    for old in ["url", "protocolVersion", "preferredTransport", "supportsAuthenticatedExtendedCard"]
    {
        assert_eq!(card.get(old), None, "{old}");
    }
    let old = call(&server, "/a2a", "tasks/get", &json!({"id": "1"}));
    assert_eq!(old.body["error"]["code"], -32009);
    assert_eq!(server.get("/v1/tasks").status, 400);
    let output = server.with("a2a-version", "0.3");
    assert_eq!(call(&output, "/a2a", "ListTasks", &json!({})).body["error"]["code"], -32009);
    let new = call(&server, "/a2a", "ListTasks", &json!({}));
    assert_eq!(new.body["result"]["totalSize"], 0);
    assert_eq!(server.get("/tasks").status, 200);
}

#[test]
fn card_has_its_time_of_change() {
    let (_folder, server) = started("");
    let since = |answer: Answer| answer.headers["last-modified"].to_str().unwrap().to_owned();
    let first = since(server.get(CARD));
    assert!(chrono::DateTime::parse_from_rfc2822(&first).unwrap() <= chrono::Utc::now());
    // The same card by another name of the server.
    let other = server.host().replace("127.0.0.1", "localhost");
    assert_eq!(since(server.with("host", other).get(CARD)), first);
    assert_eq!(since(server.get(CARD)), first);
}

#[test]
fn old_client_gets_the_reason_in_the_stream() {
    let (_folder, server) = started("");
    let unknown = json!({"id": "01900000-0000-7000-8000-000000000000"});
    let events = server.with("accept", "text/event-stream");
    let answer = call(&events, "/a2a", "tasks/resubscribe", &unknown);
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "text/event-stream"));
    // Clients of 1.0 read both; those who do not ask for a stream get none.
    let answer = call(&events, "/a2a", "SubscribeToTask", &unknown);
    assert_eq!(answer.body["error"]["code"], -32001);
    let answer = call(&server, "/a2a", "tasks/resubscribe", &unknown);
    assert_eq!(answer.body["error"]["code"], -32001);
}

#[test]
fn a_push_configuration_without_a_name_is_the_one_of_its_task() {
    let (_folder, server) = started("");
    let task = send(&server, "tck-input-required-1", "one", None);
    let id = &task["id"];
    let set = |url: &str| {
        let params = json!({"taskId": id, "pushNotificationConfig": {"url": url}});
        let answer = call(&server, "/a2a", "tasks/pushNotificationConfig/set", &params);
        assert_eq!(answer.body.get("error"), None);
    };
    set("https://example.com/one");
    set("https://example.com/two");
    for params in [json!({"id": id}), json!({"id": id, "pushNotificationConfigId": "default"})] {
        let answer = call(&server, "/a2a", "tasks/pushNotificationConfig/get", &params);
        let config = &answer.body["result"]["pushNotificationConfig"];
        assert_eq!(config["url"], "https://example.com/two", "{params}");
    }
    let listed = call(&server, "/a2a", "tasks/pushNotificationConfig/list", &json!({"id": id}));
    assert_eq!(listed.body["result"].as_array().unwrap().len(), 1);
}

#[test]
fn part_of_an_unknown_kind_is_refused() {
    let (_folder, server) = started("");
    for key in ["kind", "type"] {
        let part = json!({key: "hologram", "text": "hello"});
        let message = json!({"role": "user", "messageId": "1", "parts": [part]});
        let answer = call(&server, "/a2a", "message/send", &json!({ "message": message }));
        assert_eq!(answer.body["error"]["code"], -32602, "{key}");
        let violation = &answer.body["error"]["data"]["violations"][0];
        assert_eq!(violation["path"], format!("/message/parts/0/{key}"), "{key}");
    }
}
