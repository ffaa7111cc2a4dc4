//! What is wrong with a configuration: all of it at once, each with its place.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where something is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this line of the file.
    Line(usize),
    /// By this variable of the environment.
    Variable(String),
}

/// One thing that is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What, in a sentence.
    pub message: String,
}

/// The configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file.
    #[error("cannot read {}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What it says, or the environment.
    #[error("{}", Listed(file, problems))]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What is wrong; there is at least one.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    pub(super) fn invalid(file: &Path, problems: Vec<Problem>) -> Self {
        Self::Invalid { file: file.to_owned(), problems }
    }
}

impl Problem {
    /// The problem on a line of its own, with the place first, as compilers write it.
    #[must_use]
    pub fn line(&self, file: &Path) -> String {
        match &self.place {
            Place::Line(line) => format!("{}:{line}: {}", file.display(), self.message),
            Place::Variable(name) => format!("{name}: {}", self.message),
        }
    }
}

/// Problems of one file, a line each.
struct Listed<'a>(&'a Path, &'a [Problem]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.1.iter().enumerate() {
            let end = if n == 0 { "" } else { "\n" };
            write!(f, "{end}{}", problem.line(self.0))?;
        }
        Ok(())
    }
}
