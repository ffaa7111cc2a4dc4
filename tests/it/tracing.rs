//! Traces: what a caller gives in `traceparent` is there wherever its message goes, and who gives
//! nothing has the trace of its conversation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_actors::Submission;
use a2a_policy::Caller as BusCaller;
use a2a_protocol::{Kind, Trace};
use openclaw_a2a::{Agent, Bus, Delivery, NewTask, SendError};
use serde_json::{Value, json};

use crate::a2a_caller::{Caller, FAR, Form, id};
use crate::a2a_http::pushes::{PRIVATE, next as next_call, receiver};
use crate::a2a_worker::Worker;
use crate::listener::{listener, next};
use crate::openclaw_a2a;
use crate::server::{Server, id_of, message, serve, stderr};
use crate::socket::Socket;

const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A `traceparent` in this trace, below the step that a message or task is.
fn below(trace: &str, step: &str) -> String {
    let step = step.replace('-', "");
    format!("00-{trace}-{}-01", &step[16..])
}

/// The trace of a conversation.
fn of(message: &Value) -> String {
    message["correlationId"].as_str().unwrap().replace('-', "")
}

#[test]
fn what_a_sender_gives_is_in_the_inbox_and_in_the_log_and_survives_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    let (given, plain) = (message("roman", "tim", "given"), message("roman", "tim", "plain"));
    let roman = server.with("traceparent", GIVEN).with("tracestate", "rojo=1,congo=t61\"rc");
    roman.accepted(&given);
    server.accepted(&plain);
    server.kill();

    let server = Server::start(folder.path());
    let taken = server.inbox("tim", "wait=10s&limit=9");
    assert_eq!(taken.len(), 2, "{taken:?}");
    assert_eq!(taken[0]["traceparent"], below(ID, id_of(&given)));
    assert_eq!(taken[0]["tracestate"], "rojo=1,congo=t61\"rc");
    assert_eq!(taken[1]["traceparent"], below(&of(&plain), id_of(&plain)));
    assert_eq!(taken[1].get("tracestate"), None);
    assert_eq!(taken[0]["message"], given, "the message is as it was");

    let log = server.whole_log(9);
    assert_eq!(log[1]["trace"], format!("{GIVEN} rojo=1,congo=t61\"rc"));
    assert_eq!(log[0].get("trace"), None, "what goes without saying is not said");
    let found = server.get(&format!("/bus/log?text={ID}")).body;
    assert_eq!(found["records"].as_array().unwrap().len(), 1);
    assert_eq!(found["records"][0]["messageId"], given["messageId"]);
    let output =
        openclaw_a2a().args(["log", "verify", "--state-dir"]).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_is_no_trace_is_never_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), FAR);
    server.inbox("tim", "");
    for bad in [
        "nonsense",
        "",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
    ] {
        let sent = message("roman", "tim", "hi");
        server.with("traceparent", bad).with("tracestate", "a=b").accepted(&sent);
        let taken = server.inbox("tim", "wait=10s&limit=1");
        assert_eq!(taken[0]["traceparent"], below(&of(&sent), id_of(&sent)), "{bad}");
        assert_eq!(taken[0].get("tracestate"), None, "{bad}");
    }
    // A state that is too long goes, the trace stays.
    let sent = message("roman", "tim", "long");
    let long = format!("a={}", "x".repeat(511));
    server.with("traceparent", GIVEN).with("tracestate", long).accepted(&sent);
    let taken = server.inbox("tim", "wait=10s&limit=1");
    assert_eq!(taken[0]["traceparent"], below(ID, id_of(&sent)));
    assert_eq!(taken[0].get("tracestate"), None);
}

#[test]
fn sessions_carry_traces_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (mut tim, _) = Socket::greet(&server, "tim", json!({}));
    server.inbox("roman", "");
    let sent = message("roman", "tim", "hi");
    server.with("traceparent", GIVEN).with("tracestate", "a=b").accepted(&sent);
    let frame = tim.receive();
    assert_eq!((&frame["type"], &frame["tracestate"]), (&json!("deliver"), &json!("a=b")));
    assert_eq!(frame["traceparent"], below(ID, id_of(&sent)));

    // The agent continues its caller's trace, in a conversation of its own.
    for (given, trace) in [(frame["traceparent"].clone(), Some(ID)), (json!("00-nonsense"), None)] {
        let answer = message("tim", "roman", "hello");
        tim.say(&json!({"type": "send", "message": answer, "traceparent": given}));
        let receipt = tim.receive();
        assert_eq!(receipt["type"], "receipt", "{receipt}");
        let taken = server.inbox("roman", "wait=10s&limit=1");
        let trace = trace.map_or_else(|| of(&answer), str::to_owned);
        assert_eq!(taken[0]["traceparent"], below(&trace, id_of(&answer)));
    }
}

#[test]
fn tasks_carry_the_trace_of_their_caller_to_agents_and_webhooks() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), &format!("{FAR}{PRIVATE}"));
    let tim = Worker::tim(&server);
    let caller = Caller::of(&server, Form::Rpc10, "tim");
    let other = "00-aaaabbbbccccddddeeeeffff00001111-00f067aa0ba902b7-01";
    // The second waits for its turn behind the first, and the third gives no trace.
    caller.with("traceparent", GIVEN).begin(json!({"contextId": "c"})).unwrap();
    let traced = caller.with("traceparent", other).with("tracestate", "a=b");
    let second = traced.begin(json!({"contextId": "c"})).unwrap();
    let (url, answered) = receiver(&["200 OK"]);
    caller.set_push(&id(&second), &json!({"url": url})).unwrap();
    let first = server.inbox("tim", "wait=10s&limit=1").remove(0);
    assert_eq!(first["traceparent"], below(ID, id_of(&first)));
    assert_eq!(server.settle("tim", id_of(&first), "ack").status, 200);
    tim.complete(&first["message"], "done");

    let request = server.inbox("tim", "wait=10s&limit=1").remove(0);
    assert_eq!(request["message"]["payload"]["taskId"], json!(id(&second)));
    assert_eq!(request["traceparent"], below(&other[3..35], id_of(&request)));
    assert_eq!(request["tracestate"], "a=b");
    assert_eq!(server.settle("tim", id_of(&request), "ack").status, 200);
    tim.complete(&request["message"], "done");
    for _ in 0..3 {
        let head = next_call(&answered).head;
        let parent = below(&other[3..35], &id(&second));
        assert!(head.contains(&format!("traceparent: {parent}\r\n")), "{head}");
        assert!(head.contains("tracestate: a=b\r\n"), "{head}");
    }

    let third = caller.begin(json!({})).unwrap();
    let request = server.inbox("tim", "wait=10s&limit=1").remove(0);
    assert_eq!(request["message"]["payload"]["taskId"], json!(id(&third)));
    assert_eq!(request["traceparent"], below(&of(&request["message"]), id_of(&request)));
}

/// Asks bob for something, in a conversation of its own, and waits for it.
async fn hand_on(tim: Agent, delivery: Delivery) -> Result<(), SendError> {
    let mut work = tim.request_task("bob", NewTask::new("Look", "Look at it")).await?;
    let text = work.result().await.map(|done| done.summary().to_owned()).unwrap_or_default();
    tim.complete(&delivery, text).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_have_the_trace_of_their_delivery_and_their_messages_continue_it() {
    let bus = Bus::builder().in_memory().start().unwrap();
    bus.attach("tim", hand_on).await.unwrap();
    let (bob, mut bobs) = listener(&bus, "bob").await;
    let (_roman, mut romans) = listener(&bus, "roman").await;
    let mut message = Kind::TaskRequest.example_message();
    message.message_id = uuid::Uuid::now_v7().try_into().unwrap();
    message.from.agent_id = "roman".parse().unwrap();
    message.to.as_mut().unwrap().agent_id = "tim".parse().unwrap();
    let conversation = message.correlation_id;
    let trace: Arc<Trace> = Arc::new(format!("{GIVEN} a=b").parse().unwrap());
    let submission = Submission::from_message(message, Instant::now()).with_trace(Some(trace));
    let receipt = bus.system().send(BusCaller::Local, submission).await;
    assert!(receipt.outcome.is_accepted(), "{receipt:?}");

    let asked = next(&mut bobs).await;
    assert_ne!(asked.message.correlation_id, conversation);
    assert_eq!(asked.trace().id().to_string(), ID);
    assert_eq!(asked.trace().tracestate(), Some("a=b"));
    let step = asked.message.message_id.to_string();
    assert_eq!(asked.trace().traceparent(), below(ID, &step));
    // Sent outside of a handler, it belongs to its conversation.
    bob.complete(&asked, "seen").await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let received = next(&mut romans).await;
            if received.message.kind() == Kind::TaskResponse {
                return received;
            }
        }
    });
    let answer = answer.await.expect("in time");
    assert_eq!(answer.message.correlation_id, conversation);
    assert_eq!(answer.trace().id().to_string(), ID);
    bus.stop().await;
}

#[test]
fn one_id_goes_through_the_log_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve(folder.path());
    command.env("OPENCLAW_LOG", "info,a2a_gateway=debug,a2a_actors=debug");
    let server = Server::start_by(command, folder.path());
    let caller = Caller::of_host(&server, Form::Rest10);
    caller.with("traceparent", GIVEN).ask(json!({"text": "time"})).unwrap();
    let plain = caller.begin(json!({"text": "time"})).unwrap();
    let sent = message("roman", "nobody", "hi");
    assert_eq!(server.send(&sent).status, 404);
    let requests = server.whole_log(9);
    let request = |task: &Value| {
        requests.iter().find(|record| record["message"]["payload"]["taskId"] == *task).unwrap()
    };
    let plain = of(&request(&plain["id"])["message"]);
    assert_eq!(server.terminate().code(), Some(0));
    let text = stderr(folder.path());
    let says = |span: &str, trace: &str| {
        // Something was done inside of it.
        let is_entered = |line: &str| line.contains("close") && !line.contains("busy=0.00ns");
        let is_named = |line: &str| line.contains(&format!("{span}{{")) && line.contains(trace);
        text.lines().any(|line| is_named(line) && is_entered(line))
    };
    for span in ["request", "route", "handle", "task"] {
        assert!(says(span, ID), "{span} of what was given:\n{text}");
        assert!(says(span, &plain), "{span} of what was not:\n{text}");
    }
    for span in ["request", "route"] {
        assert!(says(span, &of(&sent)), "{span} of a message:\n{text}");
    }
}

#[test]
fn warnings_about_a_message_name_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[delivery]\nattempts = 2\nfirst_pause_ms = 1\n";
    let server = Server::with_config(folder.path(), config);
    server.inbox("tim", "");
    let sent = message("roman", "tim", "hi");
    server.with("traceparent", GIVEN).accepted(&sent);
    for _ in 0..2 {
        assert_eq!(server.inbox("tim", "wait=10s").len(), 1);
        assert_eq!(server.settle("tim", id_of(&sent), "nack").status, 200);
    }
    let notice = server.inbox("roman", "wait=10s").remove(0);
    assert_eq!(notice["traceparent"], below(ID, id_of(&notice)), "the notice belongs to it");
    assert_eq!(server.terminate().code(), Some(0));
    let text = stderr(folder.path());
    for what in ["an attempt failed", "a message became a dead letter"] {
        let line =
            text.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains(&format!("trace={ID}")), "{line}");
    }
}
