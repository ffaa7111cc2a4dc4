//! The token file `data/a2a-tokens.json`, written by `openclaw-a2a token`, mode 0600.
//!
//! It holds hashes: reading it grants no access, writing it does. It is replaced atomically by a
//! rename, so a reader never sees half of it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Credential, Principal, TokenHash, Tokens};

/// The format this version writes and reads.
const VERSION: u32 = 1;

/// Path of the token file.
#[derive(Debug, Clone)]
pub struct TokenFile(PathBuf);

/// One entry of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredToken {
    /// The short id shown to people.
    pub id: String,
    sha256: TokenHash,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
    /// When it was created.
    pub created: DateTime<Utc>,
    /// When it expires; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<DateTime<Utc>>,
    /// A note of its creator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    tokens: Vec<StoredToken>,
}

/// Parsed before the rest, to recognize a newer format.
#[derive(Deserialize)]
struct VersionProbe {
    version: u32,
}

/// The token file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It could not be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It could not be written.
    #[error("cannot write {}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is not valid JSON of this format.
    #[error("{} is damaged ({source}); put a copy back, or delete it and make new tokens", file.display())]
    Parse {
        /// The file.
        file: PathBuf,
        /// The position and the cause.
        source: serde_json::Error,
    },
    /// A later version wrote it.
    #[error(
        "{} was written by a newer version of this program: the tokens have format {version}, and openclaw-a2a {} knows formats up to {VERSION}. Nothing was changed. Use the newer version, or restore a backup made before the upgrade",
        file.display(), env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// The file.
        file: PathBuf,
        /// Its format.
        version: u32,
    },
    /// An entry is not valid.
    #[error("{}: token {id}: {reason}", file.display())]
    Entry {
        /// The file.
        file: PathBuf,
        /// The token id.
        id: String,
        /// The violated rule.
        reason: String,
    },
}

impl StoredToken {
    /// A new entry.
    #[must_use]
    pub fn new(
        hash: TokenHash,
        principal: &Principal,
        created: DateTime<Utc>,
        expires: Option<DateTime<Utc>>,
        note: Option<String>,
    ) -> Self {
        let (mut agent, mut client, mut operator) = (None, None, None);
        match principal {
            Principal::Agent(name) => agent = Some(name.to_string()),
            Principal::Client(name) => client = Some(name.to_string()),
            Principal::Operator(name) => operator = Some(name.to_string()),
        }
        Self { id: hash.id(), sha256: hash, agent, client, operator, created, expires, note }
    }

    /// The holder.
    ///
    /// # Errors
    /// When the entry names no holder, several, or a bad name.
    pub fn principal(&self) -> Result<Principal, super::BadPrincipal> {
        Principal::named(self.agent.as_deref(), self.client.as_deref(), self.operator.as_deref())
    }
}

impl TokenFile {
    /// The file below a state folder.
    #[must_use]
    pub fn below(state: &Path) -> Self {
        Self(state.join("data/a2a-tokens.json"))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its entries; `None` when there is no file.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn read(&self) -> Result<Option<Vec<StoredToken>>, TokenFileError> {
        let text = match std::fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(TokenFileError::Read { file: self.0.clone(), source }),
        };
        let damaged = |source| TokenFileError::Parse { file: self.0.clone(), source };
        let VersionProbe { version } = serde_json::from_slice(&text).map_err(damaged)?;
        if version != VERSION {
            return Err(TokenFileError::Version { file: self.0.clone(), version });
        }
        let document: Document = serde_json::from_slice(&text).map_err(damaged)?;
        Ok(Some(document.tokens))
    }

    /// Its entries as a lookup table.
    ///
    /// # Errors
    /// When it cannot be read, or an entry is not valid.
    pub fn tokens(&self) -> Result<Option<Tokens>, TokenFileError> {
        let Some(stored) = self.read()? else { return Ok(None) };
        let mut tokens = Tokens::default();
        for token in stored {
            let bad = |reason| {
                let (file, id) = (self.0.clone(), token.id.clone());
                TokenFileError::Entry { file, id, reason }
            };
            let principal = token.principal().map_err(|error| bad(error.to_string()))?;
            let credential = Credential { principal, expires: token.expires };
            if !tokens.insert(token.sha256, credential) {
                return Err(bad("it is there twice".to_owned()));
            }
        }
        Ok(Some(tokens))
    }

    /// Changes the entries under a file lock; if `change` fails nothing is written.
    ///
    /// # Errors
    /// When the file cannot be read or written, or the error of `change`.
    pub fn change<T, E: From<TokenFileError>>(
        &self,
        change: impl FnOnce(&mut Vec<StoredToken>) -> Result<T, E>,
    ) -> Result<T, E> {
        let unwritten = |source| TokenFileError::Write { file: self.0.clone(), source };
        // Held until the end of the function; the system releases it if the process dies.
        let _lock = self.lock().map_err(unwritten)?;
        let mut tokens = self.read()?.unwrap_or_default();
        let done = change(&mut tokens)?;
        self.write(&Document { version: VERSION, tokens }).map_err(unwritten)?;
        Ok(done)
    }

    fn lock(&self) -> io::Result<File> {
        if let Some(folder) = self.0.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let lock = private().create(true).write(true).open(self.0.with_extension("lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    fn write(&self, document: &Document) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(document)?;
        text.push(b'\n');
        let aside = self.0.with_extension("json.new");
        // A leftover might have other permissions.
        match std::fs::remove_file(&aside) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = private().create_new(true).write(true).open(&aside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&aside, &self.0)?;
        match self.0.parent() {
            // A revocation must survive a power failure.
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn token(secret: &str) -> StoredToken {
        let principal = Principal::client("acme").unwrap();
        StoredToken::new(TokenHash::of(secret), &principal, Utc::now(), None, None)
    }

    #[test]
    fn what_was_written_is_read_and_only_its_owner_may() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::below(folder.path());
        assert!(file.tokens().unwrap().is_none());
        file.change(|tokens| {
            tokens.push(token("oca_secret"));
            Ok::<_, TokenFileError>(())
        })
        .unwrap();
        let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!std::fs::read_to_string(file.path()).unwrap().contains("oca_secret"));
        let known = file.tokens().unwrap().unwrap();
        let found = known.get(&TokenHash::of("oca_secret")).unwrap();
        assert_eq!(found.principal.to_string(), "client:acme");
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::below(folder.path());
        let refused = file.change(|tokens| {
            tokens.push(token("x"));
            Err::<(), _>(TokenFileError::Version { file: "x".into(), version: 7 })
        });
        assert!(refused.is_err() && file.read().unwrap().is_none());
    }

    #[test]
    fn invalid_file_names_its_fault() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::below(folder.path());
        std::fs::create_dir_all(file.path().parent().unwrap()).unwrap();
        let entry = serde_json::to_string(&token("x")).unwrap();
        let unnamed = entry.replace("\"client\":\"acme\",", "");
        assert_ne!(unnamed, entry);
        for (text, word) in [
            ("{".to_owned(), "damaged"),
            ("{\"version\":2,\"tokens\":[],\"more\":1}".to_owned(), "format 2"),
            ("{\"version\":1,\"tokens\":[],\"more\":1}".to_owned(), "damaged"),
            (format!("{{\"version\":1,\"tokens\":[{unnamed}]}}"), "write one of"),
            (format!("{{\"version\":1,\"tokens\":[{entry},{entry}]}}"), "twice"),
        ] {
            std::fs::write(file.path(), &text).unwrap();
            let error = file.tokens().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
