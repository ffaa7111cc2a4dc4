//! Folders of other versions: newer ones are left as they are, older ones brought up to date.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use super::{a_state, backup, everything, restored, run};
use crate::server::Server;

fn is_refused(state: &Path, words: &[&str]) {
    let elsewhere = tempfile::tempdir().unwrap();
    let before = everything(state);
    let to = elsewhere.path().join("backup");
    for output in [
        run(&[&"serve", &"--listen", &"127.0.0.1:0", &"--state-dir", &state]),
        run(&[&"backup", &to, &"--state-dir", &state]),
    ] {
        assert_eq!(output.code, Some(2), "{}", output.out);
        for word in words {
            assert!(output.err.contains(word), "{word}: {}", output.err);
        }
    }
    assert!(everything(state) == before, "{words:?}: something was changed");
    assert!(!to.exists());
}

#[test]
fn a_newer_format_of_any_part_is_refused_before_anything_is_changed() {
    const ADVICE: &str = "or restore a backup made before the upgrade";
    let state = a_state();
    let formats = state.path().join("data/a2a-format.json");
    let noted = fs::read_to_string(&formats).unwrap();
    for (from, to, part) in [
        ("\"log\":1", "\"log\":2", "part `log` has format 2"),
        ("\"index\":3", "\"index\":4", "part `index` has format 4"),
        ("\"tasks\":4", "\"tasks\":5", "part `tasks` has format 5"),
        ("\"log\":1", "\"log\":1,\"more\":1", "part `more` has format 1"),
    ] {
        let newer = noted.replace(from, to).replace("0.1.0", "0.9.0");
        assert_ne!(newer, noted);
        fs::write(&formats, newer).unwrap();
        is_refused(
            state.path(),
            &[part, "openclaw-a2a 0.1.0 knows", "Use openclaw-a2a 0.9.0 or newer", ADVICE],
        );
        let output = run(&[&"log", &"verify", &"--state-dir", &state.path()]);
        assert!(output.code == Some(2) && output.err.contains(part), "{}", output.err);
    }
    fs::write(&formats, &noted).unwrap();

    // What was put there by hand, with nothing noted.
    let tasks = state.path().join("data/a2a-tasks.db");
    let version = |version: u32| {
        let file = Connection::open(&tasks).unwrap();
        file.pragma_update(None, "user_version", version).unwrap();
    };
    version(5);
    is_refused(state.path(), &["part `tasks` has format 5", "formats up to 4", ADVICE]);
    version(4);
    let tokens = state.path().join("data/a2a-tokens.json");
    let text = fs::read_to_string(&tokens).unwrap();
    fs::write(&tokens, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    is_refused(state.path(), &["the tokens have format 2", "formats up to 1", ADVICE]);
    fs::write(&tokens, &text).unwrap();

    // And nothing of it stays in the way.
    let server = Server::start(state.path());
    assert_eq!(server.terminate().code(), Some(0));
    assert_eq!(fs::read_to_string(&formats).unwrap(), noted);
}

/// As the first program would have left it: nothing noted, and tasks of the first schema.
#[test]
fn an_older_folder_is_brought_up_to_date_with_a_copy_of_what_was() {
    const FIRST: &str = include_str!("../../../taskdb/src/schema/1.sql");
    let state = a_state();
    fs::remove_file(state.path().join("data/a2a-format.json")).unwrap();
    let path = state.path().join("data/a2a-tasks.db");
    let old = state.path().join("old.db");
    let file = Connection::open(&old).unwrap();
    file.execute_batch(FIRST).unwrap();
    file.pragma_update(None, "user_version", 1).unwrap();
    file.execute("ATTACH ?1 AS new", [path.to_str().unwrap()]).unwrap();
    for table in ["tasks", "task_events", "sent_messages"] {
        // The columns there were then.
        let columns =
            format!("SELECT group_concat(name) FROM pragma_table_info('{table}', 'main')");
        let columns: String = file.query_row(&columns, [], |row| row.get(0)).unwrap();
        let copy =
            format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}");
        file.execute(&copy, []).unwrap();
    }
    drop(file);
    fs::rename(old, &path).unwrap();
    let answers = |path: &Path| -> i64 {
        let file = Connection::open(path).unwrap();
        file.query_row("SELECT count(*) FROM sent_messages", [], |row| row.get(0)).unwrap()
    };
    let kept = answers(&path);
    assert!(kept > 0);

    // A backup of the old folder is one of the old schema, and restored as such.
    let folder = tempfile::tempdir().unwrap();
    let made = backup(state.path(), &folder.path().join("old"));
    assert_eq!(made["formats"]["tasks"], 1);
    restored(&folder.path().join("old"), &folder.path().join("again"));
    for state in [state.path(), &folder.path().join("again")] {
        let server = Server::start(state);
        assert_eq!(server.terminate().code(), Some(0));
        let noted = fs::read_to_string(state.join("data/a2a-format.json")).unwrap();
        assert!(
            noted.contains("\"tasks\":4") && noted.contains("\"program\":\"0.1.0\""),
            "{noted}"
        );
        let (now, before) =
            (state.join("data/a2a-tasks.db"), state.join("data/a2a-tasks.db.v1.bak"));
        let version = |path: &Path| -> u32 {
            let file = Connection::open(path).unwrap();
            file.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
        };
        assert_eq!((version(&now), version(&before)), (4, 1));
        assert_eq!((answers(&now), answers(&before)), (kept, kept));
    }
}
