/// What the server answers, held against the document.
mod answers;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::openclaw_a2a;
use crate::server::{Server, new_id};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn document() -> Value {
    a2a_gateway::openapi::document()
}

/// `GET /bus/agents/{}`: what the path's parameters are called does not matter.
fn plain(verb: &str, path: &str) -> String {
    let mut plain = format!("{} ", verb.to_ascii_uppercase());
    let mut named = false;
    for c in path.trim_end_matches('/').chars() {
        named = (named || c == '{') && c != '}';
        if !named {
            plain.push_str(if c == '}' { "{" } else { "" });
            plain.push(c);
        }
    }
    plain
}

/// Every call of the document: verb, path, operation.
fn calls(document: &Value) -> Vec<(String, String, &Value)> {
    let mut calls = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (verb, operation) in item.as_object().unwrap() {
            calls.push((verb.to_ascii_uppercase(), path.clone(), operation));
        }
    }
    calls
}

/// What a reference refers to; anything else is itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let to = value["$ref"].as_str().and_then(|to| document.pointer(to.strip_prefix('#')?));
    to.unwrap_or(value)
}

#[test]
fn the_document_is_kept_printed_and_served_alike() {
    let file = root().join("docs/openapi.json");
    let text = format!("{:#}\n", document());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap();
    let hint = "UPDATE_GOLDEN=1 cargo test --test it openapi writes docs/openapi.json anew";
    assert!(kept == text, "docs/openapi.json is not what the program says; {hint}");
    let printed = openclaw_a2a().args(["schema", "--openapi"]).output().unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), text);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    assert_eq!(server.get("/openapi.json").body, document());
}

#[test]
fn the_document_is_openapi_3_1() {
    let schema = root().join("tests/vectors/openapi/3.1.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let document = document();
    let faults: Vec<_> =
        validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert_eq!(faults, [] as [String; 0]);
    let mut broken = document.clone();
    broken["paths"]["/healthz"]["get"]["responses"] = json!([]);
    assert!(!validator.is_valid(&broken), "the schema finds nothing");

    // What that schema leaves open.
    let mut ids = BTreeSet::new();
    for (verb, path, operation) in calls(&document) {
        assert!(
            ids.insert(operation["operationId"].as_str().unwrap()),
            "{verb} {path}: its id is there twice"
        );
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let given = parameters.iter().map(|it| resolved(&document, it));
        let given = given.filter(|parameter| parameter["in"] == "path");
        let given: BTreeSet<_> =
            given.map(|it| format!("{{{}}}", it["name"].as_str().unwrap())).collect();
        let named: BTreeSet<_> = path
            .split('{')
            .skip(1)
            .map(|it| format!("{{{}}}", it.split('}').next().unwrap()))
            .collect();
        assert_eq!(given, named, "{verb} {path}");
    }
    let mut references = Vec::new();
    references_of(&document, &mut references);
    assert!(references.len() > 50, "{references:?}");
    for reference in references {
        let to = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(to).is_some(), "{reference} leads nowhere");
    }
    for schema in document["components"]["schemas"].as_object().unwrap().values() {
        jsonschema::meta::validate(schema).unwrap();
    }
}

fn references_of<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references_of(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references_of(value, found)),
        _ => {}
    }
}

/// The routes as the code registers them, by their attributes.
fn registered() -> BTreeSet<String> {
    let mut routes = BTreeSet::new();
    let mut files: Vec<PathBuf> = Vec::new();
    let mut folders = vec![root().join("gateway/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for by_hand in [".route(", "web::resource(", "web::scope("] {
            assert!(!text.contains(by_hand), "{}: {by_hand} is not seen here", file.display());
        }
        for line in text.lines().map(str::trim) {
            let Some((verb, rest)) = line.strip_prefix("#[").and_then(|it| it.split_once("(\""))
            else {
                continue;
            };
            if ["get", "post", "put", "delete", "patch", "head", "options"].contains(&verb) {
                routes.insert(plain(verb, rest.split('"').next().unwrap()));
            }
        }
    }
    routes
}

#[test]
fn every_route_is_described_and_every_described_call_is_there() {
    let document = document();
    let described: BTreeSet<_> =
        calls(&document).iter().map(|(verb, path, _)| plain(verb, path)).collect();
    let registered = registered();
    assert!(registered.len() > 25, "{registered:?}");
    let missing: Vec<_> = registered.difference(&described).collect();
    assert!(missing.is_empty(), "not described beside their handlers: {missing:?}");

    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let is_there = |verb: &str, path: &str| {
        let response = server.open(verb, path, &json!({})).unwrap();
        if response.headers().get("content-type").is_some_and(|it| it == "text/event-stream") {
            return true;
        }
        let answer = crate::server::read(Ok(response)).unwrap();
        let detail = answer.body["detail"].as_str().unwrap_or_default();
        answer.status != 405 && !detail.starts_with("There is nothing at")
    };
    for (verb, path) in [("GET", "/bus/nothing"), ("DELETE", "/tasks"), ("GET", "/a2a")] {
        assert!(!is_there(verb, path), "{verb} {path}");
    }
    for (verb, path, _) in calls(&document) {
        let path = filled(&path);
        assert!(is_there(&verb, &path), "{verb} {path}");
    }
}

/// The path with something in the place of its parameters.
fn filled(path: &str) -> String {
    let id = new_id();
    [
        ("{agent}", "openclaw"),
        ("{messageId}", &id),
        ("{taskId}", &id),
        ("{key}", &format!("correlation:{id}")),
        ("{seq}", "1"),
        ("{what}", "retry"),
        ("{name}", "envelope"),
        ("{id}", &id),
        ("{configId}", "c"),
    ]
    .iter()
    .fold(path.to_owned(), |path, (name, value)| path.replace(name, value))
}
