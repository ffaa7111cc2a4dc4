use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::page::{Page, pages, root};

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let anchors: BTreeMap<_, _> =
        pages.iter().map(|page| (page.path.clone(), anchors(page))).collect();
    let (mut seen, mut broken) = (0, Vec::new());
    for page in &pages {
        for target in targets(&page.prose()) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() {
                page.path.clone()
            } else {
                tidy(&page.path.parent().unwrap().join(file))
            };
            let there = root().join(&path).exists();
            let anchored = anchor.is_empty()
                || anchors.get(&path).is_some_and(|known| known.iter().any(|it| it == anchor));
            if !there || !anchored {
                broken.push(format!("{}: {target}", page.name()));
            }
        }
    }
    assert!(seen > 50, "only {seen} links were found");
    assert!(broken.is_empty(), "these lead nowhere:\n{}", broken.join("\n"));
}

/// The content of the round brackets of `[…](…)`, outside of code.
fn targets(prose: &str) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in prose.split("\n\n") {
        // Every second piece is code.
        let text: String = paragraph.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for rest in text.split("](").skip(1) {
            found.extend(rest.split(')').next().map(|it| it.trim().to_owned()));
        }
    }
    found
}

fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                tidy.pop();
            }
            Component::CurDir => {}
            other => tidy.push(other),
        }
    }
    tidy
}

/// The names of its headings, as GitHub makes them.
fn anchors(page: &Page) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for line in page.prose().lines().filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let plain: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = anchors.iter().filter(|it| **it == plain).count();
        anchors.push(if again == 0 { plain } else { format!("{plain}-{again}") });
    }
    anchors
}

#[test]
fn headings_are_named_as_github_names_them() {
    let text = "# Tasks: the ledger\n## What `a2a.addr` says\n## Twice\n```sh\n# no heading\n```\n## Twice\n".to_owned();
    let page = Page { path: PathBuf::from("x.md"), text };
    assert_eq!(anchors(&page), ["tasks-the-ledger", "what-a2aaddr-says", "twice", "twice-1"]);
    assert_eq!(targets("See [a](b.md#c) and `[x](y)`,\n[d](#e)."), ["b.md#c", "#e"]);
}

/// A guarantee without its test is a claim.
#[test]
fn every_test_that_the_guarantees_name_is_there() {
    let text = std::fs::read_to_string(root().join("docs/guarantees.md")).unwrap();
    let named: Vec<_> =
        text.split('`').skip(1).step_by(2).filter(|it| it.ends_with(".rs")).collect();
    assert!(named.len() > 30, "{named:?}");
    let folders = ["", "tests/it", "journal/tests/it", "taskdb/tests/it", "backup/tests/it"]
        .map(|folder| root().join(folder));
    for name in named {
        assert!(folders.iter().any(|folder| folder.join(name).exists()), "there is no {name}");
    }
}
