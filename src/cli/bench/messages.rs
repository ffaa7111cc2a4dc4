//! Message load: some agents send, others take and acknowledge.
//!
//! The number of messages in flight is bounded, so that the server is measured and not the length
//! of its queues.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use chrono::{SecondsFormat, Utc};
use parking_lot::Mutex;
use serde_json::{Value, json};
use uuid::Uuid;

use super::call::{self, Reply};
use super::counters::Counters;
use super::run_control::RunControl;
use super::sender_pool::SenderPool;
use super::{CALL_TIMEOUT, LoadResult, MAX_UNANSWERED};
use crate::cli::server::Server;
use crate::cli::server_error::ServerError;

/// Maximum messages in flight per sending thread.
pub(super) const IN_FLIGHT_PER_SENDER: usize = 4;
/// Long-poll wait of a taker.
const WAIT: &str = "250ms";
/// Maximum rounds of clearing what is left at the end.
const ROUNDS: usize = 20;
/// Prefix of every message text; the send time follows.
const TEXT: &str = "bench ";

/// Agents of a run and their shared state.
pub(super) struct MessageLoad<'a> {
    server: &'a Server,
    /// Prefix of all agent ids of this run.
    prefix: String,
    takers: Vec<String>,
    senders: Mutex<SenderPool>,
    /// Set when no thread sends any more.
    done: AtomicBool,
}

impl<'a> MessageLoad<'a> {
    /// Registers the receiving agents by polling their inboxes. Fails here if the directory is
    /// closed.
    pub(super) fn prepare(
        server: &'a Server,
        run: &str,
        takers: usize,
        senders: usize,
    ) -> anyhow::Result<Self> {
        let prefix = format!("bench-{run}-");
        let takers: Vec<_> = (1..=takers).map(|n| format!("{prefix}to-{n:02}")).collect();
        for taker in &takers {
            call::take(server, taker, "0s")?;
        }
        let senders = Mutex::new(SenderPool::new(run.to_owned(), senders));
        Ok(Self { server, prefix, takers, senders, done: AtomicBool::new(false) })
    }

    pub(super) fn run(
        &self,
        control: &RunControl,
        at_once: usize,
        tick: &dyn Fn(),
    ) -> anyhow::Result<LoadResult> {
        let mut counters = Counters::new()?;
        let sending = thread::scope(|scope| {
            let takers: Vec<_> = self
                .takers
                .iter()
                .map(|taker| scope.spawn(move || self.take(taker, control)))
                .collect();
            let senders: Vec<_> =
                (0..at_once).map(|_| scope.spawn(|| self.send(control))).collect();
            wait_for(&senders, tick);
            let sending = control.started().elapsed();
            self.done.store(true, Ordering::Release);
            let joined = gather(&mut counters, senders);
            gather(&mut counters, takers).and(joined)?;
            anyhow::Ok(sending)
        })?;
        let whole = control.started().elapsed();
        // Fallback for a server that no longer answers.
        let unseen = counters.accepted.saturating_sub(counters.acknowledged);
        let left = self.clear(&mut counters).unwrap_or(unseen);
        let agents = self.takers.len() + self.pool(|pool| pool.len());
        Ok(LoadResult { counters, sending, whole, agents, left })
    }

    fn pool<T>(&self, act: impl FnOnce(&mut SenderPool) -> T) -> T {
        act(&mut self.senders.lock())
    }

    /// Returns a sender within its rate limit; `None` when the run is over.
    fn sender(&self, control: &RunControl, counters: &mut Counters) -> Option<usize> {
        loop {
            let now = Instant::now();
            match self.pool(|pool| pool.take(now)) {
                Ok(number) => return Some(number),
                Err(until) => {
                    control.pause(until.unwrap_or(now + Duration::from_millis(50)));
                    counters.held_up += now.elapsed();
                }
            }
            if control.is_over() {
                return None;
            }
        }
    }

    fn send(&self, control: &RunControl) -> anyhow::Result<Counters> {
        let server = self.server.with_timeout(CALL_TIMEOUT);
        let mut counters = Counters::new()?;
        let (mut agent, mut count, mut unanswered) = (None, 0, 0);
        while control.acquire_permit() {
            if !control.try_start() {
                control.release_permit();
                break;
            }
            // Get a sender only when there is something to send, so that none is held idle.
            agent = agent.or_else(|| self.sender(control, &mut counters));
            let Some(number) = agent else {
                control.cancel_start();
                control.release_permit();
                break;
            };
            let name = self.pool(|pool| pool.name(number));
            // Rotate recipients: the limit per pair is lower than the limit per agent.
            let to = &self.takers[(number + count) % self.takers.len()];
            count += 1;
            counters.sent += 1;
            let begin = Instant::now();
            let message = message(&name, to, begin - control.started());
            let headers = [("a2a-on-behalf-of", name.clone())];
            let reply = call::post(&server, "/bus/messages", &headers, &message);
            unanswered = if reply.is_ok() { 0 } else { unanswered + 1 };
            match reply {
                Ok(Reply::Accepted(_)) => {
                    counters.answer.record(begin.elapsed());
                    counters.accepted += 1;
                    control.count_accepted();
                    // The permit is released when a taker has the message.
                    continue;
                }
                Ok(Reply::Later(code, reason, wait)) => {
                    control.cancel_start();
                    let now = Instant::now();
                    if code == "rate_limited" {
                        self.pool(|pool| pool.rest(number, wait, now));
                        agent = None;
                    } else {
                        control.pause(now + wait);
                        counters.held_up += now.elapsed();
                    }
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
            control.release_permit();
        }
        Ok(counters)
    }

    /// Takes and acknowledges messages of one agent until the senders have stopped and its inbox is
    /// empty.
    fn take(&self, taker: &str, control: &RunControl) -> anyhow::Result<Counters> {
        let server = self.server.with_timeout(CALL_TIMEOUT);
        let mut counters = Counters::new()?;
        let mut unanswered = 0;
        while unanswered < MAX_UNANSWERED {
            let is_last = self.done.load(Ordering::Acquire);
            let Ok(messages) = call::take(&server, taker, if is_last { "0s" } else { WAIT }) else {
                unanswered += 1;
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            unanswered = 0;
            if messages.is_empty() && is_last {
                break;
            }
            let taken = control.started().elapsed();
            for message in &messages {
                if let Some(sent) = sent_at(message) {
                    counters.end_to_end.record(taken.saturating_sub(sent));
                }
                counters.acknowledged += u64::from(acknowledge(&server, taker, message));
                control.release_permit();
            }
        }
        Ok(counters)
    }

    /// Clears messages that were accepted without the sender getting an answer. Returns how many
    /// are still pending.
    fn clear(&self, counters: &mut Counters) -> anyhow::Result<u64> {
        let server = self.server.with_timeout(CALL_TIMEOUT);
        let mut left = 0;
        for _ in 0..ROUNDS {
            let waiting = self.waiting(&server)?;
            left = waiting.iter().map(|(_, pending)| pending).sum();
            if left == 0 {
                break;
            }
            for (agent, _) in &waiting {
                for message in call::take(&server, agent, "0s")? {
                    counters.acknowledged += u64::from(acknowledge(&server, agent, &message));
                }
            }
        }
        Ok(left)
    }

    /// Removes the agents of this run. Returns how many the server has kept.
    pub(super) fn remove_agents(&self, at_once: usize) -> usize {
        let senders = self.pool(|pool| (0..pool.len()).map(|n| pool.name(n)).collect::<Vec<_>>());
        let all: Vec<_> = self.takers.iter().cloned().chain(senders).collect();
        let share = all.len().div_ceil(at_once.max(1)).max(1);
        thread::scope(|scope| {
            let parts = all.chunks(share).map(|names| {
                scope.spawn(move || {
                    let server = self.server.with_timeout(CALL_TIMEOUT);
                    let stays = |name: &&String| {
                        server.delete(&format!("/bus/agents/{name}?drop=true")).is_err_and(
                            |error| {
                                // An agent that never sent is not registered.
                                error
                                    .downcast_ref::<ServerError>()
                                    .is_none_or(|no| no.status != 404)
                            },
                        )
                    };
                    names.iter().filter(stays).count()
                })
            });
            let parts: Vec<_> = parts.collect();
            // A panicked thread has removed an unknown number; count one.
            parts.into_iter().map(|part| part.join().unwrap_or(1)).sum()
        })
    }

    /// Agents of this run with pending messages, and their numbers.
    fn waiting(&self, server: &Server) -> anyhow::Result<Vec<(String, u64)>> {
        let (mut waiting, mut cursor) = (Vec::new(), String::new());
        loop {
            let body = call::get(server, &format!("/bus/agents?cursor={cursor}"))?;
            let agents = body["agents"].as_array().map(Vec::as_slice).unwrap_or_default();
            waiting.extend(agents.iter().filter_map(|agent| {
                let (name, pending) = (agent["agentId"].as_str()?, agent["pending"].as_u64()?);
                (pending > 0 && name.starts_with(&self.prefix)).then(|| (name.to_owned(), pending))
            }));
            // The cursor is an agent id, which needs no escaping.
            cursor = body["nextCursor"].as_str().unwrap_or_default().to_owned();
            if cursor.is_empty() {
                return Ok(waiting);
            }
        }
    }
}

/// Calls `tick` periodically until all threads have ended.
pub(super) fn wait_for<T>(threads: &[ScopedJoinHandle<'_, T>], tick: &dyn Fn()) {
    while !threads.iter().all(ScopedJoinHandle::is_finished) {
        tick();
        thread::sleep(Duration::from_millis(20));
    }
}

/// Merges the counters of threads.
pub(super) fn gather(
    counters: &mut Counters,
    threads: Vec<ScopedJoinHandle<'_, anyhow::Result<Counters>>>,
) -> anyhow::Result<()> {
    for thread in threads {
        let counted = thread.join().map_err(|_| anyhow!("a thread of the bench panicked"))?;
        counters.add(counted?)?;
    }
    Ok(())
}

/// Builds a status update with a unique text, which no loop detection takes for an echo.
fn message(from: &str, to: &str, at: Duration) -> Value {
    json!({
        "protocol": "openclaw.a2a.v1",
        "messageId": Uuid::now_v7(),
        "correlationId": Uuid::now_v7(),
        "timestamp": Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true),
        "from": {"agentId": from},
        "to": {"agentId": to},
        "type": "status_update",
        "priority": "normal",
        "payload": {"status": "in_progress", "progress": format!("{TEXT}{}", at.as_nanos())},
    })
}

/// Send time of a taken message, relative to the start of the run.
fn sent_at(taken: &Value) -> Option<Duration> {
    let text = taken["message"]["payload"]["progress"].as_str()?;
    text.strip_prefix(TEXT)?.parse().ok().map(Duration::from_nanos)
}

fn acknowledge(server: &Server, agent: &str, taken: &Value) -> bool {
    let Some(id) = taken["message"]["messageId"].as_str() else { return false };
    let path = format!("/bus/agents/{agent}/inbox/{id}/ack");
    (0..3).any(|_| matches!(call::post(server, &path, &[], &json!({})), Ok(Reply::Accepted(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_message_is_valid_and_contains_its_send_time() {
        let at = Duration::from_nanos(1_234_567);
        let sent = message("bench-x-001", "bench-x-to-01", at);
        a2a_protocol::Envelope::parse(sent.to_string().as_bytes()).unwrap();
        assert_eq!(sent_at(&json!({ "message": sent })), Some(at));
        assert_eq!(sent_at(&json!({"message": {"payload": {"progress": "else"}}})), None);
    }
}
