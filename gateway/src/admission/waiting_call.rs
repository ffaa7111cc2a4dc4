//! Calls that wait for an event: an inbox until a message comes, a blocking send until its task
//! ends, an objective until it changes.
//!
//! Such a call holds a share of the waiting calls instead of a work permit, and ends when its
//! client has gone: a message must not be delivered to a closed connection.

use std::future::Future;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;

use super::connections::until_left;
use super::permits::WorkPermit;
use super::quota::{Exceeded, Quotas, Share};
use crate::problem::refuse;

/// Guard of one waiting call.
pub(crate) struct WaitingCall<'a> {
    request: &'a HttpRequest,
    _share: Share,
}

/// The client closed its connection or reset its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("The client has gone, so the call that waited for it has ended.")]
pub(crate) struct ClientGone;

impl<'a> WaitingCall<'a> {
    /// Takes a share of the waiting calls and releases the work permit. `caller` is `None` where
    /// callers share one key.
    pub(crate) fn begin(
        request: &'a HttpRequest,
        quotas: &Quotas,
        caller: Option<String>,
    ) -> Result<Self, Exceeded> {
        let share = quotas.waiting.take(caller, 1)?;
        WorkPermit::release_of(request);
        Ok(Self { request, _share: share })
    }

    /// Awaits `call`; drops it if the client leaves first.
    pub(crate) async fn run<T>(&self, call: impl Future<Output = T>) -> Result<T, ClientGone> {
        self.run_from(Duration::ZERO, call).await
    }

    /// Awaits `call`; after `grace`, drops it if the client leaves first.
    pub(crate) async fn run_from<T>(
        &self,
        grace: Duration,
        call: impl Future<Output = T>,
    ) -> Result<T, ClientGone> {
        let left = async {
            if !grace.is_zero() {
                tokio::time::sleep(grace).await;
            }
            until_left(self.request).await;
        };
        tokio::select! {
            biased;
            done = call => Ok(done),
            () = left => Err(ClientGone),
        }
    }
}

impl From<ClientGone> for actix_web::Error {
    /// No client reads it; it is counted under the status that proxies use for this.
    fn from(gone: ClientGone) -> Self {
        let status = StatusCode::from_u16(499).unwrap_or(StatusCode::REQUEST_TIMEOUT);
        refuse(status, "client_gone", &gone.to_string())
    }
}
