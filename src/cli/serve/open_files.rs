//! Limit on open files: how many a server needs, and how many connections fit a lower limit.
//!
//! Connections must never exhaust the descriptors of the journal, the token file and the task
//! store.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The socket and a duplicate of it, by which the connection can be closed.
const PER_CONNECTION: u64 = 2;
/// Descriptors for everything else: logs, databases, webhooks, the runtime.
const RESERVED: u64 = 1_000;

/// Number of connections to accept so that `connections` can stay: some are in their TLS handshake,
/// some are being closed.
pub(super) fn accepted(connections: usize) -> usize {
    connections.saturating_add(in_passing(connections))
}

/// Connections in handshake or closing; they use descriptors, too.
fn in_passing(connections: usize) -> usize {
    16 + connections / 8
}

/// Number of descriptors that this many connections need.
pub(in crate::cli) fn files_for(connections: usize) -> u64 {
    let accepted = accepted(connections) as u64;
    accepted.saturating_mul(PER_CONNECTION).saturating_add(RESERVED)
}

/// Number of connections that fit a limit on descriptors. A quarter of them, or the usual reserve,
/// is not for connections.
fn connections_for(files: u64) -> usize {
    let accepted = files.saturating_sub(RESERVED.min(files / 4)) / PER_CONNECTION;
    // One in nine may be in handshake or closing.
    let staying = accepted.saturating_sub(in_passing(0) as u64) * 8 / 9;
    usize::try_from(staying).unwrap_or(usize::MAX).max(1)
}

/// Raises the soft limit to what `most` connections need; many systems default to 1,024. Returns
/// how many connections fit.
pub(super) fn allow_connections(most: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = files_for(most);
    let Some(current) = limit.current.filter(|current| *current < wanted) else { return most };
    let given = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(given), ..limit });
    let files = if raised.is_ok() { given } else { current };
    if files >= wanted {
        return most;
    }
    let connections = connections_for(files).min(most);
    let advice = "fewer connections than configured: the system allows too few open files. Raise the limit (ulimit -Hn, or LimitNOFILE= of a systemd unit), or lower max_connections in [http]";
    if connections < most / 2 {
        tracing::warn!(connections, max_connections = most, files, "{advice}");
    } else if connections < most {
        // Most servers never have that many connections; `doctor` reports the limit on request.
        tracing::debug!(connections, max_connections = most, files, "{advice}");
    }
    connections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_limit_reserves_descriptors() {
        for files in [256, 1_024, 4_096, 22_314, 1 << 20] {
            let connections = connections_for(files);
            let of_connections = files_for(connections) - RESERVED;
            assert!(of_connections + RESERVED.min(files / 4) <= files, "{files} {connections}");
            assert!(of_connections * 2 > files, "{files} {connections}");
        }
        assert_eq!(connections_for(0), 1);
        assert!(connections_for(files_for(10_000)) >= 10_000);
    }
}
