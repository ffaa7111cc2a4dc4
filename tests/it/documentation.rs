use std::path::{Path, PathBuf};

/// Shell blocks fenced as `sh` are run in a fresh folder with the program on the PATH.
#[test]
fn every_shell_example_runs_as_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut ran = 0;
    for page in pages(root) {
        let text = std::fs::read_to_string(&page).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for block in blocks(&text, "sh") {
            let output = std::process::Command::new("sh")
                .args(["-eu", "-c", block])
                .env("PATH", &path)
                .env("HOME", folder.path())
                .current_dir(folder.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{}:\n{block}\n{output:?}", page.display());
            ran += 1;
        }
    }
    assert!(ran > 0, "no example was found");
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
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(fence.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}
