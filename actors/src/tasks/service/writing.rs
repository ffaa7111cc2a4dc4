//! How changes get to the store's thread: at once, or with others where nobody waits.

use std::sync::mpsc::Sender;
use std::time::Duration;

use a2a_taskdb::{Write, Written};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::{Awaited, Service};
use crate::tasks::writer::Job;

/// How long what nobody waits for may wait for company, and how much of that is enough.
const LINGER: Duration = Duration::from_millis(50);
const COMPANY: usize = 512;

/// Settles nothing, and comes back behind what was written before it.
pub(super) const NOTHING: Write = Write::Pushed { outbox: 0 };

/// What is on its way to the store.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The queue of the store's thread; gone when the service ends.
    jobs: Option<Sender<Vec<Job>>>,
    /// What nobody waits for, until there is company or its time is up.
    kept_back: Vec<Job>,
    /// A timer for that is set.
    keeps_back: bool,
    /// The number of the next change.
    next: u64,
}

impl Service {
    pub(in crate::tasks) fn write(&mut self, write: Write, awaited: Awaited) {
        self.note_write(write, awaited);
        self.hand_over();
    }

    /// The same for what nobody waits for: it is handed over with many others, which costs each a
    /// fraction.
    pub(super) fn write_soon(&mut self, write: Write, awaited: Awaited, ctx: &mut Context<Self>) {
        self.note_write(write, awaited);
        if self.outgoing.kept_back.len() >= COMPANY {
            self.hand_over();
        } else if !self.outgoing.keeps_back {
            self.outgoing.keeps_back = true;
            ctx.run_later(LINGER, |service, _| {
                service.outgoing.keeps_back = false;
                service.hand_over();
            });
        }
    }

    /// Gives the store's thread everything there is, in its order.
    pub(super) fn hand_over(&mut self) {
        if self.outgoing.kept_back.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.outgoing.kept_back);
        if let Some(Err(gone)) = self.outgoing.jobs.as_ref().map(|jobs| jobs.send(all)) {
            // Without the writer the service ends; whoever waits hears that by the dropped answer.
            gone.0.iter().for_each(|job| drop(self.awaited.remove(&job.number)));
        }
    }

    pub(in crate::tasks) fn note_write(&mut self, write: Write, awaited: Awaited) {
        if self.outgoing.jobs.is_none() {
            if let Awaited::Push(reply) = awaited {
                let _ = reply.send(None);
            }
            return;
        }
        let asks = matches!(awaited, Awaited::Create { .. } | Awaited::Push(_));
        let number = self.outgoing.next;
        self.outgoing.next += 1;
        self.outgoing.kept_back.push(Job { number, write, asks });
        self.awaited.insert(number, awaited);
    }

    /// Sends everything at once to the disk.
    pub(in crate::tasks) fn write_all(&mut self, mut all: Vec<(Write, Awaited)>) {
        match all.len() {
            0 => {}
            1 => all.drain(..).for_each(|(write, awaited)| self.write(write, awaited)),
            _ => {
                let (writes, awaited) = all.into_iter().unzip();
                self.write(Write::Together(writes), Awaited::Together(awaited));
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
        self.write(NOTHING, Awaited::Push(reply));
    }
}

/// The store's thread is there.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Meet(pub(in crate::tasks) Sender<Vec<Job>>);

impl Handler<Meet> for Service {
    type Result = ();

    fn handle(&mut self, Meet(jobs): Meet, _: &mut Self::Context) {
        self.outgoing.jobs = Some(jobs);
    }
}

/// The service ends: nothing more is written, and the store's thread ends with what it has.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Leave;

impl Handler<Leave> for Service {
    type Result = ();

    fn handle(&mut self, _: Leave, _: &mut Self::Context) {
        self.bear_all();
        self.hand_over();
        self.outgoing.jobs = None;
    }
}

/// The writer has ended: so does the service, and whoever waits is let go.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct End;

impl Handler<End> for Service {
    type Result = ();

    fn handle(&mut self, _: End, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
