//! Resolver that returns only addresses a webhook may connect to.
//!
//! A name is judged each time a connection is made, by the addresses that the connection will use:
//! there is no second look-up in which a name server could change its mind. One forbidden address
//! among the answers refuses them all.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use super::address;

/// More addresses of one name than these are checked but not tried.
const MAX_TRIED: usize = 8;

/// The future result of a look-up.
pub type Answer = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Look-up of host names: the system's resolver, or a list in tests.
pub trait Lookup: Send + Sync + 'static {
    /// The addresses, in the order in which they should be tried.
    fn addresses(&self, name: &str) -> Answer;
}

/// The system's own resolver.
#[derive(Debug)]
pub struct SystemLookup {
    slots: Arc<Semaphore>,
}

impl SystemLookup {
    /// At most `at_once` look-ups run concurrently.
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
            // The permit moves along: an abandoned look-up still holds a thread.
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

/// Resolves only names all of whose addresses are allowed.
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
