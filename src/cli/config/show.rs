//! `config show`: prints effective values as a valid configuration file.

use std::io::Write;
use std::path::Path;

use openclaw_a2a::config::{Config, Origin, Section, sections, value_at};
use serde_json::{Map, Value as Json, json};
use toml::{Table, Value};

use super::{Answer, Global, file, origin_json, origin_words};
use crate::cli::Format;
use crate::cli::stdout::output;

/// Section whose entries are shown as comments only, with shortened hashes.
const TOKENS: &str = "auth.tokens";
/// Number of hash digits shown, as token ids have them.
const SHOWN_DIGITS: usize = 12;

/// Show every key with its effective value
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a config show
  openclaw-a2a config show --origin
  openclaw-a2a config show --format json

The text is a configuration that means the same. Hashes of tokens are not shown in full, so tokens
appear in comments.")]
pub(super) struct Args {
    /// Show the origin of each value: default, file or environment
    #[arg(long)]
    origin: bool,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let (file, named) = file(None, global);
    let config = Config::read(&file, named)?;
    let values = config.values().map_err(anyhow::Error::msg)?;
    let shown = EffectiveConfig { config: &config, values, file: &file, with_origin: args.origin };
    let mut out = output(global.format);
    match global.format {
        Format::Text => shown.write(&mut out)?,
        Format::Json | Format::Jsonl => writeln!(out, "{}", shown.as_json())?,
    }
    out.flush()?;
    Ok(Answer::Yes)
}

struct EffectiveConfig<'a> {
    config: &'a Config,
    values: Table,
    file: &'a Path,
    with_origin: bool,
}

impl EffectiveConfig<'_> {
    fn write(&self, out: &mut impl Write) -> anyhow::Result<()> {
        for (n, section) in sections().iter().enumerate() {
            if n > 0 {
                writeln!(out)?;
            }
            if section.is_list {
                self.write_list(out, section)?;
            } else {
                self.write_table(out, section)?;
            }
        }
        Ok(())
    }

    fn write_table(&self, out: &mut impl Write, section: &Section) -> anyhow::Result<()> {
        writeln!(out, "{}", section.header())?;
        for key in &section.keys {
            let path = key.path();
            match value_at(&self.values, &path) {
                Some(value) => writeln!(out, "{} = {value}{}", key.name, self.comment(&path))?,
                None => {
                    let words = key.default_in_words.as_deref().unwrap_or("nothing");
                    writeln!(out, "# {} is not set: {words}", key.name)?;
                }
            }
        }
        Ok(())
    }

    fn write_list(&self, out: &mut impl Write, section: &Section) -> anyhow::Result<()> {
        let entries = self.entries(section);
        if entries.is_empty() {
            writeln!(out, "# {}: there is none", section.header())?;
        }
        let start = if section.name == TOKENS { "# " } else { "" };
        for (n, entry) in entries.iter().enumerate() {
            let comment = self.comment(&format!("{}.{n}", section.name));
            writeln!(out, "{start}{}{comment}", section.header())?;
            for key in &section.keys {
                if let Some(value) = entry.get(&key.name) {
                    writeln!(out, "{start}{} = {value}", key.name)?;
                }
            }
        }
        Ok(())
    }

    fn comment(&self, path: &str) -> String {
        if !self.with_origin {
            return String::new();
        }
        // A file name may contain any character, but must not end the comment.
        let words = origin_words(self.config.origins().of(path), self.file);
        format!("  # {}", crate::cli::stdout::sanitize(&words))
    }

    fn entries(&self, section: &Section) -> Vec<Value> {
        let all = value_at(&self.values, &section.name).and_then(Value::as_array);
        let mut all = all.cloned().unwrap_or_default();
        if section.name == TOKENS {
            for hash in all.iter_mut().filter_map(|entry| entry.get_mut("sha256")) {
                let start: String =
                    hash.as_str().unwrap_or_default().chars().take(SHOWN_DIGITS).collect();
                *hash = Value::String(start + "…");
            }
        }
        all
    }

    fn as_json(&self) -> Json {
        let mut all = Map::new();
        for section in sections() {
            let part = if section.is_list {
                let entries = self.entries(&section).into_iter().enumerate();
                let entries = entries.map(|(n, entry)| {
                    self.with_origin_json(json!(entry), &format!("{}.{n}", section.name))
                });
                Json::Array(entries.collect())
            } else {
                let keys = section.keys.iter().map(|key| {
                    let path = key.path();
                    let value = json!(value_at(&self.values, &path));
                    (key.name.clone(), self.with_origin_json(value, &path))
                });
                Json::Object(keys.collect())
            };
            put(&mut all, &section.name, part);
        }
        Json::Object(all)
    }

    /// The value, with its origin if requested.
    fn with_origin_json(&self, value: Json, path: &str) -> Json {
        if !self.with_origin {
            return value;
        }
        let origin: Origin<'_> = self.config.origins().of(path);
        json!({"value": value, "origin": origin_json(origin, self.file)})
    }
}

/// Inserts a section at its dotted path.
fn put(all: &mut Map<String, Json>, name: &str, part: Json) {
    match name.split_once('.') {
        None => drop(all.insert(name.to_owned(), part)),
        Some((first, rest)) => {
            let inside = all.entry(first).or_insert_with(|| Json::Object(Map::new()));
            if let Json::Object(inside) = inside {
                put(inside, rest, part);
            }
        }
    }
}
