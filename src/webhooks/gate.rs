//! How many deliveries run at once, and how many of them to one host.
//!
//! A receiver that answers slowly fills its own places, not everybody's: a delivery first gets a
//! place at its host and only then one of the places for all. Knows nothing of HTTP.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many deliveries wait for the host already that another makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many deliveries wait for this host")]
pub struct HostBusy;

/// The places.
#[derive(Debug)]
pub(super) struct Gate {
    total: Arc<Semaphore>,
    per_host: usize,
    waiting_per_host: usize,
    hosts: Arc<Mutex<Hosts>>,
}

type Hosts = HashMap<Arc<str>, HostPlaces>;

#[derive(Debug)]
struct HostPlaces {
    places: Arc<Semaphore>,
    /// Those with a place and those waiting for one.
    guests: usize,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _for_all: OwnedSemaphorePermit,
    _at_host: OwnedSemaphorePermit,
    _guest: Guest,
}

/// One entry in the host's count, taken back on drop, whether it got its place or left waiting.
#[derive(Debug)]
struct Guest {
    hosts: Arc<Mutex<Hosts>>,
    host: Arc<str>,
}

impl Gate {
    pub(super) fn new(
        total: NonZeroUsize,
        per_host: NonZeroUsize,
        waiting_per_host: usize,
    ) -> Self {
        Self {
            total: Arc::new(Semaphore::new(total.get().min(Semaphore::MAX_PERMITS))),
            per_host: per_host.get().min(Semaphore::MAX_PERMITS),
            waiting_per_host,
            hosts: Arc::default(),
        }
    }

    /// A place for one delivery, as soon as there is one.
    pub(super) async fn enter(&self, host: &str) -> Result<Place, HostBusy> {
        let (guest, places) = self.announce(host)?;
        // Neither semaphore is ever closed.
        let at_host = places.acquire_owned().await.map_err(|_| HostBusy)?;
        let total = Arc::clone(&self.total);
        let for_all = total.acquire_owned().await.map_err(|_| HostBusy)?;
        Ok(Place { _for_all: for_all, _at_host: at_host, _guest: guest })
    }

    fn announce(&self, host: &str) -> Result<(Guest, Arc<Semaphore>), HostBusy> {
        let mut hosts = lock(&self.hosts);
        let host = match hosts.get_key_value(host) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(host),
        };
        let entry = hosts.entry(Arc::clone(&host)).or_insert_with(|| HostPlaces {
            places: Arc::new(Semaphore::new(self.per_host)),
            guests: 0,
        });
        if entry.guests >= self.per_host.saturating_add(self.waiting_per_host) {
            return Err(HostBusy);
        }
        entry.guests += 1;
        let places = Arc::clone(&entry.places);
        let guest = Guest { hosts: Arc::clone(&self.hosts), host };
        Ok((guest, places))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut hosts = lock(&self.hosts);
        if let Some(entry) = hosts.get_mut(&self.host) {
            entry.guests -= 1;
            if entry.guests == 0 {
                hosts.remove(&self.host);
            }
        }
    }
}

/// The counts are changed in single steps, so they are right even if somebody panicked.
fn lock(hosts: &Mutex<Hosts>) -> MutexGuard<'_, Hosts> {
    hosts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn gate(total: usize, per_host: usize, waiting: usize) -> Gate {
        let places = |n| NonZeroUsize::new(n).unwrap();
        Gate::new(places(total), places(per_host), waiting)
    }

    #[test]
    fn a_full_host_holds_only_itself() {
        let gate = gate(3, 2, 1);
        let first = gate.enter("slow.example").now_or_never().unwrap().unwrap();
        let _second = gate.enter("slow.example").now_or_never().unwrap().unwrap();
        let mut third = Box::pin(gate.enter("slow.example"));
        assert!(third.as_mut().now_or_never().is_none(), "it waits");

        let other = gate.enter("quick.example").now_or_never();
        assert!(other.unwrap().is_ok(), "the waiting one holds no place");
        let fourth = gate.enter("slow.example").now_or_never();
        assert_eq!(fourth.unwrap().unwrap_err(), HostBusy);

        drop(first);
        assert!(third.now_or_never().unwrap().is_ok());
    }

    #[test]
    fn all_places_taken_is_waited_for() {
        let gate = gate(1, 1, 0);
        let first = gate.enter("a.example").now_or_never().unwrap().unwrap();
        let mut second = Box::pin(gate.enter("b.example"));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().unwrap().is_ok());
    }

    #[test]
    fn hosts_are_forgotten_when_nobody_is_there() {
        let gate = gate(4, 1, 4);
        let place = gate.enter("a.example").now_or_never().unwrap().unwrap();
        let mut waiting = Box::pin(gate.enter("a.example"));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        drop(place);
        assert!(lock(&gate.hosts).is_empty());
    }
}
