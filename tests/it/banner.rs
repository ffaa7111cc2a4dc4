//! The first five minutes: what `serve` prints, and that every line it offers works when pasted.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::server::{serve, signal};

/// A server with all of its output, as a newcomer starts it; dropping it ends it.
struct Said {
    child: Child,
    out: BufReader<ChildStdout>,
    banner: String,
}

impl Said {
    /// Reads its output up to `end`, the beginning of the last line.
    fn start(mut command: Command, end: &str) -> Self {
        command.env_remove("OPENCLAW_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.lines().any(|line| line.trim_start().starts_with(end)) {
            assert!(out.read_line(&mut banner).unwrap() > 0, "it ended: {banner}");
        }
        Self { child, out, banner }
    }

    /// One line more.
    fn read_on(&mut self) {
        assert!(self.out.read_line(&mut self.banner).unwrap() > 0, "it ended: {}", self.banner);
    }

    /// The lines that are there to be pasted.
    fn offers(&self) -> Vec<String> {
        let (_, tries) = self.banner.split_once("Try,").unwrap();
        let lines = tries.lines().filter_map(|line| line.strip_prefix("    "));
        lines.map(str::to_owned).collect()
    }

    /// Its output when it is stopped, on stdout and, from the beginning, on stderr.
    fn stop(mut self) -> (String, String) {
        signal(&self.child, "INT");
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(self.child.wait().unwrap().success());
        (out, err)
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a line as a shell would. One that runs until it is stopped has worked when it prints
/// something; the others have to end well.
fn paste(line: &str, folder: &Path, token: Option<&str>) -> String {
    let mut command = Command::new("sh");
    // So that it is the command itself that can be stopped.
    command.args(["-c", &format!("exec {line}")]).current_dir(folder).stdin(Stdio::null());
    command.env_remove("OPENCLAW_STATE_DIR").env_remove("OPENCLAW_TOKEN").env("HOME", folder);
    if let Some(token) = token {
        command.env("OPENCLAW_TOKEN", token);
    }
    if line.contains("--follow") || line.contains(" serve ") {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut text).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!text.trim().is_empty(), "{line}: nothing");
        return text;
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && !text.trim().is_empty(), "{line}: {text}");
    assert!(!text.contains("\"error\"") && !text.contains("\"status\":4"), "{line}: {text}");
    text
}

fn has_curl() -> bool {
    Command::new("curl").arg("--version").output().is_ok()
}

fn paste_all(offers: &[String], folder: &Path, token: Option<&str>) -> Vec<String> {
    assert_eq!(offers.len(), 3, "{offers:?}");
    // What a machine may lack.
    let can = |line: &&String| has_curl() || !line.starts_with("curl ");
    offers.iter().filter(can).map(|line| paste(line, folder, token)).collect()
}

#[test]
fn new_server_prints_its_address_and_what_to_try_and_is_quiet_otherwise() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("a state folder");
    let mut server = Said::start(serve(&state), "See a small team");
    server.read_on();
    for part in [
        "OpenClaw A2A listens on http://127.0.0.1:",
        concat!("version  ", env!("CARGO_PKG_VERSION"), "\n"),
        &format!("{} (created now)\n", state.display()),
        ".jsonl\n",
        &format!("--state-dir '{}'", state.display()),
    ] {
        assert!(server.banner.contains(part), "{part}: {}", server.banner);
    }
    let text = paste_all(&server.offers(), home.path(), None);
    assert!(text.iter().any(|text| text.contains("OpenClaw A2A listens on")), "{text:?}");
    if has_curl() {
        assert!(text[0].contains("I know these words"), "{text:?}");
    }
    let (out, err) = server.stop();
    assert_eq!(out.trim(), "Stopped; everything is written.");
    assert_eq!(err, "", "a newcomer reads every line");
    // The second time it is not new.
    let server = Said::start(serve(&state), "version");
    assert!(!server.banner.contains("created now"));
}

#[test]
fn default_folder_is_not_spelled_out() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("HOME", home.path());
    command.env_remove("OPENCLAW_STATE_DIR").stdin(Stdio::null());
    let mut server = Said::start(command, "See a small team");
    server.read_on();
    assert!(server.banner.contains("/.openclaw (created now)"), "{}", server.banner);
    let offers = server.offers();
    assert!(offers[1].ends_with(" log --follow"), "{offers:?}");
    paste_all(&offers, home.path(), None);
}

#[test]
fn a_demo_offers_its_own_lines() {
    let home = tempfile::tempdir().unwrap();
    let mut command = serve(&home.path().join("state"));
    command.arg("--demo");
    let mut server = Said::start(command, "Ask the researcher");
    server.read_on();
    assert!(server.banner.contains("are at work"), "{}", server.banner);
    let text = paste_all(&server.offers(), home.path(), None);
    if has_curl() {
        assert!(text[2].contains("half to even"), "{text:?}");
    }
    let (out, err) = server.stop();
    assert_eq!((out.trim(), err.as_str()), ("Stopped; everything is written.", ""));
}

#[test]
fn with_tokens_it_prints_how_to_make_one_and_the_lines_use_it() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let create = |holder: &str| {
        let mut command = crate::openclaw_a2a();
        command.args(["token", "create", holder, "tim", "--state-dir"]).arg(&state);
        assert!(command.output().unwrap().status.success());
    };
    create("--agent");
    let mut command = serve(&state);
    command.arg("--demo");
    let mut server = Said::start(command, "Ask the researcher");
    server.read_on();
    let make = server.banner.lines().find(|line| line.contains(" token create ")).unwrap();
    let text = paste(make.trim(), home.path(), None);
    let token = text.split_whitespace().find(|word| word.starts_with("oca_")).unwrap();
    // A running server looks at the file by itself.
    let text = paste_all(&server.offers(), home.path(), Some(token));
    assert!(text.iter().all(|text| !text.contains("unauthorized")), "{text:?}");
}

#[test]
fn programs_get_json() {
    let home = tempfile::tempdir().unwrap();
    let mut command = serve(home.path());
    command.args(["--format", "json"]);
    let server = Said::start(command, "{");
    let text: Value = serde_json::from_str(&server.banner).unwrap();
    assert!(text["address"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{text}");
    assert_eq!(text["stateDir"], home.path().to_str().unwrap());
    assert_eq!(text["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&text["created"], &text["demo"]), (&false.into(), &false.into()));
    let (out, _) = server.stop();
    assert_eq!(out, "{\"stopped\":true}\n");
}

#[test]
fn the_log_on_stderr_is_json_where_that_is_asked_for() {
    for how in ["flag", "environment", "file"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = crate::server::serve(folder.path());
        command.env("OPENCLAW_LOG", "info");
        if how == "flag" {
            command.args(["--log-format", "json"]).env("OPENCLAW_LOG_FORMAT", "text");
        } else if how == "environment" {
            command.env("OPENCLAW_LOG_FORMAT", "json");
        } else {
            let config = "[logging]\nformat = \"json\"\n";
            std::fs::write(folder.path().join("a2a.toml"), config).unwrap();
        }
        let server = crate::server::Server::start_by(command, folder.path());
        let text = server.hang_up();
        assert_eq!(server.terminate().code(), Some(0));
        let lines = crate::server::stderr(folder.path());
        assert!(lines.lines().count() > 0 && text.contains("reloaded"), "{how}: {lines}");
        for line in lines.lines() {
            let line: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|_| panic!("{how}: {line}"));
            assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
        }
        assert!(lines.contains("\"message\":\"configuration reloaded"), "{how}: {lines}");
    }
    for (variable, value, says) in [
        ("OPENCLAW_LOG_FORMAT", "xml", "text or json"),
        ("OPENCLAW_LOG", "a=b=c", "is not a filter such as"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = crate::server::serve(folder.path());
        let refused = command.env(variable, value).output().unwrap();
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && text.contains(says), "{text}");
    }
}
