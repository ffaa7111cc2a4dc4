//! What is no backup, where none is restored to, and disks that refuse.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{a_state, backup, check, everything, restore, restored, run};
use crate::server::Server;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

fn flip_a_bit(path: PathBuf) {
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn in_manifest(backup: &Path, change: impl FnOnce(&mut Value)) {
    let path = backup.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(path, manifest.to_string()).unwrap();
}

#[test]
fn a_backup_that_is_not_whole_is_not_restored() {
    let state = a_state();
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good");
    let made = backup(state.path(), &good);
    let files: Vec<PathBuf> = everything(&good)
        .into_keys()
        .map(|path| path.strip_prefix(&good).unwrap().to_owned())
        .filter(|path| path != Path::new("manifest.json"))
        .collect();
    assert_eq!(made["files"], json!(files.len()));
    let names: Vec<_> = files.iter().map(|path| path.to_str().unwrap()).collect();
    for name in ["a2a.toml", "data/a2a-tokens.json", "data/a2a-tasks.db", "data/a2a-heads.jsonl"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let day = names.iter().copied().find(|name| name.starts_with("a2a-log/")).unwrap();

    type Spoil<'a> = Box<dyn Fn(&Path) + 'a>;
    let elsewhere = folder.path().join("elsewhere");
    copy(&good, &elsewhere);
    let mut cases: Vec<(&str, Spoil<'_>)> = vec![
        ("no backup", Box::new(|b| fs::remove_file(b.join("manifest.json")).unwrap())),
        ("no backup", Box::new(|b| fs::remove_dir_all(b).unwrap())),
        ("damaged", Box::new(|b| fs::write(b.join("manifest.json"), "{\"backup\":1,").unwrap())),
        ("is missing", Box::new(|b| fs::remove_file(b.join(day)).unwrap())),
        // A day that the manifest does not know of makes another log.
        (
            "not whole",
            Box::new(|b| {
                fs::write(b.join("a2a-log/2001-01-01.jsonl"), fs::read(b.join(day)).unwrap())
                    .unwrap();
            }),
        ),
        (
            "not whole",
            Box::new(|b| in_manifest(b, |m| m["head"] = json!(format!("7:{}", "0".repeat(64))))),
        ),
        ("no part", Box::new(|b| in_manifest(b, |m| m["files"][0]["path"] = json!("../../x")))),
        ("part `backup` has format 2", Box::new(|b| in_manifest(b, |m| m["backup"] = json!(2)))),
        (
            "part `log` has format 2",
            Box::new(|b| in_manifest(b, |m| m["formats"]["log"] = json!(2))),
        ),
        (
            "part `tasks` has format 9",
            Box::new(|b| in_manifest(b, |m| m["formats"]["tasks"] = json!(9))),
        ),
        ("part `blobs`", Box::new(|b| in_manifest(b, |m| m["formats"]["blobs"] = json!(1)))),
    ];
    // The same bytes, from elsewhere.
    for name in &names {
        let elsewhere = elsewhere.clone();
        cases.push((
            "symbolic link",
            Box::new(move |b| {
                fs::remove_file(b.join(name)).unwrap();
                std::os::unix::fs::symlink(elsewhere.join(name), b.join(name)).unwrap();
            }),
        ));
    }
    cases.push((
        "symbolic link",
        Box::new(|b| {
            fs::remove_dir_all(b.join("a2a-log")).unwrap();
            std::os::unix::fs::symlink(elsewhere.join("a2a-log"), b.join("a2a-log")).unwrap();
        }),
    ));
    cases.push((
        "no regular file",
        Box::new(|b| {
            fs::remove_file(b.join(day)).unwrap();
            assert!(Command::new("mkfifo").arg(b.join(day)).status().unwrap().success());
        }),
    ));
    for name in &names {
        cases.push(("does not fit its hash", Box::new(move |b| flip_a_bit(b.join(name)))));
    }
    for (n, (word, spoil)) in cases.iter().enumerate() {
        let bad = folder.path().join(format!("bad-{n}"));
        copy(&good, &bad);
        spoil(&bad);
        let printed = check(&bad);
        assert_eq!(printed.code, Some(1), "{word}: {}{}", printed.out, printed.err);
        assert!(printed.out.contains(word), "{word}: {}", printed.out);
        let target = folder.path().join(format!("target-{n}"));
        let printed = restore(&bad, &target);
        assert_eq!(printed.code, Some(2), "{word}: {}", printed.out);
        assert!(
            printed.err.contains(word) && printed.err.contains("nothing was restored"),
            "{}",
            printed.err
        );
        assert!(!target.exists(), "{word}");
    }
    let printed =
        run(&[&"restore", &folder.path().join("bad-0"), &"--check", &"--format", &"json"]);
    let answer: Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(answer["ok"], json!(false), "{answer}");
    let printed = run(&[&"restore", &good, &"--check", &"--format", &"json"]);
    let answer: Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!((&answer["ok"], &answer["head"]), (&json!(true), &made["head"]), "{answer}");
}

#[test]
fn a_backup_goes_where_nothing_is() {
    let state = a_state();
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good");
    backup(state.path(), &good);
    let before = everything(folder.path());
    let printed = run(&[&"backup", &good, &"--state-dir", &state.path()]);
    assert!(printed.code == Some(2) && printed.err.contains("is there already"), "{}", printed.err);
    let printed = run(&[&"backup", &folder.path().join("x"), &"--state-dir", &folder.path()]);
    assert!(printed.code == Some(2) && printed.err.contains("there is no log"), "{}", printed.err);
    // One that was cut off is never taken for a whole one, nor written over.
    fs::create_dir(folder.path().join("next.partial")).unwrap();
    let printed = run(&[&"backup", &folder.path().join("next"), &"--state-dir", &state.path()]);
    assert!(printed.code == Some(2) && printed.err.contains("was cut off"), "{}", printed.err);
    assert!(check(&folder.path().join("next.partial")).out.contains("no backup"));
    assert!(everything(folder.path()) == before);

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&good), 0o700);
    let target = folder.path().join("restored");
    restored(&good, &target);
    for (folder, secret) in [(&good, "manifest.json"), (&target, "data/a2a-tasks.db")] {
        assert_eq!(mode(&folder.join(secret)), 0o600, "{secret}");
        assert_eq!(mode(&folder.join("data/a2a-tokens.json")), 0o600);
    }
    let server = Server::start(&target);
    let before = everything(&target.join("a2a-log"));
    let printed = restore(&good, &target);
    assert!(printed.code == Some(2) && printed.err.contains("is not empty"), "{}", printed.err);
    assert!(everything(&target.join("a2a-log")) == before);
    drop(server);
    // An empty folder, such as a new disk, is as good as none.
    let disk = folder.path().join("disk");
    fs::create_dir_all(disk.join("lost+found")).unwrap();
    restored(&good, &disk);
    // What a restore left that was cut off is no state folder.
    let half = folder.path().join("half");
    fs::create_dir_all(half.join(".a2a-restoring")).unwrap();
    for printed in [
        restore(&good, &half),
        run(&[&"serve", &"--listen", &"127.0.0.1:0", &"--state-dir", &half]),
        run(&[&"log", &"--state-dir", &half]),
    ] {
        assert!(printed.code == Some(2) && printed.err.contains("was cut off"), "{}", printed.err);
    }
    assert!(everything(&half).is_empty());
}

/// A limit on the size of files simulates a full disk: the write fails half way.
#[test]
fn a_disk_that_refuses_leaves_no_half_backup() {
    let state = a_state();
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good");
    backup(state.path(), &good);
    let before = everything(folder.path());
    let program = assert_cmd::cargo::cargo_bin!("openclaw-a2a");
    let limited = |args: &[&Path]| {
        let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(program).args(args).output().unwrap()
    };
    let flag = Path::new("--state-dir");
    let tries = [
        (Path::new("backup"), folder.path().join("next"), state.path().to_owned()),
        (Path::new("restore"), good.clone(), folder.path().join("restored")),
    ];
    for (verb, path, state) in tries {
        let output = limited(&[verb, &path, flag, &state]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(everything(folder.path()) == before, "{output:?}");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(printed.contains("no backup was made") || printed.contains("nothing was restored"));
        assert!(printed.contains("a2a-tasks.db") || printed.contains("task database"), "{printed}");
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [good]);
}

#[test]
fn a_log_that_is_not_whole_is_not_backed_up() {
    let state = a_state();
    let folder = tempfile::tempdir().unwrap();
    let logs = state.path().join("a2a-log");
    let day = fs::read_dir(&logs).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&day).unwrap();
    // A line that is being written is left out.
    fs::write(&day, format!("{text}{{\"seq\":99")).unwrap();
    backup(state.path(), &folder.path().join("good"));
    fs::write(&day, text.replacen("number 1", "number 7", 1)).unwrap();
    let printed = run(&[&"backup", &folder.path().join("bad"), &"--state-dir", &state.path()]);
    assert_eq!(printed.code, Some(2), "{}", printed.out);
    assert!(
        printed.err.contains("was changed") && printed.err.contains("log verify"),
        "{}",
        printed.err
    );
    assert!(printed.err.contains(day.to_str().unwrap()), "{}", printed.err);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
