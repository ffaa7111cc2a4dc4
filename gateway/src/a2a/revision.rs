//! Last-modified time of a value, derived from changes of its digest.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
/// Clock skew against the `Date` header; no modification may be later than its response.
const CLOCK: Duration = Duration::from_secs(1);

/// The last digest, and since when it is current.
#[derive(Debug, Default)]
pub(super) struct Revision(Mutex<Option<([u8; 32], SystemTime)>>);

impl Revision {
    /// Since when it has this digest.
    pub(super) fn since(&self, digest: [u8; 32], now: SystemTime) -> SystemTime {
        let mut known = self.0.lock();
        match *known {
            Some((old, since)) if old == digest => since,
            _ => {
                let since = now.checked_sub(CLOCK).unwrap_or(now);
                *known = Some((digest, since));
                since
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_changes_with_the_digest_only() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let revision = Revision::default();
        let (first, second) = ([1; 32], [2; 32]);
        assert_eq!(revision.since(first, at(11)), at(10));
        assert_eq!(revision.since(first, at(21)), at(10));
        assert_eq!(revision.since(second, at(31)), at(30));
        assert_eq!(revision.since(second, at(41)), at(30));
    }
}
