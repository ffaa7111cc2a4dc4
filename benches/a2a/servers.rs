//! Servers under test, each a child process that is killed when its handle is dropped.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Limits on, but too high to be reached.
const CONFIG: &str = "\
[limits]
per_agent_per_minute = 4294967295
burst = 4294967295
per_pair_per_minute = 4294967295
pair_burst = 4294967295
inbox = 100000
[http]
max_streams = 10000
max_streams_per_caller = 10000
[breaker]
max_turns = 4294967295
";

/// Time limit for the start of a server, including its installation or build.
const LONGEST_START: Duration = Duration::from_secs(900);

pub struct Server {
    name: &'static str,
    address: String,
    path: &'static str,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// This program as users start it, with its state in `folder`.
    pub fn ours(folder: &Path) -> Self {
        Self::of_ours("ours, durable", Path::new(env!("CARGO_BIN_EXE_openclaw-a2a")), folder)
    }

    /// This program with an allocator that returns freed memory at once, so that its use can be
    /// measured from outside.
    pub fn ours_for_memory(folder: &Path) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_openclaw-a2a"));
        Self::with_environment("ours", program, folder, &[("MIMALLOC_PURGE_DELAY", "0")])
    }

    /// Another build of this program, such as one before a change.
    pub fn of_ours(name: &'static str, program: &Path, folder: &Path) -> Self {
        Self::with_environment(name, program, folder, &[])
    }

    fn with_environment(
        name: &'static str,
        program: &Path,
        folder: &Path,
        environment: &[(&str, &str)],
    ) -> Self {
        std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{error}"));
        std::fs::write(folder.join("a2a.toml"), CONFIG).unwrap_or_else(|error| panic!("{error}"));
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--state-dir"]).arg(folder);
        command.env("OPENCLAW_LOG", "warn").stdout(Stdio::piped());
        command.envs(environment.iter().copied());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{error}"));
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let mut stdout = BufReader::new(stdout);
            stdout.read_line(&mut line).unwrap_or_else(|error| panic!("{error}"));
            // Drains stdout, so that the server never blocks on a full pipe.
            std::thread::spawn(move || stdout.read_to_string(&mut String::new()));
        }
        let address = line.trim().rsplit("//").next().unwrap_or_default().to_owned();
        Self { name, address, path: "/a2a", child }
    }

    /// A peer that is started by a script, which installs it on first use.
    pub async fn script(
        name: &'static str,
        script: &str,
        options: &[&str],
    ) -> Result<Self, String> {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/a2a/peers");
        let port = free_port();
        let mut command = Command::new(peers.join(script));
        command.arg(&port).arg(installed()).args(options).stderr(Stdio::piped());
        Self::start(name, command, &port).await
    }

    /// Waits until the server accepts connections; fails when it exits.
    async fn start(name: &'static str, mut command: Command, port: &str) -> Result<Self, String> {
        let address = format!("127.0.0.1:{port}");
        let child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let mut server = Self { name, address, path: "/", child };
        let begun = Instant::now();
        while tokio::net::TcpStream::connect(&server.address).await.is_err() {
            if let Ok(Some(status)) = server.child.try_wait() {
                let mut output = String::new();
                if let Some(mut stderr) = server.child.stderr.take() {
                    let _ = stderr.read_to_string(&mut output);
                }
                return Err(format!("{name}: {status}: {}", output.trim()));
            }
            if begun.elapsed() > LONGEST_START {
                return Err(format!("{name}: it did not listen within {LONGEST_START:?}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(server)
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn path(&self) -> &'static str {
        self.path
    }

    /// Anonymous memory of the process in MiB, without mapped files.
    pub fn memory(&self) -> f64 {
        let file = format!("/proc/{}/smaps_rollup", self.child.id());
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.unwrap_or_else(|| panic!("the system does not tell the memory of a process")) / 1_024.0
    }
}

/// Folder of the installed peers, inside cargo's target folder.
fn installed() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    // target/release/deps/a2a-…
    let target = program.ancestors().nth(3).unwrap_or(Path::new("target"));
    target.join("peers")
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap_or_else(|error| panic!("{error}"));
    let address = listener.local_addr().unwrap_or_else(|error| panic!("{error}"));
    address.port().to_string()
}
