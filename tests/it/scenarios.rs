//! Whole stories of a team through the SDK, each with a restart of the bus in the middle:
//! what was agreed before it still holds after it.

use std::time::Duration;

use a2a_protocol::body::Status;
use a2a_protocol::{AgentId, AssignmentState, Body, CorrelationId, Envelope, Outcome, TaskId};
use openclaw_a2a::{
    Agent, Assignment, Bus, BusSettings, Delivery, NewTask, Profile, RateSettings, RetryPolicy,
    Sent, StatusReport,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;
pub(crate) use tokio::sync::mpsc::unbounded_channel;

pub(crate) use crate::listener::{SOON, listener, next};

/// Cancelled tasks.
mod cancel;
/// Circuits: tripped by hand, notified once, kept, reset; and long honest work that trips none.
mod circuits;
/// Tasks with a deadline.
mod deadlines;
/// Tasks that are declined and asked of another agent.
mod decline;
/// Knowledge and broadcasts: which agents get them.
mod fan_out;
/// Handlers that break.
mod late_failure;
/// Conversations that go in circles.
mod loops;
/// How much one agent may send.
mod rates;
/// Work that is reviewed, sent back, escalated, approved.
mod review;
/// Tasks from the request to the result.
mod tasks;

/// Longer than the bus takes for anything here; who waits so long has failed.
/// Few attempts, and without limits that a test could reach by accident.
pub(crate) fn quick() -> BusSettings {
    BusSettings {
        retry: RetryPolicy {
            attempts: 2,
            initial_backoff: Duration::from_millis(1),
            max_backoff: Duration::from_millis(1),
        },
        rates: RateSettings::unlimited(),
        ..BusSettings::default()
    }
}

pub(crate) fn start(folder: &TempDir, settings: BusSettings) -> Bus {
    Bus::builder().state_dir(folder.path()).settings(settings).start().unwrap()
}

/// Stops the bus and starts it again on the same folder; no agent is attached then.
pub(crate) async fn restart(bus: Bus, folder: &TempDir, settings: BusSettings) -> Bus {
    bus.stop().await;
    start(folder, settings)
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

/// The people of the project: name, squad, tier, whether in the c-suite.
const PEOPLE: &[(&str, &str, &str, bool)] = &[
    ("roman", "core", "T3-Staff", false),
    ("tim", "core", "T1-VP Arch", false),
    ("tony", "core", "T2-Senior", false),
    ("sandy", "sdk", "T2-Senior", false),
    ("claire", "sdk", "T3-Staff", false),
    ("barry", "audit", "T4-Mid", false),
    ("jerry", "audit", "T4-Mid", false),
    ("amadeus", "board", "CAIO", true),
    ("xavier", "board", "CTO", true),
];

pub(crate) fn team() -> Vec<(AgentId, Profile)> {
    let profile = |squad: &str, tier: &str, c_suite| Profile {
        squad: Some(squad.into()),
        tier: Some(tier.into()),
        c_suite,
        ..Profile::default()
    };
    PEOPLE.iter().map(|(name, squad, tier, c)| (id(name), profile(squad, tier, *c))).collect()
}

/// An agent that is known and not there: what it is sent waits.
pub(crate) async fn absent(bus: &Bus, name: &str) {
    bus.connect(name).await.unwrap().detach();
}

/// The next delivery is this message: nothing else came before it.
pub(crate) async fn next_is(inbox: &mut UnboundedReceiver<Delivery>, sent: &Sent) {
    let delivery = next(inbox).await;
    assert_eq!(delivery.message.message_id, sent.message_id(), "{delivery:?}");
}

/// The next delivery is a notice of the bus in this conversation; its text.
pub(crate) async fn next_notice(
    inbox: &mut UnboundedReceiver<Delivery>,
    talk: CorrelationId,
) -> String {
    let delivery = next(inbox).await;
    assert_eq!(delivery.sender.as_str(), "system", "{delivery:?}");
    assert_eq!(delivery.message.correlation_id, talk, "{delivery:?}");
    let Body::StatusUpdate(body) = &delivery.message.body else { panic!("{delivery:?}") };
    assert_eq!(body.status, Status::Blocked);
    body.progress.to_string()
}

/// A message in a conversation of its own; a recipient that gets it next has got nothing else.
pub(crate) async fn word(from: &Agent, to: &str) -> Sent {
    from.send_status_update(to, StatusReport::in_progress("Just a word")).await.unwrap()
}

/// A general remark in a conversation.
pub(crate) fn remark(from: &Agent, to: &str, text: &str, talk: CorrelationId) -> Envelope {
    from.write(to, StatusReport::in_progress(text).in_conversation(talk)).unwrap()
}

pub(crate) fn small_task() -> NewTask {
    NewTask::new("Implement the router", "Route every message through one pipeline.")
}

pub(crate) async fn task(bus: &Bus, id: TaskId) -> Assignment {
    bus.task(id).await.expect("the ledger knows the task")
}

pub(crate) async fn state(bus: &Bus, id: TaskId) -> AssignmentState {
    task(bus, id).await.state
}

pub(crate) fn payload(delivery: &Delivery) -> Value {
    serde_json::to_value(delivery.message.as_ref()).unwrap()["payload"].take()
}

/// Who was reached and how, by name.
pub(crate) fn outcomes(sent: &[a2a_protocol::RecipientOutcome]) -> Vec<(&str, Outcome)> {
    let mut outcomes: Vec<_> = sent.iter().map(|r| (r.agent_id.as_str(), r.outcome)).collect();
    outcomes.sort_unstable_by_key(|(name, _)| *name);
    outcomes
}

/// Every record of the log, newest first.
pub(crate) fn records(bus: &Bus) -> Vec<Value> {
    let reader = bus.system().reader();
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = reader.page(before, 1_000).unwrap();
        let read = page.records.iter().map(|r| serde_json::from_str::<Value>(r.line.get()));
        found.extend(read.map(Result::unwrap));
        before = page.next;
        if before.is_none() {
            return found;
        }
    }
}

/// The record of a message; there must be exactly one.
pub(crate) fn only_record(bus: &Bus, message: impl ToString) -> Value {
    let id = message.to_string();
    let mut of_it = records(bus);
    of_it.retain(|record| record["messageId"] == *id);
    assert_eq!(of_it.len(), 1, "{of_it:?}");
    of_it.remove(0)
}
