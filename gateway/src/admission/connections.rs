//! The connections that are open: prepared when they are made, closed when they do nothing, when
//! an answer on them is not taken, or when there are too many.
//!
//! The server's own clocks watch the first head of a connection and the time between requests.
//! They stop at the first byte of a later head, so a client that sends half of one could stay for
//! ever. No clock of the library watches an answer that HTTP/2 flow control holds back. Both are
//! found here.
//!
//! Nor does the server notice that a reader has left while there is nothing to write to it; what
//! waits on behalf of one asks here ([`until_left`]).

use std::any::Any;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use actix_web::{HttpMessage, HttpRequest};
use socket2::SockRef;

use super::body::RequestStream;
pub(crate) use super::connection::{ActiveRequest, Connection};
use crate::HttpSettings;

/// Requests that one connection may have under way. HTTP/1 has one at a time; HTTP/2 clients count
/// on 100 unless a server says otherwise, and the library lets us say nothing.
pub(crate) const REQUESTS_PER_CONNECTION: usize = 100;
/// Requests beyond that which are answered with a refusal; then the connection is closed.
const REFUSALS_PER_CONNECTION: usize = 1_000;

/// Every connection there is.
#[derive(Debug)]
pub struct Connections {
    open: Mutex<Vec<Weak<Connection>>>,
    most: usize,
    /// How long one may do nothing: as long as between two requests, and a head after that; the
    /// server's own clocks, which say goodbye, come first.
    longest: Duration,
    stalled: Duration,
    begun: Instant,
    /// One for each connection, and one for us.
    count: Arc<()>,
    closed: [AtomicU64; CloseReason::ALL.len()],
}

/// Why the server closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// It did nothing for too long.
    Idle,
    /// An answer was not taken.
    Stalled,
    /// It did nothing, and its place was needed.
    Evicted,
    /// There was no place for it.
    Refused,
    /// It asked for more at once than one connection may.
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
    /// None yet.
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
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares a connection that was just made.
    pub fn adopt(&self, connection: &dyn Any, data: &mut Extensions) {
        let plain = connection.downcast_ref::<TcpStream>();
        let under_tls = || connection.downcast_ref::<TlsStream<TcpStream>>();
        let Some(stream) = plain.or_else(|| under_tls().map(|tls| tls.get_ref().0)) else { return };
        prepare(stream, self.stalled);
        let Ok(socket) = SockRef::from(stream).try_clone() else {
            // Out of descriptors. Without a second handle it could not be closed from here, and
            // one that cannot be closed may not stay.
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

    /// Closes the connections that have done nothing for longest. Several at once: the search looks
    /// at all of them.
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
        // Those of the same millisecond stay in the order in which they came.
        idle.sort_by_key(|connection| connection.since());
        for connection in &idle[..surplus] {
            self.close(connection, CloseReason::Evicted);
        }
        open.retain(|connection| {
            connection.upgrade().is_some_and(|connection| !connection.is_closed())
        });
    }

    /// Closes what does nothing and what is not taken, until the server ends.
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
            let why = if connection.untaken_since().is_some_and(|since| now > since + stalled) {
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

    /// Notes that a connection asked for more at once than it may, and closes it when it goes on.
    pub(crate) fn refused(&self, connection: &Connection) {
        if connection.note_refusal() >= REFUSALS_PER_CONNECTION && !connection.is_closed() {
            self.close(connection, CloseReason::Flooding);
        }
    }
}

/// Ends when the client of the request has closed the connection, or its half of it, or has reset
/// the stream of HTTP/2. Where that cannot be known it never ends.
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

/// What is written goes out at once: a line of the log must not wait until the one before it is
/// confirmed, which can take 40 ms. And the system closes it when the other end takes nothing for
/// twice as long as it may: a reader that stands still must not keep what it was sent for ever.
/// Twice, so that whoever writes to it can say so first.
fn prepare(connection: &TcpStream, stalled: Duration) {
    // Where the system cannot do that, a connection is a little slower, and one that stands
    // still costs its buffers and no more.
    let _ = connection.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(connection).set_tcp_user_timeout(Some(2 * stalled));
    #[cfg(not(target_os = "linux"))]
    let _ = stalled;
}
