//! `/metrics` and `/readyz`: the numbers move as they should, name no agent, are
//! documented, and are for people.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use a2a_actors::tasks::TaskSettings;
use a2a_gateway::a2a::{A2a, A2aSettings};
use a2a_gateway::auth::tokens::{TokenFile, TokenRegistry, Tokens};
use a2a_gateway::{AppState, HttpSettings, LogSettings, Redaction, SessionRegistry};
use a2a_taskdb::TaskDb;
use a2a_webhooks::{WebhookSettings, Webhooks};
use actix_web::App;
use actix_web::middleware::from_fn;
use actix_web::test::{TestRequest, call_service, init_service, read_body_json};
use openclaw_a2a::{Bus, Handlers};
use serde_json::{Value, json};

use crate::a2a_caller::{Caller, FAR, Form, id};
use crate::a2a_http::pushes::{PRIVATE, next, receiver};
use crate::a2a_side::{Refusing, Side, settings, text};
use crate::a2a_worker::Worker;
use crate::openclaw_a2a;
use crate::server::{Client, Server, id_of, message, new_id};
use crate::socket::Socket;

/// The samples of a page: each number by its name and labels, without the prefix.
pub(crate) struct Numbers(BTreeMap<String, f64>);

fn page(client: &Client) -> String {
    let mut answer = client.open("GET", "/metrics", &Value::Null).unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(
        (answer.status().as_u16(), kind.split(';').next()),
        (200, Some("application/openmetrics-text"))
    );
    answer.body_mut().read_to_string().unwrap()
}

fn numbers(client: &Client) -> Numbers {
    let page = page(client);
    assert!(page.ends_with("# EOF\n"));
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    Numbers(
        lines
            .map(|line| {
                let (name, number) = line.rsplit_once(' ').unwrap();
                let name = name.strip_prefix("openclaw_a2a_").unwrap();
                (name.to_owned(), number.parse().unwrap())
            })
            .collect(),
    )
}

impl Numbers {
    #[track_caller]
    fn of(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("{name} is not on the page"))
    }
}

/// Looks until a number is there.
#[track_caller]
pub(crate) fn until(client: &Client, name: &str, expected: f64) -> Numbers {
    for _ in 0..10_000 {
        let now = numbers(client);
        if now.of(name) == expected {
            return now;
        }
    }
    panic!("{name} was never {expected}, but {}", numbers(client).of(name));
}

#[test]
fn messages_are_counted_by_kind_and_outcome_and_seen_where_they_lie() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), "[delivery]\nattempts = 1\n");
    server.inbox("tim", "");
    let before = numbers(&server);
    assert_eq!(before.of("inbox_oldest_seconds"), 0.0);
    assert_eq!(before.of("inbox_messages{state=\"waiting\"}"), 0.0);

    let (first, second) = (message("roman", "tim", "one"), message("roman", "tim", "two"));
    server.accepted(&first);
    server.accepted(&second);
    assert_eq!(server.send(&first).status, 200);
    assert_eq!(server.send(&message("roman", "nobody", "hi")).status, 404);
    assert_eq!(server.send(&json!({})).status, 422);
    let now = numbers(&server);
    for (name, expected) in [
        ("messages_total{kind=\"status_update\",outcome=\"queued\"}", 2.0),
        ("messages_total{kind=\"status_update\",outcome=\"duplicate\"}", 1.0),
        ("messages_total{kind=\"status_update\",outcome=\"unknown_recipient\"}", 1.0),
        ("messages_total{kind=\"unreadable\",outcome=\"invalid\"}", 1.0),
        ("messages_total{kind=\"broadcast\",outcome=\"queued\"}", 0.0),
        ("deliveries_total", 2.0),
        ("inbox_messages{state=\"waiting\"}", 2.0),
        ("inbox_messages{state=\"in_hands\"}", 0.0),
        ("inbox_messages_max", 2.0),
        ("http_requests_total{route=\"messages\",status=\"2xx\"}", 3.0),
        ("http_requests_total{route=\"messages\",status=\"4xx\"}", 2.0),
        ("http_request_seconds_count{route=\"messages\"}", 5.0),
        ("scrape_answered{part=\"bus\"}", 1.0),
        ("ready{part=\"journal\"}", 1.0),
        ("build_info{version=\"0.1.0\"}", 1.0),
    ] {
        assert_eq!(now.of(name), expected, "{name}");
    }
    assert!(now.of("inbox_oldest_seconds") > 0.0);
    assert_eq!(now.of("agents") - before.of("agents"), 1.0, "roman joined");

    // One is done, the other becomes a dead letter; its sender is notified.
    let taken = server.inbox("tim", "limit=1");
    assert_eq!(numbers(&server).of("inbox_messages{state=\"in_hands\"}"), 1.0);
    assert_eq!(server.settle("tim", id_of(&taken[0]), "ack").status, 200);
    let taken = server.inbox("tim", "limit=1");
    assert_eq!(server.settle("tim", id_of(&taken[0]), "nack").status, 200);
    let now = numbers(&server);
    for (name, expected) in [
        ("acknowledgements_total", 1.0),
        ("failed_attempts_total", 1.0),
        ("dead_letters_total", 1.0),
        ("dead_letters_kept", 1.0),
        ("deliveries_total", 3.0),
        ("inbox_messages{state=\"waiting\"}", 1.0),
        ("inbox_messages{state=\"in_hands\"}", 0.0),
    ] {
        assert_eq!(now.of(name), expected, "{name}");
    }
    let (commits, lines) =
        (now.of("journal_commit_seconds_count"), now.of("journal_commit_lines_sum"));
    assert!(commits > 0.0 && lines >= commits, "{lines} lines in {commits} commits");
    assert_eq!(now.of("journal_commit_seconds_bucket{le=\"+Inf\"}"), commits);
    assert_eq!(now.of("journal_commit_lines_count"), commits);
    assert!(now.of("journal_unindexed_lines") <= lines);
    assert_eq!(now.of("journal_uncommitted_lines"), 0.0);

    let tripped = server.post(&format!("/bus/circuits/correlation:{}/trip", new_id()), b"{}");
    assert_eq!(tripped.status, 200, "{tripped:?}");
    let now = numbers(&server);
    assert_eq!(now.of("circuit_trips_total"), 1.0);
    assert_eq!(now.of("circuits{state=\"open\"}"), 1.0);
    assert_eq!(now.of("circuits{state=\"half_open\"}"), 0.0);
}

#[test]
fn tasks_streams_and_webhooks_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), &format!("{FAR}{PRIVATE}"));
    let tim = Worker::tim(&server);
    let caller = Caller::of(&server, Form::Rest10, "tim");
    let (url, answered) = receiver(&["503 No", "200 OK"]);
    let first = id(&caller.begin(json!({"contextId": "c"})).unwrap());
    caller.set_push(&first, &json!({"url": url})).unwrap();
    let second = id(&caller.begin(json!({"contextId": "c"})).unwrap());
    let now = numbers(&server);
    assert_eq!(now.of("tasks{state=\"working\"}"), 1.0);
    assert_eq!(now.of("tasks{state=\"submitted\"}"), 1.0);
    assert_eq!(now.of("tasks_queued"), 1.0);
    assert_eq!(now.of("streams"), 0.0);

    let stream = caller.subscribe(&second).unwrap();
    assert_eq!(numbers(&server).of("streams"), 1.0);
    let request = tim.next();
    tim.complete(&request, "done");
    until(&server, "tasks_ended_total{end=\"completed\"}", 1.0);
    let now = until(&server, "tasks_queued", 0.0);
    assert_eq!(now.of("tasks{state=\"working\"}"), 1.0, "the second has its turn");
    caller.cancel(&second).unwrap();
    let now = until(&server, "tasks_ended_total{end=\"canceled\"}", 1.0);
    assert_eq!(now.of("tasks{state=\"working\"}"), 0.0);
    assert!(now.of("task_store_commit_seconds_count") >= 3.0);
    assert!(now.of("task_store_commit_changes_sum") >= now.of("task_store_commit_changes_count"));
    drop(stream);
    until(&server, "streams", 0.0);

    // The receiver refuses once and takes it then.
    assert_eq!(next(&answered).body, next(&answered).body);
    next(&answered);
    let now = until(&server, "webhook_calls_total{outcome=\"delivered\"}", 2.0);
    assert_eq!(now.of("webhook_calls_total{outcome=\"retried\"}"), 1.0);

    let (socket, _) = Socket::connect(&server, "ann");
    let now = until(&server, "websockets", 1.0);
    assert_eq!(now.of("http_requests_total{route=\"session\",status=\"1xx\"}"), 1.0);
    assert!(now.of("http_connections") >= 2.0);
    drop(socket);
    until(&server, "websockets", 0.0);
    assert!(now.of("process_open_fds") > 0.0 && now.of("process_resident_memory_bytes") > 1e6);
}

fn token(folder: &Path, args: &[&str]) -> String {
    let output = openclaw_a2a()
        .args(["token", "create", "--format", "json", "--state-dir"])
        .arg(folder)
        .args(args)
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

#[test]
fn metrics_are_for_people_and_name_no_agent() {
    let folder = tempfile::tempdir().unwrap();
    let operator = token(folder.path(), &["--operator", "davidoperator"]);
    let agent = token(folder.path(), &["--agent", "romanagent"]);
    let client = token(folder.path(), &["--client", "acmeclient"]);
    let server = Server::start(folder.path());
    assert_eq!(server.get("/metrics").status, 401);
    assert_eq!(server.bearing("oca_nonsense").get("/metrics").status, 401);
    assert_eq!(server.bearing(&agent).get("/metrics").status, 403);
    assert_eq!(server.bearing(&client).get("/metrics").status, 403);
    server.bearing(&agent).send(&message("romanagent", "timagent", "secretwords"));
    server.bearing(&agent).get("/bus/agents/romanagent/inbox");
    server.bearing(&client).get("/agents/romanagent/.well-known/agent-card.json");
    server.get("/somewhere/nobody/is");
    let operator = server.bearing(&operator);
    let printed = page(&operator);
    for word in [
        "davidoperator",
        "romanagent",
        "timagent",
        "acmeclient",
        "secretwords",
        "oca_",
        "somewhere",
    ] {
        assert!(!printed.contains(word), "{word} is on the page");
    }
    let now = numbers(&operator);
    assert_eq!(now.of("http_unauthorized_total{reason=\"missing\"}"), 1.0);
    assert_eq!(now.of("http_unauthorized_total{reason=\"unknown\"}"), 1.0);
    assert_eq!(now.of("http_unauthorized_total{reason=\"expired\"}"), 0.0);
    // Without a token callers are not distinguished, and the two public calls answer.
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/readyz").status, 200);
}

/// The names on the page as they are asked for.
fn served(page: &str) -> BTreeSet<String> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total"),
            (name, _) => name.to_owned(),
        })
        .collect()
}

#[test]
fn every_number_is_documented_and_has_help() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let page = page(&server);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documentation = std::fs::read_to_string(root.join("docs/observability.md")).unwrap();
    let documented: BTreeSet<String> = documentation
        .lines()
        .filter_map(|line| line.strip_prefix("| `openclaw_a2a_"))
        .map(|rest| format!("openclaw_a2a_{}", rest.split('`').next().unwrap()))
        .collect();
    assert_eq!(served(&page), documented);
    let helped = page.lines().filter(|line| line.starts_with("# HELP ")).count();
    assert_eq!(helped, documented.len());
    // What queries in the documentation ask for is there.
    let known = |name: &str| {
        let stem = |end| name.strip_suffix(end).is_some_and(|stem| documented.contains(stem));
        documented.contains(name) || ["_bucket", "_sum", "_count"].into_iter().any(stem)
    };
    let words = documentation.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for name in words.filter(|word| word.starts_with("openclaw_a2a_")) {
        assert!(known(name), "{name} is not served");
    }
}

/// An edge on a side whose task store fails on request.
fn edge(side: &Side, folder: &Path) -> AppState {
    let webhooks = Arc::new(Webhooks::new(WebhookSettings::default()).unwrap());
    let system = side.bus.system().clone();
    let a2a =
        A2a::new(system, side.tasks.clone(), webhooks, A2aSettings::new("host".parse().unwrap()));
    let keys =
        TokenRegistry::open(Tokens::default(), Vec::new(), TokenFile::below(folder)).unwrap();
    let log = LogSettings::new(Redaction::default(), Duration::from_secs(30));
    let lobby = Arc::new(SessionRegistry::new(Default::default()));
    let address = "127.0.0.1:7420".parse().unwrap();
    AppState::new(a2a, Arc::new(keys), log, HttpSettings::default(), lobby, false, address).unwrap()
}

#[actix_web::test]
async fn readiness_names_the_failing_part() {
    let folder = tempfile::tempdir().unwrap();
    let bus = Bus::builder().in_memory().settings(settings()).start().unwrap();
    bus.attach("tim", Handlers::new()).await.unwrap();
    let refuses = Arc::new(AtomicBool::new(false));
    let store = Refusing(TaskDb::open_in_memory().unwrap(), Arc::clone(&refuses));
    let side = Side::on(bus, TaskSettings::default(), Box::new(store));
    let edge = edge(&side, folder.path());
    let vitals = edge.http_metrics();
    let app = App::new()
        .wrap(from_fn(a2a_gateway::guard))
        .wrap(from_fn(a2a_gateway::observe))
        .configure(|config| a2a_gateway::routes(config, edge));
    let app = init_service(app).await;
    let ask = async || {
        let request = TestRequest::get().uri("/readyz");
        let request = request.insert_header(("host", "127.0.0.1:7420")).to_request();
        let answer = call_service(&app, request).await;
        let status = answer.status().as_u16();
        let body: Value = read_body_json(answer).await;
        (status, body["parts"].clone())
    };
    let parts = |server: &str, tasks: &str| {
        json!({
            "server": server, "journal": "writing", "bus": "accepting", "task_store": tasks, "index": "writing",
        })
    };
    assert_eq!(ask().await, (503, parts("starting", "writing")));
    vitals.set_ready();
    assert_eq!(ask().await, (200, parts("ready", "writing")));
    refuses.store(true, SeqCst);
    let mut now = text("hello");
    now.return_immediately = true;
    side.send("tim", now.clone()).await.unwrap_err();
    assert_eq!(ask().await, (503, parts("ready", "refusing")));
    refuses.store(false, SeqCst);
    side.send("tim", now).await.unwrap();
    assert_eq!(ask().await, (200, parts("ready", "writing")));
    vitals.set_stopping();
    assert_eq!(ask().await, (503, parts("stopping", "writing")));
    side.stop().await;
}
