use std::path::{Path, PathBuf};

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One page, and where it is below the root of the repository.
pub(super) struct Page {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A fenced block.
pub(super) struct Block<'a> {
    /// The word behind the fence, such as `sh`.
    pub(super) sort: &'a str,
    pub(super) content: String,
    /// The line of its fence, from 1.
    pub(super) line: usize,
    /// The HTML comment just before it, without its marks.
    pub(super) note: Option<&'a str>,
}

/// Everything that people read: the pages at the top, and docs/.
pub(super) fn pages() -> Vec<Page> {
    let mut paths: Vec<_> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(PathBuf::from)
        .into();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let read =
        |path: PathBuf| Page { text: std::fs::read_to_string(root().join(&path)).unwrap(), path };
    paths.into_iter().map(read).collect()
}

impl Page {
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Every fenced block. One that is not closed fails the test.
    pub(super) fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines().enumerate();
        let mut before = None;
        while let Some((number, line)) = lines.next() {
            let Some(sort) = line.strip_prefix("```") else {
                if !line.trim().is_empty() {
                    before = Some(line);
                }
                continue;
            };
            let mut content = String::new();
            loop {
                let Some((_, line)) = lines.next() else {
                    panic!("{}:{}: the block has no end", self.name(), number + 1)
                };
                if line == "```" {
                    break;
                }
                content.push_str(line);
                content.push('\n');
            }
            let note = before.take().and_then(|line| line.trim().strip_prefix("<!--"));
            let note = note.and_then(|note| note.strip_suffix("-->")).map(str::trim);
            blocks.push(Block { sort: sort.trim(), content, line: number + 1, note });
        }
        blocks
    }

    /// The text without fenced blocks.
    pub(super) fn prose(&self) -> String {
        let mut inside = false;
        let mut prose = String::new();
        for line in self.text.lines() {
            let fence = line.starts_with("```");
            inside ^= fence;
            if !inside && !fence {
                prose.push_str(line);
            }
            prose.push('\n');
        }
        prose
    }
}
