//! The tokens a running server knows, now: those of the configuration, and those of the token
//! file, which may change at any moment.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use a2a_actors::BusSystem;
use a2a_policy::NameTaken;
use a2a_protocol::AgentId;
use chrono::{DateTime, Utc};
use tokio::sync::watch;

use super::{Conflict, Credential, Principal, TokenFile, TokenFileError, TokenHash, Tokens};

/// How often the file is looked at for the sake of those who are connected and ask nothing.
const LOOK: Duration = Duration::from_millis(250);
/// How long the file must be unreadable before that is logged: a moment without descriptors is none
/// of a person's business.
const LASTING: Duration = Duration::from_secs(1);
/// The longest that is waited for a token to expire before the clock is read again.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// The tokens a server knows.
#[derive(Debug)]
pub struct TokenRegistry {
    file: TokenFile,
    looked: Mutex<Looked>,
    known: watch::Sender<Known>,
}

/// What is known of the file.
#[derive(Debug)]
struct Looked {
    /// What it looked like when it was last read. Only what was read counts: a file that could not
    /// be read is tried again at the next look.
    stamp: Stamp,
    /// Since when it has been unreadable, and whether that was logged.
    unreadable: Option<(Instant, bool)>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    /// Whether anybody is asked for a token. Once it is so it stays so: whoever removes the last
    /// token wants nobody in, not everybody.
    asks: bool,
    made: Tokens,
    configured: Configured,
    /// Tokens that are refused, because their names are taken by other tokens.
    conflicts: HashMap<TokenHash, NameTaken>,
    /// Clients that are refused, because the bus has an agent of that name.
    taken: HashMap<AgentId, NameTaken>,
}

/// A token that is known and refused, because its name stands for something else.
#[derive(Debug, Clone)]
pub struct RefusedToken {
    /// What people call the token by.
    pub id: String,
    /// Whose it is.
    pub principal: Principal,
    /// What is in the way.
    pub taken: NameTaken,
}

/// What the configuration says: its tokens, and the agents that are listed.
#[derive(Debug, Clone, Default)]
struct Configured {
    tokens: Tokens,
    listed: Vec<AgentId>,
}

impl Known {
    fn get(&self, key: &TokenHash) -> Option<&Credential> {
        self.configured.tokens.get(key).or_else(|| self.made.get(key))
    }

    /// Why a token is refused that is known.
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

/// Enough of a file to see that it was replaced or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamp {
    Never,
    Absent,
    There { inode: u64, bytes: u64, seconds: i64, nanoseconds: i64 },
}

/// What a caller turned out to be.
#[derive(Debug)]
pub enum TokenCheck {
    /// Nobody is asked for a token here.
    Open(AuthGrant),
    /// A good token.
    Known(Principal, AuthGrant),
    /// A token is asked for, and none was shown.
    Missing,
    /// The token is not known.
    Unknown,
    /// The token was good until then.
    Expired(DateTime<Utc>),
    /// The token is known, and its name is taken.
    NameTaken(NameTaken),
}

/// That a caller was let in, and for how long that holds.
#[derive(Debug, Clone)]
pub struct AuthGrant {
    registry: Arc<TokenRegistry>,
    /// `None` for one who needed no token.
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
        let looked = Mutex::new(Looked { stamp: Stamp::Never, unreadable: None });
        let registry = Self { file, looked, known };
        registry.reconfigure(tokens, listed)?;
        Ok(registry)
    }

    /// Takes what the configuration says now in place of what it said before; the token file is
    /// read again as well. Whoever came in with a token that is good no more is let go.
    ///
    /// # Errors
    /// When the file is damaged or contradicts the configuration; nothing has changed then.
    pub fn reconfigure(&self, tokens: Tokens, listed: Vec<AgentId>) -> Result<(), TokenFileError> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.look()?;
        let known = self.read(Configured { tokens, listed })?;
        *looked = Looked { stamp: now, unreadable: None };
        self.replace(known);
        Ok(())
    }

    /// Whether there is any token with which somebody could come in.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        let known = self.known.borrow();
        !known.configured.tokens.is_empty() || !known.made.is_empty()
    }

    /// Lets a caller in, or says why not. A changed file is noticed first: a token that was
    /// revoked before this call is not good in it.
    pub fn check(self: &Arc<Self>, token: Option<&str>, now: DateTime<Utc>) -> TokenCheck {
        self.refresh();
        let grant = |key| AuthGrant { registry: Arc::clone(self), key };
        let Some(token) = token else {
            return if self.known.borrow().asks {
                TokenCheck::Missing
            } else {
                TokenCheck::Open(grant(None))
            };
        };
        let hash = TokenHash::of(token);
        let known = self.known.borrow();
        if !known.asks {
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

    /// The clients that have a token, whether it is good or not.
    #[must_use]
    pub fn clients(&self) -> Vec<AgentId> {
        self.known.borrow().clients()
    }

    /// Every token that is known and refused, because its name stands for something else.
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

    /// Looks at the file again and again, until nobody needs it, and claims the names of clients
    /// on the bus: one that an agent has is refused, and no agent can take one from then on.
    pub async fn watch(self: Arc<Self>, bus: BusSystem) {
        let mut ticks = tokio::time::interval(LOOK);
        let mut claimed = None;
        loop {
            ticks.tick().await;
            self.refresh();
            let clients = self.clients();
            // An agent that was in the way may have been removed meanwhile.
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

    /// Reads the file if it changed; asking the system whether it did takes about a microsecond.
    fn refresh(&self) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let now = match self.look() {
            Ok(now) if now == looked.stamp && looked.unreadable.is_none() => return,
            Ok(now) => now,
            Err(error) => return looked.fails(&error),
        };
        let configured = self.known.borrow().configured.clone();
        let known = match self.read(configured.clone()) {
            Ok(known) => known,
            // The system could not read it: out of descriptors, or of memory. The tokens that were
            // good stay good until it can; what was revoked meanwhile is refused then.
            Err(error @ TokenFileError::Read { .. }) => return looked.fails(&error),
            Err(error) => {
                // Which tokens were revoked cannot be known, so none of them is good.
                tracing::error!(%error, "no token of the token file is accepted");
                Known { asks: true, configured, ..Known::default() }
            }
        };
        looked.succeeds(now);
        self.replace(known);
    }

    /// What is known from now on. What the bus said of names holds until it says otherwise.
    fn replace(&self, known: Known) {
        self.known.send_modify(|old| {
            let taken = std::mem::take(&mut old.taken);
            *old = Known { asks: old.asks || known.asks, taken, ..known };
        });
    }

    /// Whether the token file could be read when it was last looked at.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).unreadable.is_none()
    }

    fn read(&self, configured: Configured) -> Result<Known, TokenFileError> {
        let made = self.file.tokens()?;
        let asks = made.is_some() || !configured.tokens.is_empty();
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
        Ok(Known { asks, made, configured, conflicts, taken: HashMap::new() })
    }

    fn look(&self) -> Result<Stamp, TokenFileError> {
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

    /// Whether this key is good, and until when.
    fn is_good(&self, key: Option<&TokenHash>) -> Option<Option<DateTime<Utc>>> {
        let known = self.known.borrow();
        match key {
            None => (!known.asks).then_some(None),
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

impl Looked {
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
    /// Ends when the token is revoked or expires, or when tokens begin to be asked for: whatever
    /// was opened with this grant must then be closed.
    pub async fn until_revoked(self) {
        let mut changes = self.registry.known.subscribe();
        while let Some(expires) = self.registry.is_good(self.key.as_ref()) {
            let left = expires.map(|expires| (expires - Utc::now()).to_std().unwrap_or_default());
            let wait = left.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
            tokio::select! {
                // The sender lives in the registry, which lives in this grant.
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
    fn who_revokes_the_last_token_lets_nobody_in() {
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
    fn a_damaged_file_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let (registry, file) = registry(folder.path());
        add(&file, "a", None);
        assert!(matches!(registry.check(Some("a"), Utc::now()), TokenCheck::Known(..)));
        std::fs::write(file.path(), "{").unwrap();
        assert!(matches!(registry.check(Some("a"), Utc::now()), TokenCheck::Unknown));
        assert!(matches!(registry.check(None, Utc::now()), TokenCheck::Missing));
        assert!(TokenRegistry::open(Tokens::default(), Vec::new(), file).is_err());
    }

    /// A folder in place of the file: it is there, and reading it fails.
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
        let TokenCheck::Open(anybody) = registry.check(None, Utc::now()) else { panic!("asked") };
        add(&file, "a", None);
        add(&file, "late", Some(Utc::now() - TimeDelta::seconds(1)));
        let TokenCheck::Known(_, grant) = registry.check(Some("a"), Utc::now()) else {
            panic!("unknown")
        };
        anybody.until_revoked().await;
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
