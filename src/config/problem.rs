//! Problems of a configuration, each with its location.

use std::fmt;
use std::path::{Path, PathBuf};

/// Location of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line of the file.
    Line(usize),
    /// An environment variable.
    Variable(String),
}

/// A problem with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Location.
    pub place: Place,
    /// Description, as a sentence.
    pub message: String,
}

/// The configuration could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The file or the environment has problems.
    #[error("{}", Listed(file, problems))]
    Invalid {
        /// The file.
        file: PathBuf,
        /// All problems; never empty.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    pub(super) fn invalid(file: &Path, problems: Vec<Problem>) -> Self {
        Self::Invalid { file: file.to_owned(), problems }
    }
}

impl Problem {
    /// Formats the problem as `location: message`, as compilers do.
    #[must_use]
    pub fn line(&self, file: &Path) -> String {
        match &self.place {
            Place::Line(line) => format!("{}:{line}: {}", file.display(), self.message),
            Place::Variable(name) => format!("{name}: {}", self.message),
        }
    }
}

/// Formats problems, one per line.
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
