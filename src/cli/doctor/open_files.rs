//! Whether a process may open as many files as the connections that are allowed would need.

use openclaw_a2a::config::Config;
use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use crate::cli::serve::files_for;

/// A server started from here has the same limit, and raises it as far as the system lets it.
pub(super) fn check(config: &Config) -> Finding {
    // A value that makes no sense has been named with the configuration.
    let http = config.http().unwrap_or_default();
    judge(http.connections, getrlimit(Resource::Nofile).maximum)
}

fn judge(connections: usize, most: Option<u64>) -> Finding {
    const NAME: &str = "open-files";
    let wanted = files_for(connections);
    let needs = format!("{wanted} for {connections} connections");
    match most.filter(|most| *most < wanted) {
        Some(most) => Finding::warning(
            NAME,
            format!("a process may open {most}, but a server wants {needs}"),
            "raise it (ulimit -Hn, or LimitNOFILE= of a systemd unit), or lower max_connections in [http]",
        ),
        None => Finding::ok(NAME, format!("enough may be open: {needs}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState;
    use super::*;

    #[test]
    fn connections_need_files() {
        for (connections, most, state) in [
            (100, None, FindingState::Ok),
            (100, Some(1_256), FindingState::Ok),
            (100, Some(1_255), FindingState::Warning),
        ] {
            assert_eq!(judge(connections, most).state, state, "{connections} {most:?}");
        }
    }
}
