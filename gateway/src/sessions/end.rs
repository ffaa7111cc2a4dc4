//! End of a session connection: sends the close frame, then returns the messages in flight or keeps
//! the session for a reconnect.

use std::io::ErrorKind;
use std::time::Duration;

use actix_web::error::PayloadError;
use actix_ws::{CloseCode, CloseReason, ProtocolError};
use tokio::time::{sleep, timeout};

use super::connection::{AgentConnection, FRAME_BYTES, stopped};
use super::registry::HandOver;

/// Deadline of the closing handshake.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Bytes read and discarded during the closing handshake.
const MOST_DISCARDED: usize = 256;

/// Close code: no frame arrived for too long.
const SILENT: u16 = 4_000;
/// Close code: another connection has the session now.
const TAKEN_OVER: u16 = 4_001;
/// Close code: the peer stalled for too long.
const STALLED: u16 = 4_002;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The server stops.
    Stopping,
    /// A new connection resumes the session.
    TakenOver(HandOver),
    /// The client closed it.
    Closed(Option<CloseReason>),
    /// Protocol violation: close code, error code and detail.
    Faulty(CloseCode, &'static str, String),
    /// The connection broke.
    Lost,
    /// No frame arrived for too long.
    Silent,
    /// The peer stalled for too long.
    Stalled,
}

impl End {
    /// Maps a protocol error to an end.
    pub(super) fn of(error: &ProtocolError) -> Self {
        let too_large = || {
            let detail = format!("A frame has at most {FRAME_BYTES} bytes.");
            Self::Faulty(CloseCode::Size, "too_large", detail)
        };
        match error {
            ProtocolError::Overflow => too_large(),
            ProtocolError::Io(error) => match error.kind() {
                _ if error.get_ref().is_some_and(|cause| cause.is::<PayloadError>()) => Self::Lost,
                ErrorKind::InvalidData => {
                    let detail = "A text frame is UTF-8.".to_owned();
                    Self::Faulty(CloseCode::Invalid, "not_utf8", detail)
                }
                // Continuation frames that are together too large.
                _ => too_large(),
            },
            error => {
                let detail = format!("That was no WebSocket frame: {error}.");
                Self::Faulty(CloseCode::Protocol, "bad_frame", detail)
            }
        }
    }

    /// Closes the connection, and settles or returns the messages in flight.
    pub(super) async fn conclude(self, mut connection: AgentConnection) {
        match self {
            Self::Stopping => {
                // Settlements are answered first.
                let _ = timeout(LAST_WORDS, connection.flush()).await;
                connection.remote.release();
                let detail = "the server is stopping; connect again when it is back";
                close(connection.ws, &mut connection.incoming, CloseCode::Away, detail).await;
            }
            Self::TakenOver(request) => {
                // If the new connection is gone as well, the agent is lost and the messages with it
                // are returned.
                drop(request.send(connection.remote));
                let detail = "another connection has resumed this session";
                let code = CloseCode::Other(TAKEN_OVER);
                close(connection.ws, &mut connection.incoming, code, detail).await;
            }
            Self::Closed(reason) => {
                let left = matches!(&reason, Some(reason) if reason.code == CloseCode::Normal);
                let _ = timeout(LAST_WORDS, connection.ws.clone().close(reason)).await;
                if left {
                    connection
                        .remote
                        .set_loss_reason("the agent closed its connection and left it undone");
                } else {
                    linger(connection).await;
                }
            }
            Self::Faulty(code, _, detail) => {
                let _ = timeout(LAST_WORDS, connection.flush()).await;
                connection.remote.suspend();
                close(connection.ws.clone(), &mut connection.incoming, code, &detail).await;
                connection
                    .remote
                    .set_loss_reason("the agent's connection was closed: it broke the rules");
                linger(connection).await;
            }
            Self::Lost => linger(connection).await,
            Self::Silent => {
                let detail = "nothing was heard of you for too long, not even an answer to a ping";
                close_at_once(&connection, SILENT, detail);
                connection.remote.set_loss_reason("the agent's connection was silent for too long");
                linger(connection).await;
            }
            Self::Stalled => {
                let detail = "you took nothing for too long";
                close_at_once(&connection, STALLED, detail);
                connection
                    .remote
                    .set_loss_reason("the agent's connection took nothing for too long");
                linger(connection).await;
            }
        }
    }
}

/// Sends the close frame and waits until the peer has read it.
async fn close(
    ws: actix_ws::Session,
    incoming: &mut actix_ws::AggregatedMessageStream,
    code: CloseCode,
    detail: &str,
) {
    let reason = CloseReason { code, description: Some(detail.to_owned()) };
    let last_words = async {
        if ws.close(Some(reason)).await.is_err() {
            return;
        }
        // A connection closed with unread bytes is reset, and the close frame is lost with it.
        for _ in 0..MOST_DISCARDED {
            if incoming.recv().await.is_none() {
                return;
            }
        }
    };
    let _ = timeout(LAST_WORDS, last_words).await;
}

/// Closes without waiting for a peer that does not read.
fn close_at_once(connection: &AgentConnection, code: u16, detail: &'static str) {
    let reason = CloseReason { code: CloseCode::Other(code), description: Some(detail.to_owned()) };
    let ws = connection.ws.clone();
    actix_web::rt::spawn(async move {
        let _ = timeout(LAST_WORDS, ws.close(Some(reason))).await;
    });
}

/// Keeps the session for the grace time; then the agent is lost.
async fn linger(connection: AgentConnection) {
    let AgentConnection { ws, incoming, mut remote, mut permit, mut stops, grace, .. } = connection;
    drop((ws, incoming));
    if grace.is_zero() {
        return;
    }
    remote.suspend();
    tokio::select! {
        () = sleep(grace) => remote.set_loss_reason("the connection of the agent was lost, and it did not come back in time"),
        Some(request) = permit.requests.recv() => drop(request.send(remote)),
        () = stopped(&mut stops) => remote.release(),
    }
}
