//! The connections that are open: prepared when they are made, ended when they do nothing.
//!
//! The server's own clocks watch the first head of a connection and the time between requests.
//! They stop at the first byte of a later head, so whoever sends half of one could stay for
//! ever; what does nothing for too long is therefore closed from here.
//!
//! Nor does the server tell that a reader has left while there is nothing to write to it; whoever
//! keeps something for one asks here ([`until_left`]).

use std::any::Any;
use std::future::Future;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::HttpRequest;
use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use socket2::{SockRef, Socket};
use tokio::io::Interest;

use super::HttpSettings;

/// Every connection there is.
#[derive(Debug)]
pub struct Connections {
    open: Mutex<Vec<Weak<Connection>>>,
    /// How long one may do nothing: as long as between two requests, and a head after that; the
    /// server's own clocks, which say goodbye, come first.
    longest: Duration,
    stalled: Duration,
    begun: Instant,
    /// One for each connection, and one for us.
    count: Arc<()>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// A second handle, by which it can be closed. Gone with the connection.
    socket: Socket,
    /// A third, watched for the connection's end once somebody asks; `None` where the system
    /// has no more of them.
    watched: OnceLock<Option<TcpStream>>,
    /// Requests that are being answered, streams included.
    busy: AtomicUsize,
    /// When the last of them ended, in milliseconds since the server began.
    since: AtomicU64,
    begun: Instant,
    _counted: Arc<()>,
}

/// While this lives, the connection has something to do.
#[derive(Debug)]
pub(super) struct Busy(Arc<Connection>);

impl Connections {
    /// None yet.
    #[must_use]
    pub fn new(settings: &HttpSettings) -> Self {
        let longest = settings.idle + settings.head + Duration::from_secs(1);
        let (stalled, begun) = (settings.stalled, Instant::now());
        Self { open: Mutex::default(), longest, stalled, begun, count: Arc::default() }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        Arc::strong_count(&self.count) - 1
    }

    /// Prepares a connection that was just made.
    pub fn adopt(&self, connection: &dyn Any, data: &mut Extensions) {
        let plain = connection.downcast_ref::<TcpStream>();
        let under_tls = || connection.downcast_ref::<TlsStream<TcpStream>>();
        let Some(stream) = plain.or_else(|| under_tls().map(|tls| tls.get_ref().0)) else { return };
        prepare(stream, self.stalled);
        // Without a second handle it can stay too long, and no more than that.
        let Ok(socket) = SockRef::from(stream).try_clone() else { return };
        let connection = Arc::new(Connection {
            socket,
            watched: OnceLock::new(),
            busy: AtomicUsize::new(0),
            since: AtomicU64::new(milliseconds(self.begun.elapsed())),
            begun: self.begun,
            _counted: Arc::clone(&self.count),
        });
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push(Arc::downgrade(&connection));
        drop(open);
        data.insert(connection);
    }

    /// Closes what does nothing, until the server ends.
    pub async fn watch(self: Arc<Self>) {
        let often = (self.longest / 4).clamp(Duration::from_millis(50), Duration::from_secs(1));
        let mut ticks = tokio::time::interval(often);
        loop {
            ticks.tick().await;
            self.close_idle();
        }
    }

    fn close_idle(&self) {
        let now = milliseconds(self.begun.elapsed());
        let longest = milliseconds(self.longest);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|connection| {
            let Some(connection) = connection.upgrade() else { return false };
            let idle = now.saturating_sub(connection.since.load(Ordering::Relaxed));
            if connection.busy.load(Ordering::Relaxed) > 0 || idle <= longest {
                return true;
            }
            // It fails when the other end was faster, and then there is nothing to do.
            let _ = connection.socket.shutdown(Shutdown::Both);
            false
        });
    }
}

impl Connection {
    /// Keeps it open as long as the answer lives.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// Ends when the other end has closed it, or its half of it.
    async fn until_closed(&self) {
        let handle = || TcpStream::from_std(self.socket.try_clone().ok()?.into()).ok();
        while let Some(watched) = self.watched.get_or_init(handle) {
            let Ok(ready) = watched.ready(Interest::READABLE).await else { break };
            if ready.is_read_closed() {
                return;
            }
            // Something came, which is for the server to read: on to what comes next.
            let not_ours = || Err::<(), _>(ErrorKind::WouldBlock.into());
            let _ = watched.try_io(Interest::READABLE, not_ours);
        }
        // The next word that cannot be written to it will show that it is gone.
        std::future::pending().await
    }
}

/// Ends when whoever sent the request has closed the connection, or its half of it: a reader that
/// has left. Where that cannot be known it never ends.
pub(super) fn until_left(request: &HttpRequest) -> impl Future<Output = ()> + use<> {
    let connection = request.conn_data::<Arc<Connection>>().cloned();
    async move {
        match connection {
            Some(connection) => connection.until_closed().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.since.store(milliseconds(self.0.begun.elapsed()), Ordering::Relaxed);
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

fn milliseconds(duration: Duration) -> u64 {
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
