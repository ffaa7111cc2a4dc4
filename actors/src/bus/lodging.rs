//! Who else lives on the thread of the bus, and leaves it before the bus does.
//!
//! Somebody who speaks with the router for every message it handles is best on the same thread:
//! waking another one costs more than most of what is said. A lodger is told when the bus has
//! written everything ([`Closing`]); the thread ends when the last lodger has left.

use std::convert::Infallible;
use std::future::Future;

use actix::System;
use actix::prelude::ArbiterHandle;
use tokio::sync::{mpsc, watch};

/// Lets others move in, as long as the bus runs.
#[derive(Clone)]
pub(crate) struct Lodging {
    thread: ArbiterHandle,
    /// A key for each lodger; the bus knows by them who is still there.
    keys: mpsc::WeakSender<Infallible>,
    closing: watch::Receiver<bool>,
}

/// The bus's own side of it.
pub(crate) struct Landlord {
    key: mpsc::Sender<Infallible>,
    keys: mpsc::Receiver<Infallible>,
    closing: watch::Sender<bool>,
}

/// Says when it is time to leave.
pub(crate) struct Closing(watch::Receiver<bool>);

impl Closing {
    /// Ends when the bus has written everything.
    pub(crate) async fn begins(mut self) {
        // A landlord who is gone has closed, too.
        let _ = self.0.wait_for(|closing| *closing).await;
    }
}

/// A lodging on the current thread, which must be that of an actor system.
pub(crate) fn open() -> (Lodging, Landlord) {
    let (key, keys) = mpsc::channel(1);
    let (sender, closing) = watch::channel(false);
    let thread = System::current().arbiter().clone();
    let lodging = Lodging { thread, keys: key.downgrade(), closing };
    (lodging, Landlord { key, keys, closing: sender })
}

impl Lodging {
    /// Begins something on the thread of the bus, which stays until that has ended; `false` when
    /// the bus has stopped.
    pub(crate) fn move_in<F>(&self, begin: impl FnOnce(Closing) -> F + Send + 'static) -> bool
    where
        F: Future<Output = ()> + 'static,
    {
        let Some(key) = self.keys.upgrade() else { return false };
        let closing = Closing(self.closing.clone());
        self.thread.spawn_fn(move || {
            let stay = begin(closing);
            actix::spawn(async move {
                stay.await;
                drop(key);
            });
        })
    }
}

impl Landlord {
    /// Asks everybody to leave, and waits until they have.
    pub(crate) async fn close(self) {
        let Self { key, mut keys, closing } = self;
        let _ = closing.send(true);
        drop(key);
        // Nothing is ever said there: it ends with the last key.
        let _ = keys.recv().await;
    }
}
