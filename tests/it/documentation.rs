use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Server, serve};

/// Shell blocks fenced as `sh` are run in a fresh folder with the program on the PATH. Those that
/// speak to the default address speak to a server of this test's own. A page can say which options
/// that needs: `<!-- server: --demo -->`.
#[test]
fn every_shell_example_runs_as_printed() {
    const DEFAULT: &str = "http://127.0.0.1:7420";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    // What a machine may lack; blocks that need it are left out there.
    let lacks: Vec<_> = [("curl ", "--version"), ("openssl ", "version")]
        .into_iter()
        .filter(|(tool, version)| Command::new(tool.trim_end()).arg(version).output().is_err())
        .collect();
    let mut ran = 0;
    for page in pages(root) {
        let text = std::fs::read_to_string(&page).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let state = tempfile::tempdir().unwrap();
        let server = text.contains(DEFAULT).then(|| {
            let mut command = serve(state.path());
            command.args(wanted_of_the_server(&text));
            Server::start_by(command, state.path())
        });
        for block in
            blocks(&text, "sh").filter(|block| !lacks.iter().any(|(tool, _)| block.contains(tool)))
        {
            let url = server.as_ref().map_or(DEFAULT, |server| server.url());
            let output = Command::new("sh")
                .args(["-eu", "-c", &block.replace(DEFAULT, url)])
                .env("PATH", &path)
                .env("HOME", folder.path())
                .env("OPENCLAW_STATE_DIR", state.path())
                .current_dir(folder.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{}:\n{block}\n{output:?}", page.display());
            let answer = String::from_utf8_lossy(&output.stdout);
            assert!(!answer.contains("\"status\":4"), "{}:\n{block}\n{answer}", page.display());
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

fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The contents of the fenced blocks of one language.
fn blocks<'a>(text: &'a str, language: &str) -> impl Iterator<Item = &'a str> {
    let fence = format!("```{language}\n");
    let parts: Vec<_> = text.split(fence.as_str()).skip(1).collect();
    parts.into_iter().filter_map(|rest| rest.split("```").next())
}

/// The configuration shown in the documentation is one the program takes.
#[test]
fn the_configuration_in_the_documentation_is_valid() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let text = std::fs::read_to_string(page).unwrap();
    let shown: Vec<_> = blocks(&text, "toml").collect();
    assert_eq!(shown.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a2a.toml");
    std::fs::write(&file, shown[0]).unwrap();
    openclaw_a2a::config::Config::read(&file, true).unwrap();
}
