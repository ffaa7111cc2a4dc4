//! `openclaw-a2a backup` and `restore`, and formats of other versions.

/// Days that only the index has, with a server and without.
mod days;
/// Folders of older and newer versions.
mod formats;
/// A server under load: what was promised before a backup holds after it was restored.
mod load;
/// What is no backup, where none is restored to, and disks that refuse.
mod refused;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::log_command::Said;
use crate::openclaw_a2a;
use crate::server::Server;

/// Runs the program; no server of the machine is in its way.
fn run(args: &[&dyn AsRef<std::ffi::OsStr>]) -> Said {
    let mut command = openclaw_a2a();
    for name in ["OPENCLAW_STATE_DIR", "OPENCLAW_TOKEN", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    let output = command.args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Takes a backup that must succeed; returns its output.
fn backup(state: &Path, to: &Path) -> Value {
    let printed = run(&[&"backup", &to, &"--state-dir", &state, &"--format", &"json"]);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    serde_json::from_str(&printed.out).unwrap()
}

fn check(backup: &Path) -> Said {
    run(&[&"restore", &backup, &"--check"])
}

fn restore(backup: &Path, state: &Path) -> Said {
    run(&[&"restore", &backup, &"--state-dir", &state])
}

/// Restores what must be whole.
fn restored(backup: &Path, state: &Path) {
    let printed = restore(backup, state);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    assert!(printed.out.contains("openclaw-a2a serve --state-dir"), "{}", printed.out);
}

/// Every file below a folder with its bytes. Leaves out what readers of SQLite share, and what
/// the tests themselves write.
fn everything(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                folders.push(path);
            } else if !name.ends_with("-shm") && name != "stderr.txt" {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// A state folder with a few messages, a task that ended, and a token; its server has stopped.
fn a_state() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), "# as it comes\n");
    server.inbox("tim", "");
    for n in 0..3 {
        server.accepted(&crate::server::message("roman", "tim", &format!("number {n}")));
    }
    let hello = br#"{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"text":"hello"}]}}"#;
    assert_eq!(server.post("/message:send", hello).status, 200);
    assert_eq!(server.terminate().code(), Some(0));
    let made = run(&[&"token", &"create", &"--agent", &"tim", &"--state-dir", &folder.path()]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    folder
}
