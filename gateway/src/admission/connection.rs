//! State of one TCP connection: requests in flight, idle time, unwritten chunks, and its end.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use actix_web::rt::net::TcpStream;
use parking_lot::{Mutex, MutexGuard};
use socket2::{SockRef, Socket};
use tokio::io::Interest;

use super::connections::milliseconds;

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// A second handle to the socket, to close it and to detect that the peer left.
    handle: Mutex<Handle>,
    /// Requests in flight, streams included.
    busy: AtomicUsize,
    /// Requests refused because too many were in flight.
    refused: AtomicUsize,
    closed: AtomicBool,
    /// When it last began or ended a response, in milliseconds since the server started.
    since: AtomicU64,
    unwritten: Mutex<UnwrittenChunks>,
    begun: Instant,
    _counted: Arc<()>,
}

/// A second handle to the socket.
#[derive(Debug)]
enum Handle {
    /// Not registered with the runtime, which most connections never need.
    Plain(Socket),
    /// Registered with the runtime.
    Watched(Arc<TcpStream>),
    /// The runtime refused to register it.
    Lost,
}

/// Chunks of responses that were passed on and are not written yet.
#[derive(Debug, Default)]
struct UnwrittenChunks {
    next: u64,
    /// The number of the chunk, and since when it waits, in milliseconds since the server started.
    pieces: Vec<(u64, u64)>,
}

/// Guard of one request in flight on the connection.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    connection: Arc<Connection>,
    /// The number of its chunk that is not written yet; `None` when all are.
    unwritten: Option<u64>,
}

impl Connection {
    pub(super) fn new(socket: Socket, begun: Instant, counted: Arc<()>) -> Self {
        Self {
            handle: Mutex::new(Handle::Plain(socket)),
            busy: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            since: AtomicU64::new(milliseconds(begun.elapsed())),
            unwritten: Mutex::default(),
            begun,
            _counted: counted,
        }
    }

    /// Registers a request in flight; also how many there are with it.
    pub(crate) fn begin(self: &Arc<Self>) -> (ActiveRequest, usize) {
        let before = self.busy.fetch_add(1, Relaxed);
        (ActiveRequest { connection: Arc::clone(self), unwritten: None }, before + 1)
    }

    /// Requests in flight.
    pub(super) fn busy(&self) -> usize {
        self.busy.load(Relaxed)
    }

    /// When it last became idle, in milliseconds since the server started.
    pub(super) fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }

    /// Since when the oldest unwritten chunk waits.
    pub(super) fn unwritten_since(&self) -> Option<u64> {
        self.unwritten().pieces.iter().map(|(_, since)| *since).min()
    }

    fn unwritten(&self) -> MutexGuard<'_, UnwrittenChunks> {
        self.unwritten.lock()
    }

    /// Counts a refused request; how many there are with it.
    pub(super) fn note_refusal(&self) -> usize {
        self.refused.fetch_add(1, Relaxed) + 1
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Relaxed);
        // Fails when the peer closed it first.
        let _ = match &*self.handle() {
            Handle::Plain(socket) => socket.shutdown(Shutdown::Both),
            Handle::Watched(stream) => SockRef::from(&**stream).shutdown(Shutdown::Both),
            Handle::Lost => Ok(()),
        };
    }

    fn handle(&self) -> MutexGuard<'_, Handle> {
        self.handle.lock()
    }

    /// The handle, registered with the runtime.
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

    /// Resolves when the peer has closed the connection, or its half of it.
    pub(super) async fn until_closed(&self) {
        while let Some(watched) = self.watched() {
            let Ok(ready) = watched.ready(Interest::READABLE).await else { break };
            if ready.is_read_closed() {
                return;
            }
            // Bytes arrived, which are for the server to read: wait for the next event.
            let not_ours = || Err::<(), _>(ErrorKind::WouldBlock.into());
            let _ = watched.try_io(Interest::READABLE, not_ours);
        }
        // A later write will fail and show that the peer is gone.
        std::future::pending().await
    }
}

impl ActiveRequest {
    /// A chunk of the response was passed on to be written.
    pub(crate) fn hand_over(&mut self) {
        let now = milliseconds(self.connection.begun.elapsed());
        let mut unwritten = self.connection.unwritten();
        let number = unwritten.next;
        unwritten.next += 1;
        unwritten.pieces.push((number, now));
        self.unwritten = Some(number);
    }

    /// The last chunk was written: another one may follow.
    pub(crate) fn taken(&mut self) {
        if let Some(number) = self.unwritten.take() {
            self.connection.unwritten().pieces.retain(|(other, _)| *other != number);
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
