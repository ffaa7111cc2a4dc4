//! Registry of open connections: sets socket options, evicts idle ones at the limit, closes idle
//! and stalled ones.
//!
//! The timers of the HTTP library cover the first head of a connection and the time between
//! requests. They stop at the first byte of a later head, so a client that sends half of one could
//! stay for ever. None covers a response that HTTP/2 flow control holds back. Both are detected
//! here.
//!
//! Nor does the library detect that a reader left while nothing is written to it; calls that wait
//! use [`until_left`].

use std::any::Any;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use actix_web::{HttpMessage, HttpRequest};
use parking_lot::{Mutex, MutexGuard};
use socket2::SockRef;

use super::body::RequestStream;
pub(crate) use super::connection::{ActiveRequest, Connection};
use crate::HttpSettings;

/// Requests in flight per connection. HTTP/1 has one at a time; HTTP/2 clients assume 100 unless a
/// server announces another limit, which the library cannot.
pub(crate) const REQUESTS_PER_CONNECTION: usize = 100;
/// Refused requests per connection, after which it is closed.
const REFUSALS_PER_CONNECTION: usize = 1_000;

/// Every open connection.
#[derive(Debug)]
pub struct Connections {
    open: Mutex<Vec<Weak<Connection>>>,
    most: usize,
    /// Idle limit: the time between two requests plus that of a head, so that the library's own
    /// timers, which close gracefully, fire first.
    longest: Duration,
    stalled: Duration,
    begun: Instant,
    /// One reference per connection, and one of the registry.
    count: Arc<()>,
    closed: [AtomicU64; CloseReason::ALL.len()],
}

/// Why the server closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// Idle for too long.
    Idle,
    /// A response was not read.
    Stalled,
    /// Idle, and evicted for a new connection.
    Evicted,
    /// The limit was reached and no connection was idle.
    Refused,
    /// Too many requests in flight.
    Flooding,
}

impl CloseReason {
    pub(crate) const ALL: &'static [Self] =
        &[Self::Idle, Self::Stalled, Self::Evicted, Self::Refused, Self::Flooding];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Stalled => "stalled",
            Self::Evicted => "evicted",
            Self::Refused => "refused",
            Self::Flooding => "flooding",
        }
    }
}

impl Connections {
    /// An empty registry.
    #[must_use]
    pub fn new(settings: &HttpSettings) -> Self {
        Self {
            open: Mutex::default(),
            most: settings.connections,
            longest: settings.idle + settings.head + Duration::from_secs(1),
            stalled: settings.stalled,
            begun: Instant::now(),
            count: Arc::default(),
            closed: Default::default(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        Arc::strong_count(&self.count) - 1
    }

    /// How many were closed for this reason.
    pub(crate) fn closed(&self, why: CloseReason) -> u64 {
        self.closed[why as usize].load(Relaxed)
    }

    fn close(&self, connection: &Connection, why: CloseReason) {
        self.closed[why as usize].fetch_add(1, Relaxed);
        connection.close();
    }

    fn open(&self) -> MutexGuard<'_, Vec<Weak<Connection>>> {
        self.open.lock()
    }

    /// Registers a new connection and sets its socket options.
    pub fn adopt(&self, connection: &dyn Any, data: &mut Extensions) {
        let plain = connection.downcast_ref::<TcpStream>();
        let under_tls = || connection.downcast_ref::<TlsStream<TcpStream>>();
        let Some(stream) = plain.or_else(|| under_tls().map(|tls| tls.get_ref().0)) else { return };
        prepare(stream, self.stalled);
        let Ok(socket) = SockRef::from(stream).try_clone() else {
            // Out of descriptors. Without a second handle it could not be closed from here, so it
            // is refused.
            self.closed[CloseReason::Refused as usize].fetch_add(1, Relaxed);
            let _ = SockRef::from(stream).shutdown(std::net::Shutdown::Both);
            return;
        };
        let connection = Arc::new(Connection::new(socket, self.begun, Arc::clone(&self.count)));
        let mut open = self.open();
        if open.len() >= self.most {
            self.evict_idle(&mut open);
        }
        if open.len() >= self.most {
            self.close(&connection, CloseReason::Refused);
        } else {
            open.push(Arc::downgrade(&connection));
        }
        drop(open);
        data.insert(connection);
    }

    /// Evicts the connections that were idle for longest. Several at once, because the search scans
    /// all of them.
    fn evict_idle(&self, open: &mut Vec<Weak<Connection>>) {
        open.retain(|connection| connection.strong_count() > 0);
        if open.len() < self.most {
            return;
        }
        let mut idle: Vec<_> = open.iter().filter_map(Weak::upgrade).collect();
        idle.retain(|connection| connection.busy() == 0);
        let surplus = (self.most / 64).max(1).min(idle.len());
        if surplus == 0 {
            return;
        }
        // A stable sort: those of the same millisecond stay in order of arrival.
        idle.sort_by_key(|connection| connection.since());
        for connection in &idle[..surplus] {
            self.close(connection, CloseReason::Evicted);
        }
        open.retain(|connection| {
            connection.upgrade().is_some_and(|connection| !connection.is_closed())
        });
    }

    /// Background task: closes idle and stalled connections.
    pub async fn watch(self: Arc<Self>) {
        let shorter = self.longest.min(self.stalled);
        let often = (shorter / 4).clamp(Duration::from_millis(50), Duration::from_secs(1));
        let mut ticks = tokio::time::interval(often);
        loop {
            ticks.tick().await;
            self.sweep();
        }
    }

    fn sweep(&self) {
        let now = milliseconds(self.begun.elapsed());
        let (longest, stalled) = (milliseconds(self.longest), milliseconds(self.stalled));
        self.open().retain(|connection| {
            let Some(connection) = connection.upgrade() else { return false };
            let why = if connection.unwritten_since().is_some_and(|since| now > since + stalled) {
                CloseReason::Stalled
            } else if connection.busy() == 0 && now > connection.since() + longest {
                CloseReason::Idle
            } else {
                return true;
            };
            self.close(&connection, why);
            false
        });
    }

    /// Counts a refused request of a connection, and closes the connection at the limit.
    pub(crate) fn refused(&self, connection: &Connection) {
        if connection.note_refusal() >= REFUSALS_PER_CONNECTION && !connection.is_closed() {
            self.close(connection, CloseReason::Flooding);
        }
    }
}

/// Resolves when the client has closed the connection, or its half of it, or has reset the HTTP/2
/// stream. Never resolves where that cannot be detected.
pub(crate) fn until_left(request: &HttpRequest) -> impl Future<Output = ()> + use<> {
    let connection = request.conn_data::<Arc<Connection>>().cloned();
    let incoming = request.extensions().get::<RequestStream>().cloned();
    async move {
        let closed = async {
            match connection {
                Some(connection) => connection.until_closed().await,
                None => std::future::pending().await,
            }
        };
        match incoming {
            None => closed.await,
            Some(incoming) => tokio::select! {
                () = closed => {}
                () = incoming.until_reset() => {}
            },
        }
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Disables Nagle's algorithm: an event of a stream must not wait for the acknowledgement of the
/// one before, which can take 40 ms. The user timeout closes a connection whose peer takes nothing;
/// it is twice the stall limit, so that the writer can close gracefully first.
fn prepare(connection: &TcpStream, stalled: Duration) {
    // Best effort: without these options a connection is a little slower, and a stalled one keeps
    // its buffers.
    let _ = connection.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(connection).set_tcp_user_timeout(Some(2 * stalled));
    #[cfg(not(target_os = "linux"))]
    let _ = stalled;
}
