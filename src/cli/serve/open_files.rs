//! Open files: how many a server needs, and how many connections it takes where the system allows
//! fewer. The journal, the token file and the task store must never find that connections have used
//! all of them up.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A connection takes the socket and a second handle, by which it can be closed.
const PER_CONNECTION: u64 = 2;
/// Files that are for no connection: logs, databases, webhooks, the runtime.
const RESERVED: u64 = 1_000;

/// Connections that may be accepted where so many may stay: some are still in their TLS handshake,
/// some wait to be closed.
pub(super) fn accepted(connections: usize) -> usize {
    connections.saturating_add(in_passing(connections))
}

/// They hold as many files as any other until they are gone.
fn in_passing(connections: usize) -> usize {
    16 + connections / 8
}

/// How many files a server with so many connections may have open.
pub(in crate::cli) fn files_for(connections: usize) -> u64 {
    let accepted = accepted(connections) as u64;
    accepted.saturating_mul(PER_CONNECTION).saturating_add(RESERVED)
}

/// How many connections fit, if no more files than this may be open: a quarter of them, or the
/// usual reserve, is for no connection.
fn connections_for(files: u64) -> usize {
    let accepted = files.saturating_sub(RESERVED.min(files / 4)) / PER_CONNECTION;
    // For each eight that stay one may be in passing.
    let staying = accepted.saturating_sub(in_passing(0) as u64) * 8 / 9;
    usize::try_from(staying).unwrap_or(usize::MAX).max(1)
}

/// Asks the system for as many files as `most` connections need: many allow a program a thousand
/// unless it asks. How many connections there may be then.
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
        // Most servers never have as many; `doctor` says so to those who ask.
        tracing::debug!(connections, max_connections = most, files, "{advice}");
    }
    connections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
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
