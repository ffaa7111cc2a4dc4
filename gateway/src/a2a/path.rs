//! Parses agent and version from the path of an HTTP+JSON call.

use a2a_protocol::AgentId;
use a2a_protocol::wire::Version;

/// The prefix of a path, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct A2aPath<'a> {
    /// The agent; `None` for the host's own.
    pub(super) agent: Option<AgentId>,
    pub(super) version: Version,
    /// The rest of the path, percent-encoded.
    pub(super) rest: &'a str,
}

/// First segments of the host's own paths.
const OWN: &[&str] = &["message:send", "message:stream", "tasks", "extendedAgentCard"];

/// Parses a path such as `/agents/tim/v1/tasks`; `None` when it is no A2A path.
pub(super) fn parse(path: &str) -> Option<A2aPath<'_>> {
    let path = path.strip_prefix('/')?;
    let (first, after) = path.split_once('/').unwrap_or((path, ""));
    let (agent, rest) = match first {
        "agents" => {
            let (agent, rest) = after.split_once('/')?;
            (Some(agent.parse().ok()?), rest)
        }
        "v1" => (None, path),
        own if OWN.contains(&own) => (None, path),
        // The tenant of 1.0 is an agent.
        tenant if !after.is_empty() => (Some(tenant.parse().ok()?), after),
        _ => return None,
    };
    let (version, rest) = match rest.strip_prefix("v1/") {
        Some(rest) => (Version::V0_3, rest),
        None => (Version::V1_0, rest),
    };
    Some(A2aPath { agent, version, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_agent_and_version() {
        let read = |path| {
            parse(path).map(|p| (p.agent.map(|a| a.to_string()), p.version.as_str(), p.rest))
        };
        let tim = || Some("tim".to_owned());
        assert_eq!(read("/message:send"), Some((None, "1.0", "message:send")));
        assert_eq!(read("/v1/message:send"), Some((None, "0.3", "message:send")));
        assert_eq!(read("/tasks/1:cancel"), Some((None, "1.0", "tasks/1:cancel")));
        assert_eq!(read("/agents/tim/tasks"), Some((tim(), "1.0", "tasks")));
        assert_eq!(read("/agents/tim/v1/tasks/1"), Some((tim(), "0.3", "tasks/1")));
        assert_eq!(read("/tim/tasks"), Some((tim(), "1.0", "tasks")));
        for nothing in ["/", "", "/x", "/agents", "/agents/tim", "/a b/tasks", "/../tasks"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}
