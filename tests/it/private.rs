//! Folders are 0700 and files 0600, whatever the umask and whatever they were before.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::server::{Server, message, serve, stderr};

/// The command as a shell with this umask runs it.
fn with_umask(umask: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// Every file and folder below, with its mode.
fn modes(folder: &Path) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777;
            found.insert(path.strip_prefix(folder).unwrap().display().to_string(), mode);
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

#[track_caller]
fn are_private(folder: &Path) {
    let all = modes(folder);
    assert!(all.len() > 6, "{all:?}");
    for (name, mode) in all {
        // The tests' own.
        if name.ends_with("stderr.txt") {
            continue;
        }
        let expected = if folder.join(&name).is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{name} is {mode:03o}");
    }
}

fn run(umask: &str, folder: &Path, args: &[&str]) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
    command.args(args).arg("--state-dir").arg(folder).env_remove("OPENCLAW_STATE_DIR");
    let output = with_umask(umask, &command).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A server that had something to do, in a folder that it made itself.
fn served(umask: &str, state: &Path) {
    let server = Server::start_by(with_umask(umask, &serve(state)), state.parent().unwrap());
    server.get("/bus/agents/tim/inbox");
    server.accepted(&message("ann", "tim", "hello"));
    // Beside what is kept: the address is there while it runs.
    are_private(state);
    assert!(server.terminate().success());
}

#[test]
fn what_is_made_is_for_its_owner_alone() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    served("022", &state);
    run("022", &state, &["config", "init"]);
    run("000", &state, &["token", "create", "--operator", "david"]);
    are_private(&state);
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);

    let backup = home.path().join("backup");
    run("022", &state, &["backup", backup.to_str().unwrap()]);
    are_private(&backup);
    let restored = home.path().join("restored");
    run("022", &restored, &["restore", backup.to_str().unwrap()]);
    assert_eq!(fs::metadata(&restored).unwrap().permissions().mode() & 0o777, 0o700);
    for (name, mode) in modes(&restored) {
        assert_eq!(mode & 0o077, 0, "{name} is {mode:03o}");
    }
}

#[test]
fn modes_of_an_older_version_are_tightened_at_the_start_and_reported_once() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    served("022", &state);
    for (name, _) in modes(&state) {
        let path = state.join(name);
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
    // What other programs of the same user keep there.
    let other = state.join("openclaw.json");
    fs::write(&other, "{}").unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o644)).unwrap();

    let doctor = || {
        let mut command = crate::openclaw_a2a();
        let output = command.args(["doctor", "--state-dir"]).arg(&state).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(doctor().contains("other users may get at"), "{}", doctor());
    let before = stderr(home.path());
    let server = Server::start_by(serve(&state), home.path());
    assert!(server.terminate().success());
    let text = stderr(home.path()).split_off(before.len());
    let lines: Vec<_> =
        text.lines().filter(|line| line.contains("other users could read")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert_eq!(fs::metadata(&other).unwrap().permissions().mode() & 0o777, 0o644);
    fs::remove_file(other).unwrap();
    are_private(&state);
    assert!(!doctor().contains("other users may get at"), "{}", doctor());
    let before = stderr(home.path());
    assert!(Server::start_by(serve(&state), home.path()).terminate().success());
    assert!(!stderr(home.path())[before.len()..].contains("other users"), "once");
}
