//! Wishes to be told by a call of the server, and what became of the calls.

use a2a_taskdb::{Write, Written};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::{PendingWrite, Service};

/// A change of the wishes; the reply comes when it is durable, `None` when the disk refuses.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct WritePush {
    pub(in crate::tasks) write: Write,
    pub(in crate::tasks) reply: oneshot::Sender<Option<Written>>,
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

/// What became of calls.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct SettlePush(
    pub(in crate::tasks) Vec<(Write, oneshot::Sender<Option<Written>>)>,
);

impl Handler<SettlePush> for Service {
    type Result = ();

    fn handle(&mut self, SettlePush(all): SettlePush, _: &mut Self::Context) {
        for (write, reply) in all {
            self.write(write, PendingWrite::Reply(reply));
        }
    }
}
