//! Row 25: a page in the browser of a person who runs the bus.

use serde_json::{Value, json};

use crate::server::{Answer, Client, Server, message};

#[track_caller]
fn is(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{answer:?}");
    assert!(!answer.headers.contains_key("access-control-allow-origin"), "{answer:?}");
}

fn port(server: &Server) -> &str {
    server.host().rsplit_once(':').unwrap().1
}

#[test]
fn a_name_that_was_made_to_point_here_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), "[http]\nhosts = [\"bus.example\"]\n");
    server.inbox("tim", "");
    let as_host = |host: String| server.client().with("host", host);
    let port = port(&server);
    for host in [format!("evil.example:{port}"), "127.0.0.1:1".to_owned(), "localhost".to_owned()] {
        let client = as_host(host);
        is(&client.get("/bus/agents"), 421, "misdirected");
        is(&client.get("/healthz"), 421, "misdirected");
        is(&client.send(&message("roman", "tim", "rebound")), 421, "misdirected");
    }
    for host in [format!("localhost:{port}"), format!("[::1]:{port}"), "bus.example".to_owned()] {
        assert_eq!(as_host(host).get("/bus/agents").status, 200);
    }
    assert_eq!(server.inbox("tim", ""), [] as [Value; 0], "nothing came in");
}

#[test]
fn a_page_of_another_origin_can_neither_send_nor_take() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    server.accepted(&message("roman", "tim", "honest"));
    let plain = server.client();
    let origin = |origin: &str| plain.with("origin", origin);
    let other_port = format!("http://{}", server.host().replace("127.0.0.1", "localhost"));
    let pages: [Client; 6] = [
        origin("https://evil.example"),
        origin("null"),
        origin(&other_port),
        origin("http://127.0.0.1:1"),
        plain.with("sec-fetch-site", "cross-site"),
        plain.with("sec-fetch-site", "same-site"),
    ];
    for page in &pages {
        is(&page.send(&message("roman", "tim", "forged")), 403, "cross_origin");
        is(&page.get("/bus/agents/tim/inbox"), 403, "cross_origin");
        is(&page.get("/bus/log"), 403, "cross_origin");
        is(&page.post("/healthz", b""), 403, "cross_origin");
        let health = page.get("/healthz");
        assert_eq!(health.status, 200, "what anybody may know");
        assert!(!health.headers.contains_key("access-control-allow-origin"));
    }
    let own = origin(server.url()).with("sec-fetch-site", "same-origin");
    let taken = own.inbox("tim", "");
    assert_eq!(taken.len(), 1, "nobody took it, and nothing was sent");
    assert_eq!(plain.with("sec-fetch-site", "none").get("/bus/agents").status, 200);
}

#[test]
fn a_listed_origin_may_call_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[http]\norigins = [\"https://console.example\"]\n";
    let server = Server::with_config(folder.path(), config);
    let page = server.client().with("origin", "https://console.example");
    let answer = page.with("sec-fetch-site", "cross-site").get("/bus/agents");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.headers["access-control-allow-origin"], "https://console.example");
    assert_eq!(answer.headers["vary"], "origin");
    let preflight = |origin: &str| {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        let request = agent.options(format!("{}/bus/messages", server.url()));
        let request = request.header("origin", origin);
        request.header("access-control-request-method", "POST").call().unwrap()
    };
    let allowed = preflight("https://console.example");
    assert_eq!(allowed.status(), 204);
    let headers = allowed.headers()["access-control-allow-headers"].to_str().unwrap();
    assert!(headers.contains("authorization"), "{headers}");
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://console.example");
    let refused = preflight("https://evil.example");
    assert_eq!(refused.status(), 403);
    assert!(!refused.headers().contains_key("access-control-allow-origin"));
    is(
        &server.client().with("origin", "https://evil.example").get("/bus/log"),
        403,
        "cross_origin",
    );
}

/// Headers of every answer, of refusals too.
#[test]
fn no_answer_is_guessed_at_or_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let client = server.client();
    let evil = client.with("origin", "http://evil.example");
    for answer in [
        client.get("/healthz"),
        client.get("/bus/agents"),
        client.get("/nowhere"),
        client.post("/a2a", b"{"),
        evil.get("/bus/agents"),
    ] {
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{answer:?}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{answer:?}");
    }
    let card = client.get("/.well-known/agent-card.json");
    assert_eq!(card.headers["x-content-type-options"], "nosniff");
    assert_eq!(card.headers["cache-control"], "max-age=60");
}

/// A proxy that guards `/bus` must not be passed by another way to write it.
#[test]
fn a_path_has_one_way_to_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for path in [
        "/%62us/agents",
        "/bus/%61gents",
        "/bus/agents/t%69m/inbox",
        "/healt%68z",
        "/%2e%2E/bus/agents",
    ] {
        let answer = server.get(path);
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("bad_request")), "{path}");
    }
    // What a path cannot express otherwise.
    assert_eq!(server.get("/bus/agents/a%20b/inbox").status, 400);
    assert_eq!(server.get("/tasks/a%2Fb").status, 404);
}
