//! How many tokens that are not good an address may show.
//!
//! A good token is looked up first and always passes, so nobody is locked out by a neighbour
//! behind the same address. Guessing is hopeless because tokens are long; what is limited here
//! is the work that guessing makes.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

/// How many bad tokens may come at once.
const BURST: u32 = 20;
/// After those, one in this time.
const PAUSE: Duration = Duration::from_secs(1);
/// How many addresses are remembered; of more the ones that came longest ago are forgotten.
const PEERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// How often the program's log speaks of one address.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// The addresses that showed tokens that are not good.
#[derive(Debug)]
pub struct Failures(Mutex<LruCache<IpAddr, Peer>>);

#[derive(Debug, Clone, Copy)]
struct Peer {
    /// When everything it did is paid off.
    even: Instant,
    said: Option<Instant>,
    refused: u64,
}

impl Default for Failures {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(PEERS)))
    }
}

impl Failures {
    /// Counts one more; an error says how long to wait.
    pub(super) fn note(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let address = network(address);
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = peers.get_or_insert_mut(address, || Peer { even: now, said: None, refused: 0 });
        let debt = peer.even.max(now) + PAUSE - now;
        let Some(wait) = debt.checked_sub(PAUSE * BURST).filter(|wait| !wait.is_zero()) else {
            peer.even = now + debt;
            return Ok(());
        };
        peer.refused += 1;
        if peer.said.is_none_or(|said| now >= said + SAY_AGAIN) {
            peer.said = Some(now);
            tracing::warn!(%address, refused = peer.refused, "many tokens that are not known");
        }
        Err(wait)
    }
}

/// Whoever has an IPv6 address has 2⁶⁴ of them.
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
        let (failures, begin) = (Failures::default(), Instant::now());
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
        let (failures, begin) = (Failures::default(), Instant::now());
        for last in 0..BURST {
            failures.note(format!("2001:db8::{last:x}").parse().unwrap(), begin).unwrap();
        }
        assert!(failures.note("2001:db8::ffff".parse().unwrap(), begin).is_err());
        for n in 0..20_000_u32 {
            failures.note(std::net::Ipv4Addr::from_bits(n).into(), begin).unwrap();
        }
        assert_eq!(failures.0.lock().unwrap().len(), PEERS.get());
    }
}
