//! Attempts of agent code: started in message order, up to `max_in_flight` at once.
//!
//! An attempt ends by its result, its deadline or the loss of the agent; `acknowledge` records which.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use a2a_policy::Caller;
use a2a_protocol::{Event, Outcome};
use actix::prelude::*;
use futures_util::FutureExt;
use tokio::task::AbortHandle;
use tracing::Instrument;

use crate::bus::commit::effects::OnCommit;
use crate::bus::message::{AttemptState, StoredMessage};
use crate::bus::router::{Reply, Route};
use crate::{AgentRuntime, Delivery, Failed, Handled, HandlerFuture, Submission};

use super::acknowledge::{AckHandle, Finished};
use super::{Session, delivery};

/// One message that is being handled.
pub(super) struct RunningAttempt {
    /// Tells a late answer of an aborted run from the answer of the present one.
    pub(super) attempt: u32,
    /// Shared with the agent's code.
    pub(super) attempt_state: Arc<AttemptState>,
    /// `None` until the attempt is on record and may begin.
    abort: Option<AbortHandle>,
    /// The bus did not take the answer that was worked out on the spot.
    answer_refused: bool,
}

/// What became of a message on the thread of the bus.
enum InlineResult {
    /// It is answered.
    Answered(Submission),
    /// Whoever took it says when it has been dealt with.
    Deferred,
    /// There is work to run.
    Pending,
}

impl Session {
    /// Hands the agent's code the message that comes next; `false` when there is none, or no room.
    pub(super) fn run_next(&mut self, ctx: &mut Context<Self>) -> bool {
        // Asked after every message: nothing but what is out costs no look at the clock.
        if !self.has_capacity() || self.mailbox.inbox.borrow().is_all_out() {
            return false;
        }
        let now = self.bus.clock.now().uptime;
        let until = now + self.bus.settings.handler_deadline;
        let mut inbox = self.mailbox.inbox.borrow_mut();
        let Some(entry) = inbox.lease(now, until) else { return false };
        // An earlier attempt may have killed the process: count this one before it can. And
        // nobody overtakes a message that waits for that.
        let on_record_first = entry.item.recovered || !self.awaiting_record.is_empty();
        let delivery = delivery(entry);
        drop(inbox);
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

    /// While a message is being handled, hands over what the agent's code waits for: an answer to
    /// a task it asked for must not stand in line behind the work that needs it.
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
                // Nobody waits for it any more; it has its turn like any other.
                self.mailbox.inbox.borrow_mut().put_back(delivery.seq);
                return;
            }
            self.acknowledge(delivery.seq, None, OnCommit::Nothing);
        }
    }

    /// Runs the agent's code where a panic or a blocked thread harms nobody else.
    fn start(&mut self, mut delivery: Delivery, ctx: &mut Context<Self>) {
        let (seq, session) = (delivery.seq, self.address(ctx));
        let (Some(runtime), Some(running)) = (self.runtime.clone(), self.running.get_mut(&seq))
        else {
            return;
        };
        let attempt = running.attempt;
        delivery.attempt_state = Some(Arc::clone(&running.attempt_state));
        let ack = AckHandle { session: Arc::clone(&session), seq, attempt };
        // What the agent's code says in its log is known by the trace it belongs to.
        let span = tracing::debug_span!(
            "handle",
            trace = %delivery.trace().id(),
            agent = %self.mailbox.agent,
            message_id = %delivery.message.message_id,
            attempt,
        );
        let taken = AssertUnwindSafe(|| {
            let _span = span.enter();
            match (!running.answer_refused).then(|| runtime.answer_at_once(&delivery)).flatten() {
                Some(answer) => InlineResult::Answered(answer),
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
                    self.send_answer(answer, seq, attempt, session);
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
        // Several at once are handed over here, one after the other: on threads of their own
        // they would overtake each other.
        let mut begun =
            (runtime.max_in_flight() != 1).then(|| handle_here(&*runtime, delivery.clone()));
        // What somebody waits for is taken here as well: what comes after it is taken at once,
        // and the end of a task must not overtake the reports before it.
        let is_awaited = begun.is_none()
            && runtime.has_out_of_band()
            && runtime.is_out_of_band(&delivery.sender, &delivery.message);
        if is_awaited && runtime.take_out_of_band(&delivery) {
            begun = Some(Ok(Box::pin(async { Ok(Handled::default()) })));
        }
        let runs_on_bus_thread = runtime.runs_on_bus_thread();
        let work = async move {
            attempt_state.started.store(true, Relaxed);
            match begun {
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

    /// Sends an answer that was worked out on the spot.
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
        // However many there are: a message whose answer went nowhere would wait for its deadline.
        self.router.do_send(Route { caller, submission: answer, reply });
    }

    /// The agent's code has this message no more, whatever it still does.
    pub(super) fn stop_running(&mut self, seq: u64) {
        let Some(running) = self.running.remove(&seq) else { return };
        self.awaiting_record.remove(&seq);
        if let Some(abort) = running.abort {
            // It does nothing to work that has ended.
            abort.abort();
        }
        self.bus.running.set(self.bus.running.get().saturating_sub(1));
        self.bus.idle.notify_waiters();
    }

    /// The agent's code has nothing any more.
    fn stop_all(&mut self) -> Vec<u64> {
        let mut all: Vec<u64> = self.running.keys().copied().collect();
        all.sort_unstable();
        all.iter().for_each(|seq| self.stop_running(*seq));
        all
    }

    /// The same, for no fault of anybody; what was called off is over, the rest is returned.
    pub(super) fn stop_unfinished(&mut self) -> Vec<u64> {
        let mut rest = self.stop_all();
        rest.retain(|seq| {
            let over = self.cancelled.contains(seq);
            !(over && self.fail_attempt(*seq, "the agent left".to_owned(), OnCommit::Nothing))
        });
        rest
    }

    /// The same, and nobody has had the rest.
    pub(super) fn give_back_all(&mut self) {
        for seq in self.stop_unfinished() {
            self.mailbox.inbox.borrow_mut().put_back(seq);
        }
    }

    /// The same, and each attempt has failed.
    pub(super) fn lose_all(&mut self, reason: &str) {
        for seq in self.stop_all() {
            self.fail_attempt(seq, reason.to_owned(), OnCommit::Nothing);
        }
    }
}

/// Lets the agent's code begin on the thread of the bus, which a panic must not end.
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

/// The attempt on a recovered message is on record and may begin.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct StartAttempt(pub(crate) u64);

impl Handler<StartAttempt> for Session {
    type Result = ();

    fn handle(&mut self, StartAttempt(seq): StartAttempt, ctx: &mut Self::Context) {
        if self.running.get(&seq).is_none_or(|running| running.abort.is_some()) {
            return;
        }
        let delivery = self.mailbox.inbox.borrow().get_out(seq).map(delivery);
        match delivery {
            Some(delivery) if self.runtime.is_some() => self.start(delivery, ctx),
            _ => {
                // The agent left, or somebody settled the message from outside meanwhile.
                self.mailbox.inbox.borrow_mut().put_back(seq);
                self.stop_running(seq);
                self.pump(ctx);
            }
        }
    }
}

/// The bus did not take an answer that was worked out on the spot: the agent's code is to see to it.
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
            return; // it was given up on before it answered
        }
        running.answer_refused = true;
        ctx.notify(StartAttempt(seq));
    }
}

/// A message that is being handled, or was to be, never became durable: it never was.
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

/// The task that this message asked for was called off: the agent's code is told.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CancelRunning(pub(crate) u64);

impl Handler<CancelRunning> for Session {
    type Result = ();

    fn handle(&mut self, CancelRunning(seq): CancelRunning, _: &mut Self::Context) {
        if self.mailbox.inbox.borrow().get_out(seq).is_some() {
            self.cancelled.insert(seq);
        }
        if let Some(running) = self.running.get(&seq) {
            running.attempt_state.cancel();
        }
    }
}
