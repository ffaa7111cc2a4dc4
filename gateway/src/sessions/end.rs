//! How a connection ends, and what that means for the messages in the agent's hands.

use std::io::ErrorKind;
use std::time::Duration;

use actix_web::error::PayloadError;
use actix_ws::{CloseCode, CloseReason, ProtocolError};
use tokio::time::{sleep, timeout};

use super::connection::{AgentConnection, FRAME_BYTES, stopped};
use super::registry::HandOver;

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What is read and thrown away after the last word, so that the other end gets to read it.
const MOST_DISCARDED: usize = 256;

/// Nothing was heard of the connection for too long.
const SILENT: u16 = 4_000;
/// Another connection has the session now.
const TAKEN_OVER: u16 = 4_001;
/// The connection took nothing for too long.
const STALLED: u16 = 4_002;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The server stops.
    Stopping,
    /// A new connection takes the session over.
    TakenOver(HandOver),
    /// The client closed it.
    Closed(Option<CloseReason>),
    /// The client does not speak as it should: how it is closed, the error, and why.
    Faulty(CloseCode, &'static str, String),
    /// It broke.
    Lost,
    /// Nothing was heard for too long.
    Silent,
    /// Nothing was taken for too long.
    Stalled,
}

impl End {
    /// What it means that something cannot be read.
    pub(super) fn of(error: &ProtocolError) -> Self {
        let too_large = || {
            let said = format!("A frame has at most {FRAME_BYTES} bytes.");
            Self::Faulty(CloseCode::Size, "too_large", said)
        };
        match error {
            ProtocolError::Overflow => too_large(),
            ProtocolError::Io(error) => match error.kind() {
                _ if error.get_ref().is_some_and(|cause| cause.is::<PayloadError>()) => Self::Lost,
                ErrorKind::InvalidData => {
                    let said = "A text frame is UTF-8.".to_owned();
                    Self::Faulty(CloseCode::Invalid, "not_utf8", said)
                }
                // Parts that are together too large.
                _ => too_large(),
            },
            error => {
                let said = format!("That was no WebSocket frame: {error}.");
                Self::Faulty(CloseCode::Protocol, "bad_frame", said)
            }
        }
    }

    /// Says the last word, and sees to it that no message in the agent's hands is lost.
    pub(super) async fn conclude(self, mut connection: AgentConnection) {
        match self {
            Self::Stopping => {
                // What was settled is answered first.
                let _ = timeout(LAST_WORDS, connection.flush()).await;
                connection.remote.give_back();
                let said = "the server is stopping; connect again when it is back";
                close(connection.ws, &mut connection.incoming, CloseCode::Away, said).await;
            }
            Self::TakenOver(request) => {
                // If the new connection is gone as well, the agent is lost with what it returns.
                drop(request.send(connection.remote));
                let said = "another connection has resumed this session";
                let code = CloseCode::Other(TAKEN_OVER);
                close(connection.ws, &mut connection.incoming, code, said).await;
            }
            Self::Closed(reason) => {
                let left = matches!(&reason, Some(reason) if reason.code == CloseCode::Normal);
                let _ = timeout(LAST_WORDS, connection.ws.clone().close(reason)).await;
                if left {
                    connection.remote.because("the agent closed its connection and left it undone");
                } else {
                    linger(connection).await;
                }
            }
            Self::Faulty(code, _, said) => {
                let _ = timeout(LAST_WORDS, connection.flush()).await;
                connection.remote.away();
                close(connection.ws.clone(), &mut connection.incoming, code, &said).await;
                connection.remote.because("the agent's connection was closed: it broke the rules");
                linger(connection).await;
            }
            Self::Lost => linger(connection).await,
            Self::Silent => {
                let said = "nothing was heard of you for too long, not even an answer to a ping";
                abandon(&connection, SILENT, said);
                connection.remote.because("the agent's connection was silent for too long");
                linger(connection).await;
            }
            Self::Stalled => {
                let said = "you took nothing for too long";
                abandon(&connection, STALLED, said);
                connection.remote.because("the agent's connection took nothing for too long");
                linger(connection).await;
            }
        }
    }
}

/// Says the last word and lets the other end hear it.
async fn close(
    ws: actix_ws::Session,
    incoming: &mut actix_ws::AggregatedMessageStream,
    code: CloseCode,
    said: &str,
) {
    let reason = CloseReason { code, description: Some(said.to_owned()) };
    let last_words = async {
        if ws.close(Some(reason)).await.is_err() {
            return;
        }
        // A connection closed with something unread is reset, and the last word with it.
        for _ in 0..MOST_DISCARDED {
            if incoming.recv().await.is_none() {
                return;
            }
        }
    };
    let _ = timeout(LAST_WORDS, last_words).await;
}

/// The same to one that does not listen: nobody waits for it.
fn abandon(connection: &AgentConnection, code: u16, said: &'static str) {
    let reason = CloseReason { code: CloseCode::Other(code), description: Some(said.to_owned()) };
    let ws = connection.ws.clone();
    actix_web::rt::spawn(async move {
        let _ = timeout(LAST_WORDS, ws.close(Some(reason))).await;
    });
}

/// Keeps the session for a new connection as long as the agent asked for; then it is lost.
async fn linger(connection: AgentConnection) {
    let AgentConnection { ws, incoming, mut remote, mut permit, mut stops, grace, .. } = connection;
    drop((ws, incoming));
    if grace.is_zero() {
        return;
    }
    remote.away();
    tokio::select! {
        () = sleep(grace) => remote.because("the connection of the agent was lost, and it did not come back in time"),
        Some(request) = permit.requests.recv() => drop(request.send(remote)),
        () = stopped(&mut stops) => remote.give_back(),
    }
}
