//! A2A through HTTP: each of the four forms means the same, and what is special to one of them.

/// Cards, versions, extensions, tenants.
mod doors;
/// What callers with a token see, and what operators delete.
mod extended;
/// What all four forms have in common.
mod forms;
/// Limits: each has its own error and changes nothing.
pub(crate) mod limits;
/// Push configurations, and the calls that follow.
pub(crate) mod pushes;
/// JSON-RPC and HTTP themselves: batches, notifications, what is no call.
mod rules;
/// What streams send, to which callers, and from where they resume.
mod streams;

use std::path::Path;
use std::thread;

use serde_json::Value;

use crate::a2a_caller::{Caller, FAR, Refused, state};
use crate::a2a_worker::Worker;
use crate::server::Server;

/// A server without near limits, and the agent `tim`.
fn start(folder: &Path) -> (Server, Worker) {
    start_with(folder, "")
}

/// The same with more in its configuration, which comes after `[limits]`.
fn start_with(folder: &Path, config: &str) -> (Server, Worker) {
    let server = Server::with_config(folder, &format!("{FAR}{config}"));
    let tim = Worker::tim(&server);
    (server, tim)
}

/// Asks and waits, while the agent does what it is asked.
fn ask_while(caller: &Caller, fields: Value, work: impl FnOnce()) -> Result<Value, Refused> {
    thread::scope(|scope| {
        let asks = scope.spawn(|| caller.ask(fields));
        work();
        asks.join().unwrap()
    })
}

/// Looks until the task is in this state.
pub(crate) fn until(caller: &Caller, task: &str, expected: &str) -> Value {
    for _ in 0..100_000 {
        let task = caller.get(task, &[]).unwrap();
        if state(&task) == expected {
            return task;
        }
    }
    panic!("{task} was never {expected}");
}

/// The code of what must be refused.
#[track_caller]
fn code<T: std::fmt::Debug>(answer: Result<T, Refused>) -> i64 {
    answer.expect_err("refused").code
}
