//! `config check`: lists every problem of the configuration with its location.

use std::io::Write;
use std::path::{Path, PathBuf};

use openclaw_a2a::config::{Config, ConfigError, Origin, Place, Problem, value_at};
use serde_json::{Value, json};

use super::{Answer, Global, file, origin_json, origin_words};
use crate::cli::Format;
use crate::cli::stdout::{output, sanitize};

/// Check the file and the environment, and list every problem with its line
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a config check
  openclaw-a2a config check new.toml --format json

Exit codes: 0 it is right, 1 it is not, 2 it cannot be read.")]
pub(super) struct Args {
    /// The file [default: --config, else a2a.toml in the state folder]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let (file, named) = file(args.file.as_ref(), global);
    let mut out = output(global.format);
    let answer = match Config::examine(&file, named) {
        Ok(config) if global.format == Format::Text => {
            write_ok(&mut out, &file, &config)?;
            Answer::Yes
        }
        Ok(config) => {
            let set = set_json(&file, &config)?;
            let file = file.display().to_string();
            writeln!(out, "{}", json!({"ok": true, "file": file, "set": set, "problems": []}))?;
            Answer::Yes
        }
        Err(ConfigError::Invalid { problems, .. }) if global.format == Format::Text => {
            for problem in &problems {
                writeln!(out, "{}", sanitize(&problem.line(&file)))?;
            }
            Answer::No
        }
        Err(ConfigError::Invalid { problems, .. }) => {
            let problems: Vec<_> = problems.iter().map(|each| as_json(each, &file)).collect();
            let file = file.display().to_string();
            writeln!(out, "{}", json!({"ok": false, "file": file, "problems": problems}))?;
            Answer::No
        }
        Err(error) => return Err(error.into()),
    };
    out.flush()?;
    Ok(answer)
}

/// Writes OK and the values that are not defaults.
fn write_ok(out: &mut impl Write, file: &Path, config: &Config) -> anyhow::Result<()> {
    let missing = if file.exists() { "" } else { " (there is no such file)" };
    writeln!(out, "{}: OK{missing}", file.display())?;
    let set = set(config)?;
    if set.is_empty() {
        writeln!(out, "In force: the defaults.")?;
        return Ok(());
    }
    writeln!(out, "In force, besides defaults (`openclaw-a2a config show` has everything):")?;
    for (path, value, origin) in set {
        let value = value.map_or("an entry".to_owned(), |value| value.to_string());
        let line = format!("  {path} = {value}  # {}", origin_words(origin, file));
        writeln!(out, "{}", sanitize(&line))?;
    }
    Ok(())
}

type SetValue<'a> = (&'a str, Option<toml::Value>, Origin<'a>);

/// Values that were set, with their origins. List entries have no value here.
fn set(config: &Config) -> anyhow::Result<Vec<SetValue<'_>>> {
    let values = config.values().map_err(anyhow::Error::msg)?;
    let all = config.origins().iter();
    Ok(all.map(|(path, origin)| (path, value_at(&values, path).cloned(), origin)).collect())
}

fn set_json(file: &Path, config: &Config) -> anyhow::Result<Vec<Value>> {
    let all = set(config)?.into_iter();
    let each = |(path, value, origin)| json!({"key": path, "value": value, "origin": origin_json(origin, file)});
    Ok(all.map(each).collect())
}

fn as_json(problem: &Problem, file: &Path) -> Value {
    match &problem.place {
        Place::Line(line) => {
            json!({"file": file.display().to_string(), "line": line, "message": problem.message})
        }
        Place::Variable(name) => json!({"variable": name, "message": problem.message}),
    }
}
