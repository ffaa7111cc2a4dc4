//! `openclaw-a2a doctor` on folders and servers that are as they should be, and on others.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use a2a_taskdb::{Options, TaskDb};
use serde_json::{Value, json};

use crate::openclaw_a2a;
use crate::server::{Server, id_of, message, new_id};

/// No test listens on a fixed port of this machine.
const ANY_PORT: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";

struct Said {
    code: Option<i32>,
    out: String,
}

fn doctor(folder: &Path, args: &[&str]) -> Said {
    let mut command = openclaw_a2a();
    for name in ["OPENCLAW_STATE_DIR", "OPENCLAW_TOKEN", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    let output = command.args(["doctor", "--state-dir"]).arg(folder).args(args).output().unwrap();
    assert!(output.status.code() != Some(2), "{output:?}");
    let out = String::from_utf8(output.stdout).unwrap();
    Said { code: output.status.code(), out }
}

/// Every check by its name and state, after looking at what holds for all of them.
fn checks(folder: &Path, args: &[&str]) -> (bool, BTreeMap<(String, String), Value>) {
    let printed = doctor(folder, &[&["--format", "json"], args].concat());
    let report: Value = serde_json::from_str(&printed.out).unwrap();
    let word = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap();
    for check in checks {
        assert!(!word(check, "detail").is_empty(), "{check}");
        assert_eq!(check["next"].is_null(), check["state"] == "ok", "{check}");
    }
    let is_ok = !checks.iter().any(|check| check["state"] == "problem");
    assert_eq!((&report["ok"], printed.code), (&json!(is_ok), Some(if is_ok { 0 } else { 1 })));
    let named = |check: &Value| ((word(check, "name"), word(check, "state")), check.clone());
    (is_ok, checks.iter().map(named).collect())
}

/// The sentence of a check that is in this state.
#[track_caller]
fn printed(found: &BTreeMap<(String, String), Value>, name: &str, state: &str) -> String {
    let check = found.get(&(name.to_owned(), state.to_owned()));
    let check = check.unwrap_or_else(|| panic!("{name} is not {state}: {found:#?}"));
    format!("{} {}", check["detail"].as_str().unwrap(), check["next"].as_str().unwrap_or_default())
}

/// What is not ok, but for what depends on the machine that the test runs on.
fn others(found: &BTreeMap<(String, String), Value>) -> Vec<&Value> {
    let of_machine = ["disk", "inodes", "fsync", "open-files"];
    let other = |((name, state), _): &(&(String, String), &Value)| {
        state != "ok" && !of_machine.contains(&name.as_str())
    };
    found.iter().filter(other).map(|(_, check)| check).collect()
}

fn command(folder: &Path, args: &[&str]) -> Vec<u8> {
    let output = openclaw_a2a().args(args).arg("--state-dir").arg(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// A folder in which a server was, with a few messages, and its day file.
fn used(folder: &Path) -> PathBuf {
    let server = Server::with_config(folder, ANY_PORT);
    server.inbox("tim", "");
    for i in 0..5 {
        server.accepted(&message("roman", "tim", &format!("number {i}")));
    }
    assert_eq!(server.terminate().code(), Some(0));
    let days = std::fs::read_dir(folder.join("a2a-log")).unwrap();
    // Around midnight there may be two.
    days.map(|day| day.unwrap().path()).max_by_key(|day| day.metadata().unwrap().len()).unwrap()
}

/// The content of a folder, except what sled and SQLite keep for themselves: opening may change it.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with("a2a-journal") => {}
                true => folders.push(path),
                false if path.extension().is_some_and(|end| end == "db-shm") => {}
                false => drop(found.insert(path.clone(), std::fs::read(path).unwrap())),
            }
        }
    }
    found
}

#[test]
fn a_new_folder_is_all_right_and_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("elsewhere.toml");
    std::fs::write(&config, ANY_PORT).unwrap();
    let state = folder.path().join("new");
    let args = ["--config", config.to_str().unwrap()];
    let (is_ok, found) = checks(&state, &args);
    assert!(is_ok && others(&found).is_empty(), "{found:#?}");
    assert!(printed(&found, "state", "ok").contains("does not exist yet"));
    assert!(!state.exists());
}

#[test]
fn a_folder_at_rest_is_looked_at_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    used(folder.path());
    let before = contents(folder.path());
    let (is_ok, found) = checks(folder.path(), &[]);
    assert!(is_ok && others(&found).is_empty(), "{found:#?}");
    for (name, word) in [
        ("config", "is valid"),
        ("address", "no server runs"),
        ("journal", "every line"),
        ("tasks", "whole"),
        ("chain", "lines are whole"),
        ("clock", "after the newest record"),
        ("leftovers", "no stray files"),
    ] {
        let printed = printed(&found, name, "ok");
        assert!(printed.contains(word), "{name}: {printed}");
    }
    assert_eq!(contents(folder.path()), before);
    let text = doctor(folder.path(), &["--quick"]);
    assert_eq!(text.code, Some(0));
    assert!(text.out.contains("not proven (--quick)"), "{}", text.out);
    assert!(text.out.contains(" checks: no problems, "), "{}", text.out);
}

#[test]
fn running_server_reports_what_waits_for_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), "[delivery]\nattempts = 1\n");
    server.inbox("tim", "");
    server.accepted(&message("roman", "tim", "hello"));
    let (is_ok, found) = checks(folder.path(), &[]);
    assert!(is_ok && others(&found).is_empty(), "{found:#?}");
    for (name, word) in [
        ("address", server.url()),
        ("server", "accepts messages"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("server-clock", "like this one"),
        ("chain", "lines are whole"),
        ("dead-letters", "none"),
        ("circuits", "none"),
        ("waiting", "no task"),
    ] {
        let printed = printed(&found, name, "ok");
        assert!(printed.contains(word), "{name}: {printed}");
    }
    let taken = server.inbox("tim", "");
    assert_eq!(server.settle("tim", id_of(&taken[0]), "nack").status, 200);
    server.post(&format!("/bus/circuits/correlation:{}/trip", new_id()), b"");
    let (is_ok, found) = checks(folder.path(), &[]);
    assert!(is_ok, "{found:#?}");
    assert!(printed(&found, "dead-letters", "warning").contains("1 message became a dead letter"));
    assert!(printed(&found, "circuits", "warning").contains("1 circuit is open"));
}

#[test]
fn a_server_that_was_killed_leaves_a_stale_address() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), ANY_PORT);
    server.inbox("tim", "");
    server.accepted(&message("roman", "tim", "hello"));
    server.kill();
    let (is_ok, found) = checks(folder.path(), &[]);
    assert!(is_ok, "{found:#?}");
    let printed = printed(&found, "address", "warning");
    assert!(printed.contains("did not stop cleanly") && printed.contains("serve"), "{printed}");
    assert!(folder.path().join("a2a.addr").exists());
}

#[test]
fn a_changed_line_is_a_problem_with_a_server_and_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let day = used(folder.path());
    let whole = std::fs::read_to_string(&day).unwrap();
    let changed = whole.replacen("number 2", "nomber 2", 1);
    assert_ne!(changed, whole);
    std::fs::write(&day, &changed).unwrap();
    let answered = |who: &str| {
        let (_, found) = checks(folder.path(), &[]);
        let printed = printed(&found, "chain", "problem");
        assert!(printed.contains("was changed") && printed.contains("copy"), "{who}: {printed}");
        assert!(checks(folder.path(), &["--quick"]).0, "{who}");
    };
    answered("without a server");
    std::fs::write(&day, &whole).unwrap();
    let _server = Server::start(folder.path());
    std::fs::write(&day, &changed).unwrap();
    answered("with a server");
}

#[test]
fn a_bad_configuration_hides_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    used(folder.path());
    let file = folder.path().join("a2a.toml");
    for (text, word) in [
        ("[limits]\nper_agent_per_minut = 5\n", "per_agent_per_minut"),
        ("[http]\nhead_seconds = 0\n", "head_seconds"),
        (
            "[http]\nlisten = \"127.0.0.1:0\"\n[http.tls]\ncert = \"none.pem\"\nkey = \"none.pem\"\n",
            "none.pem",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let (is_ok, found) = checks(folder.path(), &[]);
        assert!(!is_ok);
        let config = printed(&found, "config", "problem");
        assert!(config.contains(word) && config.contains("a2a.toml"), "{config}");
        printed(&found, "tasks", "ok");
        printed(&found, "chain", "ok");
    }
}

#[test]
fn rights_of_others_on_the_token_file_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a2a.toml"), ANY_PORT).unwrap();
    let token = command(folder.path(), &["token", "create", "--operator", "david"]);
    let token = String::from_utf8(token).unwrap();
    let file = folder.path().join("data/a2a-tokens.json");
    for (mode, state) in [(0o600, "ok"), (0o644, "warning"), (0o660, "problem")] {
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        let (is_ok, found) = checks(folder.path(), &[]);
        assert_eq!(is_ok, state != "problem");
        let printed = printed(&found, "permissions", state);
        assert!(state == "ok" || printed.contains("chmod 600"), "{printed}");
        assert!(!doctor(folder.path(), &[]).out.contains(token.trim()));
    }
}

#[test]
fn a_newer_schema_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a2a.toml"), ANY_PORT).unwrap();
    drop(TaskDb::open(&Options::new(folder.path())).unwrap());
    let file = folder.path().join("data/a2a-tasks.db");
    let mut bytes = std::fs::read(&file).unwrap();
    // Where a SQLite file keeps `user_version`.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&file, bytes).unwrap();
    let (is_ok, found) = checks(folder.path(), &[]);
    let printed = printed(&found, "tasks", "problem");
    assert!(
        !is_ok && printed.contains("schema 99") && printed.contains("newer version"),
        "{printed}"
    );
}

#[test]
fn port_owner_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = format!("[http]\nlisten = \"{address}\"\n");
    std::fs::write(folder.path().join("a2a.toml"), config).unwrap();
    // It accepts nothing, and the check does not wait long for it.
    let (is_ok, found) = checks(folder.path(), &[]);
    let printed = printed(&found, "port", "problem");
    assert!(!is_ok && printed.contains(&address.to_string()), "{printed}");
    if Path::new("/proc/net/tcp").exists() {
        assert!(printed.contains(&format!("process {}", std::process::id())), "{printed}");
    }
    drop(taken);
    assert!(checks(folder.path(), &[]).0);
    std::fs::write(folder.path().join("a2a.toml"), "[http]\nlisten = \"0.0.0.0:0\"\n").unwrap();
    let (_, found) = checks(folder.path(), &[]);
    assert!(self::printed(&found, "port", "problem").contains("no tokens"));
}

#[test]
fn with_tokens_an_operator_sees_everything_and_others_learn_how() {
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(folder.path());
    let token = command(folder.path(), &["token", "create", "--operator", "david"]);
    let token = String::from_utf8(token).unwrap();
    let (is_ok, found) = checks(folder.path(), &[]);
    assert!(is_ok, "{found:#?}");
    for name in ["chain", "dead-letters", "circuits"] {
        let printed = printed(&found, name, "warning");
        assert!(printed.contains("--token"), "{name}: {printed}");
    }
    let (_, found) = checks(folder.path(), &["--token", token.trim()]);
    assert!(others(&found).is_empty(), "{found:#?}");
}

#[test]
fn leftover_files_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    used(folder.path());
    std::fs::write(folder.path().join("a2a-log/torn-2026-02-21.bin"), "x").unwrap();
    std::fs::write(folder.path().join("data/a2a-tasks.db.bak"), "x").unwrap();
    let (is_ok, found) = checks(folder.path(), &[]);
    let printed = printed(&found, "leftovers", "warning");
    assert!(is_ok && printed.contains("torn-2026-02-21.bin, a2a-tasks.db.bak"), "{printed}");
    let text = doctor(folder.path(), &[]).out;
    assert!(
        text.lines().any(|line| line.trim_start().starts_with("→ when nobody needs")),
        "{text}"
    );
}

#[test]
fn batches_that_are_not_in_the_log_are_named() {
    let folder = tempfile::tempdir().unwrap();
    used(folder.path());
    let (_, found) = checks(folder.path(), &[]);
    assert!(!found.keys().any(|(name, _)| name == "left-out"));
    std::fs::write(folder.path().join("data/a2a-wal-0.bin.kept-1"), "x").unwrap();
    let (is_ok, found) = checks(folder.path(), &[]);
    let printed = printed(&found, "left-out", "warning");
    assert!(
        is_ok && printed.contains("a2a-wal-0.bin.kept-1") && printed.contains("docs/log.md"),
        "{printed}"
    );
}

/// Another user learns that it may not look, and not that something is broken.
#[test]
fn what_may_not_be_read_is_not_called_broken() {
    let folder = tempfile::tempdir().unwrap();
    used(folder.path());
    let set = |path: &str, mode| {
        let path = folder.path().join(path);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set("", 0o755);
    for file in ["data/a2a-tasks.db", "data/a2a-journal/db"] {
        set(file, 0o000);
    }
    let program = assert_cmd::cargo::cargo_bin!("openclaw-a2a");
    let mut command = std::process::Command::new(program);
    if rustix::process::geteuid().is_root() {
        // Nothing is kept from root. By a program of its own, so that no child of this process
        // lives between fork and exec with the sockets of other tests.
        command = std::process::Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
    }
    command.args(["doctor", "--format", "json", "--state-dir"]).arg(folder.path());
    let output = command.env_remove("OPENCLAW_TOKEN").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    for name in ["tasks", "address"] {
        let check = checks.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("no {name}: {report:#}"));
        let [detail, next] = ["detail", "next"].map(|key| check[key].as_str().unwrap());
        assert!(detail.contains("cannot") || detail.contains("denied"), "{check}");
        assert!(next.contains("as the user that the server runs as"), "{check}");
    }
    assert!(!report.to_string().contains("good copy"), "{report:#}");
}
