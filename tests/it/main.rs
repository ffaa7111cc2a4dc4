//! Behaviour through the public edges, one module per edge.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

/// The agents that come with the server: the host's own, and the one for conformance kits.
mod a2a_agents;
/// A2A under SIGKILL: what was acknowledged is kept and ends once.
mod a2a_crash;
/// A2A through HTTP: both versions over both bindings, against the real program.
mod a2a_http;
/// Agents that leave: presence, and `openclaw-a2a agents remove`.
mod agents_removed;
/// Answers that are worked out on the spot.
mod at_once;
/// What the bus must withstand, row by row.
mod attacks;
/// `openclaw-a2a backup` and `restore`, and formats of other versions.
mod backup;
/// What `serve` prints when it starts and stops; the lines it offers work when pasted.
mod banner;
/// `openclaw-a2a bench`: figures that add up, limits that are kept, nothing left behind.
mod bench_command;
/// The bus in one process: delivery, sessions, retries, restarts, stopping.
mod bus;
/// `openclaw-a2a agents`, `inbox`, `access`, `breaker` and `dead-letters`.
mod cli_people;
/// `openclaw-a2a schema`, `completions` and the help texts.
mod cli_schema;
/// `openclaw-a2a send`: every kind, whole messages, who sends, refusals.
mod cli_send;
/// `openclaw-a2a task list`, `show` and `cancel`: tasks of A2A and of the ledger as one.
mod cli_tasks;
/// `openclaw-a2a validate`: verdicts, formats, exit codes, bounded memory.
mod cli_validate;
/// `openclaw-a2a config`: problems with their lines, what is in force, the environment, the page.
mod config;
/// What conformance kits showed: ids used again, versions, calls without an id, errors of streams.
mod conformance;
/// The crash proof: load, SIGKILL, restart, many times; nothing lost, nothing twice.
mod crash;
/// `serve --demo`: the cast at work, over a restart, within the limits, for clients.
mod demo;
/// A disk that refuses: nothing accepted, nothing lost, nothing hangs.
mod disk_faults;
/// `openclaw-a2a doctor`: what is as it should be, what is not, and what to do.
mod doctor;
/// What the README and docs/ show is tried, and their links lead somewhere.
mod documentation;
/// `openclaw-a2a serve` over HTTP: every endpoint, every outcome, stopping and starting again.
mod http;
/// An index whose disk is full: messages are still accepted, and it catches up by itself.
mod index_outage;
/// `openclaw-a2a log` with a server and without one: what people see, and proving it.
mod log_command;
/// `openclaw-a2a log --follow`: across servers, from nothing, until the reader leaves.
mod log_follow;
/// `/bus/log`: filters, one message, redaction, tokens.
mod log_http;
/// Logs that are not as usual: much about one message, clocks set back, deep messages.
mod log_reading;
/// `/bus/log/stream`: from where to where, filters, slow readers.
mod log_stream;
/// What happens to the log behind the server's back, found by `log verify`.
mod log_tampering;
/// `/metrics` and `/readyz`: numbers that move, who may read them, which part is not well.
mod metrics;
/// Router, sessions and journal against a model, with random crashes.
mod model;
/// One namespace for agents, clients and operators: who gets a name, who is refused.
mod names;
/// The OpenAPI document: valid, whole, and what the server really answers.
mod openapi;
/// Objectives, plans and their tasks: who sees them, what may be done with them, how they run.
mod opt;
/// What people see and stop over HTTP, and tokens.
mod oversight;
/// Modes of files and folders: all of them the owner's alone, whatever they were before.
mod private;
/// Task progress: what is taken, how often it is passed on, who sees it, bars, watching.
mod progress;
/// `/readyz` on disks that fail, fill up and hang, and with parts that end.
mod readiness;
/// SIGHUP: what changes in a running server, what does not, and that nothing is lost by it.
mod reload;
/// Whole stories of a team, each with a restart in the middle.
mod scenarios;
/// What an agent's author uses: senders, errors, the handle on work, handlers per kind.
mod sdk;
/// The task service: turns, waiting, streams, cancelling, limits, restarts, whose tasks they are.
mod tasks;
/// Checks of the sources: vocabulary, names of files and types.
mod tidy;
/// `https`: certificates, our own commands, what is no TLS.
mod tls;
/// `openclaw-a2a token`, and what a running server makes of it.
mod tokens;
/// What a power cut leaves at the end of the log, and damage that looks like it.
mod torn_log;
/// Traces: `traceparent` in, through inbox, WebSocket, webhook, handler and log, out.
mod tracing;
/// Push notifications: where they may go, receivers and name servers that misbehave.
mod webhooks;
/// Several messages at once in the hands of one session.
mod window;
/// Sessions over WebSocket: what is handed out, in which order, how often, and to whom.
mod ws_delivery;
/// The same: sending, and frames that are not as they should be.
mod ws_frames;
/// The same: who may come, how a connection is lost, resumed and ended.
mod ws_lifecycle;

/// Support: a caller over one of the four forms of A2A.
mod a2a_caller;
/// Support: the events of a stream.
mod a2a_events;
/// Support: a bus with the task service on it, and a client.
mod a2a_side;
/// Support: an agent of the bus that works when the test lets it.
mod a2a_worker;
/// Support: the program as a person uses it, beside a server.
mod command;
/// Support: HTTP/2 written frame by frame.
mod frames;
/// Support: an agent that passes on whatever it gets.
mod listener;
/// Support: the real server as a child process, and a client for it.
mod server;
/// Support: an agent at the other end of a WebSocket.
mod socket;
/// Support: a journal whose disk can refuse and whose process can die.
mod unreliable_journal;

/// A task that no agent was asked for yet.
fn new_task() -> a2a_protocol::body::TaskRequest {
    let a2a_protocol::Body::TaskRequest(mut task) = a2a_protocol::Kind::TaskRequest.example()
    else {
        unreachable!("the example of its kind")
    };
    task.task_id = uuid::Uuid::now_v7().try_into().unwrap();
    task
}

/// The program under test.
fn openclaw_a2a() -> assert_cmd::Command {
    assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"))
}
