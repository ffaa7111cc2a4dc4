//! One connection: what is under way on it, since when it does nothing, and its end.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use actix_web::rt::net::TcpStream;
use socket2::{SockRef, Socket};
use tokio::io::Interest;

use super::connections::milliseconds;

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// A second handle, by which it can be closed and its end is noticed. Gone with the connection.
    handle: Mutex<Handle>,
    /// Requests that are being answered, streams included.
    busy: AtomicUsize,
    /// Requests that were one too many.
    refused: AtomicUsize,
    closed: AtomicBool,
    /// When it last began or ended an answer, in milliseconds since the server began.
    since: AtomicU64,
    untaken: Mutex<Untaken>,
    begun: Instant,
    _counted: Arc<()>,
}

/// A second handle to the socket.
#[derive(Debug)]
enum Handle {
    /// The runtime knows nothing of it: most connections never need that.
    Plain(Socket),
    /// The runtime watches it.
    Watched(Arc<TcpStream>),
    /// The runtime would not take it.
    Lost,
}

/// Pieces of answers that were handed over to be written and are not taken yet.
#[derive(Debug, Default)]
struct Untaken {
    next: u64,
    /// The number of the answer, and since when.
    pieces: Vec<(u64, u64)>,
}

/// While this lives, the connection has an answer under way.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    connection: Arc<Connection>,
    /// The number of this answer while a piece of it is not taken.
    untaken: Option<u64>,
}

impl Connection {
    pub(super) fn new(socket: Socket, begun: Instant, counted: Arc<()>) -> Self {
        Self {
            handle: Mutex::new(Handle::Plain(socket)),
            busy: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            since: AtomicU64::new(milliseconds(begun.elapsed())),
            untaken: Mutex::default(),
            begun,
            _counted: counted,
        }
    }

    /// Keeps it open as long as the answer lives; also how many requests are under way with it.
    pub(crate) fn begin(self: &Arc<Self>) -> (ActiveRequest, usize) {
        let before = self.busy.fetch_add(1, Relaxed);
        (ActiveRequest { connection: Arc::clone(self), untaken: None }, before + 1)
    }

    /// Requests that are being answered.
    pub(super) fn busy(&self) -> usize {
        self.busy.load(Relaxed)
    }

    /// When it last began to do nothing, in milliseconds since the server began.
    pub(super) fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }

    /// Since when the piece has waited that has waited longest to be taken.
    pub(super) fn untaken_since(&self) -> Option<u64> {
        self.untaken().pieces.iter().map(|(_, since)| *since).min()
    }

    fn untaken(&self) -> MutexGuard<'_, Untaken> {
        self.untaken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests have been one too many, this one included.
    pub(super) fn note_refusal(&self) -> usize {
        self.refused.fetch_add(1, Relaxed) + 1
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Relaxed);
        // It fails when the other end was faster, and then there is nothing to do.
        let _ = match &*self.handle() {
            Handle::Plain(socket) => socket.shutdown(Shutdown::Both),
            Handle::Watched(stream) => SockRef::from(&**stream).shutdown(Shutdown::Both),
            Handle::Lost => Ok(()),
        };
    }

    fn handle(&self) -> MutexGuard<'_, Handle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handle as the runtime watches it.
    fn watched(&self) -> Option<Arc<TcpStream>> {
        let mut handle = self.handle();
        if let Handle::Plain(_) = &*handle
            && let Handle::Plain(socket) = std::mem::replace(&mut *handle, Handle::Lost)
            && let Ok(stream) = TcpStream::from_std(socket.into())
        {
            *handle = Handle::Watched(Arc::new(stream));
        }
        match &*handle {
            Handle::Watched(stream) => Some(Arc::clone(stream)),
            _ => None,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Ends when the other end has closed it, or its half of it.
    pub(super) async fn until_closed(&self) {
        while let Some(watched) = self.watched() {
            let Ok(ready) = watched.ready(Interest::READABLE).await else { break };
            if ready.is_read_closed() {
                return;
            }
            // Something came, which is for the server to read: on to what comes next.
            let not_ours = || Err::<(), _>(ErrorKind::WouldBlock.into());
            let _ = watched.try_io(Interest::READABLE, not_ours);
        }
        // The next bytes that cannot be written to it will show that it is gone.
        std::future::pending().await
    }
}

impl ActiveRequest {
    /// A piece of the answer is handed over to be written.
    pub(crate) fn hand_over(&mut self) {
        let now = milliseconds(self.connection.begun.elapsed());
        let mut untaken = self.connection.untaken();
        let number = untaken.next;
        untaken.next += 1;
        untaken.pieces.push((number, now));
        self.untaken = Some(number);
    }

    /// The last piece was taken: there is room for another.
    pub(crate) fn taken(&mut self) {
        if let Some(number) = self.untaken.take() {
            self.connection.untaken().pieces.retain(|(other, _)| *other != number);
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.taken();
        let connection = &self.connection;
        connection.since.store(milliseconds(connection.begun.elapsed()), Relaxed);
        connection.busy.fetch_sub(1, Relaxed);
    }
}
