//! Start and stop of the bus thread: wiring of the actors, stop order, tasks of other modules.
//!
//! ```text
//! start   CommitBuffer ─▶ CommitEffects (journal thread) ─▶ Router ─▶ BusTasks
//! stop    1. refuse new work          3. flush and close the journal
//!         2. wait for handlers        4. cancel and await the bus tasks, end the thread
//! ```

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use a2a_journal::{Commit, Recovered};
use actix::prelude::*;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::Stopped;
use crate::bus::commit::buffer::CommitBuffer;
use crate::bus::commit::effects::{CommitEffects, SetRouter, TakeWriter};
use crate::bus::context::{BusContext, Clock, run_day_clock};
use crate::bus::mailbox::Mailboxes;
use crate::bus::message::HeldBytes;
use crate::bus::router::{Router, WriteCounted};
use crate::{BusSettings, Stats};

/// Spawns tasks of other modules on the bus thread.
///
/// A task that exchanges a message with the router for each message of the bus runs there without
/// waking another thread. Its token is cancelled once the bus has written everything; the thread
/// ends after the last of the tasks.
#[derive(Clone)]
pub(crate) struct BusTasks {
    thread: ArbiterHandle,
    tracker: TaskTracker,
    closing: CancellationToken,
}

/// Cancels and awaits the tasks of a [`BusTasks`]. Dropping it cancels them as well.
pub(super) struct BusTasksShutdown {
    tracker: TaskTracker,
    closing: DropGuard,
}

/// Tasks on the current thread, which must run an actor system.
pub(super) fn bus_tasks() -> (BusTasks, BusTasksShutdown) {
    let (tracker, closing) = (TaskTracker::new(), CancellationToken::new());
    let shutdown =
        BusTasksShutdown { tracker: tracker.clone(), closing: closing.clone().drop_guard() };
    (BusTasks { thread: System::current().arbiter().clone(), tracker, closing }, shutdown)
}

impl BusTasks {
    /// Starts a task on the bus thread; `false` once the bus has stopped.
    pub(crate) fn spawn<F>(
        &self,
        begin: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> bool
    where
        F: Future<Output = ()> + 'static,
    {
        // Counted before the check, so that a shutdown in between waits for this task.
        let running = self.tracker.token();
        if self.tracker.is_closed() {
            return false;
        }
        let closing = self.closing.clone();
        self.thread.spawn_fn(move || {
            let task = begin(closing);
            actix::spawn(async move {
                task.await;
                drop(running);
            });
        })
    }
}

impl BusTasksShutdown {
    /// Cancels the tasks and waits until they have ended.
    async fn finish(self) {
        let Self { tracker, closing } = self;
        tracker.close();
        drop(closing);
        tracker.wait().await;
    }
}

/// A request to stop, sent by [`BusSystem::stop`](crate::BusSystem::stop).
pub(super) struct StopRequest {
    pub(super) deadline: Duration,
    pub(super) reply: oneshot::Sender<Stopped>,
}

/// The running actors and the state that they share.
pub(super) struct Wiring {
    pub(super) router: Addr<Router>,
    effects: Addr<CommitEffects>,
    bus: Rc<BusContext>,
}

/// Starts the actors on the current thread.
pub(super) fn wire(
    settings: BusSettings,
    journal: Box<dyn Commit>,
    recovered: Recovered,
    handlers: tokio::runtime::Handle,
    stats: Arc<Stats>,
    head: watch::Sender<u64>,
) -> Wiring {
    let mailboxes = Rc::new(Mailboxes::default());
    let (jobs, queue) = std::sync::mpsc::channel();
    let commit_buffer = Rc::new(CommitBuffer::new(jobs));
    let (reader, liveness) = (journal.reader(), journal.liveness());
    let (effects, journal_status) = CommitEffects::new(
        journal,
        queue,
        settings.batch_limit,
        Arc::clone(&stats),
        Rc::clone(&mailboxes),
        Rc::clone(&commit_buffer),
        head,
    );
    actix::spawn(liveness.endlessly("commit_buffer", Rc::clone(&commit_buffer).run()));
    let bus = Rc::new(BusContext {
        clock: Clock::start(),
        settings,
        handlers,
        journal_status,
        stopping: false.into(),
        running: 0.into(),
        idle: Notify::new(),
        seq: recovered.next_seq.into(),
        mailboxes,
        held: HeldBytes::default(),
        commit_buffer,
        stats,
        reader,
        liveness,
    });
    let effects = effects.start();
    let router = Router::new(Rc::clone(&bus), recovered).start();
    effects.do_send(SetRouter(router.clone()));
    Wiring { router, effects, bus }
}

/// Runs the bus until a stop is requested, then stops it in order.
pub(super) async fn run_until_stopped(
    wiring: Wiring,
    shutdown: BusTasksShutdown,
    mut requests: mpsc::Receiver<StopRequest>,
) {
    let offers = actix::spawn(
        wiring.bus.liveness.endlessly("day_clock", run_day_clock(Rc::clone(&wiring.bus))),
    );
    // A closed channel means that no handle is left; the bus stops all the same.
    let request = requests.recv().await;
    wiring.bus.liveness.stop();
    offers.abort();
    let deadline = request.as_ref().map_or(Duration::from_secs(10), |request| request.deadline);
    let interrupted = stop_in_order(&wiring, deadline).await;
    // The last answers of agents have reached these tasks, which persist them before they end.
    shutdown.finish().await;
    if let Some(request) = request {
        let unwritten = wiring.bus.stats.unwritten();
        let _ = request.reply.send(Stopped { interrupted, unwritten });
    }
    System::current().stop();
}

/// Stops the actors; returns the number of handlers still at work.
async fn stop_in_order(wiring: &Wiring, deadline: Duration) -> usize {
    let Wiring { router, effects, bus } = wiring;
    // 1. No new work: submissions are refused, and polls are not served.
    bus.stopping.set(true);
    // 2. Handlers finish, and their results are on their way to the journal.
    let finished = async {
        while bus.running.get() > 0 {
            let idle = bus.idle.notified();
            if bus.running.get() > 0 {
                idle.await;
            }
        }
    };
    let _ = tokio::time::timeout(deadline, finished).await;
    // Answered after every earlier message: the router has processed all dead letters by then.
    let _ = router.send(WriteCounted).await;
    // 3. Everything buffered is written and the journal closed.
    let (done, flushed) = oneshot::channel();
    if bus.commit_buffer.close(done) {
        let _ = flushed.await;
    }
    if let Ok(Some(writer)) = effects.send(TakeWriter).await {
        let _ = tokio::task::spawn_blocking(move || writer.join()).await;
    }
    bus.running.get()
}
