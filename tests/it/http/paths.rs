//! What a path takes: verbs and parameters that it does not take are named, and not passed over.

use serde_json::json;

use super::*;
use crate::command::CliFixture;
use crate::server::{message, new_id};

const VERBS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

#[test]
fn known_path_with_another_method_lists_the_allowed_ones() {
    let folder = folder();
    let server = started(folder.path());
    let document = a2a_gateway::openapi::document();
    let mut looked_at = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let ours = ["/bus/", "/healthz", "/readyz", "/metrics", "/schemas/", "/openapi.json"];
        if !ours.iter().any(|begin| path.starts_with(begin)) {
            continue;
        }
        let mut plain = path.replace("{messageId}", &new_id()).replace("{taskId}", &new_id());
        while let (Some(begin), Some(end)) = (plain.find('{'), plain.find('}')) {
            plain.replace_range(begin..=end, "tim");
        }
        let taken: Vec<_> = item.as_object().unwrap().keys().map(|v| v.to_uppercase()).collect();
        // `GET /bus/log/rebuild` asks for a message of that name.
        let fits_another = plain == "/bus/log/rebuild" || plain == "/bus/log/verify";
        for verb in VERBS
            .iter()
            .filter(|verb| !(fits_another && **verb == "GET"))
            .filter(|verb| !taken.iter().any(|taken| taken == *verb))
        {
            let answer = server.call(verb, &plain, &json!({}));
            is_problem(&answer, 405, "method_not_allowed");
            let allow = answer.headers.get("allow").unwrap().to_str().unwrap();
            let mut allowed: Vec<_> = allow.split(", ").map(str::to_owned).collect();
            allowed.sort();
            // A path of the table may fit another pattern as well, such as `/bus/tasks/a2a`.
            assert!(taken.iter().all(|verb| allowed.contains(verb)), "{verb} {plain}: {allow}");
            looked_at += 1;
        }
    }
    assert!(looked_at > 60, "{looked_at}");
    is_problem(&server.get("/bus/nothing"), 404, "not_found");
    is_problem(&server.get("/bus/messages"), 405, "method_not_allowed");
}

#[test]
fn a_parameter_that_a_call_does_not_have_is_named_with_a_near_one() {
    let folder = folder();
    let server = started(folder.path());
    for (path, unknown, near) in [
        ("/bus/tasks?limt=3", "limt", "`limit`"),
        ("/bus/agents/tim/inbox?wiat=1s", "wiat", "`wait`"),
        ("/bus/tasks/a2a?agnet=tim", "agnet", "`agent`"),
        ("/bus/circuits?all=1", "all", "no parameters"),
        ("/bus/access?from=a&to=b&type=broadcast&kind=x", "kind", "from, to, type"),
    ] {
        let answer = server.get(path);
        is_problem(&answer, 400, "bad_request");
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("`{unknown}`")) && detail.contains(near), "{detail}");
    }
    let sent = server.post(
        "/bus/messages?dryRun=true",
        message("roman", "tim", "not sent").to_string().as_bytes(),
    );
    is_problem(&sent, 400, "bad_request");
    assert!(server.inbox("tim", "peek=true").is_empty(), "nothing was done");
    assert_eq!(server.get("/bus/tasks?limit=3&overdue=false").status, 200);
}

#[test]
fn a_refused_message_is_named_by_its_id_and_measured() {
    let folder = folder();
    let server = started(folder.path());
    let mut bad = message("roman", "tim", "x");
    bad["type"] = json!("brodcast");
    let answer = server.send(&bad);
    is_problem(&answer, 422, "invalid");
    assert_eq!(answer.body["messageId"], bad["messageId"], "{answer:?}");
    assert_eq!(answer.body["correlationId"], bad["correlationId"], "{answer:?}");
    let mut large = message("roman", "tim", "x");
    large["payload"]["progress"] = json!("x".repeat(400_000));
    let bytes = large.to_string();
    let answer = server.post("/bus/messages", bytes.as_bytes());
    let text = answer.body["errors"][0]["message"].as_str().unwrap();
    assert!(text.contains(&format!("has {} bytes", bytes.len())), "{text}");
    assert_eq!(server.post("/bus/messages", b"no json").body.get("messageId"), None);
}

#[test]
fn command_prints_what_helps() {
    let cli = CliFixture::start();
    let task = new_id();
    let args = ["send", "task-response", "--from", "tim", "--task", &task, "--action", "accepted"];
    let text = cli.run(&args);
    assert_eq!(text.code, Some(2), "{}", text.err);
    assert!(text.err.contains(&format!("there is no task {task}")), "{}", text.err);
    assert!(text.err.contains("task list") && !text.err.contains("--to"), "{}", text.err);
    let mut bad = message("roman", "tim", "x");
    bad["type"] = json!("brodcast");
    let text = cli.run_with(&["send", "-"], &bad.to_string());
    assert!(text.out.contains("next: openclaw-a2a schema broadcast\n"), "{}{}", text.out, text.err);
    bad["type"] = json!("nothing like it");
    let text = cli.run_with(&["send", "-"], &bad.to_string());
    assert!(text.out.ends_with("next: openclaw-a2a schema\n"), "{}{}", text.out, text.err);
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(400_000));
    let text = cli.run_with(&["send", "-", "--from", "roman"], &large);
    assert!(text.out.contains(&format!("has {} bytes", large.len())), "{}{}", text.out, text.err);
}

#[test]
fn a_name_is_looked_up_where_the_server_listens() {
    let folder = folder();
    let command = crate::server::serve_on(folder.path(), "localhost:0");
    let server = Server::start_by(command, folder.path());
    assert!(server.url().starts_with("http://127.0.0.1:"), "{}", server.url());
    assert_eq!(server.get("/healthz").status, 200);
    let other = self::folder();
    for bad in ["localhost", "no.such.name.invalid:0", "example.org:99999"] {
        let refused = crate::server::serve_on(other.path(), bad).output().unwrap();
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && text.contains(bad), "{bad}: {text}");
    }
}
