//! `GET /metrics`: metrics in the OpenMetrics format.
//!
//! Counters are read where they are kept. Gauges of an actor are requested with a deadline: without
//! an answer they are missing, and `scrape_answered` is 0. No label is named after an agent, a
//! caller or a path; `docs/observability.md` lists every metric.

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
use a2a_webhooks::{DeliveryOutcome, Webhooks};

/// Deadline of an actor's answer.
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
    sessions: web::Data<SessionRegistry>,
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
        "1 while this part is healthy; /readyz is ready when all of them are",
        parts
            .iter()
            .filter(|part| part.is_needed())
            .map(|part| (vec![("part", part.name)], f64::from(u8::from(part.is_well())))),
    ));
    families.push(Family::gauges(
        "scrape_answered",
        "1 if this part answered the scrape in time; its gauges are missing otherwise",
        [("bus", load.is_some()), ("tasks", tasks.is_some())]
            .map(|(part, answered)| (vec![("part", part)], f64::from(u8::from(answered)))),
    ));
    families.push(Family::gauge(
        "token_file_readable",
        "1 if the token file could be read; otherwise the tokens read before stay valid",
        f64::from(u8::from(keys.is_readable())),
    ));
    families.extend(about_messages(bus.stats()));
    families.extend(load.iter().flat_map(about_load));
    families.extend(about_journal(&bus, load.as_ref()));
    families.extend(about_tasks(a2a.tasks().stats(), tasks.as_ref()));
    families.extend(about_http(&http_metrics, &quotas, sessions.open()));
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
        Family::gauges("build_info", "Version of the program; always 1", [(version, 1.0)]),
        Family::gauge(
            "start_time_seconds",
            "Start time of the process in seconds since 1970",
            began.as_secs_f64(),
        ),
    ];
    families.extend(process.resident_bytes.map(|bytes| {
        let help = "Resident memory of the process in bytes";
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
        Family::counters("messages", "Messages submitted, by kind and outcome", messages),
        Family::counter(
            "deliveries",
            "Messages enqueued in an inbox, one for each recipient",
            stats.delivered(),
        ),
        Family::counter("acknowledgements", "Deliveries acknowledged", stats.acknowledged()),
        Family::counter("failed_attempts", "Failed delivery attempts", stats.failed_attempts()),
        Family::counter(
            "dead_letters",
            "Deliveries that became dead letters",
            stats.dead_letters(),
        ),
        Family::counter("overdue_tasks", "Tasks of the ledger marked overdue", stats.overdue()),
        Family::counter("circuit_trips", "Circuits tripped", stats.tripped()),
    ]
}

fn about_load(load: &BusLoad) -> [Family; 10] {
    let number = |count: usize| count as f64;
    let state = |word| vec![("state", word)];
    [
        Family::gauge(
            "agents",
            "Agents in the directory, those of the server and callers included",
            number(load.agents),
        ),
        Family::gauge("sessions", "Attached sessions of agents", number(load.sessions)),
        Family::gauges(
            "inbox_messages",
            "Messages in all inboxes, waiting or in flight",
            [(state("waiting"), number(load.waiting)), (state("in_hands"), number(load.in_hands))],
        ),
        Family::gauges(
            "inbox_bytes",
            "Bytes of messages that wait, are in flight, or are dead letters; a message to several recipients counts for each",
            [
                (state("waiting"), number(load.waiting_bytes)),
                (state("in_hands"), number(load.in_hands_bytes)),
                (state("dead_letter"), number(load.dead_letter_bytes)),
            ],
        ),
        Family::gauge(
            "held_bytes",
            "Bytes of all messages that the bus holds; a message to several recipients counts once",
            number(load.held_bytes),
        ),
        Family::gauge("inbox_messages_max", "Messages in the fullest inbox", number(load.most)),
        Family::gauge(
            "inbox_oldest_seconds",
            "Age of the oldest waiting message in seconds; 0 when none waits",
            load.oldest.as_secs_f64(),
        ),
        Family::gauge("dead_letters_kept", "Dead letters kept", number(load.dead_letters)),
        Family::gauge(
            "ledger_tasks_overdue",
            "Open tasks of the ledger that are marked overdue",
            number(load.overdue_tasks),
        ),
        Family::gauges(
            "circuits",
            "Circuits that are not closed, by state",
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
            "Duration of one group commit of the journal in seconds",
            stats.commit_seconds().snapshot(),
        ),
        Family::histogram(
            "journal_commit_lines",
            "Lines per group commit of the journal",
            stats.commit_lines().snapshot(),
        ),
        Family::gauge(
            "journal_unindexed_lines",
            "Durable lines that are not indexed yet",
            bus.reader().unindexed() as f64,
        ),
        Family::gauge(
            "journal_index_failing",
            "1 while the index cannot be written; messages are accepted all the same",
            f64::from(u8::from(bus.reader().index_fault().is_some())),
        ),
    ];
    families.extend(load.map(|load| {
        let help = "Lines that are waited for and not durable yet";
        Family::gauge("journal_uncommitted_lines", help, load.uncommitted as f64)
    }));
    families
}

fn about_tasks(stats: &TaskStats, load: Option<&TaskLoad>) -> Vec<Family> {
    let ended = TaskEnd::ALL.map(|end| (vec![("end", end.as_str())], stats.ended(end)));
    let mut families = vec![
        Family::counters("tasks_ended", "A2A tasks that ended, by end state", ended),
        Family::histogram(
            "task_store_commit_seconds",
            "Duration of one commit of the task store in seconds",
            stats.commit_seconds().snapshot(),
        ),
        Family::histogram(
            "task_store_commit_changes",
            "Changes per commit of the task store",
            stats.commit_changes().snapshot(),
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
                "A2A tasks queued behind another of their conversation",
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
    let took = routes()
        .map(|route| (vec![("route", route.as_str())], http_metrics.took(route).snapshot()));
    let unauthorized = Unauthorized::ALL
        .iter()
        .map(|why| (vec![("reason", why.as_str())], http_metrics.unauthorized(*why)));
    [
        Family::counters("http_requests", "Requests answered, by route and status class", answers),
        Family::histograms(
            "http_request_seconds",
            "Time to first response byte in seconds, by route; includes long-poll wait",
            took,
        ),
        Family::counters(
            "http_unauthorized",
            "Requests refused for a missing or invalid token, by reason",
            unauthorized,
        ),
        Family::gauge(
            "http_connections",
            "Open connections",
            http_metrics.connections().count() as f64,
        ),
        Family::gauge(
            "streams",
            "Open streams of tasks and of the log",
            quotas.streams.held() as f64,
        ),
        Family::gauges(
            "http_held",
            "Usage of each quota: streams, waiting calls, unread bytes of responses",
            quotas
                .all()
                .map(|quota| (vec![("quota", quota.resource().as_str())], quota.held() as f64)),
        ),
        Family::counters(
            "http_refused",
            "Requests refused because a quota was exhausted, by quota",
            quotas.all().map(|quota| (vec![("quota", quota.resource().as_str())], quota.refused())),
        ),
        Family::counters(
            "http_closed",
            "Connections closed by the server, by reason",
            CloseReason::ALL.iter().map(|why| {
                (vec![("reason", why.as_str())], http_metrics.connections().closed(*why))
            }),
        ),
        Family::gauge(
            "websockets",
            "Sessions of agents over WebSocket, those in their grace time included",
            sessions as f64,
        ),
    ]
}

fn about_webhooks(webhooks: &Webhooks) -> Family {
    let calls =
        DeliveryOutcome::ALL.map(|end| (vec![("outcome", end.as_str())], webhooks.calls(end)));
    Family::counters("webhook_calls", "Webhook calls, by outcome", calls)
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
