//! `openclaw-a2a config`, and the page of the documentation that is made from the same keys.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use openclaw_a2a::config::{Key, Section, sections};
use serde_json::{Value, json};

use crate::openclaw_a2a;
use crate::server::{Server, serve};

/// `openclaw-a2a config` in a folder, with these variables.
fn config(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = openclaw_a2a();
    command.env_remove("OPENCLAW_STATE_DIR").envs(variables.iter().copied());
    command.arg("config").args(args).arg("--state-dir").arg(folder).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn write(folder: &Path, text: &str) {
    std::fs::write(folder.join("a2a.toml"), text).unwrap();
}

#[test]
fn check_reports_ok_and_what_is_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = config(folder.path(), &["check"], &[]);
    assert_eq!(nothing.status.code(), Some(0));
    assert!(text(&nothing).contains("a2a.toml: OK (there is no such file)"), "{nothing:?}");
    assert!(text(&nothing).contains("the defaults"), "{nothing:?}");

    write(
        folder.path(),
        "[limits]\nburst = 30\n\n[a2a.tasks]\nttlDays = 2\n[[agents]]\nid = \"tim\"\n",
    );
    let variables = [("OPENCLAW_A2A_LIMITS_INBOX", "5"), ("OPENCLAW_LOG", "info")];
    let good = config(folder.path(), &["check"], &variables);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    let printed = text(&good);
    let file = folder.path().join("a2a.toml");
    for line in [
        format!("{}: OK", file.display()),
        format!("  limits.burst = 30  # file {}:2", file.display()),
        format!("  tasks.ttl_days = 2.0  # file {}:5", file.display()),
        format!("  agents.0 = an entry  # file {}:6", file.display()),
        "  limits.inbox = 5  # environment OPENCLAW_A2A_LIMITS_INBOX".to_owned(),
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line} in\n{printed}");
    }
    let good = config(folder.path(), &["check", "--format", "json"], &variables);
    let printed: Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!((&printed["ok"], &printed["problems"]), (&json!(true), &json!([])));
    let origin = json!({"from": "environment", "variable": "OPENCLAW_A2A_LIMITS_INBOX"});
    let inbox = json!({"key": "limits.inbox", "value": 5, "origin": origin});
    assert!(printed["set"].as_array().unwrap().contains(&inbox), "{printed}");
}

#[test]
fn check_reports_every_problem_with_its_line_and_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let bad = "[limits]\nper_agent_per_minut = 5\nburst = \"many\"\n\n[brekaer]\nrounds = 1\n\
               [http]\nidle_seconds = 0\n[http.tls]\ncert = \"nowhere.pem\"\nkey = \"nowhere.pem\"\n";
    write(folder.path(), bad);
    let variables = [("OPENCLAW_A2A_LIMITS_BRUST", "1"), ("OPENCLAW_A2A_AGENTS", "[]")];
    let refused = config(folder.path(), &["check"], &variables);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let printed = text(&refused);
    let file = folder.path().join("a2a.toml").display().to_string();
    let lines: Vec<_> = printed.lines().collect();
    for (line, expected) in lines.iter().zip([
        format!("{file}:2: unknown key `per_agent_per_minut` in [limits]; did you mean `per_agent_per_minute`?"),
        format!("{file}:3: [limits] burst = \"many\": "),
        format!("{file}:5: unknown section [brekaer]; did you mean [breaker]?"),
        format!("{file}:8: [http] idle_seconds = 0 is not between"),
        "OPENCLAW_A2A_AGENTS: [[agents]] is a list of tables".to_owned(),
        "OPENCLAW_A2A_LIMITS_BRUST: no key has this variable; did you mean `OPENCLAW_A2A_LIMITS_BURST`?".to_owned(),
    ]) {
        assert!(line.starts_with(&expected), "{line}\n{expected}");
    }
    assert_eq!(lines.len(), 6, "{printed}");
    let refused = config(folder.path(), &["check", "--format", "json"], &variables);
    let printed: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(
        (&printed["ok"], &printed["problems"][0]["line"]),
        (&json!(false), &json!(2)),
        "{printed}"
    );
    assert_eq!(printed["problems"][5]["variable"], "OPENCLAW_A2A_LIMITS_BRUST");

    // The files it names are checked once nothing else is wrong; a server reports the same.
    write(folder.path(), "[http.tls]\ncert = \"nowhere.pem\"\nkey = \"nowhere.pem\"\n");
    let refused = config(folder.path(), &["check"], &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("a2a.toml:2: [http.tls] cert: "), "{refused:?}");

    let missing = config(folder.path(), &["check", "nowhere.toml"], &[]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
}

#[test]
fn server_with_problems_does_not_start_and_lists_them_all() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "[limits]\nbrust = 1\n[breaker]\nrounds = 0\n");
    let output = serve(folder.path()).env("OPENCLAW_A2A_X", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8(output.stderr).unwrap();
    for words in
        ["a2a.toml:2: unknown key `brust`", "a2a.toml:4: [breaker] rounds", "OPENCLAW_A2A_X"]
    {
        assert!(printed.contains(words), "{printed}");
    }
}

#[test]
fn show_is_a_configuration_that_means_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let file = format!(
        "[limits]\nburst = 30\n[[agents]]\nid = \"tim\"\ncapabilities = [\"review\"]\n[[access]]\nallow = true\n\
         from = \"tim\"\n[[auth.tokens]]\noperator = \"david\"\nsha256 = \"{hash}\"\n"
    );
    write(folder.path(), &file);
    let variables = [("OPENCLAW_A2A_HTTP_IDLE_SECONDS", "0.5"), ("OPENCLAW_A2A_A2A_AGENT", "main")];
    let show = |args: &[&str]| config(folder.path(), &[&["show"], args].concat(), &variables);
    let shown = text(&show(&[]));
    assert!(shown.contains("# sha256 = \"9f86d081884c…\"") && !shown.contains(hash), "{shown}");
    // What was shown, without the environment it came from.
    let copy = tempfile::tempdir().unwrap();
    write(copy.path(), &shown);
    assert_eq!(config(copy.path(), &["check"], &[]).status.code(), Some(0), "{shown}");
    assert_eq!(
        text(&config(copy.path(), &["show"], &[]))
            .replace("# [[auth.tokens]]: there is none\n", ""),
        {
            let from = shown.find("# [[auth.tokens]]").unwrap();
            shown[..from].to_owned()
        }
    );

    let answered = text(&show(&["--origin"]));
    let path = folder.path().join("a2a.toml");
    for line in [
        format!("burst = 30  # file {}:2", path.display()),
        "per_agent_per_minute = 120  # default".to_owned(),
        "idle_seconds = 0.5  # environment OPENCLAW_A2A_HTTP_IDLE_SECONDS".to_owned(),
        format!("[[agents]]  # file {}:3", path.display()),
        "# url is not set: as each caller names it".to_owned(),
    ] {
        assert!(answered.lines().any(|answered| answered == line), "{line} in\n{answered}");
    }
    for key in sections().iter().filter(|section| !section.is_list).flat_map(|s| &s.keys) {
        let says = |line: &str| {
            line.starts_with(&format!("{} = ", key.name))
                || line.starts_with(&format!("# {} is", key.name))
        };
        assert!(answered.lines().any(says), "{} in\n{answered}", key.path());
    }

    let json: Value = serde_json::from_slice(&show(&["--format", "json"]).stdout).unwrap();
    assert_eq!((&json["limits"]["burst"], &json["a2a"]["agent"]), (&json!(30), &json!("main")));
    assert_eq!(json["auth"]["tokens"][0]["sha256"], "9f86d081884c…");
    assert_eq!((&json["http"]["url"], &json["http"]["tls"]["cert"]), (&Value::Null, &Value::Null));
    let json = show(&["--format", "json", "--origin"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let origin = json!({"from": "file", "file": path.display().to_string(), "line": 2});
    assert_eq!(json["limits"]["burst"], json!({"value": 30, "origin": origin}));
}

#[test]
fn init_writes_a_file_of_defaults_once() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("new");
    let file = state.join("a2a.toml");
    let made = config(&state, &["init"], &[]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    assert_eq!(text(&made).trim(), file.display().to_string());
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let checked = config(&state, &["check"], &[]);
    assert!(text(&checked).contains("In force: the defaults."), "{checked:?}");
    let first = std::fs::read_to_string(&file).unwrap();
    for key in sections().iter().flat_map(|section| &section.keys) {
        assert!(first.contains(&format!("\n# {} = ", key.name)), "{}", key.path());
    }

    std::fs::write(&file, "[limits]\nburst = 1\n").unwrap();
    let refused = config(&state, &["init"], &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--force"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "[limits]\nburst = 1\n");
    assert_eq!(config(&state, &["init", "--force"], &[]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), first);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_flag_goes_before_the_environment_and_that_before_the_file() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "[http]\nlisten = \"127.0.0.9:1\"\n[limits]\ninbox = 1\n");
    // The flag of the test's own command allows any port of 127.0.0.1.
    let mut command = serve(folder.path());
    command.env("OPENCLAW_A2A_HTTP_LISTEN", "127.0.0.8:1").env("OPENCLAW_A2A_LIMITS_INBOX", "2");
    let server = Server::start_by(command, folder.path());
    assert!(server.host().starts_with("127.0.0.1:"), "{}", server.host());
    server.inbox("tim", "");
    let send = || server.send(&crate::server::message("roman", "tim", "x")).status;
    assert_eq!([send(), send(), send()], [202, 202, 503]);
}

const BEGIN: &str =
    "<!-- keys: made by `UPDATE_GOLDEN=1 cargo test --test it the_page_of_keys` -->\n";
const END: &str = "<!-- end of keys -->\n";

/// A key that is added to the structs must be on the page.
#[test]
fn the_page_of_keys_matches_the_program() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the mark at which the keys begin");
    let (keys, after) = rest.split_once(END).expect("the mark at which they end");
    let made = sections().iter().map(tabled).collect::<String>();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&page, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    let differs = made.lines().zip(keys.lines()).find(|(made, keys)| made != keys);
    assert!(
        keys == made,
        "docs/configuration.md is stale, UPDATE_GOLDEN=1 makes it anew: {differs:?}"
    );
}

fn tabled(section: &Section) -> String {
    let reloads = section.keys.iter().any(|key| key.reloads);
    let all = section.keys.iter().all(|key| key.reloads);
    let note = match (all, reloads) {
        (true, _) => " Reloads.",
        (false, true) => " Reloads where marked ↻.",
        _ => "",
    };
    let mut text = format!("### `{}`\n\n{}.{note}\n\n", section.header(), linked(&section.meaning));
    text += "| key | default | meaning |\n| --- | --- | --- |\n";
    for key in &section.keys {
        let mark = if key.reloads && !all { " ↻" } else { "" };
        let meaning = key.meaning.replace('|', "\\|");
        writeln!(text, "| `{}`{mark} | {} | {meaning} |", key.name, default(key)).unwrap();
    }
    text + "\n"
}

fn default(key: &Key) -> String {
    match (&key.default_in_words, &key.default) {
        (Some(words), _) => words.clone(),
        (None, Some(toml::Value::Float(number))) => format!("`{number}`"),
        (None, Some(value)) => format!("`{value}`"),
        (None, None) if key.required => "must be given".to_owned(),
        (None, None) => "nothing".to_owned(),
    }
}

/// Pages that are named become links.
fn linked(meaning: &str) -> String {
    let words = meaning.split(' ').map(|word| match word.strip_suffix(".md") {
        Some(_) => format!("[{word}]({word})"),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}
