//! Command line of `openclaw-a2a`: one file per verb, on top of `client` and `output`.
//!
//! - A verb parses its options with clap, asks the running server through `client` (or reads the
//!   state folder when none runs), and writes its answer through `output`.
//! - [`Answer`] and the errors decide the exit code: 0 yes, 1 no, 2 not carried out.
//! - `duration` is the one grammar of durations, for every option.

mod access;
mod agents;
mod backup;
mod bench;
mod breaker;
mod client;
mod completions;
mod config;
mod dead_letters;
mod doctor;
mod duration;
mod inbox;
mod log;
mod objective;
mod output;
mod restore;
mod schema;
mod send;
mod serve;
mod task;
mod token;
mod validate;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use client::{server, server_error, server_locator};
use output::{format, human, stdout, table};

/// The message bus that teams of AI agents run on.
#[derive(Parser)]
#[command(name = "openclaw-a2a", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    global: Global,

    #[command(subcommand)]
    verb: Verb,
}

/// Options of every verb
#[derive(clap::Args)]
struct Global {
    /// Output format: text (or table) for people, json or jsonl for programs
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// State folder of the bus [default: $OPENCLAW_STATE_DIR, else ~/.openclaw]
    #[arg(long, global = true, value_name = "DIR")]
    state_dir: Option<PathBuf>,

    /// Configuration file [default: a2a.toml in the state folder]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Token for a server that requires one [default: $OPENCLAW_TOKEN, which other users of the
    /// machine do not see]
    #[arg(long, global = true, value_name = "TOKEN")]
    token: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  openclaw-a2a serve                        start the bus
  openclaw-a2a serve --demo                 start it with a team of demo agents
  openclaw-a2a send task-request --to tim --title 'Count the kinds'
  openclaw-a2a agents                       list agents and their pending messages
  openclaw-a2a inbox tim                    list the messages of an inbox
  openclaw-a2a task list                    list tasks
  openclaw-a2a log --since 2h --follow      search and follow the message log
  openclaw-a2a task watch ID --agent tim    watch a task until it ends
  openclaw-a2a objective show ID --watch    follow an objective with its plans and tasks
  openclaw-a2a token create --agent tim     create a token for an agent
  openclaw-a2a doctor                       check everything a server needs
  openclaw-a2a bench --duration 10s         measure throughput and latency
  openclaw-a2a backup /backups/today        back up the state while the server runs
  openclaw-a2a config check                 check the configuration
  openclaw-a2a validate messages.jsonl      check messages, one JSON object a line
  openclaw-a2a schema task_request          print the JSON Schema of one kind
  openclaw-a2a completions bash             print completions for your shell

Exit codes: 0 success, 1 the answer is no (refused, invalid, not there), 2 the command could not be carried out.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[value(alias = "table")]
    Text,
    /// For programs: the answer as one JSON document
    Json,
    /// For programs: one JSON object a line, such as each item of a list
    Jsonl,
}

#[derive(Subcommand)]
enum Verb {
    Serve(serve::Args),
    Send(send::Args),
    Agents(agents::Args),
    Inbox(inbox::Args),
    Log(log::Args),
    Task(task::Args),
    Objective(objective::Args),
    Breaker(breaker::Args),
    #[command(alias = "dead_letters")]
    DeadLetters(dead_letters::Args),
    Access(access::Args),
    Token(token::Args),
    Doctor(doctor::Args),
    Bench(bench::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Config(config::Args),
    Validate(validate::Args),
    Schema(schema::Args),
    Completions(completions::Args),
}

/// Result of a verb that was carried out; it decides the exit code.
enum Answer {
    /// Exit code 0.
    Yes,
    /// Exit code 1; the output states the reason.
    No,
}

/// Runs the program with `args`, the first of which is its name.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(without_prefix(args)) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    // Everything written is private to the user, also files that sled and SQLite create with
    // default modes. Schemas and completions are meant to be published.
    if !matches!(cli.verb, Verb::Schema(_) | Verb::Completions(_)) {
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    }
    let answer = match cli.verb {
        Verb::Serve(args) => serve::run(&args, &cli.global),
        Verb::Send(args) => send::run(&args, &cli.global),
        Verb::Agents(args) => agents::run(&args, &cli.global),
        Verb::Inbox(args) => inbox::run(&args, &cli.global),
        Verb::Log(args) => log::run(&args, &cli.global),
        Verb::Task(args) => task::run(&args, &cli.global),
        Verb::Objective(args) => objective::run(&args, &cli.global),
        Verb::Breaker(args) => breaker::run(&args, &cli.global),
        Verb::DeadLetters(args) => dead_letters::run(&args, &cli.global),
        Verb::Access(args) => access::run(&args, &cli.global),
        Verb::Token(args) => token::run(&args, &cli.global),
        Verb::Doctor(args) => doctor::run(&args, &cli.global),
        Verb::Bench(args) => bench::run(&args, &cli.global),
        Verb::Backup(args) => backup::run(&args, &cli.global),
        Verb::Restore(args) => restore::run(&args, &cli.global),
        Verb::Config(args) => config::run(&args, &cli.global),
        Verb::Validate(args) => validate::run(&args, cli.global.format),
        Verb::Schema(args) => schema::run(&args),
        Verb::Completions(args) => completions::run(&args),
    };
    match answer {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        // The reader closed the pipe, as `head` does, which is no error.
        Err(error) if stdout::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("error: {}", with_causes(&error));
            let is_no =
                error.downcast_ref::<server_error::ServerError>().is_some_and(|r| r.is_no());
            ExitCode::from(if is_no { 1 } else { 2 })
        }
    }
}

/// Formats an error with its causes. Some errors contain the text of their cause already; it is not
/// repeated.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Drops a leading `a2a`: `openclaw a2a log` runs `openclaw-a2a a2a log`.
fn without_prefix(args: impl IntoIterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    args.into_iter().enumerate().filter(|(i, arg)| *i != 1 || arg != "a2a").map(|(_, arg)| arg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn error_with_causes_names_each_cause_once() {
        let cause = || anyhow::anyhow!("the disk is full");
        assert_eq!(with_causes(&cause().context("no log")), "no log: the disk is full");
        assert_eq!(
            with_causes(&cause().context("no log: the disk is full")),
            "no log: the disk is full"
        );
    }

    #[test]
    fn command_line_definition_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn leading_a2a_argument_is_dropped_once() {
        let args = ["openclaw-a2a", "a2a", "validate", "a2a"].map(OsString::from);
        let left: Vec<_> = without_prefix(args).collect();
        assert_eq!(left, ["openclaw-a2a", "validate", "a2a"]);
    }
}
