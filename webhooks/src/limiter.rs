//! Delivery limiter: how many deliveries run at once, per host, per owner and in all.
//!
//! A slow receiver exhausts its own permits and not the shared ones: a delivery first acquires a
//! permit of its owner's host, then one of its owner, and last one of the total. A delivery that
//! waits therefore holds no permit that another owner could use.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::WebhookSettings;

/// Load shedding: the queue for a permit is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// For this host.
    #[error("too many deliveries wait for this host")]
    Host,
    /// For this owner, at whatever hosts.
    #[error("too many deliveries wait for the owner of this webhook")]
    Owner,
}

/// The three limits.
#[derive(Debug)]
pub(super) struct DeliveryLimiter {
    total: Arc<Semaphore>,
    owners: KeyedSemaphore,
    hosts: KeyedSemaphore,
}

/// Permits of one delivery, released on drop.
#[derive(Debug)]
pub(super) struct DeliveryPermit {
    _for_all: OwnedSemaphorePermit,
    _of_owner: KeyedPermit,
    _at_host: KeyedPermit,
}

impl DeliveryLimiter {
    pub(super) fn new(settings: &WebhookSettings) -> Self {
        let total = settings.at_once.get().min(Semaphore::MAX_PERMITS);
        Self {
            total: Arc::new(Semaphore::new(total)),
            owners: KeyedSemaphore::new(settings.at_once_per_owner, settings.waiting_per_owner),
            hosts: KeyedSemaphore::new(settings.at_once_per_host, settings.waiting_per_host),
        }
    }

    /// Waits for the permits of one delivery.
    pub(super) async fn acquire(&self, owner: &str, host: &str) -> Result<DeliveryPermit, Busy> {
        // A host has no spaces, so the key is unambiguous.
        let at_host = format!("{owner} {host}");
        let at_host = self.hosts.acquire(&at_host).await.ok_or(Busy::Host)?;
        let of_owner = self.owners.acquire(owner).await.ok_or(Busy::Owner)?;
        // The semaphore is never closed.
        let for_all = Arc::clone(&self.total).acquire_owned().await;
        Ok(DeliveryPermit {
            _for_all: for_all.map_err(|_| Busy::Owner)?,
            _of_owner: of_owner,
            _at_host: at_host,
        })
    }
}

type Table = HashMap<Arc<str>, KeyEntry>;

/// One semaphore per key, created on demand and removed when its last waiter leaves.
#[derive(Debug)]
struct KeyedSemaphore {
    at_once: usize,
    waiting: usize,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug)]
struct KeyEntry {
    semaphore: Arc<Semaphore>,
    /// Deliveries that hold a permit or wait for one.
    waiters: usize,
}

/// One permit of a key.
#[derive(Debug)]
struct KeyedPermit {
    _permit: OwnedSemaphorePermit,
    _waiter: Waiter,
}

/// One entry of the count, removed on drop, whether it acquired its permit or not.
#[derive(Debug)]
struct Waiter {
    table: Arc<Mutex<Table>>,
    key: Arc<str>,
}

impl KeyedSemaphore {
    fn new(at_once: NonZeroUsize, waiting: usize) -> Self {
        Self { at_once: at_once.get().min(Semaphore::MAX_PERMITS), waiting, table: Arc::default() }
    }

    /// Waits for a permit; `None` if too many wait already.
    async fn acquire(&self, key: &str) -> Option<KeyedPermit> {
        let (waiter, semaphore) = self.register(key)?;
        Some(KeyedPermit { _permit: semaphore.acquire_owned().await.ok()?, _waiter: waiter })
    }

    fn register(&self, key: &str) -> Option<(Waiter, Arc<Semaphore>)> {
        let mut table = self.table.lock();
        let key = match table.get_key_value(key) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(key),
        };
        let entry = table.entry(Arc::clone(&key)).or_insert_with(|| KeyEntry {
            semaphore: Arc::new(Semaphore::new(self.at_once)),
            waiters: 0,
        });
        if entry.waiters >= self.at_once.saturating_add(self.waiting) {
            return None;
        }
        entry.waiters += 1;
        let semaphore = Arc::clone(&entry.semaphore);
        let table = Arc::clone(&self.table);
        Some((Waiter { table, key }, semaphore))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if let Some(entry) = table.get_mut(&self.key) {
            entry.waiters -= 1;
            if entry.waiters == 0 {
                table.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn limiter(total: usize, per_owner: usize, per_host: usize, waiting: usize) -> DeliveryLimiter {
        let count = |n| NonZeroUsize::new(n).unwrap();
        DeliveryLimiter::new(&WebhookSettings {
            at_once: count(total),
            at_once_per_owner: count(per_owner),
            at_once_per_host: count(per_host),
            waiting_per_owner: waiting,
            waiting_per_host: waiting,
            ..WebhookSettings::default()
        })
    }

    /// What is ready at once: a permit, a refusal, or `None` if it has to wait.
    fn now(
        limiter: &DeliveryLimiter,
        owner: &str,
        host: &str,
    ) -> Option<Result<DeliveryPermit, Busy>> {
        limiter.acquire(owner, host).now_or_never()
    }

    #[test]
    fn a_full_host_holds_only_itself() {
        let limiter = limiter(3, 3, 2, 1);
        let first = now(&limiter, "ann", "slow.example").unwrap().unwrap();
        let _second = now(&limiter, "ann", "slow.example").unwrap().unwrap();
        let mut third = Box::pin(limiter.acquire("ann", "slow.example"));
        assert!(third.as_mut().now_or_never().is_none(), "it waits");

        let other = now(&limiter, "ann", "quick.example");
        assert!(other.unwrap().is_ok(), "the waiting one holds no permit");
        let fourth = now(&limiter, "ann", "slow.example").unwrap();
        assert_eq!(fourth.unwrap_err(), Busy::Host);

        drop(first);
        assert!(third.now_or_never().unwrap().is_ok());
    }

    #[test]
    fn an_owner_of_many_hosts_holds_only_itself() {
        let limiter = limiter(3, 2, 1, 1);
        let _first = now(&limiter, "eve", "a.example").unwrap().unwrap();
        let _second = now(&limiter, "eve", "b.example").unwrap().unwrap();
        let mut third = Box::pin(limiter.acquire("eve", "shared.example"));
        assert!(third.as_mut().now_or_never().is_none(), "it waits");
        let fourth = now(&limiter, "eve", "d.example").unwrap();
        assert_eq!(fourth.unwrap_err(), Busy::Owner);

        let ann = now(&limiter, "ann", "shared.example");
        assert!(ann.unwrap().is_ok(), "the waiting one is not in her way");
    }

    #[test]
    fn exhausted_total_makes_deliveries_wait() {
        let limiter = limiter(1, 1, 1, 0);
        let first = now(&limiter, "ann", "a.example").unwrap().unwrap();
        let mut second = Box::pin(limiter.acquire("bob", "b.example"));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().unwrap().is_ok());
    }

    #[test]
    fn key_without_waiters_is_removed() {
        let limiter = limiter(4, 1, 1, 4);
        let permit = now(&limiter, "ann", "a.example").unwrap().unwrap();
        let mut same_host = Box::pin(limiter.acquire("ann", "a.example"));
        let mut same_owner = Box::pin(limiter.acquire("ann", "b.example"));
        assert!(same_host.as_mut().now_or_never().is_none());
        assert!(same_owner.as_mut().now_or_never().is_none());
        drop((same_host, same_owner));
        drop(permit);
        assert!(limiter.hosts.table.lock().is_empty());
        assert!(limiter.owners.table.lock().is_empty());
    }
}
