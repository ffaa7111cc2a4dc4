//! `config init`: writes a configuration template with every key and its default commented out.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use openclaw_a2a::config::{Key, Section, sections};

use super::{Answer, Global, file};

const TOP: &str = "\
# The configuration of OpenClaw A2A. Everything is optional, and every line with a # shows what is so
# without it: take the # away and change the value. `openclaw-a2a config check` tells whether the file
# is right. SIGHUP makes a running server read it again: sections and keys marked [reloads] change at
# once, all others with the next start.
# Each key outside the lists can be set in the environment instead, which goes before the file:
# burst in [limits] is OPENCLAW_A2A_LIMITS_BURST.
";

/// Write a file with every key and its default, all commented out
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a config init
  openclaw-a2a config init --config ./a2a.toml

The file goes to --config, else to a2a.toml in the state folder; only its owner may read it.")]
pub(super) struct Args {
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let (file, _) = file(None, global);
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| format!("cannot create {}", folder.display()))?;
    }
    if args.force {
        // Written aside and renamed, so that a crash leaves the old or the new file.
        let aside = file.with_extension("toml.new");
        match std::fs::remove_file(&aside) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", aside.display()));
            }
            _ => {}
        }
        write(&aside).with_context(|| format!("cannot write {}", aside.display()))?;
        let moved = std::fs::rename(&aside, &file);
        moved.with_context(|| format!("cannot write {}", file.display()))?;
    } else {
        match write(&file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{} is there already; --force writes over it", file.display())
            }
            written => written.with_context(|| format!("cannot write {}", file.display()))?,
        }
    }
    writeln!(anstream::stdout(), "{}", file.display())?;
    Ok(Answer::Yes)
}

/// Creates the file with mode 0600, because it may get token hashes.
fn write(file: &Path) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(template().as_bytes())?;
    file.sync_all()
}

fn template() -> String {
    let mut text = TOP.to_owned();
    for section in sections() {
        text.push('\n');
        text.push_str(&begin(&section));
        let all_reload = section.keys.iter().all(|key| key.reloads);
        for key in &section.keys {
            text.push_str(&line(key, all_reload));
        }
    }
    text
}

fn begin(section: &Section) -> String {
    // A table header is active, so that uncommenting one key below it is enough.
    let start = if section.is_list { "# " } else { "" };
    let reloads = if section.keys.iter().all(|key| key.reloads) { " [reloads]" } else { "" };
    format!("# {}.{reloads}\n{start}{}\n", section.meaning, section.header())
}

fn line(key: &Key, all_reload: bool) -> String {
    let words = key.default_in_words.as_deref();
    let default = words.map(|words| format!(" (default: {words})")).unwrap_or_default();
    let reloads = if key.reloads && !all_reload { " [reloads]" } else { "" };
    let (default_value, example) = (key.default.as_ref(), key.example.as_ref());
    // A list entry is shown as one whole example.
    let is_entry = key.variable.is_none();
    let value = if is_entry { example.or(default_value) } else { default_value.or(example) };
    let value = value.map_or_else(String::new, toml::Value::to_string);
    format!("# {}{default}.{reloads}\n# {} = {value}\n", key.meaning, key.name)
}

#[cfg(test)]
mod tests {
    use openclaw_a2a::config::{Config, Environment};

    use super::*;

    fn read(text: &str) -> Config {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a2a.toml");
        std::fs::write(&file, text).unwrap();
        Config::read_with(&file, true, &Environment::default()).unwrap()
    }

    #[test]
    fn template_means_the_defaults() {
        let text = template();
        assert_eq!(read(&text).values(), read("").values());
        assert_eq!(read(&text).origins().iter().count(), 0);
    }

    #[test]
    fn uncommented_template_means_the_defaults_and_has_every_key() {
        let keys: Vec<_> = sections().into_iter().flat_map(|section| section.keys).collect();
        let is_value = |line: &str, key: &Key| line.starts_with(&format!("# {} = ", key.name));
        let mut in_list = false;
        let mut taken_in = String::new();
        for line in template().lines() {
            if let Some(section) = sections().iter().find(|section| {
                line == section.header() || line == format!("# {}", section.header())
            }) {
                in_list = section.is_list;
            }
            // A key without a default would be set to its example.
            let plain = keys.iter().any(|key| is_value(line, key) && key.default.is_some());
            let line = if plain && !in_list { line.trim_start_matches("# ") } else { line };
            taken_in += &format!("{line}\n");
        }
        let config = read(&taken_in);
        assert_eq!(config.values(), read("").values(), "{taken_in}");
        let tables = keys.iter().filter(|key| key.variable.is_some() && key.default.is_some());
        for key in tables {
            let set = config.origins().iter().any(|(path, _)| path == key.path());
            assert!(set, "{} is not in the file", key.path());
        }
    }
}
