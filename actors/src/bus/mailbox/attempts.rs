//! Attempts of agent code: started in message order, up to `max_in_flight` at once.
//!
//! An attempt ends by its result, its deadline or the loss of the agent; `acknowledge` records
//! which.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use a2a_policy::Caller;
use a2a_protocol::{Event, Outcome};
use actix::prelude::*;
use futures_util::FutureExt;
use tokio::task::AbortHandle;
use tracing::Instrument;

use super::acknowledge::{AckHandle, Finished};
use super::{Session, delivery};
use crate::bus::commit::effects::OnCommit;
use crate::bus::message::{AttemptState, StoredMessage};
use crate::bus::router::{Reply, Route};
use crate::{AgentRuntime, Delivery, Failed, Handled, HandlerFuture, Submission};

/// An attempt at work.
pub(super) struct RunningAttempt {
    /// Distinguishes a late result of an aborted attempt from that of the current one.
    pub(super) attempt: u32,
    /// Shared with the agent's code.
    pub(super) attempt_state: Arc<AttemptState>,
    /// `None` until the attempt is recorded and may start.
    abort: Option<AbortHandle>,
    /// The bus refused the inline answer.
    answer_refused: bool,
}

/// Result of the inline calls on the bus thread.
enum InlineResult {
    /// Answered inline.
    Answered(Box<Submission>),
    /// The end is reported through the [`AckHandle`].
    Deferred,
    /// A future is to be run.
    Pending,
}

impl Session {
    /// Starts an attempt on the next message; `false` when none waits, or the agent's code is at
    /// its limit.
    pub(super) fn run_next(&mut self, ctx: &mut Context<Self>) -> bool {
        // Read after every message: a mailbox with nothing to lease costs no look at the clock.
        if !self.has_capacity() || self.mailbox.inbox.borrow().is_all_in_flight() {
            return false;
        }
        let now = self.bus.clock.now().uptime;
        let until = now + self.bus.settings.handler_deadline;
        let mut inbox = self.mailbox.inbox.borrow_mut();
        let Some(entry) = inbox.lease(now, until) else { return false };
        // An earlier attempt may have killed the process: record this one before it can. Later
        // messages wait behind it.
        let on_record_first = entry.item.recovered || !self.awaiting_record.is_empty();
        let delivery = delivery(entry);
        drop(inbox);
        self.mailbox.note_leased(&delivery);
        let (seq, attempt, id) = (delivery.seq, delivery.attempt, delivery.message.message_id);
        self.bus.running.set(self.bus.running.get() + 1);
        self.running.insert(
            seq,
            RunningAttempt {
                attempt,
                attempt_state: Arc::default(),
                abort: None,
                answer_refused: false,
            },
        );
        if on_record_first {
            self.awaiting_record.insert(seq);
            let on_commit = OnCommit::StartAttempt { session: ctx.address(), seq };
            self.record(Event::Delivered, seq, Some(id), Some(attempt), None, on_commit);
            return true;
        }
        if attempt > 1 {
            self.record(Event::Delivered, seq, Some(id), Some(attempt), None, OnCommit::Nothing);
        }
        self.start(delivery, ctx);
        true
    }

    /// Delivers out-of-band messages while others are being handled: an answer to a task that the
    /// code requested must not queue behind the work that needs it.
    pub(super) fn take_out_of_band(&mut self) {
        let Some(runtime) = self.runtime.clone().filter(|runtime| runtime.has_out_of_band()) else {
            return;
        };
        if self.running.is_empty() {
            return;
        }
        let now = self.bus.clock.now().uptime;
        let until = now + self.bus.settings.handler_deadline;
        loop {
            let wants =
                |stored: &Arc<StoredMessage>| runtime.is_out_of_band(&stored.by, &stored.message);
            let mut inbox = self.mailbox.inbox.borrow_mut();
            let Some(delivery) = inbox.lease_if(now, until, wants).map(delivery) else { return };
            drop(inbox);
            if !runtime.take_out_of_band(&delivery) {
                // No longer awaited; it has its turn like any other.
                self.mailbox.inbox.borrow_mut().put_back(delivery.seq);
                return;
            }
            self.acknowledge(delivery.seq, None, OnCommit::Nothing);
        }
    }

    /// Runs the agent's code isolated from panics and, unless it only waits, from blocking.
    fn start(&mut self, mut delivery: Delivery, ctx: &mut Context<Self>) {
        let (seq, session) = (delivery.seq, self.address(ctx));
        let (Some(runtime), Some(running)) = (self.runtime.clone(), self.running.get_mut(&seq))
        else {
            return;
        };
        let attempt = running.attempt;
        delivery.attempt_state = Some(Arc::clone(&running.attempt_state));
        let ack = AckHandle { session: Arc::clone(&session), seq, attempt };
        // The agent's own log lines belong to the trace of the message.
        let span = tracing::debug_span!(
            "handle",
            trace = %delivery.trace().id(),
            agent = %self.mailbox.agent,
            message_id = %delivery.message.message_id,
            attempt,
        );
        let taken = AssertUnwindSafe(|| {
            let _span = span.enter();
            match (!running.answer_refused).then(|| runtime.answer_inline(&delivery)).flatten() {
                Some(answer) => InlineResult::Answered(Box::new(answer)),
                None => runtime
                    .take_deferred(&delivery, ack)
                    .map_or(InlineResult::Deferred, |_| InlineResult::Pending),
            }
        });
        match catch_unwind(taken) {
            Ok(InlineResult::Pending) => {}
            Ok(taken) => {
                running.attempt_state.started.store(true, Relaxed);
                self.awaiting_record.remove(&seq);
                if let InlineResult::Answered(answer) = taken {
                    self.send_answer(*answer, seq, attempt, session);
                }
                return;
            }
            Err(panic) => {
                let result = Err(panicked(&*panic));
                self.awaiting_record.remove(&seq);
                return session.do_send(Finished { seq, attempt, result });
            }
        }
        let attempt_state = Arc::clone(&running.attempt_state);
        // Several at once are handed over here in order; on threads of their own they would
        // overtake each other.
        let mut inline_work =
            (runtime.max_in_flight() != 1).then(|| handle_here(&*runtime, delivery.clone()));
        // An awaited message is taken here as well: the next is taken out of band, and the end of a
        // task must not overtake the reports before it.
        let is_awaited = inline_work.is_none()
            && runtime.has_out_of_band()
            && runtime.is_out_of_band(&delivery.sender, &delivery.message);
        if is_awaited && runtime.take_out_of_band(&delivery) {
            inline_work = Some(Ok(Box::pin(async { Ok(Handled::default()) })));
        }
        let runs_on_bus_thread = runtime.runs_on_bus_thread();
        let work = async move {
            attempt_state.started.store(true, Relaxed);
            match inline_work {
                Some(work) => work?.await,
                None => runtime.handle(delivery).await,
            }
        };
        let work = work.instrument(span);
        let work = async move {
            let result = AssertUnwindSafe(work).catch_unwind().await;
            let result = result.unwrap_or_else(|panic| Err(panicked(&*panic)));
            session.do_send(Finished { seq, attempt, result });
        };
        let task = if runs_on_bus_thread {
            tokio::task::spawn_local(work)
        } else {
            self.bus.handlers.spawn(work)
        };
        running.abort = Some(task.abort_handle());
        self.awaiting_record.remove(&seq);
    }

    /// Sends an inline answer.
    fn send_answer(&self, answer: Submission, seq: u64, attempt: u32, session: Arc<Addr<Self>>) {
        let caller = Caller::Agent(self.mailbox.agent.clone());
        let reply = Reply::Callback(Box::new(move |receipt| {
            let outcome = receipt.outcome;
            if outcome.is_accepted() || outcome == Outcome::Duplicate {
                session.do_send(Finished { seq, attempt, result: Ok(Handled::default()) });
            } else {
                session.do_send(AnswerRefused { seq, attempt });
            }
        }));
        // Beyond the queue limit: a message whose answer is lost would wait for its deadline.
        self.router.do_send(Route { caller, submission: answer, reply });
    }

    /// Ends an attempt without a result; late results are ignored.
    pub(super) fn stop_running(&mut self, seq: u64) {
        let Some(running) = self.running.remove(&seq) else { return };
        self.awaiting_record.remove(&seq);
        if let Some(abort) = running.abort {
            // A no-op for a task that has ended.
            abort.abort();
        }
        self.bus.running.set(self.bus.running.get().saturating_sub(1));
        self.bus.idle.notify_waiters();
    }

    /// Ends all attempts and returns their sequence numbers.
    fn stop_all(&mut self) -> Vec<u64> {
        let mut all: Vec<u64> = self.running.keys().copied().collect();
        all.sort_unstable();
        all.iter().for_each(|seq| self.stop_running(*seq));
        all
    }

    /// Ends all attempts without counting them as failed. Cancelled messages are settled, the rest
    /// returned.
    pub(super) fn stop_unfinished(&mut self) -> Vec<u64> {
        let mut rest = self.stop_all();
        rest.retain(|seq| {
            let over = self.cancelled.contains(seq);
            !(over && self.fail_attempt(*seq, "the agent left".to_owned(), OnCommit::Nothing))
        });
        rest
    }

    /// Returns all messages in flight to the inbox; the attempts do not count.
    pub(super) fn release_all(&mut self) {
        for seq in self.stop_unfinished() {
            self.mailbox.inbox.borrow_mut().put_back(seq);
        }
    }

    /// Fails all attempts.
    pub(super) fn fail_all(&mut self, reason: &str) {
        for seq in self.stop_all() {
            self.fail_attempt(seq, reason.to_owned(), OnCommit::Nothing);
        }
    }
}

/// Calls the handler on the bus thread, which a panic must not end.
fn handle_here(runtime: &dyn AgentRuntime, delivery: Delivery) -> Result<HandlerFuture, Failed> {
    catch_unwind(AssertUnwindSafe(|| runtime.handle(delivery))).map_err(|panic| panicked(&*panic))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failed {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no reason given".into());
    Failed::new(format!("the handler panicked: {text}"))
}

/// The attempt on a recovered message is recorded and may start.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct StartAttempt(pub(crate) u64);

impl Handler<StartAttempt> for Session {
    type Result = ();

    fn handle(&mut self, StartAttempt(seq): StartAttempt, ctx: &mut Self::Context) {
        if self.running.get(&seq).is_none_or(|running| running.abort.is_some()) {
            return;
        }
        let delivery = self.mailbox.inbox.borrow().get_in_flight(seq).map(delivery);
        match delivery {
            Some(delivery) if self.runtime.is_some() => self.start(delivery, ctx),
            _ => {
                // The agent left, or the message was settled by another call meanwhile.
                self.mailbox.inbox.borrow_mut().put_back(seq);
                self.stop_running(seq);
                self.pump(ctx);
            }
        }
    }
}

/// The bus refused the inline answer: the message goes to the handler.
#[derive(Message)]
#[rtype(result = "()")]
struct AnswerRefused {
    seq: u64,
    attempt: u32,
}

impl Handler<AnswerRefused> for Session {
    type Result = ();

    fn handle(&mut self, AnswerRefused { seq, attempt }: AnswerRefused, ctx: &mut Self::Context) {
        let Some(running) = self.running.get_mut(&seq) else { return };
        if running.attempt != attempt {
            return; // the attempt ended before the answer
        }
        running.answer_refused = true;
        ctx.notify(StartAttempt(seq));
    }
}

/// The commit of a message in flight failed: the message never existed.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Retracted(pub(crate) u64);

impl Handler<Retracted> for Session {
    type Result = ();

    fn handle(&mut self, Retracted(seq): Retracted, ctx: &mut Self::Context) {
        self.stop_running(seq);
        self.cancelled.remove(&seq);
        self.pump(ctx);
    }
}

/// The task that this message requested was cancelled: notify the agent's code.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CancelRunning(pub(crate) u64);

impl Handler<CancelRunning> for Session {
    type Result = ();

    fn handle(&mut self, CancelRunning(seq): CancelRunning, _: &mut Self::Context) {
        if self.mailbox.inbox.borrow().get_in_flight(seq).is_some() {
            self.cancelled.insert(seq);
        }
        if let Some(running) = self.running.get(&seq) {
            running.attempt_state.cancel();
        }
    }
}
