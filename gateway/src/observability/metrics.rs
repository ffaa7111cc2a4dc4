//! `GET /metrics`: what the program does, in numbers for Prometheus.
//!
//! Counters are read where they are counted. What only an actor knows is asked for, with a
//! deadline: if it does not answer, its numbers are missing and the page says so. Nothing here is
//! named after an agent, a caller or a path; `docs/observability.md` lists every name.

use crate::openapi::Operation;
use serde_json::json;
use std::time::{Duration, UNIX_EPOCH};

use a2a_actors::tasks::{TaskEnd, TaskLoad, TaskStats};
use a2a_actors::{BusLoad, BusSystem, Stats};
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};

use super::openmetrics::{self, Family};
use super::process::Process;
use crate::SessionRegistry;
use crate::a2a::A2a;
use crate::admission::connections::CloseReason;
use crate::admission::quota::Quotas;
use crate::auth::BusCaller;
use crate::auth::tokens::TokenRegistry;
use crate::observability::health;
use crate::observability::http_metrics::{Class, HttpMetrics, Route, Unauthorized};
use crate::problem::refuse;
use a2a_webhooks::{CallEnd, Webhooks};

/// How long an actor may take to say how much lies with it.
const ANSWER: Duration = Duration::from_secs(2);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[get("/metrics")]
pub(crate) async fn show(
    who: BusCaller,
    bus: web::Data<BusSystem>,
    a2a: web::Data<A2a>,
    http_metrics: web::Data<HttpMetrics>,
    quotas: web::Data<Quotas>,
    keys: web::Data<TokenRegistry>,
    lobby: web::Data<SessionRegistry>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let (load, tasks, process, parts) = tokio::join!(
        tokio::time::timeout(ANSWER, bus.load()),
        tokio::time::timeout(ANSWER, a2a.tasks().load()),
        web::block(Process::read),
        health::parts(&http_metrics, &bus, &a2a),
    );
    let (load, tasks) = (load.ok().flatten(), tasks.ok().flatten());
    let mut families = about_program(&http_metrics, &process.unwrap_or_default());
    families.push(Family::gauges(
        "ready",
        "Whether this part is well; all of them make /readyz say yes",
        parts
            .iter()
            .filter(|part| part.is_needed())
            .map(|part| (vec![("part", part.name)], f64::from(u8::from(part.is_well())))),
    ));
    families.push(Family::gauges(
        "scrape_answered",
        "Whether this part said in time how much lies with it; its gauges are missing otherwise",
        [("bus", load.is_some()), ("tasks", tasks.is_some())]
            .map(|(part, answered)| (vec![("part", part)], f64::from(u8::from(answered)))),
    ));
    families.push(Family::gauge(
        "token_file_readable",
        "Whether the token file could be read; if not, the tokens known before stay good",
        f64::from(u8::from(keys.is_readable())),
    ));
    families.extend(about_messages(bus.stats()));
    families.extend(load.iter().flat_map(about_load));
    families.extend(about_journal(&bus, load.as_ref()));
    families.extend(about_tasks(a2a.tasks().stats(), tasks.as_ref()));
    families.extend(about_http(&http_metrics, &quotas, lobby.open()));
    families.push(about_webhooks(a2a.webhooks()));
    let page = openmetrics::write(families).map_err(|_| {
        let detail = "The numbers could not be written down.";
        refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    })?;
    Ok(HttpResponse::Ok().content_type(OPEN_METRICS).body(page))
}

fn about_program(http_metrics: &HttpMetrics, process: &Process) -> Vec<Family> {
    let began = http_metrics.began().duration_since(UNIX_EPOCH).unwrap_or_default();
    let version = vec![("version", env!("CARGO_PKG_VERSION"))];
    let mut families = vec![
        Family::gauges("build_info", "Which program this is; always 1", [(version, 1.0)]),
        Family::gauge("start_time_seconds", "When it was started, since 1970", began.as_secs_f64()),
    ];
    families.extend(process.resident_bytes.map(|bytes| {
        let help = "Memory of the process that is really there";
        Family::gauge("process_resident_memory_bytes", help, bytes as f64)
    }));
    families.extend(
        process.open_files.map(|files| {
            Family::gauge("process_open_fds", "Open files of the process", files as f64)
        }),
    );
    families
}

fn about_messages(stats: &Stats) -> [Family; 7] {
    let messages = stats.messages().map(|(kind, outcome, count)| {
        let kind = kind.map_or("unreadable", |kind| kind.as_str());
        (vec![("kind", kind), ("outcome", outcome.as_str())], count)
    });
    [
        Family::counters(
            "messages",
            "Messages answered, by kind and by what the receipt said",
            messages,
        ),
        Family::counter(
            "deliveries",
            "Copies of messages laid into the inbox of a recipient",
            stats.delivered(),
        ),
        Family::counter("acknowledgements", "Copies handled and settled", stats.acknowledged()),
        Family::counter(
            "failed_attempts",
            "Attempts to handle that failed",
            stats.failed_attempts(),
        ),
        Family::counter("dead_letters", "Copies given up", stats.dead_letters()),
        Family::counter("overdue_tasks", "Tasks of the ledger marked overdue", stats.overdue()),
        Family::counter("circuit_trips", "Conversations stopped", stats.tripped()),
    ]
}

fn about_load(load: &BusLoad) -> [Family; 10] {
    let number = |count: usize| count as f64;
    let state = |word| vec![("state", word)];
    [
        Family::gauge(
            "agents",
            "Agents that are known, those of the server and callers included",
            number(load.agents),
        ),
        Family::gauge("sessions", "Sessions with an agent's code in them", number(load.sessions)),
        Family::gauges(
            "inbox_messages",
            "Messages in all inboxes that wait, or are in their recipient's hands",
            [(state("waiting"), number(load.waiting)), (state("in_hands"), number(load.in_hands))],
        ),
        Family::gauges(
            "inbox_bytes",
            "Bytes of the messages that wait, are in their recipient's hands, or are dead letters; one to several recipients counts for each",
            [
                (state("waiting"), number(load.waiting_bytes)),
                (state("in_hands"), number(load.in_hands_bytes)),
                (state("dead_letter"), number(load.dead_letter_bytes)),
            ],
        ),
        Family::gauge(
            "held_bytes",
            "Bytes of all messages that the bus holds; one to several recipients counts once",
            number(load.held_bytes),
        ),
        Family::gauge("inbox_messages_max", "Messages in the fullest inbox", number(load.most)),
        Family::gauge(
            "inbox_oldest_seconds",
            "How long the oldest message that waits has been accepted; 0 when none waits",
            load.oldest.as_secs_f64(),
        ),
        Family::gauge("dead_letters_kept", "Dead letters now", number(load.dead_letters)),
        Family::gauge(
            "ledger_tasks_overdue",
            "Open tasks of the ledger that are marked overdue",
            number(load.overdue_tasks),
        ),
        Family::gauges(
            "circuits",
            "Conversations that are stopped now, by state",
            [
                (state("open"), number(load.open_circuits)),
                (state("half_open"), number(load.half_open_circuits)),
            ],
        ),
    ]
}

fn about_journal(bus: &BusSystem, load: Option<&BusLoad>) -> Vec<Family> {
    let stats = bus.stats();
    let mut families = vec![
        Family::histogram(
            "journal_commit_seconds",
            "How long the disk took for one batch of lines",
            stats.commit_seconds().classes(),
        ),
        Family::histogram(
            "journal_commit_lines",
            "Lines in one batch",
            stats.commit_lines().classes(),
        ),
        Family::gauge(
            "journal_unindexed_lines",
            "Lines that are on the disk and not yet in the index",
            bus.reader().unindexed() as f64,
        ),
        Family::gauge(
            "journal_index_failing",
            "1 while the index cannot be written; messages are accepted all the same",
            f64::from(u8::from(bus.reader().index_fault().is_some())),
        ),
    ];
    families.extend(load.map(|load| {
        let help = "Lines that somebody waits for and the disk does not have yet";
        Family::gauge("journal_uncommitted_lines", help, load.uncommitted as f64)
    }));
    families
}

fn about_tasks(stats: &TaskStats, load: Option<&TaskLoad>) -> Vec<Family> {
    let ended = TaskEnd::ALL.map(|end| (vec![("end", end.as_str())], stats.ended(end)));
    let mut families = vec![
        Family::counters("tasks_ended", "A2A tasks that ended, by how", ended),
        Family::histogram(
            "task_store_commit_seconds",
            "How long the disk took for one batch of changes of tasks",
            stats.commit_seconds().classes(),
        ),
        Family::histogram(
            "task_store_commit_changes",
            "Changes in one batch",
            stats.commit_changes().classes(),
        ),
    ];
    families.extend(load.into_iter().flat_map(|load| {
        let states = [
            ("submitted", load.submitted),
            ("working", load.working),
            ("input_required", load.input_required),
            ("auth_required", load.auth_required),
        ];
        let states = states.map(|(state, count)| (vec![("state", state)], count as f64));
        [
            Family::gauges("tasks", "A2A tasks that are open, by state", states),
            Family::gauge(
                "tasks_queued",
                "A2A tasks that stand behind another of their conversation",
                load.waiting as f64,
            ),
        ]
    }));
    families
}

fn about_http(http_metrics: &HttpMetrics, quotas: &Quotas, sessions: usize) -> [Family; 9] {
    let routes = || Route::ALL.iter().copied();
    let answers = routes().flat_map(|route| {
        Class::ALL.iter().map(move |class| {
            let labels = vec![("route", route.as_str()), ("status", class.as_str())];
            (labels, http_metrics.answers(route, *class))
        })
    });
    let took =
        routes().map(|route| (vec![("route", route.as_str())], http_metrics.took(route).classes()));
    let unauthorized = Unauthorized::ALL
        .iter()
        .map(|why| (vec![("reason", why.as_str())], http_metrics.unauthorized(*why)));
    [
        Family::counters("http_requests", "Requests answered, by route and status", answers),
        Family::histograms(
            "http_request_seconds",
            "How long the beginning of an answer took, by route; waiting for a message included",
            took,
        ),
        Family::counters(
            "http_unauthorized",
            "Calls whose token was missing or not good",
            unauthorized,
        ),
        Family::gauge(
            "http_connections",
            "Connections now",
            http_metrics.connections().count() as f64,
        ),
        Family::gauge(
            "streams",
            "Streams of tasks and of the log now",
            quotas.streams.held() as f64,
        ),
        Family::gauges(
            "http_held",
            "What callers hold of each quota now: streams, waiting calls, bytes of answers not taken",
            quotas
                .all()
                .map(|quota| (vec![("quota", quota.resource().as_str())], quota.held() as f64)),
        ),
        Family::counters(
            "http_refused",
            "Calls refused because a quota of their caller or of all was used up, by quota",
            quotas.all().map(|quota| (vec![("quota", quota.resource().as_str())], quota.refused())),
        ),
        Family::counters(
            "http_closed",
            "Connections that the server closed, by why",
            CloseReason::ALL.iter().map(|why| {
                (vec![("reason", why.as_str())], http_metrics.connections().closed(*why))
            }),
        ),
        Family::gauge(
            "websockets",
            "Sessions of agents over WebSocket now, those that wait for their agent to come back included",
            sessions as f64,
        ),
    ]
}

fn about_webhooks(webhooks: &Webhooks) -> Family {
    let calls = CallEnd::ALL.map(|end| (vec![("outcome", end.as_str())], webhooks.calls(end)));
    Family::counters("webhook_calls", "Calls of webhooks, by what came of them", calls)
}

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations() -> Vec<Operation> {
    let metrics =
        json!({ "application/openmetrics-text": { "schema": { "description": "Text." } } });
    vec![
        Operation::new("GET", "/metrics", "showMetrics", "server", "Show metrics for Prometheus")
            .description("For people. Every metric: docs/observability.md.")
            .response(200, "OpenMetrics text", metrics),
    ]
}
