//! Who is told what became of a message.

use a2a_protocol::Receipt;
use tokio::sync::oneshot;

/// Whoever is told what became of a message, once that is on record.
pub(crate) enum Reply {
    /// Somebody waits for it.
    Caller(oneshot::Sender<Receipt>),
    /// Somebody goes on with it, who needs no task of its own to wait meanwhile.
    Callback(Box<dyn FnOnce(Receipt) + Send>),
}

impl Reply {
    pub(crate) fn send(self, receipt: Receipt) {
        match self {
            // A sender that went away does not need its receipt; the message stands.
            Self::Caller(caller) => drop(caller.send(receipt)),
            Self::Callback(callback) => callback(receipt),
        }
    }
}
