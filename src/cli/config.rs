//! `openclaw-a2a config`: checks the configuration, shows effective values, writes a template.

mod check;
mod init;
mod show;

use std::path::{Path, PathBuf};

use openclaw_a2a::config::{Origin, StateDir};
use serde_json::{Value, json};

use super::{Answer, Global};

/// Check, show or create the configuration
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  openclaw-a2a config init               write a2a.toml with every key and its default
  openclaw-a2a config check              is it right? every problem with its line
  openclaw-a2a config check new.toml     the same for another file
  openclaw-a2a config show --origin      every key, its value and where that comes from

A flag goes before the environment, the environment before the file. Every key outside the lists has
a variable: burst in [limits] is OPENCLAW_A2A_LIMITS_BURST. SIGHUP makes a running server read both
again.")]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Check(check::Args),
    Show(show::Args),
    Init(init::Args),
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    match &args.verb {
        Verb::Check(args) => check::run(args, global),
        Verb::Show(args) => show::run(args, global),
        Verb::Init(args) => init::run(args, global),
    }
}

/// The configuration file, and whether it was named explicitly.
fn file(given: Option<&PathBuf>, global: &Global) -> (PathBuf, bool) {
    match given.or(global.config.as_ref()) {
        Some(file) => (file.clone(), true),
        None => (StateDir::find(global.state_dir.clone()).config_file(), false),
    }
}

/// Origin of a value, as text.
fn origin_words(origin: Origin<'_>, file: &Path) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::File(line) => format!("file {}:{line}", file.display()),
        Origin::Environment(name) => format!("environment {name}"),
    }
}

/// Origin of a value, as JSON.
fn origin_json(origin: Origin<'_>, file: &Path) -> Value {
    match origin {
        Origin::Default => json!({"from": "default"}),
        Origin::File(line) => {
            json!({"from": "file", "file": file.display().to_string(), "line": line})
        }
        Origin::Environment(name) => json!({"from": "environment", "variable": name}),
    }
}
