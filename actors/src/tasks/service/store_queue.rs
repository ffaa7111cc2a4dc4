//! Queue of writes to the store thread: sent at once, or in batches where no caller waits.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::time::Duration;

use a2a_protocol::TaskId;
use a2a_protocol::opt::ObjectiveId;
use a2a_protocol::task::OpaqueId;
use a2a_taskdb::{Write, WriteOutcome};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::{ReplySender, Service, WaitFor};
use crate::AckHandle;
use crate::tasks::store_writer::WriteJob;

/// How long a batched write waits for others, and the batch size that is sent at once.
const BATCH_DELAY: Duration = Duration::from_millis(50);
const BATCH_SIZE: usize = 512;

/// A write without effect. Its commit follows the commit of every write queued before it.
pub(super) const BARRIER: Write = Write::Barrier;

/// A queued write, and what its commit concerns.
pub(in crate::tasks) enum PendingWrite {
    /// A new task, and what its caller waits for.
    Create { task: TaskId, sent: OpaqueId, wait_for: WaitFor, reply: ReplySender },
    /// The create of a task that was started before.
    DeferredCreate(TaskId),
    /// The oldest pending change of this task.
    Change(TaskId),
    /// The plain message that replaces this task.
    Answer { task: TaskId, acks: Vec<AckHandle> },
    /// The oldest pending change of this objective, with its plans and steps.
    Objective(ObjectiveId),
    /// Several writes in one transaction.
    Atomic(Vec<PendingWrite>),
    /// A write whose result goes to the caller; `None` when the store is unavailable.
    Reply(oneshot::Sender<Option<WriteOutcome>>),
    /// Removal of expired tasks.
    Expire,
}

/// Writes on their way to the store thread.
#[derive(Default)]
pub(super) struct StoreQueue {
    /// `None` before the store thread runs and after the service closed the queue.
    jobs: Option<Sender<Vec<WriteJob>>>,
    /// Not sent yet: waits for a flush.
    batch: Vec<WriteJob>,
    flush_armed: bool,
    next_number: u64,
    /// Writes without result yet, by number.
    pending: HashMap<u64, PendingWrite>,
}

impl StoreQueue {
    fn enqueue(&mut self, write: Write, pending: PendingWrite) {
        if self.jobs.is_none() {
            if let PendingWrite::Reply(reply) = pending {
                let _ = reply.send(None);
            }
            return;
        }
        let fail_fast = matches!(pending, PendingWrite::Create { .. } | PendingWrite::Reply(_));
        let number = self.next_number;
        self.next_number += 1;
        self.batch.push(WriteJob { number, write, fail_fast });
        self.pending.insert(number, pending);
    }

    /// Sends the batch to the store thread, in order.
    fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.batch);
        if let Some(Err(unsent)) = self.jobs.as_ref().map(|jobs| jobs.send(all)) {
            // The store thread has ended, so the service ends too. Dropping the pending writes
            // closes the reply channels of their callers.
            unsent.0.iter().for_each(|job| drop(self.pending.remove(&job.number)));
        }
    }

    pub(super) fn take_pending(&mut self, number: u64) -> Option<PendingWrite> {
        self.pending.remove(&number)
    }
}

impl Service {
    pub(in crate::tasks) fn write(&mut self, write: Write, pending: PendingWrite) {
        self.store_queue.enqueue(write, pending);
        self.store_queue.flush();
    }

    /// Queues a write that no caller waits for. A larger batch costs each write a fraction of a
    /// commit.
    pub(super) fn write_batched(
        &mut self,
        write: Write,
        pending: PendingWrite,
        ctx: &mut Context<Self>,
    ) {
        self.store_queue.enqueue(write, pending);
        if self.store_queue.batch.len() >= BATCH_SIZE {
            self.store_queue.flush();
        } else if !self.store_queue.flush_armed {
            self.store_queue.flush_armed = true;
            ctx.run_later(BATCH_DELAY, |service, _| {
                service.store_queue.flush_armed = false;
                service.store_queue.flush();
            });
        }
    }

    /// Writes everything in one transaction.
    pub(in crate::tasks) fn write_all(&mut self, mut all: Vec<(Write, PendingWrite)>) {
        match all.len() {
            0 => {}
            1 => all.drain(..).for_each(|(write, pending)| self.write(write, pending)),
            _ => {
                let (writes, pending) = all.into_iter().unzip();
                self.write(Write::Atomic(writes), PendingWrite::Atomic(pending));
            }
        }
    }
}

/// Replies once the store has committed everything that callers have seen.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct CatchUp(pub(in crate::tasks) oneshot::Sender<Option<WriteOutcome>>);

impl Handler<CatchUp> for Service {
    type Result = ();

    fn handle(&mut self, CatchUp(reply): CatchUp, _: &mut Self::Context) {
        self.write(BARRIER, PendingWrite::Reply(reply));
    }
}

/// Writes a push config or the result of a webhook call; replies after the commit, `None` when
/// the store is unavailable.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct WritePush {
    pub(in crate::tasks) write: Write,
    pub(in crate::tasks) reply: oneshot::Sender<Option<WriteOutcome>>,
}

impl Handler<WritePush> for Service {
    type Result = ();

    fn handle(&mut self, WritePush { write, reply }: WritePush, _: &mut Self::Context) {
        if let Write::PutPush { task, .. } = &write
            && let Some(live) = self.live.get_mut(task)
        {
            live.has_push = true;
        }
        self.write(write, PendingWrite::Reply(reply));
    }
}

/// Connects the queue to the store thread.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct OpenStoreQueue(pub(in crate::tasks) Sender<Vec<WriteJob>>);

impl Handler<OpenStoreQueue> for Service {
    type Result = ();

    fn handle(&mut self, OpenStoreQueue(jobs): OpenStoreQueue, _: &mut Self::Context) {
        self.store_queue.jobs = Some(jobs);
    }
}

/// First step of the shutdown: flushes the queue and closes it. The store thread ends after the
/// last write.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct CloseStoreQueue;

impl Handler<CloseStoreQueue> for Service {
    type Result = ();

    fn handle(&mut self, _: CloseStoreQueue, _: &mut Self::Context) {
        self.persist_all_deferred();
        self.store_queue.flush();
        self.store_queue.jobs = None;
    }
}

/// Last step of the shutdown, after the store thread has ended: stops the actor, which closes the
/// remaining reply channels.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct StopService;

impl Handler<StopService> for Service {
    type Result = ();

    fn handle(&mut self, _: StopService, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
