//! DNS resolver of the HTTP client that refuses forbidden addresses.
//!
//! The addresses it returns are the ones the connection uses, so a name server cannot change them
//! after the check (DNS rebinding). One forbidden address refuses the name.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use super::address;

/// The most addresses of a name to try. All of them are checked.
const MAX_TRIED: usize = 8;

/// The future result of a lookup.
pub type Answer = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Name resolution: the system's resolver, or a list in tests.
pub trait Lookup: Send + Sync + 'static {
    /// The addresses of a name, in the order to try them.
    fn addresses(&self, name: &str) -> Answer;
}

/// The system's own resolver.
#[derive(Debug)]
pub struct SystemLookup {
    slots: Arc<Semaphore>,
}

impl SystemLookup {
    /// A resolver with a limit on concurrent lookups.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(at_once)) }
    }
}

impl Lookup for SystemLookup {
    fn addresses(&self, name: &str) -> Answer {
        let slots = Arc::clone(&self.slots);
        let name = name.to_owned();
        Box::pin(async move {
            let slot = slots.acquire_owned().await.map_err(io::Error::other)?;
            // The permit moves along: an abandoned lookup still blocks its thread.
            let found = tokio::task::spawn_blocking(move || {
                let _slot = slot;
                let found = (name.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|socket| socket.ip()).collect())
            });
            found.await.map_err(io::Error::other)?
        })
    }
}

/// The name could not be resolved.
#[derive(Debug, thiserror::Error)]
#[error("the name cannot be resolved: {0}")]
pub(super) struct Unresolved(io::Error);

/// Resolves names whose addresses are all allowed, and refuses the others.
pub(super) struct CheckedResolver {
    lookup: Arc<dyn Lookup>,
    allow_private: bool,
}

impl CheckedResolver {
    pub(super) fn new(lookup: Arc<dyn Lookup>, allow_private: bool) -> Self {
        Self { lookup, allow_private }
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let answer = self.lookup.addresses(name.as_str());
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found = answer.await.map_err(Unresolved)?;
            if found.is_empty() {
                return Err(Unresolved(io::Error::other("it has no addresses")).into());
            }
            for &one in &found {
                address::check(one, allow_private)?;
            }
            // Port 0 means the port of the URL.
            let tried = found.into_iter().take(MAX_TRIED);
            Ok(Box::new(tried.map(|one| SocketAddr::new(one, 0))) as Addrs)
        })
    }
}
