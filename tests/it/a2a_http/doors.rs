//! Which agent answers where: cards, versions, extensions, tenants, and tokens in the card.

use serde_json::{Value, json};

use super::{ask_while, code, start, start_with, until};
use crate::a2a_caller::{Caller, FAR, FORMS, Form, agent_text, id, state, unwrapped};
use crate::a2a_worker::Worker;
use crate::oversight::token_config;
use crate::server::{Server, new_id};

const CARD: &str = "/.well-known/agent-card.json";

#[test]
fn every_agent_has_a_card_and_its_urls_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for (path, below) in [(CARD.to_owned(), ""), (format!("/agents/tim{CARD}"), "/agents/tim")] {
        let card = server.get(&path);
        assert_eq!((card.status, card.content_type.as_str()), (200, "application/json"));
        assert!(card.headers["cache-control"].to_str().unwrap().contains("max-age="));
        let tag = card.headers["etag"].to_str().unwrap().to_owned();
        for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            let same = server.client().with("if-none-match", known).get(&path);
            assert_eq!((same.status, same.body), (304, Value::Null));
            assert_eq!(same.headers["etag"].to_str().unwrap(), tag);
        }
        assert_eq!(server.client().with("if-none-match", "\"x\"").get(&path).status, 200);
        // The form of 1.0, and that of 0.3 beside it.
        let interfaces = card.body["supportedInterfaces"].as_array().unwrap();
        let binding = |of: &Value| (of["protocolBinding"].clone(), of["protocolVersion"].clone());
        let wanted = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3")];
        for (name, version) in wanted {
            let found = interfaces.iter().find(|of| binding(of) == (json!(name), json!(version)));
            let url = found.unwrap_or_else(|| panic!("{name} {version}"))["url"].as_str().unwrap();
            let end = if name == "JSONRPC" { "/a2a" } else { "" };
            assert_eq!(url, format!("{}{below}{end}", server.url()));
        }
        assert_eq!(card.body["url"], format!("{}{below}/a2a", server.url()));
        assert_eq!(card.body["protocolVersion"], "0.3.0");
        assert_eq!(card.body["capabilities"]["streaming"], true);
    }
    assert_eq!(server.get(&format!("/agents/nobody{CARD}")).status, 404);
    drop(tim);
}

#[test]
fn the_hosts_own_agent_answers_without_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for form in FORMS {
        let host = Caller::of_host(&server, form);
        let done = host.ask(json!({"text": "echo hello"})).unwrap();
        assert_eq!((state(&done).as_str(), agent_text(&done).as_str()), ("completed", "hello"));
        let by_name = Caller::of(&server, form, "openclaw");
        assert_eq!(id(&by_name.get(&id(&done), &[]).unwrap()), id(&done), "{form:?}");
    }
}

#[test]
fn a_tenant_is_an_agent() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let host = Caller::of_host(&server, Form::Rpc10);
    let params = |tenant: &str| {
        json!({"tenant": tenant, "message": host.message(json!({})),
            "configuration": {"returnImmediately": true}})
    };
    let task = host.send(params("tim")).unwrap();
    assert_eq!(tim.next()["payload"]["taskId"], task["id"]);
    let answer = server.post("/tim/message:send", params("").to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    let second = unwrapped(answer.body);
    assert_eq!(tim.next()["payload"]["taskId"], second["id"]);
    // The doors of one agent, however they are written.
    for door in ["/tim", "/agents/tim"] {
        assert_eq!(server.get(&format!("{door}/tasks")).body["totalSize"], 2, "{door}");
    }
    assert_eq!(server.get("/tasks?tenant=tim").body["totalSize"], 2);
    assert_eq!(server.get("/tasks").body["totalSize"], 0, "the host has none");
    let other = Caller::of(&server, Form::Rpc10, "tim");
    assert_eq!(code(other.send(params("roman"))), -32054, "the path and the tenant differ");
    assert_eq!(code(host.send(params("no such/name"))), -32054);
}

#[test]
fn a_task_is_known_at_its_own_door_only() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let roman = Worker::new(server.client(), "roman");
    for form in FORMS {
        let of_tim = Caller::of(&server, form, "tim");
        let task = id(&of_tim.begin(json!({})).unwrap());
        let request = tim.next();
        let of_roman = Caller::of(&server, form, "roman");
        assert_eq!(code(of_roman.get(&task, &[])), -32001, "{form:?}");
        assert_eq!(code(of_roman.cancel(&task)), -32001, "{form:?}");
        assert_eq!(code(of_roman.ask(json!({"taskId": task}))), -32001, "{form:?}");
        assert_eq!(of_roman.list(&[]).unwrap()["totalSize"], 0);
        tim.complete(&request, "done");
        until(&of_tim, &task, "completed");
    }
    assert!(!roman.has_work());
}

#[test]
fn unknown_versions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        for good in ["", "0.3", "1.0", "1.0.1", "0.3.0"] {
            let caller = caller.with("a2a-version", good);
            assert_eq!(caller.list(&[]).map(|_| ()).map_err(|r| r.code), Ok(()), "{form:?} {good}");
        }
        for bad in ["2.0", "0.2", "x", "1", "0.3, 1.0"] {
            let caller = caller.with("a2a-version", bad);
            assert_eq!(code(caller.list(&[])), -32009, "{form:?} {bad}");
            assert_eq!(code(caller.begin(json!({}))), -32009, "{form:?} {bad}");
        }
    }
    assert!(!tim.has_work());
}

#[test]
fn an_extension_that_is_required_must_be_named_and_is_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[a2a]\nrequired_extensions = [\"urn:example:must\"]\n";
    let (server, tim) = start_with(folder.path(), config);
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let refused = caller.begin(json!({})).unwrap_err();
        assert_eq!(refused.code, -32008, "{form:?}");
        assert!(refused.answer.body.to_string().contains("urn:example:must"));
        for header in ["a2a-extensions", "x-a2a-extensions"] {
            let named = caller.with(header, "urn:other, urn:example:must");
            let done = ask_while(&named, json!({}), || tim.complete(&tim.next(), "done"));
            assert_eq!(state(&done.unwrap()), "completed", "{form:?}");
        }
    }
    let named = server.client().with("a2a-extensions", "urn:other,urn:example:must");
    let answer = named.get("/agents/tim/tasks");
    assert_eq!(answer.headers["a2a-extensions"], "urn:example:must");
    // Whatever the version, under the name that the caller used.
    let answer = named.get("/agents/tim/v1/tasks");
    assert_eq!(answer.headers["a2a-extensions"], "urn:example:must");
    let legacy = server.client().with("x-a2a-extensions", "urn:example:must");
    for path in ["/agents/tim/v1/tasks", "/agents/tim/tasks"] {
        let answer = legacy.get(path);
        assert_eq!(answer.headers["x-a2a-extensions"], "urn:example:must");
        assert!(!answer.headers.contains_key("a2a-extensions"));
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"});
    let answer = named.post("/agents/tim/a2a", call.to_string().as_bytes());
    assert_eq!(answer.headers["a2a-extensions"], "urn:example:must");
    let card = server.get(CARD).body;
    let expected = json!({"uri": "urn:example:must", "required": true});
    assert_eq!(card["capabilities"]["extensions"][0], expected, "{card}");
}

#[test]
fn there_is_an_extended_card_for_those_with_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _tim) = start(folder.path());
    for form in FORMS {
        let none = code(Caller::of(&server, form, "tim").extended_card());
        assert_eq!(none, if form.is_old() { -32007 } else { -32004 }, "{form:?}");
    }
    // The first token may be made while the server runs.
    let made = crate::openclaw_a2a()
        .args(["token", "create", "--client", "acme", "--yes", "--format", "json", "--state-dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let acme = server.client().bearing(made["token"].as_str().unwrap());
    let card = Caller::of(&acme, Form::Rpc10, "tim").extended_card().unwrap();
    assert!(card.get("securitySchemes").is_some(), "{card}");
    assert!(server.get(CARD).body.get("securitySchemes").is_some());
    drop(server);
    let folder = tempfile::tempdir().unwrap();
    let tokens = token_config(&[("client = \"acme\"", "acme-1"), ("agent = \"tim\"", "tim-1")]);
    let config = format!("{tokens}[[agents]]\nid = \"tim\"\nrole = \"Staff Engineer\"\n{FAR}");
    let server = Server::with_config(folder.path(), &config);
    let _tim = Worker::new(server.client().bearing("tim-1"), "tim");
    let public = server.get(CARD).body;
    assert_eq!(public["securitySchemes"].as_object().map(|all| all.len()), Some(1), "{public}");
    assert_eq!(server.get(&format!("/agents/tim{CARD}")).status, 401);
    let acme = server.client().bearing("acme-1");
    for form in FORMS {
        let unknown = Caller::of(&server, form, "tim").extended_card().unwrap_err();
        assert_eq!(unknown.answer.status, 401, "{form:?}");
        let card = Caller::of(&acme, form, "tim").extended_card().unwrap();
        assert_eq!(card["name"], "tim", "{form:?} {card}");
        assert!(card["description"].as_str().unwrap().contains("Staff Engineer"), "{card}");
    }
}

#[test]
fn closed_directory_lets_callers_reach_only_its_agents() {
    for tokens in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let who = [("client = \"acme\"", "acme-1"), ("agent = \"tim\"", "tim-1")];
        let auth = if tokens { token_config(&who) } else { String::new() };
        let config = format!("{auth}[[agents]]\nid = \"tim\"\n[directory]\nopen = false\n{FAR}");
        let server = Server::with_config(folder.path(), &config);
        let tim = Worker::new(server.client().bearing("tim-1"), "tim");
        let acme = server.client().bearing("acme-1");
        for form in FORMS {
            let caller = Caller::of(&acme, form, "tim");
            let done = ask_while(&caller, json!({}), || tim.complete(&tim.next(), "done"));
            assert_eq!(state(&done.unwrap()), "completed", "{form:?} {tokens}");
            let unknown = Caller::of(&acme, form, &format!("x-{}", &new_id()[..8]));
            assert_eq!(code(unknown.ask(json!({}))), -32054, "{form:?} {tokens}");
        }
    }
}

#[test]
fn a_name_that_is_nearly_right_is_answered_with_the_one_that_is() {
    let folder = tempfile::tempdir().unwrap();
    let rule = "[[access]]\nname = \"not-roman\"\nto = \"roman\"\nallow = false\n";
    let (server, _tim) = start_with(folder.path(), rule);
    let _roman = Worker::new(server.client(), "roman");
    let message = |caller: &Caller| {
        let refused = caller.begin(json!({})).unwrap_err();
        assert_eq!(refused.code, -32054, "{refused:?}");
        let body = &refused.answer.body;
        let message = body["error"].get("message").or_else(|| body.get("message"));
        message.unwrap().as_str().unwrap().to_owned()
    };
    for form in FORMS {
        // Once, so that the caller itself has a name on the bus.
        Caller::of(&server, form, "tim").begin(json!({})).unwrap();
        let near = message(&Caller::of(&server, form, "timm"));
        assert!(near.contains("did you mean `tim`?"), "{form:?}: {near}");
        // Names that the caller may not write to, and callers, are never suggested.
        for name in ["romann", "a2a-clien", "somebody"] {
            let far = message(&Caller::of(&server, form, name));
            assert!(!far.contains("did you mean"), "{form:?}: {far}");
        }
    }
    let call = |method: &str| {
        let answer =
            server.call("POST", "/a2a", &json!({"jsonrpc": "2.0", "id": 1, "method": method}));
        assert_eq!(answer.body["error"]["code"], -32601, "{answer:?}");
        answer.body["error"].clone()
    };
    for (given, meant) in [("message/sned", "message/send"), ("GetTasks", "GetTask")] {
        let error = call(given);
        let message = error["message"].as_str().unwrap();
        assert!(message.ends_with(&format!("did you mean {meant}?")), "{message}");
        assert_eq!(error["data"][0]["metadata"]["suggestion"], meant);
    }
    assert_eq!(call("quit")["message"], "there is no method quit");
}

/// What the SDK for JavaScript does with the base of an agent: it joins the path of the card to it
/// as browsers join links, or asks for the base itself where its path is empty.
#[test]
fn the_base_of_an_agent_leads_to_its_card_and_takes_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let card = server.get(&format!("/agents/tim{CARD}"));
    for base in ["/agents/tim", "/agents/tim/"] {
        let found = server.get(base);
        assert_eq!((found.status, &found.body), (200, &card.body), "{base}");
        let call =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": new_id()}});
        let answer = server.post(base, call.to_string().as_bytes());
        assert_eq!((answer.status, &answer.body["error"]["code"]), (200, &json!(-32001)), "{base}");
        let join =
            url::Url::parse(&format!("{}{base}", server.url())).unwrap().join(&CARD[1..]).unwrap();
        let joined = server.get(join.path());
        if base.ends_with('/') {
            assert_eq!(joined.body, card.body);
        } else {
            let detail = joined.body["detail"].as_str().unwrap();
            assert!(joined.status == 404 && detail.contains("slash at its end"), "{joined:?}");
        }
    }
    assert_eq!(server.get("/agents/nobody").status, 404);
    drop(tim);
}
