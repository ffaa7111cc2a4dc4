//! How many deliveries run at once, of them to one host, and of them for one owner.
//!
//! A receiver that answers slowly fills its own places, not everybody's: a delivery first gets a
//! place for its owner's host, then one of its owner's, and only then one of the places for all.
//! Whoever waits holds nothing that another owner could want. Knows nothing of HTTP.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::WebhookSettings;

/// So many deliveries wait already that another makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// For this host.
    #[error("too many deliveries wait for this host")]
    Host,
    /// For this owner, at whatever hosts.
    #[error("too many deliveries wait for the owner of this webhook")]
    Owner,
}

/// The places.
#[derive(Debug)]
pub(super) struct Gate {
    total: Arc<Semaphore>,
    owners: Places,
    hosts: Places,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _for_all: OwnedSemaphorePermit,
    _of_owner: Seat,
    _at_host: Seat,
}

impl Gate {
    pub(super) fn new(settings: &WebhookSettings) -> Self {
        let total = settings.at_once.get().min(Semaphore::MAX_PERMITS);
        Self {
            total: Arc::new(Semaphore::new(total)),
            owners: Places::new(settings.at_once_per_owner, settings.waiting_per_owner),
            hosts: Places::new(settings.at_once_per_host, settings.waiting_per_host),
        }
    }

    /// A place for one delivery, as soon as there is one.
    pub(super) async fn enter(&self, owner: &str, host: &str) -> Result<Place, Busy> {
        // A host has no spaces, so that the two cannot be confused.
        let at_host = format!("{owner} {host}");
        let at_host = self.hosts.take(&at_host).await.ok_or(Busy::Host)?;
        let of_owner = self.owners.take(owner).await.ok_or(Busy::Owner)?;
        // The semaphore is never closed.
        let for_all = Arc::clone(&self.total).acquire_owned().await;
        Ok(Place {
            _for_all: for_all.map_err(|_| Busy::Owner)?,
            _of_owner: of_owner,
            _at_host: at_host,
        })
    }
}

type Table = HashMap<Arc<str>, Entry>;

/// A number of places for each key.
#[derive(Debug)]
struct Places {
    at_once: usize,
    waiting: usize,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug)]
struct Entry {
    places: Arc<Semaphore>,
    /// Those with a place and those waiting for one.
    guests: usize,
}

/// One place of a key.
#[derive(Debug)]
struct Seat {
    _permit: OwnedSemaphorePermit,
    _guest: Guest,
}

/// One guest in the count, taken back on drop, whether it got its place or left waiting.
#[derive(Debug)]
struct Guest {
    table: Arc<Mutex<Table>>,
    key: Arc<str>,
}

impl Places {
    fn new(at_once: NonZeroUsize, waiting: usize) -> Self {
        Self { at_once: at_once.get().min(Semaphore::MAX_PERMITS), waiting, table: Arc::default() }
    }

    /// A place, or nothing if too many wait for one.
    async fn take(&self, key: &str) -> Option<Seat> {
        let (guest, places) = self.announce(key)?;
        Some(Seat { _permit: places.acquire_owned().await.ok()?, _guest: guest })
    }

    fn announce(&self, key: &str) -> Option<(Guest, Arc<Semaphore>)> {
        let mut table = lock(&self.table);
        let key = match table.get_key_value(key) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(key),
        };
        let entry = table
            .entry(Arc::clone(&key))
            .or_insert_with(|| Entry { places: Arc::new(Semaphore::new(self.at_once)), guests: 0 });
        if entry.guests >= self.at_once.saturating_add(self.waiting) {
            return None;
        }
        entry.guests += 1;
        let places = Arc::clone(&entry.places);
        let table = Arc::clone(&self.table);
        Some((Guest { table, key }, places))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        if let Some(entry) = table.get_mut(&self.key) {
            entry.guests -= 1;
            if entry.guests == 0 {
                table.remove(&self.key);
            }
        }
    }
}

/// The counts are changed in single steps, so they are right even if somebody panicked.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn gate(total: usize, per_owner: usize, per_host: usize, waiting: usize) -> Gate {
        let places = |n| NonZeroUsize::new(n).unwrap();
        Gate::new(&WebhookSettings {
            at_once: places(total),
            at_once_per_owner: places(per_owner),
            at_once_per_host: places(per_host),
            waiting_per_owner: waiting,
            waiting_per_host: waiting,
            ..WebhookSettings::default()
        })
    }

    /// What is there at once: a place, a refusal, or nothing if it has to wait.
    fn now(gate: &Gate, owner: &str, host: &str) -> Option<Result<Place, Busy>> {
        gate.enter(owner, host).now_or_never()
    }

    #[test]
    fn a_full_host_holds_only_itself() {
        let gate = gate(3, 3, 2, 1);
        let first = now(&gate, "ann", "slow.example").unwrap().unwrap();
        let _second = now(&gate, "ann", "slow.example").unwrap().unwrap();
        let mut third = Box::pin(gate.enter("ann", "slow.example"));
        assert!(third.as_mut().now_or_never().is_none(), "it waits");

        let other = now(&gate, "ann", "quick.example");
        assert!(other.unwrap().is_ok(), "the waiting one holds no place");
        let fourth = now(&gate, "ann", "slow.example").unwrap();
        assert_eq!(fourth.unwrap_err(), Busy::Host);

        drop(first);
        assert!(third.now_or_never().unwrap().is_ok());
    }

    #[test]
    fn an_owner_of_many_hosts_holds_only_itself() {
        let gate = gate(3, 2, 1, 1);
        let _first = now(&gate, "eve", "a.example").unwrap().unwrap();
        let _second = now(&gate, "eve", "b.example").unwrap().unwrap();
        let mut third = Box::pin(gate.enter("eve", "shared.example"));
        assert!(third.as_mut().now_or_never().is_none(), "it waits");
        let fourth = now(&gate, "eve", "d.example").unwrap();
        assert_eq!(fourth.unwrap_err(), Busy::Owner);

        let ann = now(&gate, "ann", "shared.example");
        assert!(ann.unwrap().is_ok(), "the waiting one is not in her way");
    }

    #[test]
    fn all_places_taken_is_waited_for() {
        let gate = gate(1, 1, 1, 0);
        let first = now(&gate, "ann", "a.example").unwrap().unwrap();
        let mut second = Box::pin(gate.enter("bob", "b.example"));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().unwrap().is_ok());
    }

    #[test]
    fn keys_are_forgotten_when_nobody_is_there() {
        let gate = gate(4, 1, 1, 4);
        let place = now(&gate, "ann", "a.example").unwrap().unwrap();
        let mut same_host = Box::pin(gate.enter("ann", "a.example"));
        let mut same_owner = Box::pin(gate.enter("ann", "b.example"));
        assert!(same_host.as_mut().now_or_never().is_none());
        assert!(same_owner.as_mut().now_or_never().is_none());
        drop((same_host, same_owner));
        drop(place);
        assert!(lock(&gate.hosts.table).is_empty());
        assert!(lock(&gate.owners.table).is_empty());
    }
}
