//! Banner of `serve` on stdout: address, folders and what to try next. The log is on stderr.

use std::ffi::OsStr;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use chrono::{NaiveDate, Utc};
use openclaw_a2a::config::StateDir;
use serde_json::json;

use crate::cli::{Format, Global};

/// State of a server that is ready.
pub(super) struct Banner<'a> {
    /// Base URL.
    pub(super) url: String,
    /// Bound address.
    pub(super) local: SocketAddr,
    pub(super) state: &'a StateDir,
    /// The state folder was created by this start.
    pub(super) is_new: bool,
    /// Result of the recovery.
    pub(super) recovery: String,
    /// The demo is attached.
    pub(super) demo: bool,
    /// Tokens are required.
    pub(super) secured: bool,
}

impl Banner<'_> {
    /// Prints the banner.
    pub(super) fn print(&self, global: &Global) {
        let text = match global.format {
            Format::Text => self.text(&current_invocation(global, self.state.path())),
            Format::Json | Format::Jsonl => self.json(),
        };
        print_text(&text);
    }

    fn json(&self) -> String {
        let line = json!({
            "address": self.url,
            "listen": self.local.to_string(),
            "stateDir": absolute(self.state.path()),
            "version": env!("CARGO_PKG_VERSION"),
            "created": self.is_new,
            "log": absolute(&self.log_file()),
            "demo": self.demo,
        });
        format!("{line}\n")
    }

    /// The day file in use: of today, or of a later day if the clock was set back, because days of
    /// the log never decrease.
    fn log_file(&self) -> PathBuf {
        let folder = self.state.path().join("a2a-log");
        let today = Utc::now().date_naive();
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let days = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.split_once('.').and_then(|(day, _)| day.parse::<NaiveDate>().ok())
        });
        let day = days.max().map_or(today, |newest| newest.max(today));
        folder.join(format!("{day}.jsonl"))
    }

    /// Hint for other machines when the server listens on every address.
    fn reach(&self) -> Option<String> {
        let (scheme, port) =
            (self.url.split_once("://").map_or("http", |(s, _)| s), self.local.port());
        self.local.ip().is_unspecified().then(|| {
            format!(
                "  reach    {} is every address of this machine: others use {scheme}://ADDRESS:{port} with its address,\n           or with its name if that is in `hosts` of [http]\n",
                self.local
            )
        })
    }

    fn text(&self, invocation: &Invocation) -> String {
        let folder = absolute(self.state.path());
        let found = if self.is_new { "created now" } else { &self.recovery };
        let mut text = format!(
            "OpenClaw A2A listens on {}\n\n  version  {}\n  state    {folder} ({found})\n  log      {}\n",
            self.url,
            env!("CARGO_PKG_VERSION"),
            absolute(&self.log_file()),
        );
        text.extend(self.reach());
        if self.demo {
            text.push_str("  demo     lead, worker, reviewer and researcher are at work\n");
        }
        if self.secured {
            let Invocation { program, folder } = invocation;
            text.push_str(&format!(
                "\nA token is needed here. Make one for yourself, and set OPENCLAW_TOKEN to it:\n    {program} token create --operator me{folder}\n"
            ));
        }
        text.push_str("\nTry, in another terminal (Ctrl-C stops the server):\n");
        for (what, line) in self.tries(invocation) {
            text.push_str(&format!("\n  {what}\n    {line}\n"));
        }
        text.push('\n');
        text
    }

    /// Three commands to try.
    fn tries(&self, Invocation { program, folder }: &Invocation) -> [(&'static str, String); 3] {
        let follow = format!("{program} log --follow{folder}");
        if self.demo {
            return [
                ("See who says what to whom", follow),
                ("See the goals and how far they are", format!("{program} objective list{folder}")),
                (
                    "Ask the researcher something",
                    self.ask("/agents/researcher", "What do we know about rounding?"),
                ),
            ];
        }
        [
            ("Say hello to the built-in agent", self.ask("", "hello")),
            ("See who says what to whom", follow),
            (
                "See a small team at work, on a server of its own",
                format!("{program} serve --demo --listen 127.0.0.1:0 --state-dir ./demo"),
            ),
        ]
    }

    /// A `curl` command that sends a message. Its id is computed at run time, because a reused id
    /// would return the first answer.
    fn ask(&self, agent: &str, text: &str) -> String {
        let token = if self.secured { " -H \"Authorization: Bearer $OPENCLAW_TOKEN\"" } else { "" };
        let address = quoted(OsStr::new(&format!("{}{agent}/message:send", self.url)));
        format!(
            r#"curl -s{token} {address} -d '{{"message":{{"messageId":"'$(date +%s)'","role":"ROLE_USER","parts":[{{"text":"{text}"}}]}}}}'"#
        )
    }
}

/// Reports that the server has stopped, and how many records could not be written.
pub(super) fn print_stopped(format: Format, unwritten: u64) {
    let text = match format {
        Format::Json | Format::Jsonl if unwritten == 0 => {
            format!("{}\n", json!({"stopped": true}))
        }
        Format::Json | Format::Jsonl => {
            format!("{}\n", json!({"stopped": true, "unwritten": unwritten}))
        }
        Format::Text if unwritten == 0 => "Stopped; everything is written.\n".to_owned(),
        Format::Text => format!(
            "Stopped, but the disk did not take {unwritten} records. What was accepted is kept; a message whose acknowledgement is among them comes again.\n"
        ),
    };
    print_text(&text);
}

fn print_text(text: &str) {
    let mut out = anstream::stdout();
    // A closed stdout is no error.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// How to invoke other commands for this server.
struct Invocation {
    /// Program as invoked; with `cargo run` it is not on the PATH.
    program: String,
    /// ` --state-dir …`, or empty for the default folder.
    folder: String,
}

fn current_invocation(global: &Global, state: &Path) -> Invocation {
    let program = std::env::args_os().next().unwrap_or_else(|| "openclaw-a2a".into());
    // Another terminal has neither this working directory nor this environment.
    let is_usual = global.state_dir.is_none() && std::env::var_os("OPENCLAW_STATE_DIR").is_none();
    let folder = if is_usual {
        String::new()
    } else {
        format!(" --state-dir {}", quoted(OsStr::new(&absolute(state))))
    };
    Invocation { program: quoted(&program), folder }
}

fn absolute(path: &Path) -> String {
    let whole = std::path::absolute(path);
    whole.as_deref().unwrap_or(path).display().to_string()
}

/// Quotes a word for a shell, if necessary.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation() -> Invocation {
        Invocation { program: "./openclaw-a2a".into(), folder: " --state-dir /srv/bus".into() }
    }

    fn banner(state: &StateDir) -> Banner<'_> {
        Banner {
            url: "http://127.0.0.1:7420".into(),
            local: "127.0.0.1:7420".parse().unwrap(),
            state,
            is_new: true,
            recovery: "read 3 lines of the log".into(),
            demo: false,
            secured: false,
        }
    }

    #[test]
    fn quoted_escapes_for_the_shell() {
        for (word, shown) in [
            ("target/release/openclaw-a2a", "target/release/openclaw-a2a"),
            ("/my programs/a2a", "'/my programs/a2a'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("http://[::1]:7420/x", "'http://[::1]:7420/x'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(OsStr::new(word)), shown);
        }
    }

    #[test]
    fn banner_on_all_addresses_shows_how_to_reach_it() {
        let state = StateDir::find(Some("/srv/bus".into()));
        let all = Banner { local: "0.0.0.0:7420".parse().unwrap(), ..banner(&state) };
        let text = all.text(&invocation());
        assert!(text.starts_with("OpenClaw A2A listens on http://127.0.0.1:7420\n"), "{text}");
        assert!(text.contains("0.0.0.0:7420 is every address of this machine"), "{text}");
        assert!(text.contains("http://ADDRESS:7420"), "{text}");
        assert!(!banner(&state).text(&invocation()).contains("reach"));
    }

    #[test]
    fn log_file_is_the_newest_day_after_a_clock_step() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::find(Some(folder.path().into()));
        let today = Utc::now().date_naive();
        assert!(banner(&state).log_file().ends_with(format!("{today}.jsonl")));
        std::fs::create_dir(folder.path().join("a2a-log")).unwrap();
        for name in ["2999-01-02.jsonl", "2020-01-01.jsonl.zst", "torn-2999-01-03.bin"] {
            std::fs::write(folder.path().join("a2a-log").join(name), "").unwrap();
        }
        assert!(banner(&state).log_file().ends_with("2999-01-02.jsonl"));
    }

    #[test]
    fn banner_with_tokens_shows_how_to_create_one() {
        let state = StateDir::find(Some("/srv/bus".into()));
        let open = banner(&state).text(&invocation());
        assert!(!open.contains("token") && open.contains("/srv/bus (created now)"), "{open}");
        let secured = Banner { secured: true, is_new: false, ..banner(&state) }.text(&invocation());
        let make = "    ./openclaw-a2a token create --operator me --state-dir /srv/bus\n";
        assert!(secured.contains(make), "{secured}");
        assert!(secured.contains("-H \"Authorization: Bearer $OPENCLAW_TOKEN\""), "{secured}");
        assert!(secured.contains("/srv/bus (read 3 lines of the log)"), "{secured}");
    }
}
