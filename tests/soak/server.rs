//! The server as a child process.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Limits are far away, queues short, leases shorter; what is remembered has small bounds, so that they are reached.
const CONFIG: &str = "\
[limits]
per_agent_per_minute = 6000000
per_pair_per_minute = 6000000
urgent_per_minute = 6000000
burst = 100000
inbox = 500
[delivery]
attempts = 100000
first_pause_ms = 20
longest_pause_ms = 500
lease_seconds = 3
[breaker]
max_correlations = 2000
[ledger]
max_finished = 2000
";

pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Server {
    /// Starts it on a folder, under these variables of the environment.
    pub(crate) fn start(folder: &Path, environment: &[(&str, String)]) -> Result<Self, String> {
        std::fs::create_dir_all(folder).unwrap();
        let config = folder.join("a2a.toml");
        if std::fs::read_to_string(&config).is_ok_and(|text| text == CONFIG) {
            // Not written again: the disk may be full.
        } else {
            std::fs::write(config, CONFIG).unwrap();
        }
        let log = File::options().create(true).append(true).open(folder.with_extension("stderr"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_openclaw-a2a"))
            .args(["serve", "--listen", "127.0.0.1:0", "--state-dir"])
            .arg(folder)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .env("OPENCLAW_LOG", "warn")
            // What it frees it gives back at once, so that what it holds can be seen from outside.
            .env("MIMALLOC_PURGE_DELAY", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while output.read_line(&mut line).unwrap_or(0) > 0 {
            if let Some(url) = line.split_whitespace().find(|word| word.starts_with("http://")) {
                let url = url.trim_end_matches(['/', '.']).to_owned();
                // Read on: a server must not wait for the reader of its output.
                std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
                return Ok(Self { child, url });
            }
            line.clear();
        }
        Err(format!("the server did not start: {:?}", child.wait()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and gone when this returns.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; whether it ended as it should.
    pub(crate) fn terminate(mut self) -> bool {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-s", "TERM", &id]).status().unwrap();
        self.child.wait().unwrap().success()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail when it has ended already, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
