use super::{folder, is_problem, started};
use crate::server::{message, new_id};

#[test]
fn unreadable_request_is_a_problem_with_its_cause() {
    let folder = folder();
    let server = started(folder.path());
    let id = new_id();
    for (path, code) in [
        ("/bus/agents/a%20b/inbox", "bad_agent_id"),
        ("/bus/agents/..%2f..%2fetc/inbox", "bad_agent_id"),
        ("/bus/agents/tim/inbox?wait=soon", "bad_request"),
        ("/bus/agents/tim/inbox?limit=many", "bad_request"),
        ("/bus/agents/tim/inbox?limit=-1", "bad_request"),
        ("/bus/log?cursor=first", "bad_request"),
        ("/bus/log?limit=all", "bad_request"),
    ] {
        is_problem(&server.get(path), 400, code);
    }
    for (path, code) in [
        ("/bus/agents/tim/inbox/17/ack".to_owned(), "bad_uuid"),
        ("/bus/agents/tim/inbox/00000000-0000-0000-0000-000000000000/nack".to_owned(), "bad_uuid"),
        (format!("/bus/agents/a*b/inbox/{id}/ack"), "bad_agent_id"),
        (format!("/bus/agents/a*b/inbox/{id}/nack"), "bad_agent_id"),
    ] {
        is_problem(&server.post(&path, b""), 400, code);
    }
    let large = format!("{{\"reason\":\"{}\"}}", "x".repeat(300 << 10));
    is_problem(
        &server.post(&format!("/bus/agents/tim/inbox/{id}/nack"), large.as_bytes()),
        413,
        "too_large",
    );
}

#[test]
fn unknown_places_and_verbs_are_problems_too() {
    let folder = folder();
    let server = started(folder.path());
    for path in
        ["/", "/bus", "/bus/nothing", "/bus/agents/tim/outbox", "/bus/agents/tim/inbox/x/eat"]
    {
        is_problem(&server.get(path), 404, "not_found");
    }
    for path in ["/bus/agents", "/bus/log", "/healthz", "/bus/agents/tim/inbox"] {
        let answer = server.post(path, b"{}");
        is_problem(&answer, 405, "method_not_allowed");
        assert!(answer.headers["allow"].to_str().unwrap().contains("GET"), "{answer:?}");
    }
    is_problem(&server.get("/bus/messages"), 405, "method_not_allowed");
}

#[test]
fn health_is_reported() {
    let folder = folder();
    let server = started(folder.path());
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn the_log_is_read_page_by_page_newest_first() {
    let folder = folder();
    let server = started(folder.path());
    let mut expected = Vec::new();
    for n in 0..25 {
        expected.push(server.accepted(&message("roman", "tim", &n.to_string()))["seq"].clone());
    }
    expected.push(server.post("/bus/messages", b"no \x01 JSON").body["seq"].clone());
    expected.push(server.send(&message("roman", "tom", "nobody")).body["seq"].clone());
    expected.reverse();
    for limit in [1, 7, 1_000] {
        let log = server.whole_log(limit);
        let seqs: Vec<_> = log.iter().map(|record| record["seq"].clone()).collect();
        assert_eq!(seqs, expected, "limit {limit}");
        assert!(log.iter().all(|record| record["deliveries"].is_array()));
        let outcomes: Vec<_> = log.iter().map(|record| &record["outcome"]).take(3).collect();
        assert_eq!(outcomes, ["unknown_recipient", "invalid", "queued"]);
        assert_eq!(log[1]["raw"], "no \u{1} JSON");
        assert_eq!(log[2]["message"]["payload"]["progress"], "24");
        for key in ["time", "messageId", "recipients", "hash", "prev"] {
            assert!(log[2].get(key).is_some(), "{key}");
        }
    }
    assert_eq!(server.get("/bus/log?limit=3").body["records"].as_array().unwrap().len(), 3);
    assert_eq!(server.get("/bus/log?limit=100000").status, 200);
}

#[test]
fn health_is_reported_without_a_body_to_head_requests() {
    let folder = folder();
    let server = started(folder.path());
    let head = |path: &str| {
        let config = ureq::Agent::config_builder().proxy(None).http_status_as_error(false);
        let agent: ureq::Agent = config.build().into();
        agent.head(format!("{}{path}", server.url())).call().unwrap()
    };
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/.well-known/agent-card.json"]
    {
        let mut answer = head(path);
        assert_eq!(answer.status(), server.get(path).status, "{path}");
        assert_eq!(answer.body_mut().read_to_string().unwrap(), "", "{path}");
    }
    assert_eq!(head("/bus/log/stream").status(), 405);
}
