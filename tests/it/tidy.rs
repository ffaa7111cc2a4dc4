//! Checks of the sources: the project's vocabulary in comments and docs, names of files and types.
//!
//! ARCHITECTURE.md has the glossary. The banned words are a private dialect that this code once
//! spoke, and verbs that make persons of components.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that no comment and no page of docs/ uses, in lower case.
const BANNED_WORDS: &[&str] = &[
    "anybody",
    "anyone",
    "bear",
    "bears",
    "borne",
    "clerk",
    "desk",
    "desks",
    "everybody",
    "everyone",
    "hear",
    "heard",
    "hearing",
    "hears",
    "laid",
    "landlord",
    "lay",
    "lays",
    "lie",
    "lies",
    "lodger",
    "lodgers",
    "lodging",
    "lying",
    "nobody",
    "parcel",
    "parcels",
    "said",
    "say",
    "saying",
    "says",
    "somebody",
    "someone",
    "stand",
    "standing",
    "stands",
    "stood",
    "tell",
    "telling",
    "tells",
    "told",
    "tray",
    "trays",
    "unborn",
    "vitals",
    "whoever",
    "whomever",
];

/// Pairs of words, likewise.
const BANNED_PAIRS: &[&str] = &[
    "call off",
    "called off",
    "calling off",
    "calls off",
    "came again",
    "come again",
    "comes again",
    "gave up",
    "give up",
    "given up",
    "gives up",
    "giving up",
    "go on",
    "goes on",
    "going on",
    "take up",
    "taken up",
    "takes up",
    "took up",
    "went on",
];

/// File names that hide what is in them.
const BANNED_FILES: &[&str] = &["common.rs", "helpers.rs", "manager.rs", "misc.rs", "utils.rs"];

/// Types that may have one name in several modules of a crate: what a verb of the command line takes.
const SHARED_TYPE_NAMES: &[&str] = &["Args", "Verb"];

/// Tracked source trees; `target` and installed packages are not below them.
const TREES: &[&str] = &[
    "actors",
    "backup",
    "benches",
    "examples",
    "fuzz/fuzz_targets",
    "gateway",
    "journal",
    "planner",
    "policy",
    "protocol",
    "sdk",
    "src",
    "taskdb",
    "tests",
    "webhooks",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below `dir` with the given extension, by path.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "target" | "node_modules") && !name.starts_with('.') {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn rust_files() -> Vec<PathBuf> {
    let found: Vec<_> = TREES.iter().flat_map(|tree| files(&root().join(tree), "rs")).collect();
    assert!(found.len() > 300, "{} files: the trees have moved", found.len());
    found
}

/// The comment of a line of Rust, if it has one: a whole line, or what follows the code.
fn comment(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    if let Some(text) = trimmed.strip_prefix("//") {
        return Some(text);
    }
    let (code, text) = line.rsplit_once(" // ")?;
    // Two slashes in a string literal are no comment.
    (code.matches('"').count() % 2 == 0).then_some(text)
}

/// `text` without code (between backticks), quotations and the targets of links.
fn unquoted(text: &str) -> String {
    let mut kept = String::new();
    let mut until = None;
    for letter in text.chars() {
        match until {
            Some(end) if letter == end => until = None,
            Some(_) => {}
            None if letter == '`' || letter == '"' => until = Some(letter),
            None if letter == '(' && kept.ends_with(']') => until = Some(')'),
            None => kept.push(letter),
        }
    }
    kept
}

/// The banned words and pairs in `text`.
fn banned(text: &str) -> Vec<String> {
    let text = unquoted(text).to_lowercase();
    let words: Vec<&str> = text
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let pairs = words.windows(2).map(|pair| pair.join(" "));
    words
        .iter()
        .filter(|word| BANNED_WORDS.contains(word))
        .map(|word| (*word).to_owned())
        .chain(pairs.filter(|pair| BANNED_PAIRS.contains(&pair.as_str())))
        .collect()
}

#[test]
fn comment_with_banned_word_is_found() {
    assert_eq!(comment("    /// Whoever waits."), Some("/ Whoever waits."));
    assert_eq!(comment("let a = 1; // told twice"), Some("told twice"));
    assert_eq!(comment(r#"let url = "http: // told";"#), None);
    assert_eq!(banned("Whoever waits is told, `told`, \"told\"."), ["whoever", "told"]);
    assert_eq!(banned("A task that is called off"), ["called off"]);
    assert!(banned("A foretold standpoint, tells_all, [see](#what-it-says)").is_empty());
}

#[test]
fn comments_use_the_glossary() {
    let mut found = Vec::new();
    for path in rust_files() {
        if path.ends_with("tests/it/tidy.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            for word in comment(line).map(banned).unwrap_or_default() {
                let name = path.strip_prefix(root()).unwrap().display();
                found.push(format!("{name}:{}: {word}", number + 1));
            }
        }
    }
    assert!(
        found.is_empty(),
        "{} banned words in comments; use the glossary of ARCHITECTURE.md:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn docs_use_the_glossary() {
    let mut pages = files(&root().join("docs"), "md");
    pages.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| root().join(page)));
    let mut found = Vec::new();
    for path in pages {
        let mut in_code = false;
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            } else if !in_code {
                for word in banned(line) {
                    let name = path.strip_prefix(root()).unwrap().display();
                    found.push(format!("{name}:{}: {word}", number + 1));
                }
            }
        }
    }
    assert!(
        found.is_empty(),
        "{} banned words in the docs; use the glossary of ARCHITECTURE.md:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn files_are_named_by_their_subject() {
    let found: Vec<_> = rust_files()
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            BANNED_FILES.contains(&name.as_ref())
        })
        .collect();
    assert!(found.is_empty(), "these names hide what is in them: {found:?}");
}

/// The type that a line declares at the level of a module; those within functions are local.
fn declared_type(line: &str) -> Option<&str> {
    if line.starts_with(char::is_whitespace) {
        return None;
    }
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    let mut word = words.next()?;
    if word == "in" {
        // `pub(in path) struct`: the path is one word, with its parenthesis.
        word = words.nth(1)?;
    }
    if !matches!(word, "struct" | "enum" | "trait" | "union") {
        return None;
    }
    let name = words.next()?;
    name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

#[test]
fn type_has_one_meaning_in_its_crate() {
    let mut found = Vec::new();
    for tree in TREES {
        let sources = root().join(tree).join("src");
        let sources = if *tree == "src" { root().join(tree) } else { sources };
        if !sources.is_dir() {
            continue;
        }
        let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for path in files(&sources, "rs") {
            // Tests have small types of their own.
            if path.to_string_lossy().contains("tests") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
            for name in code.lines().filter_map(declared_type) {
                let path = path.strip_prefix(root()).unwrap().display().to_string();
                declared.entry(name.to_owned()).or_default().push(path);
            }
        }
        for (name, places) in declared {
            if places.len() > 1 && !SHARED_TYPE_NAMES.contains(&name.as_str()) {
                found.push(format!("{name}: {}", places.join(", ")));
            }
        }
    }
    assert!(found.is_empty(), "one type name, one meaning in a crate:\n{}", found.join("\n"));
}
