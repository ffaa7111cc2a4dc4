/// Relative links and the headings they name.
mod links;
/// Support: pages and their blocks.
mod page;

use std::path::Path;
use std::process::Command;

use serde_json::{Deserializer, Value};

use crate::server::{Server, serve};
use page::{Block, Page, pages, root};

/// The sorts of a block, and how each is checked. Nothing is shown that is not checked.
///
/// | sort | |
/// | --- | --- |
/// | `sh` | run in a fresh folder, with a server of the page's own |
/// | `console`, `yaml`, `promql` | not run; a comment just before it has the reason: `<!-- not run: … -->` |
/// | `toml` | read as configuration |
/// | `json` | parsed; several values may follow one another |
/// | `sql` | prepared against the database of tasks |
/// | `rust` | compiled by rustdoc, which `src/lib.rs` shows the page to |
/// | `python`, `js` | the content of a file that `tests/interop/run` runs |
/// | `text` | free |
#[test]
fn every_block_is_of_a_sort_that_is_tried() {
    let library = read("src/lib.rs");
    let suites = read("tests/interop/run") + &read("tests/interop/agents.py");
    let mut faults = Vec::new();
    for page in pages() {
        for block in page.blocks() {
            if let Err(fault) = known(&page, &block, &library, &suites) {
                faults.push(format!("{}:{}: `{}`: {fault}", page.name(), block.line, block.sort));
            }
        }
        let indented = |line: &&str| line.starts_with("    ");
        let prose = page.prose();
        // Below a list such a line belongs to the item; elsewhere it is code without a sort.
        let alone = prose.split("\n\n").filter(|piece| piece.lines().all(|it| indented(&it)));
        for piece in alone.filter(|piece| !piece.trim().is_empty()) {
            faults.push(format!("{}: indented code: {piece}", page.name()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn known(page: &Page, block: &Block<'_>, library: &str, suites: &str) -> Result<(), String> {
    match block.sort {
        "sh" | "text" => Ok(()),
        // What is for another program can be tried there only.
        "console" | "yaml" | "promql" => {
            let reason = block.note.and_then(|note| note.strip_prefix("not run:")).map(str::trim);
            let given = reason.is_some_and(|reason| !reason.is_empty());
            given.then_some(()).ok_or("say why just before it: <!-- not run: … -->".into())
        }
        "toml" => {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("a2a.toml");
            std::fs::write(&file, &block.content).unwrap();
            let read = openclaw_a2a::config::Config::read(&file, true);
            read.map(|_| ()).map_err(|error| format!("{error:#}"))
        }
        "json" => {
            let mut values = Deserializer::from_str(&block.content).into_iter::<Value>();
            values.try_for_each(|value| value.map(|_| ())).map_err(|error| error.to_string())
        }
        "sql" => prepared(&block.content),
        "rust" | "rust,no_run" => {
            let shown = library.contains(&format!("include_str!(\"../{}\")", page.name()));
            shown.then_some(()).ok_or("src/lib.rs does not include the page for rustdoc".into())
        }
        "python" | "js" => is_run(&block.content, suites),
        _ => Err("nobody knows what to do with it".into()),
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// What is shown is what `tests/interop` runs, to the letter.
fn is_run(content: &str, suites: &str) -> Result<(), String> {
    let mut folders = vec![root().join("tests/interop")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read_to_string(&path).is_ok_and(|text| text == content) {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                let run = suites.contains(&name);
                return run.then_some(()).ok_or(format!("tests/interop/run does not run {name}"));
            }
        }
    }
    Err("it is the content of no file in tests/interop".into())
}

/// Each statement is one that the database of tasks understands.
fn prepared(content: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let file = folder.path().join("data/a2a-tasks.db");
    let database = rusqlite::Connection::open(file).unwrap();
    let statements = content.split(';').filter(|statement| !statement.trim().is_empty());
    let tried =
        statements.map(|it| database.prepare(it).map(|_| ())).collect::<Result<Vec<_>, _>>();
    drop(server);
    tried.map(|_| ()).map_err(|error| error.to_string())
}

/// Shell blocks fenced as `sh` are run in a fresh folder with the program on the PATH. Those that
/// use the default address use a server of this test's own. A page can declare which options
/// that needs: `<!-- server: --demo -->`.
#[test]
fn every_shell_example_runs_as_printed() {
    const DEFAULT: &str = "http://127.0.0.1:7420";
    let program = Path::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    // What a machine may lack; blocks that need it are left out there.
    let lacks: Vec<_> = [("curl ", "--version"), ("openssl ", "version")]
        .into_iter()
        .filter(|(tool, version)| Command::new(tool.trim_end()).arg(version).output().is_err())
        .collect();
    let mut ran = 0;
    for page in pages() {
        let folder = tempfile::tempdir().unwrap();
        let state = tempfile::tempdir().unwrap();
        let blocks: Vec<_> = page.blocks().into_iter().filter(|block| block.sort == "sh").collect();
        let server = page.text.contains(DEFAULT).then(|| {
            let mut command = serve(state.path());
            command.args(wanted_of_the_server(&page.text));
            Server::start_by(command, state.path())
        });
        for Block { content, line, .. } in blocks {
            if lacks.iter().any(|(tool, _)| content.contains(tool)) {
                continue;
            }
            let url = server.as_ref().map_or(DEFAULT, |server| server.url());
            let output = Command::new("sh")
                .args(["-eu", "-c", &content.replace(DEFAULT, url)])
                .env("PATH", &path)
                .env("HOME", folder.path())
                .env("OPENCLAW_STATE_DIR", state.path())
                .current_dir(folder.path())
                .output()
                .unwrap();
            let place = format!("{}:{line}:\n{content}", page.name());
            assert!(output.status.success(), "{place}\n{output:?}");
            let answer = String::from_utf8_lossy(&output.stdout);
            assert!(!answer.contains("\"status\":4"), "{place}\n{answer}");
            ran += 1;
        }
    }
    assert!(ran > 0, "no example was found");
}

/// The options that a page wants its server to have.
fn wanted_of_the_server(page: &str) -> impl Iterator<Item = &str> {
    let wanted = page.split_once("<!-- server: ").and_then(|(_, rest)| rest.split_once(" -->"));
    wanted.map_or("", |(options, _)| options).split_whitespace()
}
