//! The program as a person uses it beside a running server.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::log_command::Said;
use crate::openclaw_a2a;
use crate::server::Server;

/// A server, its folder, and commands that find it there.
pub(crate) struct CliFixture {
    pub(crate) folder: TempDir,
    pub(crate) server: Server,
}

impl CliFixture {
    /// With tim and roman known to a server of this configuration.
    pub(crate) fn with_config(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::with_config(folder.path(), config);
        for agent in ["roman", "tim"] {
            assert!(server.inbox(agent, "").is_empty());
        }
        Self { folder, server }
    }

    pub(crate) fn start() -> Self {
        Self::with_config("")
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        run(self.folder.path(), args, "")
    }

    /// With this on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Said {
        run(self.folder.path(), args, input)
    }

    /// What it wrote, which must be the answer yes.
    #[track_caller]
    pub(crate) fn text(&self, args: &[&str]) -> String {
        let printed = self.run(args);
        assert_eq!(
            (printed.code, printed.err.as_str()),
            (Some(0), ""),
            "{args:?}: {}",
            printed.out
        );
        assert!(!printed.out.contains('\u{1b}'), "colours are for terminals: {}", printed.out);
        printed.out
    }

    /// The same as one document.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.text(&[args, &["--format", "json"]].concat());
        assert_eq!(text.lines().count(), 1, "one document: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// The same as one object a line.
    #[track_caller]
    pub(crate) fn jsonl(&self, args: &[&str]) -> Vec<Value> {
        let text = self.text(&[args, &["--format", "jsonl"]].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// That the answer is no: nothing but `words` beside the output, and code 1.
    #[track_caller]
    pub(crate) fn fails_with(&self, args: &[&str], words: &str) {
        let printed = self.run(args);
        assert_eq!(
            (printed.code, printed.out.as_str()),
            (Some(1), ""),
            "{args:?}: {}",
            printed.err
        );
        assert!(printed.err.contains(words), "{args:?}: {}", printed.err);
    }
}

/// Runs the program on a folder, without anything of the machine around it.
pub(crate) fn run(folder: &Path, args: &[&str], input: &str) -> Said {
    let mut command = openclaw_a2a();
    for name in ["OPENCLAW_STATE_DIR", "OPENCLAW_TOKEN", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.args(args).arg("--state-dir").arg(folder).write_stdin(input);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
