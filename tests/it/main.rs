//! Behaviour through the public edges, one module per edge.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

/// The bus in one process: delivery, sessions, retries, restarts, stopping.
mod bus;
/// `openclaw-a2a schema`, `completions` and the help texts.
mod cli_schema;
/// `openclaw-a2a validate`: verdicts, formats, exit codes, bounded memory.
mod cli_validate;
/// A disk that refuses: nothing accepted, nothing lost, nothing hangs.
mod disk_faults;
/// Every shell example in the README and docs/ runs as printed.
mod documentation;
/// Router, sessions and journal against a model, with random crashes.
mod model;

/// A journal whose disk can refuse and whose process can die.
mod unreliable_journal;

/// The program under test.
fn openclaw_a2a() -> assert_cmd::Command {
    assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"))
}
