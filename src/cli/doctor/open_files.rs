//! Check of the limit on open files against the configured number of connections.

use openclaw_a2a::config::Config;
use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use crate::cli::serve::files_for;

/// A server started from this shell has the same hard limit, and raises its soft limit to it.
pub(super) fn check(config: &Config) -> Finding {
    // An invalid value is reported by the configuration check.
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
    fn low_descriptor_limit_is_a_warning() {
        for (connections, most, state) in [
            (100, None, FindingState::Ok),
            (100, Some(1_256), FindingState::Ok),
            (100, Some(1_255), FindingState::Warning),
        ] {
            assert_eq!(judge(connections, most).state, state, "{connections} {most:?}");
        }
    }
}
