//! Handle of a running bus. `inbox` holds the calls of agents, `oversight` those of operators and
//! of the gateway, `lifecycle` start and stop.

mod inbox;
mod lifecycle;
mod oversight;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use a2a_journal::{Commit, JournalReader, Liveness, Recovered};
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

/// Why the bus could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The handler threads failed to start.
    #[error("cannot start the threads for agents' code: {0}")]
    Handlers(std::io::Error),
    /// The bus thread failed to start.
    #[error("cannot start the thread of the bus: {0}")]
    Thread(std::io::Error),
    /// The bus thread ended before it was ready.
    #[error("the bus ended before it was ready; its log says why")]
    EndedEarly,
}

/// Why a task could not be cancelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CancelError {
    /// The ledger refused.
    #[error(transparent)]
    Refused(#[from] LedgerRefusal),
    /// The bus is stopping, or cannot write its journal.
    #[error("the bus takes nothing right now; try again later")]
    Unavailable,
}

/// Longest wait of an acknowledgement for its commit. After that the caller gets an error; the
/// record is written nevertheless as soon as the disk allows.
const SETTLE_DEADLINE: Duration = Duration::from_secs(10);

/// The router has ended; no message can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the router has ended")]
pub struct RouterEnded;

/// Result of a stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Handlers still at work at the deadline; their messages are redelivered at the next start.
    pub interrupted: usize,
    /// Records that the disk did not take. A message whose acknowledgement is among them is
    /// redelivered.
    pub unwritten: u64,
}

/// A running bus. Cheap to clone; it runs until [`BusSystem::stop`].
#[derive(Clone)]
pub struct BusSystem {
    router: Addr<Router>,
    reader: Arc<dyn JournalReader>,
    stats: Arc<Stats>,
    head: watch::Receiver<u64>,
    keeps_ledger: bool,
    bus_tasks: BusTasks,
    stop: tokio::sync::mpsc::Sender<StopRequest>,
    liveness: Liveness,
}

/// Join handle of the bus thread.
pub struct BusThread(JoinHandle<()>);

impl BusThread {
    /// Waits until the bus has ended; call it after [`BusSystem::stop`].
    pub fn join(self) {
        if self.0.join().is_err() {
            tracing::error!("bus thread panicked");
        }
    }
}

impl BusSystem {
    /// Starts a bus on a journal and the state recovered from it.
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
        let liveness = journal.liveness();
        let counters = Arc::clone(&stats);
        let (head_sender, head) = watch::channel(reader.head().seq);
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let (stop, stop_requests) = tokio::sync::mpsc::channel(1);
        let agents = handlers.handle().clone();
        let alive = liveness.returning("bus");
        let thread = std::thread::Builder::new()
            .name("a2a-bus".into())
            .spawn(move || {
                let _alive = alive;
                System::new().block_on(async move {
                    let wiring = wire(settings, journal, recovered, agents, counters, head_sender);
                    let (bus_tasks, shutdown) = bus_tasks();
                    // Answered after recovery: the handle is returned with everything restored.
                    let _ = wiring.router.send(ListCircuits).await;
                    let _ = ready.send((wiring.router.clone(), bus_tasks));
                    run_until_stopped(wiring, shutdown, stop_requests).await;
                });
                // Agents' code runs as long as the bus; a blocked thread is abandoned.
                handlers.shutdown_background();
            })
            .map_err(StartError::Thread)?;
        let (router, bus_tasks) = is_ready.recv().map_err(|_| StartError::EndedEarly)?;
        let system = Self { router, reader, stats, head, keeps_ledger, bus_tasks, stop, liveness };
        Ok((system, BusThread(thread)))
    }

    /// Submits a message and waits for its receipt.
    pub async fn send(&self, caller: Caller, submission: Submission) -> Receipt {
        let (reply, receipt) = oneshot::channel();
        let route = Route { caller, submission, reply: Reply::Caller(reply) };
        if self.router.try_send(route).is_err() {
            return gone();
        }
        receipt.await.unwrap_or_else(|_| gone())
    }

    /// Submits a message; `then` gets its receipt on the thread where it arises.
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

    /// Checks whether a message that is sent later would be accepted, and charges it now. Returns
    /// the submission for sending with [`Caller::Service`].
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

    /// Charges a call with this many bytes to its caller; `None` when the bus has stopped.
    pub(crate) async fn charge(
        &self,
        (from, to): (a2a_protocol::AgentId, a2a_protocol::AgentId),
        counts: bool,
        bytes: usize,
    ) -> Option<Result<(), a2a_policy::Limited>> {
        self.router.send(crate::bus::router::Charge { from, to, counts, bytes }).await.ok()
    }

    /// Replaces the settings; they apply to every later message. Waiting messages, connections and
    /// counters are kept. `false` when the bus has stopped.
    pub async fn reload(&self, settings: LiveSettings) -> bool {
        self.router.send(Reload(settings)).await.is_ok()
    }

    /// Current load of the bus; `None` when it has stopped.
    pub async fn load(&self) -> Option<BusLoad> {
        let LoadPart { mut load, mut next } = self.router.send(ReadLoad { from: 0 }).await.ok()?;
        while let Some(from) = next {
            let part = self.router.send(ReadLoad { from }).await.ok()?;
            load = load.merge(part.load);
            next = part.next;
        }
        Some(load)
    }

    /// Spawns tasks on the bus thread, for modules that exchange messages with the router all the
    /// time.
    pub(crate) fn bus_tasks(&self) -> &BusTasks {
        &self.bus_tasks
    }

    /// Whether only the assignee of a task can answer it.
    pub(crate) fn keeps_ledger(&self) -> bool {
        self.keeps_ledger
    }

    /// Records a request without a valid token, or counts it with others. `reason` must not contain
    /// the presented credential.
    pub fn note_denied(&self, reason: String) {
        if self.router.try_send(Deny(reason)).is_err() {
            tracing::warn!("request without a valid token was not recorded; the bus is overloaded");
        }
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Liveness whose end stops the server: those of the bus and of its journal; others may join.
    #[must_use]
    pub fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// Why any message sent now would be refused; `None` when the bus accepts messages.
    ///
    /// # Errors
    /// The router has ended.
    pub async fn refuses(&self) -> Result<Option<&'static str>, RouterEnded> {
        self.router.send(AskUnavailable).await.map_err(|_| RouterEnded)
    }

    /// The journal, for reading; its calls block.
    #[must_use]
    pub fn reader(&self) -> Arc<dyn JournalReader> {
        Arc::clone(&self.reader)
    }

    /// Sequence number of the last record, updated as the journal grows. A slow receiver may miss
    /// numbers but never the last one. Closed when the bus has stopped.
    #[must_use]
    pub fn head_changes(&self) -> watch::Receiver<u64> {
        self.head.clone()
    }

    /// Stops the bus: refuses new work, lets handlers finish until `deadline`, writes everything.
    pub async fn stop(&self, deadline: Duration) -> Stopped {
        let (reply, stopped) = oneshot::channel();
        if self.stop.send(StopRequest { deadline, reply }).await.is_err() {
            return Stopped::default();
        }
        stopped.await.unwrap_or_default()
    }
}

/// The receipt when the router is gone.
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
        system.send_then(Caller::Local, submission, |_| panic!("deliberate panic"));
    }

    /// A bus, why it refuses messages, and its part that ended first.
    async fn first_end(
        settings: BusSettings,
    ) -> (BusSystem, Option<&'static str>, a2a_journal::EndedPart) {
        let recovered = Recovered { next_seq: 1, ..Recovered::default() };
        let journal = Box::new(MemoryJournal::new());
        let (system, _) = BusSystem::start(settings, journal, recovered).unwrap();
        let refuses = system.refuses().await.unwrap();
        send_deadly(&system);
        let ended = system.liveness().first_end();
        let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
        (system, refuses, ended)
    }

    #[tokio::test]
    async fn router_panic_ends_its_part() {
        // The router itself answers when nothing is accepted.
        let settings = BusSettings { uncommitted_limit: 0, ..BusSettings::default() };
        let (system, refuses, ended) = first_end(settings).await;
        assert!(refuses.is_some(), "the limit of uncommitted messages is 0");
        assert_eq!((ended.part, ended.panicked), ("router", true));
        assert_eq!(system.refuses().await, Err(RouterEnded));
    }

    #[tokio::test]
    async fn commit_effects_panic_ends_its_part() {
        let (_, refuses, ended) = first_end(BusSettings::default()).await;
        assert_eq!(refuses, None);
        assert_eq!((ended.part, ended.panicked), ("audit", true));
    }
}
