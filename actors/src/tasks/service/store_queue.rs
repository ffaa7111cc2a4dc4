//! How changes get to the store's thread: at once, or with others where nobody waits.

use std::sync::mpsc::Sender;
use std::time::Duration;

use a2a_taskdb::{Write, Written};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::{PendingWrite, Service};
use crate::tasks::store_writer::WriteJob;

/// How long what nobody waits for may wait for company, and how much of that is enough.
const LINGER: Duration = Duration::from_millis(50);
const COMPANY: usize = 512;

/// Settles nothing, and comes back behind what was written before it.
pub(super) const BARRIER: Write = Write::Pushed { outbox: 0 };

/// What is on its way to the store.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The queue of the store's thread; gone when the service ends.
    jobs: Option<Sender<Vec<WriteJob>>>,
    /// What nobody waits for, until there is company or its time is up.
    kept_back: Vec<WriteJob>,
    /// A timer for that is set.
    keeps_back: bool,
    /// The number of the next change.
    next: u64,
}

impl Service {
    pub(in crate::tasks) fn write(&mut self, write: Write, awaited: PendingWrite) {
        self.enqueue(write, awaited);
        self.flush();
    }

    /// The same for what nobody waits for: it is handed over with many others, which costs each a
    /// fraction.
    pub(super) fn write_batched(
        &mut self,
        write: Write,
        awaited: PendingWrite,
        ctx: &mut Context<Self>,
    ) {
        self.enqueue(write, awaited);
        if self.outgoing.kept_back.len() >= COMPANY {
            self.flush();
        } else if !self.outgoing.keeps_back {
            self.outgoing.keeps_back = true;
            ctx.run_later(LINGER, |service, _| {
                service.outgoing.keeps_back = false;
                service.flush();
            });
        }
    }

    /// Gives the store's thread everything there is, in its order.
    pub(super) fn flush(&mut self) {
        if self.outgoing.kept_back.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.outgoing.kept_back);
        if let Some(Err(gone)) = self.outgoing.jobs.as_ref().map(|jobs| jobs.send(all)) {
            // Without the writer the service ends; whoever waits hears that by the dropped answer.
            gone.0.iter().for_each(|job| drop(self.awaited.remove(&job.number)));
        }
    }

    pub(in crate::tasks) fn enqueue(&mut self, write: Write, awaited: PendingWrite) {
        if self.outgoing.jobs.is_none() {
            if let PendingWrite::Reply(reply) = awaited {
                let _ = reply.send(None);
            }
            return;
        }
        let asks = matches!(awaited, PendingWrite::Create { .. } | PendingWrite::Reply(_));
        let number = self.outgoing.next;
        self.outgoing.next += 1;
        self.outgoing.kept_back.push(WriteJob { number, write, asks });
        self.awaited.insert(number, awaited);
    }

    /// Sends everything at once to the disk.
    pub(in crate::tasks) fn write_all(&mut self, mut all: Vec<(Write, PendingWrite)>) {
        match all.len() {
            0 => {}
            1 => all.drain(..).for_each(|(write, awaited)| self.write(write, awaited)),
            _ => {
                let (writes, awaited) = all.into_iter().unzip();
                self.write(Write::Together(writes), PendingWrite::Together(awaited));
            }
        }
    }
}

/// Somebody wants to read all that callers know. Answered when the store has it.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct CatchUp(pub(in crate::tasks) oneshot::Sender<Option<Written>>);

impl Handler<CatchUp> for Service {
    type Result = ();

    fn handle(&mut self, CatchUp(reply): CatchUp, _: &mut Self::Context) {
        self.write(BARRIER, PendingWrite::Reply(reply));
    }
}

/// The store's thread is there.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct OpenStoreQueue(pub(in crate::tasks) Sender<Vec<WriteJob>>);

impl Handler<OpenStoreQueue> for Service {
    type Result = ();

    fn handle(&mut self, OpenStoreQueue(jobs): OpenStoreQueue, _: &mut Self::Context) {
        self.outgoing.jobs = Some(jobs);
    }
}

/// The service ends: nothing more is written, and the store's thread ends with what it has.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct CloseStoreQueue;

impl Handler<CloseStoreQueue> for Service {
    type Result = ();

    fn handle(&mut self, _: CloseStoreQueue, _: &mut Self::Context) {
        self.persist_all_deferred();
        self.flush();
        self.outgoing.jobs = None;
    }
}

/// The writer has ended: so does the service, and whoever waits is let go.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct StopService;

impl Handler<StopService> for Service {
    type Result = ();

    fn handle(&mut self, _: StopService, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
