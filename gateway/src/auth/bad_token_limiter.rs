//! Rate limiter of bad tokens, by address.
//!
//! A valid token is always accepted, so bad tokens from the same address lock no other caller out.
//! Tokens are too long to guess; an address that keeps trying is logged and gets `429`.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;

/// Burst of bad tokens per address.
const BURST: u32 = 20;
/// After the burst, one bad token per this time.
const PAUSE: Duration = Duration::from_secs(1);
/// Addresses kept; the least recently seen is evicted.
const PEERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// Minimum time between two log lines about one address.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// LRU map of addresses that showed bad tokens.
#[derive(Debug)]
pub struct BadTokenLimiter(Mutex<LruCache<IpAddr, Peer>>);

#[derive(Debug, Clone, Copy)]
struct Peer {
    /// Theoretical arrival time (GCRA): when the burst is fully available again.
    even: Instant,
    last_logged: Option<Instant>,
    refused: u64,
}

impl Default for BadTokenLimiter {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(PEERS)))
    }
}

impl BadTokenLimiter {
    /// Counts one bad token; an error holds the time to wait.
    pub(super) fn note(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let address = network(address);
        let mut peers = self.0.lock();
        let peer =
            peers.get_or_insert_mut(address, || Peer { even: now, last_logged: None, refused: 0 });
        let debt = peer.even.max(now) + PAUSE - now;
        let Some(wait) = debt.checked_sub(PAUSE * BURST).filter(|wait| !wait.is_zero()) else {
            peer.even = now + debt;
            return Ok(());
        };
        peer.refused += 1;
        if peer.last_logged.is_none_or(|last_logged| now >= last_logged + LOG_INTERVAL) {
            peer.last_logged = Some(now);
            tracing::warn!(%address, refused = peer.refused, "many tokens that are not known");
        }
        Err(wait)
    }
}

/// One IPv6 customer has 2⁶⁴ addresses, so a /64 counts as one.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_one_a_second() {
        let (failures, begin) = (BadTokenLimiter::default(), Instant::now());
        let [a, b]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        for _ in 0..BURST {
            failures.note(a, begin).unwrap();
        }
        assert_eq!(failures.note(a, begin), Err(PAUSE));
        assert_eq!(failures.note(a, begin), Err(PAUSE), "a refusal costs nothing more");
        failures.note(b, begin).unwrap();
        failures.note(a, begin + PAUSE).unwrap();
        assert_eq!(failures.note(a, begin + PAUSE), Err(PAUSE));
    }

    #[test]
    fn a_network_is_one_peer_and_the_table_has_an_end() {
        let (failures, begin) = (BadTokenLimiter::default(), Instant::now());
        for last in 0..BURST {
            failures.note(format!("2001:db8::{last:x}").parse().unwrap(), begin).unwrap();
        }
        assert!(failures.note("2001:db8::ffff".parse().unwrap(), begin).is_err());
        for n in 0..20_000_u32 {
            failures.note(std::net::Ipv4Addr::from_bits(n).into(), begin).unwrap();
        }
        assert_eq!(failures.0.lock().len(), PEERS.get());
    }
}
