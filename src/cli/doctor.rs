//! `openclaw-a2a doctor`: checks everything a server needs, read-only, and prints findings with
//! what to do.
//!
//! ```text
//! state, config ─▶ address (is a server there?) ─▶ server ─▶ data, chain ─▶ clock, disk, limits
//! ```

mod address;
mod clock;
mod configuration;
mod data;
mod disk;
mod finding;
mod folder;
mod open_files;
mod port_owner;
mod server;
mod token_names;

use std::time::Duration;

use openclaw_a2a::config::StateDir;

use super::server_locator::Located;
use super::{Answer, Global};
use finding::CheckReport;

/// Timeout of a call to a server on this machine.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Check the state folder, configuration, address, data, clock and disk, and print what to do
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a doctor                        everything, with a server or without one
  openclaw-a2a doctor --quick                without reading the whole log
  openclaw-a2a doctor --state-dir /srv/bus   another server's folder
  openclaw-a2a doctor --format json | jq '.checks[] | select(.state != \"ok\")'

Nothing is changed: a small file is written to measure the disk and removed again. Where a server
asks for tokens, an operator's (--token, or OPENCLAW_TOKEN) lets it look at the whole chain, dead
letters and circuits.

Exit codes: 0 no problems (there may be warnings), 1 problems, 2 it could not run.")]
pub(super) struct Args {
    /// Skip verifying the whole log, which takes long for a large one
    #[arg(long)]
    quick: bool,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let mut report = CheckReport::new(global.format);
    let state = StateDir::find(global.state_dir.clone());
    report.extend(folder::check(state.path()))?;
    let (config, locator, findings) = configuration::check(global)?;
    report.extend(findings)?;

    let (found, findings) = address::check(&locator, &config);
    report.extend(findings)?;
    let near = match &found {
        Located::Server(server) => Some(server.with_timeout(CALL_TIMEOUT)),
        Located::NotRunning | Located::Unresponsive => None,
    };
    if let Some(server) = &near {
        report.extend(server::check(server))?;
    }

    report.extend(token_names::check(&locator, &config, near.as_ref()))?;
    report.extend(data::journal(&locator, &found))?;
    report.extend(data::tasks(state.path()))?;
    report.add(data::chain(&locator, &found, args.quick))?;

    report.add(clock::check(state.path()))?;
    if let Some(server) = &near {
        report.add(clock::against(server))?;
    }
    report.extend(disk::check(state.path()))?;
    report.add(open_files::check(&config))?;

    if let Some(server) = &near {
        report.extend(server::hints(server))?;
        report.extend(data::waiting(state.path()))?;
    }
    if let Some(finding) = folder::left_out(state.path()) {
        report.add(finding)?;
    }
    report.add(folder::leftovers(state.path()))?;
    report.finish()
}
