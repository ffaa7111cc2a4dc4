//! Registry of the tokens that are valid now: those of the configuration and those of the token
//! file, which is reloaded when it changes.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_actors::BusSystem;
use a2a_policy::NameTaken;
use a2a_protocol::AgentId;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Conflict, Credential, Principal, TokenFile, TokenFileError, TokenHash, Tokens};

/// How often the file is checked for connected callers that send no request.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// How long the file must be unreadable before that is logged; a moment without descriptors is not.
const LASTING: Duration = Duration::from_secs(1);
/// Upper bound of one sleep until a token expires, after which the clock is read again.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// The tokens of a server, shared by all callers.
#[derive(Debug)]
pub struct TokenRegistry {
    file: TokenFile,
    file_state: Mutex<FileState>,
    known: watch::Sender<Known>,
}

/// State of the token file.
#[derive(Debug)]
struct FileState {
    /// Metadata of the file when it was last read successfully; a file that could not be read is
    /// tried again at the next check.
    stamp: Stamp,
    /// Since when it has been unreadable, and whether that was logged.
    unreadable: Option<(Instant, bool)>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    /// Whether tokens are required. Never reset while the server runs: removing the last token must
    /// not open the server.
    required: bool,
    made: Tokens,
    configured: Configured,
    /// Tokens that are refused because another token has their name.
    conflicts: HashMap<TokenHash, NameTaken>,
    /// Clients that are refused because an agent of the bus has their name.
    taken: HashMap<AgentId, NameTaken>,
}

/// A token that is known and refused because its name belongs to another holder.
#[derive(Debug, Clone)]
pub struct RefusedToken {
    /// The short id shown to people.
    pub id: String,
    /// The holder.
    pub principal: Principal,
    /// The other holder of the name.
    pub taken: NameTaken,
}

/// Tokens and listed agents of the configuration.
#[derive(Debug, Clone, Default)]
struct Configured {
    tokens: Tokens,
    listed: Vec<AgentId>,
}

impl Known {
    fn get(&self, key: &TokenHash) -> Option<&Credential> {
        self.configured.tokens.get(key).or_else(|| self.made.get(key))
    }

    /// Why a known token is refused; `None` if it is not.
    fn refusal(&self, key: &TokenHash, principal: &Principal) -> Option<&NameTaken> {
        let client = match principal {
            Principal::Client(client) => self.taken.get(client),
            _ => None,
        };
        self.conflicts.get(key).or(client)
    }

    fn clients(&self) -> Vec<AgentId> {
        let mut clients = [self.configured.tokens.clients(), self.made.clients()].concat();
        clients.sort();
        clients.dedup();
        clients
    }
}

/// Metadata that shows whether a file was replaced or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamp {
    Never,
    Absent,
    There { inode: u64, bytes: u64, seconds: i64, nanoseconds: i64 },
}

/// Result of a token check.
#[derive(Debug)]
pub enum TokenCheck {
    /// No token is required.
    Open(AuthGrant),
    /// A valid token.
    Known(Principal, AuthGrant),
    /// A token is required, and none was shown.
    Missing,
    /// The token is not known.
    Unknown,
    /// The token expired at that time.
    Expired(DateTime<Utc>),
    /// The token is known, and its name belongs to another holder.
    NameTaken(NameTaken),
}

/// Proof of a successful check, which ends with the token.
#[derive(Debug, Clone)]
pub struct AuthGrant {
    registry: Arc<TokenRegistry>,
    /// `None` when no token was required.
    key: Option<TokenHash>,
}

impl TokenRegistry {
    /// Reads the token file for the first time. `listed` are the agents of the configuration.
    ///
    /// # Errors
    /// When the file is damaged or contradicts the configuration.
    pub fn open(
        tokens: Tokens,
        listed: Vec<AgentId>,
        file: TokenFile,
    ) -> Result<Self, TokenFileError> {
        let known = watch::Sender::new(Known::default());
        let file_state = Mutex::new(FileState { stamp: Stamp::Never, unreadable: None });
        let registry = Self { file, file_state, known };
        registry.reconfigure(tokens, listed)?;
        Ok(registry)
    }

    /// Replaces the tokens of the configuration and reads the token file again. Grants of tokens
    /// that are no longer valid end.
    ///
    /// # Errors
    /// When the file is damaged or contradicts the configuration; nothing has changed then.
    pub fn reconfigure(&self, tokens: Tokens, listed: Vec<AgentId>) -> Result<(), TokenFileError> {
        let mut file_state = self.file_state.lock();
        let now = self.stat()?;
        let known = self.read(Configured { tokens, listed })?;
        *file_state = FileState { stamp: now, unreadable: None };
        self.replace(known);
        Ok(())
    }

    /// Whether there is any token that is valid or could become so.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        let known = self.known.borrow();
        !known.configured.tokens.is_empty() || !known.made.is_empty()
    }

    /// Checks a token. A changed file is reloaded first, so a token that was revoked before this
    /// call is refused.
    pub fn check(self: &Arc<Self>, token: Option<&str>, now: DateTime<Utc>) -> TokenCheck {
        self.refresh();
        let grant = |key| AuthGrant { registry: Arc::clone(self), key };
        let Some(token) = token else {
            return if self.known.borrow().required {
                TokenCheck::Missing
            } else {
                TokenCheck::Open(grant(None))
            };
        };
        let hash = TokenHash::of(token);
        let known = self.known.borrow();
        if !known.required {
            return TokenCheck::Open(grant(None));
        }
        match known.get(&hash) {
            None => TokenCheck::Unknown,
            Some(found) => match found.expires.filter(|expires| *expires <= now) {
                Some(expired) => TokenCheck::Expired(expired),
                None => match known.refusal(&hash, &found.principal) {
                    Some(taken) => TokenCheck::NameTaken(taken.clone()),
                    None => TokenCheck::Known(found.principal.clone(), grant(Some(hash))),
                },
            },
        }
    }

    /// The clients that have a token, valid or not.
    #[must_use]
    pub fn clients(&self) -> Vec<AgentId> {
        self.known.borrow().clients()
    }

    /// Every token that is known and refused because its name belongs to another holder.
    #[must_use]
    pub fn refused(&self) -> Vec<RefusedToken> {
        let known = self.known.borrow();
        let all = known.configured.tokens.iter().chain(known.made.iter());
        all.filter_map(|(hash, credential)| {
            let taken = known.refusal(hash, &credential.principal)?.clone();
            Some(RefusedToken { id: hash.id(), principal: credential.principal.clone(), taken })
        })
        .collect()
    }

    /// Background task: reloads the file when it changes, until the bus stops, and claims the names
    /// of clients on the bus. A client whose name an agent has is refused; no agent can take a
    /// claimed name.
    pub async fn watch(self: Arc<Self>, bus: BusSystem) {
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        let mut claimed = None;
        loop {
            ticks.tick().await;
            self.refresh();
            let clients = self.clients();
            // An agent in the way may have been removed meanwhile.
            if claimed.as_ref() == Some(&clients) && self.known.borrow().taken.is_empty() {
                continue;
            }
            let Some(taken) = bus.claim_names(clients.clone()).await else { return };
            claimed = Some(clients);
            self.note_taken(taken);
        }
    }

    fn note_taken(&self, taken: Vec<NameTaken>) {
        let taken = taken.into_iter().filter_map(|taken| Some((taken.name.parse().ok()?, taken)));
        let taken: HashMap<AgentId, NameTaken> = taken.collect();
        self.known.send_if_modified(|known| {
            for (name, why) in &taken {
                if !known.taken.contains_key(name) {
                    tracing::error!(client = %name, "the tokens of a client are refused: {why}");
                }
            }
            let changed = known.taken != taken;
            known.taken = taken;
            changed
        });
    }

    /// Reloads the file if it changed; the check is one `stat`, about a microsecond.
    fn refresh(&self) {
        let mut file_state = self.file_state.lock();
        let now = match self.stat() {
            Ok(now) if now == file_state.stamp && file_state.unreadable.is_none() => return,
            Ok(now) => now,
            Err(error) => return file_state.fails(&error),
        };
        let configured = self.known.borrow().configured.clone();
        let known = match self.read(configured.clone()) {
            Ok(known) => known,
            // The system could not read it: out of descriptors, or of memory. The tokens known
            // before stay valid until it can; what was revoked meanwhile is refused then.
            Err(error @ TokenFileError::Read { .. }) => return file_state.fails(&error),
            Err(error) => {
                // Which tokens were revoked cannot be determined, so none is valid.
                tracing::error!(%error, "no token of the token file is accepted");
                Known { required: true, configured, ..Known::default() }
            }
        };
        file_state.succeeds(now);
        self.replace(known);
    }

    /// Replaces the known tokens; the name conflicts that the bus reported stay until its next
    /// report.
    fn replace(&self, known: Known) {
        self.known.send_modify(|old| {
            let taken = std::mem::take(&mut old.taken);
            *old = Known { required: old.required || known.required, taken, ..known };
        });
    }

    /// Whether the token file could be read at the last check.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.file_state.lock().unreadable.is_none()
    }

    fn read(&self, configured: Configured) -> Result<Known, TokenFileError> {
        let made = self.file.tokens()?;
        let required = made.is_some() || !configured.tokens.is_empty();
        let made = made.unwrap_or_default();
        let mut conflicts = HashMap::new();
        for conflict in configured.tokens.conflicts(&made, &configured.listed) {
            let (id, refuses) = (conflict.hash.id(), conflict.refuses());
            let Conflict { hash, principal, taken } = conflict;
            if !refuses {
                tracing::warn!(token = id, "two holders of tokens have one name: {taken}");
            } else if configured.tokens.get(&hash).is_some() {
                let (file, reason) = (self.file.path().to_owned(), taken.to_string());
                return Err(TokenFileError::Entry { file, id, reason });
            } else {
                tracing::error!(token = id, %principal, "a token is refused: {taken}");
                conflicts.insert(hash, taken);
            }
        }
        Ok(Known { required, made, configured, conflicts, taken: HashMap::new() })
    }

    fn stat(&self) -> Result<Stamp, TokenFileError> {
        match std::fs::metadata(self.file.path()) {
            Ok(found) => Ok(Stamp::There {
                inode: found.ino(),
                bytes: found.len(),
                seconds: found.mtime(),
                nanoseconds: found.mtime_nsec(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Stamp::Absent),
            Err(source) => Err(TokenFileError::Read { file: self.file.path().to_owned(), source }),
        }
    }

    /// Whether this token is valid, and until when.
    fn is_good(&self, key: Option<&TokenHash>) -> Option<Option<DateTime<Utc>>> {
        let known = self.known.borrow();
        match key {
            None => (!known.required).then_some(None),
            Some(key) => {
                let found = known.get(key)?;
                if known.refusal(key, &found.principal).is_some() {
                    return None;
                }
                (!found.is_expired(Utc::now())).then_some(found.expires)
            }
        }
    }
}

impl FileState {
    fn succeeds(&mut self, now: Stamp) {
        if let Some((since, true)) = self.unreadable {
            let seconds = since.elapsed().as_secs();
            tracing::info!(seconds, "the token file can be read again");
        }
        *self = Self { stamp: now, unreadable: None };
    }

    fn fails(&mut self, error: &TokenFileError) {
        let (since, logged) = self.unreadable.unwrap_or((Instant::now(), false));
        let lasts = since.elapsed() >= LASTING;
        if lasts && !logged {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            tracing::error!(%error, cause, "the token file cannot be read; the tokens known before stay good, changes wait until it can");
        }
        self.unreadable = Some((since, logged || lasts));
    }
}

impl AuthGrant {
    /// Resolves when the token is revoked or expires, or when tokens become required. Streams and
    /// waiting calls of this grant must then be closed.
    pub async fn until_revoked(self) {
        let mut changes = self.registry.known.subscribe();
        while let Some(expires) = self.registry.is_good(self.key.as_ref()) {
            let left = expires.map(|expires| (expires - Utc::now()).to_std().unwrap_or_default());
            let wait = left.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
            tokio::select! {
                // The sender lives in the registry, which this grant keeps alive.
                _ = changes.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::super::StoredToken;
    use super::*;

    fn registry(folder: &std::path::Path) -> (Arc<TokenRegistry>, TokenFile) {
        let file = TokenFile::below(folder);
        let registry = TokenRegistry::open(Tokens::default(), Vec::new(), file.clone()).unwrap();
        (Arc::new(registry), file)
    }

    fn add(file: &TokenFile, secret: &str, expires: Option<DateTime<Utc>>) {
        let principal = Principal::agent("roman").unwrap();
        let hash = TokenHash::of(secret);
        let token = StoredToken::new(hash, &principal, Utc::now(), expires, None);
        let done = file.change(|tokens| {
            tokens.push(token);
            Ok::<_, TokenFileError>(())
        });
        done.unwrap();
    }

    fn clear(file: &TokenFile) {
        let done = file.change(|tokens| {
            tokens.clear();
            Ok::<_, TokenFileError>(())
        });
        done.unwrap();
    }

    #[test]
    fn a_change_of_the_file_counts_from_the_next_call_on() {
        let folder = tempfile::tempdir().unwrap();
        let (registry, file) = registry(folder.path());
        let now = Utc::now();
        assert!(matches!(registry.check(None, now), TokenCheck::Open(_)));
        add(&file, "a", None);
        assert!(matches!(registry.check(None, now), TokenCheck::Missing));
        assert!(matches!(
            registry.check(Some("a"), now),
            TokenCheck::Known(Principal::Agent(_), _)
        ));
        assert!(matches!(registry.check(Some("b"), now), TokenCheck::Unknown));
        add(&file, "b", Some(now));
        assert!(matches!(registry.check(Some("b"), now), TokenCheck::Expired(at) if at == now));
        let before = now - TimeDelta::seconds(1);
        assert!(matches!(registry.check(Some("b"), before), TokenCheck::Known(..)));
    }

    #[test]
    fn revoking_the_last_token_keeps_the_server_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (registry, file) = registry(folder.path());
        add(&file, "a", None);
        clear(&file);
        assert!(matches!(registry.check(Some("a"), Utc::now()), TokenCheck::Unknown));
        assert!(matches!(registry.check(None, Utc::now()), TokenCheck::Missing));
        std::fs::remove_file(file.path()).unwrap();
        assert!(
            matches!(registry.check(None, Utc::now()), TokenCheck::Missing),
            "until a new start"
        );
        assert!(!registry.has_tokens());
    }

    #[test]
    fn damaged_file_refuses_every_token() {
        let folder = tempfile::tempdir().unwrap();
        let (registry, file) = registry(folder.path());
        add(&file, "a", None);
        assert!(matches!(registry.check(Some("a"), Utc::now()), TokenCheck::Known(..)));
        std::fs::write(file.path(), "{").unwrap();
        assert!(matches!(registry.check(Some("a"), Utc::now()), TokenCheck::Unknown));
        assert!(matches!(registry.check(None, Utc::now()), TokenCheck::Missing));
        assert!(TokenRegistry::open(Tokens::default(), Vec::new(), file).is_err());
    }

    /// A folder in place of the file: it exists, and reading it fails.
    #[test]
    fn a_file_that_cannot_be_read_changes_nothing_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let (registry, file) = registry(folder.path());
        add(&file, "a", None);
        add(&file, "b", None);
        let is_known =
            |secret| matches!(registry.check(Some(secret), Utc::now()), TokenCheck::Known(..));
        assert!(is_known("a") && is_known("b") && registry.is_readable());
        let aside = folder.path().join("aside");
        std::fs::rename(file.path(), &aside).unwrap();
        std::fs::create_dir(file.path()).unwrap();
        assert!(is_known("a") && is_known("b"), "the tokens known before");
        assert!(!is_known("c") && !registry.is_readable());
        std::fs::remove_dir(file.path()).unwrap();
        std::fs::rename(&aside, file.path()).unwrap();
        // The same file as before, and another one.
        assert!(is_known("a") && registry.is_readable());
        clear(&file);
        add(&file, "c", None);
        assert!(is_known("c") && !is_known("a") && !is_known("b"));
    }

    fn configured(secret: &str) -> Tokens {
        let mut tokens = Tokens::default();
        let principal = Principal::client("acme").unwrap();
        tokens.insert(TokenHash::of(secret), Credential { principal, expires: None });
        tokens
    }

    #[test]
    fn another_configuration_brings_tokens_and_takes_them_away() {
        let folder = tempfile::tempdir().unwrap();
        let (registry, file) = registry(folder.path());
        let now = Utc::now();
        registry.reconfigure(configured("x"), Vec::new()).unwrap();
        assert!(matches!(registry.check(None, now), TokenCheck::Missing));
        assert!(matches!(
            registry.check(Some("x"), now),
            TokenCheck::Known(Principal::Client(_), _)
        ));
        // It is noticed that the file changed, and what was configured stays.
        add(&file, "a", None);
        assert!(matches!(registry.check(Some("a"), now), TokenCheck::Known(..)));
        assert!(matches!(registry.check(Some("x"), now), TokenCheck::Known(..)));
        let listed = vec!["acme".parse().unwrap()];
        assert!(registry.reconfigure(configured("y"), listed).is_err(), "an agent and a client");
        assert!(
            matches!(registry.check(Some("x"), now), TokenCheck::Known(..)),
            "nothing has changed"
        );
        registry.reconfigure(Tokens::default(), Vec::new()).unwrap();
        assert!(matches!(registry.check(Some("x"), now), TokenCheck::Unknown));
        clear(&file);
        assert!(
            matches!(registry.check(None, now), TokenCheck::Missing),
            "tokens are still asked for"
        );
    }

    #[tokio::test]
    async fn a_pass_ends_when_the_configuration_takes_its_token_away() {
        let folder = tempfile::tempdir().unwrap();
        let (registry, _) = registry(folder.path());
        registry.reconfigure(configured("x"), Vec::new()).unwrap();
        let TokenCheck::Known(_, grant) = registry.check(Some("x"), Utc::now()) else {
            panic!("unknown")
        };
        let waiting = tokio::spawn(grant.until_revoked());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        registry.reconfigure(configured("y"), Vec::new()).unwrap();
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn a_pass_ends_with_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let (registry, file) = registry(folder.path());
        let TokenCheck::Open(open_grant) = registry.check(None, Utc::now()) else {
            panic!("asked")
        };
        add(&file, "a", None);
        add(&file, "late", Some(Utc::now() - TimeDelta::seconds(1)));
        let TokenCheck::Known(_, grant) = registry.check(Some("a"), Utc::now()) else {
            panic!("unknown")
        };
        open_grant.until_revoked().await;
        let waiting = tokio::spawn(grant.until_revoked());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        clear(&file);
        registry.refresh();
        waiting.await.unwrap();
        let expired = AuthGrant { registry, key: Some(TokenHash::of("late")) };
        expired.until_revoked().await;
    }
}
