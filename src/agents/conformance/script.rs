//! Table of prefixes (of a message id or text) and the script that each selects.

use Script::{
    Artifact, AskCredentials, AskInput, Complete, Fail, Finish, LongRunning, Message, MultiTurn,
    Reject, Resubscribe, Stream, StreamChunks, WaitForCancel,
};

/// Behaviour of the agent for one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    /// Completes with a message.
    Complete,
    /// Completes without a message.
    Finish,
    /// Completes with an artifact.
    Artifact(ArtifactContent),
    /// Answers with a plain message, no task.
    Message,
    /// Asks for input.
    AskInput,
    /// Asks for input until the text is "done".
    MultiTurn,
    /// Asks for credentials.
    AskCredentials,
    /// Does not take the task.
    Reject,
    /// Fails the task.
    Fail,
    /// Reports progress, sends an artifact, completes.
    Stream(ArtifactContent),
    /// Like `Stream`, with an artifact in two chunks.
    StreamChunks,
    /// Works long enough for the caller to subscribe again, then completes.
    Resubscribe,
    /// Works for a while, completes with an artifact.
    LongRunning,
    /// Works until the task is cancelled.
    WaitForCancel,
    /// Works for a while, then asks for input.
    StayOpen,
}

/// Content of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArtifactContent {
    Text(&'static str),
    File,
    FileUrl,
    Data,
}

/// Prefixes and their scripts. The longest matching prefix wins.
const SCRIPTS: &[(&str, Script)] = &[
    ("tck-complete-task", Complete),
    ("tck-artifact-text", Artifact(ArtifactContent::Text("Generated text content"))),
    ("tck-artifact-file", Artifact(ArtifactContent::File)),
    ("tck-artifact-file-url", Artifact(ArtifactContent::FileUrl)),
    ("tck-artifact-data", Artifact(ArtifactContent::Data)),
    ("tck-message-response", Message),
    ("tck-input-required", AskInput),
    ("tck-auth-required", AskCredentials),
    ("tck-reject-task", Reject),
    ("tck-task-failure", Fail),
    ("tck-multi-turn", MultiTurn),
    ("tck-long-running", LongRunning),
    ("tck-cancel", WaitForCancel),
    ("tck-stream-001", Stream(ArtifactContent::Text("Stream hello from TCK"))),
    ("tck-stream-002", Finish),
    ("tck-stream-003", Stream(ArtifactContent::Text("Stream task lifecycle"))),
    ("tck-stream-ordering-001", Stream(ArtifactContent::Text("Ordered output"))),
    ("tck-stream-basic", Stream(ArtifactContent::Text("Streamed output"))),
    ("tck-stream-artifact-text", Stream(ArtifactContent::Text("Streamed text content"))),
    ("tck-stream-artifact-file", Stream(ArtifactContent::File)),
    ("tck-stream-artifact-chunked", StreamChunks),
    ("tck-stream-chunked", StreamChunks),
    ("test-resubscribe-message-id", Resubscribe),
];

/// Returns the script that an id or a text selects, if any.
pub(super) fn script_of(text: &str) -> Option<Script> {
    let fitting = SCRIPTS.iter().filter(|(prefix, _)| text.starts_with(prefix));
    fitting.max_by_key(|(prefix, _)| prefix.len()).map(|(_, script)| *script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_prefix_wins() {
        for (text, script) in [
            ("tck-artifact-file-url-1a2b", Some(Artifact(ArtifactContent::FileUrl))),
            ("tck-artifact-file-1a2b", Some(Artifact(ArtifactContent::File))),
            ("tck-stream-artifact-chunked-1", Some(StreamChunks)),
            ("tck-complete-task hello", Some(Complete)),
            ("tck-terminal-1", None),
            ("x tck-complete-task", None),
            ("", None),
        ] {
            assert_eq!(script_of(text), script, "{text}");
        }
    }
}
