//! Wires the actors, and stops them in order. The rooms are what can be asked of a bus: `inbox` for
//! agents and their code, `oversight` for those who look after it.

mod inbox;
mod lifecycle;
mod oversight;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use a2a_journal::{Commit, Parts, Read, Recovered};
use a2a_policy::{Caller, LedgerRefusal};
use a2a_protocol::{Outcome, Receipt};
use actix::prelude::*;
use tokio::sync::{oneshot, watch};

use self::lifecycle::{BusTasks, StopRequest, bus_tasks, run_until_stopped, wire};
use crate::bus::router::Reply;
use crate::bus::router::{
    AskUnavailable, Assess, Assessed, Deny, ListCircuits, LoadPart, ReadLoad, Reload, Route, Router,
};
use crate::{BusLoad, BusSettings, LiveSettings, Stats, Submission};

/// The bus could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The threads for agents' code.
    #[error("cannot start the threads for agents' code: {0}")]
    Handlers(std::io::Error),
    /// The thread of the bus.
    #[error("cannot start the thread of the bus: {0}")]
    Thread(std::io::Error),
    /// It ended before it was ready.
    #[error("the bus ended before it was ready; its log says why")]
    EndedEarly,
}

/// A task could not be called off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CancelError {
    /// The ledger refuses.
    #[error(transparent)]
    Refused(#[from] LedgerRefusal),
    /// The bus stops, or cannot write right now.
    #[error("the bus takes nothing right now; try again later")]
    Unavailable,
}

/// How long an acknowledgement may wait for the disk before its caller is told so. It is
/// written all the same as soon as the disk allows.
const SETTLE_DEADLINE: Duration = Duration::from_secs(10);

/// No message can be sent any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the router has ended")]
pub struct RouterEnded;

/// How a bus stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Handlers that were still at work when their time was up; their messages are delivered
    /// again at the next start.
    pub interrupted: usize,
    /// Lines that the bus owed its log and the disk did not take: an acknowledgement among them is
    /// forgotten, and its message comes again.
    pub unwritten: u64,
}

/// A running bus. Cheap to clone; it runs until [`BusSystem::stop`].
#[derive(Clone)]
pub struct BusSystem {
    router: Addr<Router>,
    reader: Arc<dyn Read>,
    stats: Arc<Stats>,
    head: watch::Receiver<u64>,
    keeps_ledger: bool,
    bus_tasks: BusTasks,
    stop: tokio::sync::mpsc::Sender<StopRequest>,
    parts: Parts,
}

/// The thread of a bus, to wait for its end.
pub struct BusThread(JoinHandle<()>);

impl BusThread {
    /// Waits until the bus has ended; call it after [`BusSystem::stop`].
    pub fn join(self) {
        if self.0.join().is_err() {
            tracing::error!("the thread of the bus panicked");
        }
    }
}

impl BusSystem {
    /// Starts a bus on a journal and what was recovered from it.
    ///
    /// # Errors
    /// When its threads cannot be started.
    pub fn start(
        settings: BusSettings,
        journal: Box<dyn Commit>,
        recovered: Recovered,
    ) -> Result<(Self, BusThread), StartError> {
        let handlers = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.handler_threads.max(1))
            .thread_name("a2a-agent")
            .enable_all()
            .build()
            .map_err(StartError::Handlers)?;
        let keeps_ledger = settings.ledger.enabled;
        let reader = journal.reader();
        let stats = Arc::new(Stats::new(settings.stalled_after));
        let parts = journal.parts();
        let counters = Arc::clone(&stats);
        let (head_sender, head) = watch::channel(reader.head().seq);
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let (stop, stop_requests) = tokio::sync::mpsc::channel(1);
        let agents = handlers.handle().clone();
        let alive = parts.returning("bus");
        let thread = std::thread::Builder::new()
            .name("a2a-bus".into())
            .spawn(move || {
                let _alive = alive;
                System::new().block_on(async move {
                    let wiring = wire(settings, journal, recovered, agents, counters, head_sender);
                    let (bus_tasks, shutdown) = bus_tasks();
                    // Whoever gets the handle finds everything restored.
                    let _ = wiring.router.send(ListCircuits).await;
                    let _ = ready.send((wiring.router.clone(), bus_tasks));
                    run_until_stopped(wiring, shutdown, stop_requests).await;
                });
                // Agents' code runs as long as the bus; what blocks a thread is left behind.
                handlers.shutdown_background();
            })
            .map_err(StartError::Thread)?;
        let (router, bus_tasks) = is_ready.recv().map_err(|_| StartError::EndedEarly)?;
        let system = Self { router, reader, stats, head, keeps_ledger, bus_tasks, stop, parts };
        Ok((system, BusThread(thread)))
    }

    /// Hands a message in and waits for its receipt.
    pub async fn send(&self, caller: Caller, submission: Submission) -> Receipt {
        let (reply, receipt) = oneshot::channel();
        let route = Route { caller, submission, reply: Reply::Caller(reply) };
        if self.router.try_send(route).is_err() {
            return gone();
        }
        receipt.await.unwrap_or_else(|_| gone())
    }

    /// Hands a message in; `then` gets its receipt, on whatever thread that comes.
    pub(crate) fn send_then(
        &self,
        caller: Caller,
        submission: Submission,
        then: impl FnOnce(Receipt) + Send + 'static,
    ) {
        let route = Route { caller, submission, reply: Reply::Callback(Box::new(then)) };
        if let Err(SendError::Closed(route) | SendError::Full(route)) = self.router.try_send(route)
        {
            route.reply.send(gone());
        }
    }

    /// Whether a message that is sent later would be taken; it is charged now. Gives the submission
    /// back for sending with [`Caller::Service`].
    ///
    /// # Errors
    /// The receipt of the refusal.
    pub async fn assess(
        &self,
        caller: Caller,
        submission: Submission,
    ) -> Result<Submission, Box<Receipt>> {
        let (reply, assessed) = oneshot::channel();
        if self.router.try_send(Assess { caller, submission, reply }).is_err() {
            return Err(Box::new(gone()));
        }
        match assessed.await {
            Ok(Assessed::Fits(submission)) => Ok(*submission),
            Ok(Assessed::Refused(receipt)) => {
                Err(Box::new(receipt.await.unwrap_or_else(|_| gone())))
            }
            Err(_) => Err(Box::new(gone())),
        }
    }

    /// Charges a call that brings so many bytes to who makes it; `None` when the bus has stopped.
    pub(crate) async fn charge(
        &self,
        (from, to): (a2a_protocol::AgentId, a2a_protocol::AgentId),
        counts: bool,
        bytes: usize,
    ) -> Option<Result<(), a2a_policy::Limited>> {
        self.router.send(crate::bus::router::Charge { from, to, counts, bytes }).await.ok()
    }

    /// Gives the bus other settings while it runs; they hold for every message after this. Nothing
    /// that waits, is connected or was counted is lost. `false` when the bus has stopped.
    pub async fn reload(&self, settings: LiveSettings) -> bool {
        self.router.send(Reload(settings)).await.is_ok()
    }

    /// How much lies on the bus now; `None` when it has stopped.
    pub async fn load(&self) -> Option<BusLoad> {
        let LoadPart { mut load, mut next } = self.router.send(ReadLoad { from: 0 }).await.ok()?;
        while let Some(from) = next {
            let part = self.router.send(ReadLoad { from }).await.ok()?;
            load = load.merge(part.load);
            next = part.next;
        }
        Some(load)
    }

    /// The thread of the bus, for others who speak with it all the time.
    pub(crate) fn bus_tasks(&self) -> &BusTasks {
        &self.bus_tasks
    }

    /// Whether only those who have a task in their hands can answer it.
    pub(crate) fn keeps_ledger(&self) -> bool {
        self.keeps_ledger
    }

    /// Puts on record that somebody came without a good token, or counts it with others. `reason`
    /// is a sentence that does not hold what was shown.
    pub fn note_denied(&self, reason: String) {
        if self.router.try_send(Deny(reason)).is_err() {
            tracing::warn!("somebody came without a good token; the bus is too busy to note it");
        }
    }

    /// What the bus has done since it started.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The parts it cannot do without, its own and those of its journal; others may join.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Why a message that is sent now would be refused, whatever it says; `None` when it would not.
    ///
    /// # Errors
    /// The router has ended.
    pub async fn refuses(&self) -> Result<Option<&'static str>, RouterEnded> {
        self.router.send(AskUnavailable).await.map_err(|_| RouterEnded)
    }

    /// The journal, for reading; its calls block.
    #[must_use]
    pub fn reader(&self) -> Arc<dyn Read> {
        Arc::clone(&self.reader)
    }

    /// The number of the last line of the journal, again and again as it grows. Whoever looks
    /// seldom misses numbers, never the last one. Ends when the bus has stopped.
    #[must_use]
    pub fn head_changes(&self) -> watch::Receiver<u64> {
        self.head.clone()
    }

    /// Stops the bus: no new work, handlers may finish until `deadline`, everything is written.
    pub async fn stop(&self, deadline: Duration) -> Stopped {
        let (reply, stopped) = oneshot::channel();
        if self.stop.send(StopRequest { deadline, reply }).await.is_err() {
            return Stopped::default();
        }
        stopped.await.unwrap_or_default()
    }
}

/// The receipt when there is nobody to give one.
fn gone() -> Receipt {
    let mut receipt = Receipt::new(Outcome::Unavailable, chrono::Utc::now().into());
    receipt.reason = Some("The bus has stopped. Send the message again when it is back.".into());
    receipt
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use a2a_journal::MemoryJournal;
    use a2a_protocol::Kind;

    use super::*;

    /// Sends a message whose processing kills the receiver.
    fn send_deadly(system: &BusSystem) {
        let message = Kind::StatusUpdate.example_message();
        let submission = Submission::from_message(message, Instant::now());
        system.send_then(Caller::Local, submission, |_| panic!("told to panic"));
    }

    /// A bus and what it says about taking messages, and its part that ended first.
    async fn first_end(
        settings: BusSettings,
    ) -> (BusSystem, Option<&'static str>, a2a_journal::EndedPart) {
        let recovered = Recovered { next_seq: 1, ..Recovered::default() };
        let journal = Box::new(MemoryJournal::new());
        let (system, _) = BusSystem::start(settings, journal, recovered).unwrap();
        let refuses = system.refuses().await.unwrap();
        send_deadly(&system);
        let ended = system.parts().first_end();
        let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
        (system, refuses, ended)
    }

    #[tokio::test]
    async fn a_router_that_panics_is_noticed() {
        // What cannot be taken at all the router answers itself.
        let settings = BusSettings { uncommitted_limit: 0, ..BusSettings::default() };
        let (system, refuses, ended) = first_end(settings).await;
        assert!(refuses.is_some(), "more wait than may");
        assert_eq!((ended.part, ended.panicked), ("router", true));
        assert_eq!(system.refuses().await, Err(RouterEnded));
    }

    #[tokio::test]
    async fn an_audit_that_panics_is_noticed() {
        let (_, refuses, ended) = first_end(BusSettings::default()).await;
        assert_eq!(refuses, None);
        assert_eq!((ended.part, ended.panicked), ("audit", true));
    }
}
