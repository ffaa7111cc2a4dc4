//! Check of the configuration. Invalid values are replaced by defaults for the following checks, so
//! that one mistake does not hide another.

use std::path::Path;

use openclaw_a2a::config::{Config, ConfigError, StateDir};

use super::finding::{Finding, unreadable};
use crate::cli::Global;
use crate::cli::server_locator::ServerLocator;

const NAME: &str = "config";

/// Reads the configuration and builds the locator for the following checks.
pub(super) fn check(global: &Global) -> anyhow::Result<(Config, ServerLocator, Vec<Finding>)> {
    let state = StateDir::find(global.state_dir.clone());
    let file = global.config.clone().unwrap_or_else(|| state.config_file());
    let (config, mut problems) = read(&file, global.config.is_some());
    // An unreadable certificate is reported above.
    let locator = match ServerLocator::with_config(global, &config) {
        Ok(locator) => locator,
        Err(error) => {
            if problems.is_empty() {
                problems.push(format!("{error:#}"));
            }
            ServerLocator::with_config(global, &Config::default())?
        }
    };
    let findings = match problems.is_empty() {
        true if file.exists() => vec![Finding::ok(NAME, format!("{} is valid", file.display()))],
        true => {
            let detail = format!("{} does not exist: the defaults apply", file.display());
            vec![Finding::ok(NAME, detail)]
        }
        false if unreadable(NAME, &[&file]).is_some() => {
            unreadable(NAME, &[&file]).into_iter().collect()
        }
        false => {
            let next = format!("correct {}; docs/configuration.md has every key", file.display());
            let problem = |message: &String| Finding::problem(NAME, message.trim_end(), &next);
            problems.iter().map(problem).collect()
        }
    };
    Ok((config, locator, findings))
}

/// Reads the file as `serve` does. Returns the defaults and the problems when it is invalid.
fn read(file: &Path, required: bool) -> (Config, Vec<String>) {
    let problems = match Config::examine(file, required) {
        Ok(config) => return (config, Vec::new()),
        Err(ConfigError::Invalid { file, problems }) => {
            problems.iter().map(|problem| problem.line(&file)).collect()
        }
        Err(error) => vec![format!("{:#}", anyhow::Error::from(error))],
    };
    (Config::default(), problems)
}
