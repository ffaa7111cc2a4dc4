//! Task load: each call sends a message to one agent and waits until its task has ended.

use std::thread;
use std::time::{Duration, Instant};

use a2a_protocol::AgentId;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::call::{self, Reply};
use super::counters::Counters;
use super::messages::{gather, wait_for};
use super::run_control::RunControl;
use super::{LoadResult, MAX_UNANSWERED};
use crate::cli::server::Server;

/// Timeout of one task.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Target of the tasks.
pub(super) struct TaskLoad<'a> {
    server: &'a Server,
    run: &'a str,
    /// Path prefix of the agent's endpoint.
    below: String,
    pace: Mutex<Pacer>,
}

/// Spaces calls once a rate limit was reached. All calls have one caller and share its limit.
#[derive(Default)]
struct Pacer {
    next: Option<Instant>,
    apart: Duration,
}

impl Pacer {
    /// Reserves the time of the next call.
    fn turn(&mut self, now: Instant) -> Instant {
        let turn = self.next.map_or(now, |next| next.max(now));
        if self.apart > Duration::ZERO {
            self.next = Some(turn + self.apart);
        }
        turn
    }

    /// Applies the pause of a rate-limited call to all following ones.
    fn slow_down(&mut self, wait: Duration, now: Instant) {
        self.apart = self.apart.max(wait);
        let then = now + wait;
        self.next = Some(self.next.map_or(then, |next| next.max(then)));
    }
}

impl<'a> TaskLoad<'a> {
    pub(super) fn new(server: &'a Server, run: &'a str, agent: Option<&AgentId>) -> Self {
        let below = agent.map(|agent| format!("/agents/{agent}")).unwrap_or_default();
        Self { server, run, below, pace: Mutex::default() }
    }

    pub(super) fn run(
        &self,
        control: &RunControl,
        at_once: usize,
        tick: &dyn Fn(),
    ) -> anyhow::Result<LoadResult> {
        let mut counters = Counters::new()?;
        thread::scope(|scope| {
            let callers: Vec<_> =
                (0..at_once).map(|n| scope.spawn(move || self.call(n, control))).collect();
            wait_for(&callers, tick);
            gather(&mut counters, callers)
        })?;
        let whole = control.started().elapsed();
        let ended = ["completed", "failed", "canceled", "rejected", "message"];
        let left = counters.ended.iter().filter(|(state, _)| !ended.contains(&state.as_str()));
        let left = left.map(|(_, count)| count).sum();
        Ok(LoadResult { counters, sending: whole, whole, agents: 0, left })
    }

    fn pace<T>(&self, act: impl FnOnce(&mut Pacer) -> T) -> T {
        act(&mut self.pace.lock())
    }

    fn call(&self, caller: usize, control: &RunControl) -> anyhow::Result<Counters> {
        let server = self.server.with_timeout(CALL_TIMEOUT);
        let path = format!("{}/message:send", self.below);
        let mut counters = Counters::new()?;
        let (mut count, mut unanswered) = (0_u64, 0);
        while control.try_start() {
            let now = Instant::now();
            let turn = self.pace(|pace| pace.turn(now));
            if turn > now {
                control.pause(turn);
                counters.held_up += now.elapsed();
                if control.is_over() {
                    control.cancel_start();
                    break;
                }
            }
            let id = format!("bench-{}-{caller}-{count}", self.run);
            count += 1;
            counters.sent += 1;
            let begin = Instant::now();
            let reply = call::post(&server, &path, &[], &message(&id));
            unanswered = if reply.is_ok() { 0 } else { unanswered + 1 };
            match reply {
                Ok(Reply::Accepted(body)) => {
                    counters.answer.record(begin.elapsed());
                    counters.accepted += 1;
                    control.count_accepted();
                    *counters.ended.entry(self.end(&server, &body)).or_default() += 1;
                }
                Ok(Reply::Later(code, reason, wait)) => {
                    control.cancel_start();
                    self.pace(|pace| pace.slow_down(wait, Instant::now()));
                    counters.refuse(code, reason);
                }
                Ok(Reply::Never(code, reason)) => {
                    control.cancel_start();
                    control.abort(reason.clone());
                    counters.refuse(code, reason);
                }
                Err(error) => {
                    counters.unanswered += 1;
                    if unanswered >= MAX_UNANSWERED {
                        control.abort(format!("{error:#}"));
                    }
                }
            }
        }
        Ok(counters)
    }

    /// Final state of a task. A task that waits for its caller is cancelled, because it would wait
    /// forever.
    fn end(&self, server: &Server, body: &Value) -> String {
        let Some(state) = body["task"]["status"]["state"].as_str() else {
            return "message".to_owned();
        };
        let state = word(state);
        let waits = matches!(state.as_str(), "input_required" | "auth_required");
        let Some(id) = body["task"]["id"].as_str().filter(|_| waits) else { return state };
        let cancel = format!("{}/tasks/{id}:cancel", self.below);
        match call::post(server, &cancel, &[], &json!({})) {
            Ok(Reply::Accepted(_)) => "canceled".to_owned(),
            _ => state,
        }
    }
}

/// `TASK_STATE_INPUT_REQUIRED` as `input_required`.
fn word(state: &str) -> String {
    state.strip_prefix("TASK_STATE_").unwrap_or(state).to_ascii_lowercase()
}

/// A unique text, which the built-in agent echoes.
fn message(id: &str) -> Value {
    json!({"message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": format!("echo {id}")}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacer_spaces_calls_after_a_refusal() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut pace = Pacer::default();
        assert_eq!((pace.turn(now), pace.turn(now)), (now, now));
        pace.slow_down(second, now);
        let turns = [pace.turn(now), pace.turn(now), pace.turn(now)];
        assert_eq!(turns, [now + second, now + second * 2, now + second * 3]);
        let late = now + second * 9;
        assert_eq!(pace.turn(late), late);
    }

    #[test]
    fn state_names_have_one_spelling() {
        assert_eq!(word("TASK_STATE_INPUT_REQUIRED"), "input_required");
        assert_eq!(word("completed"), "completed");
    }
}
