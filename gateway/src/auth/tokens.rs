//! Bearer tokens: hashes, principals, and conflicts between their names.
//!
//! Independent of HTTP: `auth/caller.rs` reads the header and builds the error response.

mod file;
mod registry;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use a2a_policy::{Directory, Holder, NameTaken, Names};
use a2a_protocol::{AgentId, BadAgentId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

pub use file::{StoredToken, TokenFile, TokenFileError};
pub use registry::{AuthGrant, RefusedToken, TokenCheck, TokenRegistry};

/// The agent id on the bus of A2A callers that have none of their own.
pub const UNNAMED_CLIENT: &str = "a2a-client";

/// Ids of the agents that come with the server; no A2A client can have one of them.
pub const BUILT_IN_AGENTS: [&str; 2] = ["openclaw", "conformance"];

/// The holder of a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Principal {
    /// An agent: it sends under its own id and reads its own inbox.
    Agent(AgentId),
    /// An A2A client: it sees the tasks it created, and nothing of the bus.
    Client(AgentId),
    /// A person: sees and cancels everything.
    Operator(Arc<str>),
}

/// The name cannot belong to a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPrincipal {
    /// Not a valid id.
    #[error("{what} = {text:?}: {source}")]
    Name {
        /// The field that holds the name.
        what: &'static str,
        /// The name.
        text: String,
        /// The violated rule.
        source: BadAgentId,
    },
    /// Reserved for the bus or for people.
    #[error("`{0}` is a name of the bus or of people, and no agent's; a person is an operator")]
    Reserved(AgentId),
    /// Reserved for callers without a name.
    #[error("`{UNNAMED_CLIENT}` is the name of callers that have none; choose another")]
    Unnamed,
    /// The id of a built-in agent.
    #[error("`{0}` is an agent that comes with the server; choose another name for the client")]
    BuiltIn(AgentId),
    /// Not a valid operator name.
    #[error("operator is a name of 1 to 64 letters, digits, . _ - @")]
    Operator,
    /// None of the three fields, or several.
    #[error("write one of agent = \"…\", client = \"…\" and operator = \"…\"")]
    NotOne,
}

impl Principal {
    /// The agent of this name.
    ///
    /// # Errors
    /// When the name is not a valid agent id.
    pub fn agent(text: &str) -> Result<Self, BadPrincipal> {
        name("agent", text).map(Self::Agent)
    }

    /// The A2A client of this name.
    ///
    /// # Errors
    /// When the name is not a valid client id.
    pub fn client(text: &str) -> Result<Self, BadPrincipal> {
        name("client", text).map(Self::Client)
    }

    /// The operator of this name.
    ///
    /// # Errors
    /// When the name is not a valid operator name.
    pub fn operator(text: &str) -> Result<Self, BadPrincipal> {
        let plain = |c: char| c.is_alphanumeric() || "._-@".contains(c);
        if text.is_empty() || text.chars().count() > 64 || !text.chars().all(plain) {
            return Err(BadPrincipal::Operator);
        }
        Ok(Self::Operator(text.into()))
    }

    /// The principal of the one field that is set.
    ///
    /// # Errors
    /// When none or several are set, or the name is not valid.
    pub fn named(
        agent: Option<&str>,
        client: Option<&str>,
        operator: Option<&str>,
    ) -> Result<Self, BadPrincipal> {
        match (agent, client, operator) {
            (Some(text), None, None) => Self::agent(text),
            (None, Some(text), None) => Self::client(text),
            (None, None, Some(text)) => Self::operator(text),
            _ => Err(BadPrincipal::NotOne),
        }
    }
}

impl Principal {
    /// The name alone.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Agent(name) | Self::Client(name) => name.as_str(),
            Self::Operator(name) => name,
        }
    }

    /// The kind of holder.
    #[must_use]
    pub const fn holder(&self) -> Holder {
        match self {
            Self::Agent(_) => Holder::Agent,
            Self::Client(_) => Holder::Client,
            Self::Operator(_) => Holder::Operator,
        }
    }
}

fn name(what: &'static str, text: &str) -> Result<AgentId, BadPrincipal> {
    let bad = |source| BadPrincipal::Name { what, text: text.to_owned(), source };
    let name: AgentId = text.parse().map_err(bad)?;
    if Directory::is_reserved(&name) {
        return Err(BadPrincipal::Reserved(name));
    }
    if text.eq_ignore_ascii_case(UNNAMED_CLIENT) {
        return Err(BadPrincipal::Unnamed);
    }
    if what == "client" && BUILT_IN_AGENTS.iter().any(|other| text.eq_ignore_ascii_case(other)) {
        return Err(BadPrincipal::BuiltIn(name));
    }
    Ok(name)
}

/// `agent:tim`, `client:acme`, `operator:david`; also the owner of the tasks it creates.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "agent:{agent}"),
            Self::Client(client) => write!(f, "client:{client}"),
            Self::Operator(name) => write!(f, "operator:{name}"),
        }
    }
}

/// The SHA-256 of a token.
///
/// A plain hash is enough, and so is a map lookup: a token of 256 random bits can be neither
/// guessed nor derived from its hash, and the time of a lookup depends only on the hash of the sent
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

/// Not a SHA-256 in hex.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sha256 is the token's SHA-256 in 64 hex digits (printf %s TOKEN | sha256sum)")]
pub struct BadTokenHash;

impl TokenHash {
    /// The hash of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// The short id shown to people: the first digits of the hash.
    #[must_use]
    pub fn id(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for TokenHash {
    type Err = BadTokenHash;

    fn from_str(text: &str) -> Result<Self, BadTokenHash> {
        // `from_str_radix` would also read a sign.
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(BadTokenHash);
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| BadTokenHash)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| BadTokenHash)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for TokenHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Holder and expiry of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The holder.
    pub principal: Principal,
    /// When it expires; `None` for never.
    pub expires: Option<DateTime<Utc>>,
}

impl Credential {
    /// Whether it has expired.
    #[must_use]
    pub fn is_expired(&self, now: DateTime<Utc>) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// Credentials by token hash; the tokens themselves are not kept.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    by_hash: HashMap<TokenHash, Credential>,
    /// In the order of insertion.
    order: Vec<TokenHash>,
}

/// A token whose name already belongs to another holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The token.
    pub hash: TokenHash,
    /// Its holder.
    pub principal: Principal,
    /// The other holder of the name.
    pub taken: NameTaken,
}

impl Conflict {
    /// Whether the token is refused for it. An operator neither sends nor receives under its name,
    /// so a conflict with one is only a warning.
    #[must_use]
    pub fn refuses(&self) -> bool {
        let names = [self.taken.wanted, self.taken.holder];
        names.contains(&Holder::Client) && !names.contains(&Holder::Operator)
    }
}

impl Tokens {
    /// Adds a token by its hash; `false` when it was there.
    pub fn insert(&mut self, hash: TokenHash, credential: Credential) -> bool {
        let is_new = self.by_hash.insert(hash, credential).is_none();
        if is_new {
            self.order.push(hash);
        }
        is_new
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// The credential of a token.
    #[must_use]
    pub fn get(&self, hash: &TokenHash) -> Option<&Credential> {
        self.by_hash.get(hash)
    }

    /// Every token, in the order of insertion.
    pub fn iter(&self) -> impl Iterator<Item = (&TokenHash, &Credential)> {
        self.order.iter().filter_map(|hash| Some((hash, self.by_hash.get(hash)?)))
    }

    /// The ids of the A2A clients, each once.
    #[must_use]
    pub fn clients(&self) -> Vec<AgentId> {
        let mut clients: Vec<_> = self
            .iter()
            .filter_map(|(_, known)| match &known.principal {
                Principal::Client(client) => Some(client.clone()),
                _ => None,
            })
            .collect();
        clients.sort();
        clients.dedup();
        clients
    }

    /// The tokens whose names are taken. Names are claimed in this order: the `listed` agents,
    /// these tokens, then the agents of `later`, because messages may wait for them, then the rest
    /// of `later`.
    #[must_use]
    pub fn conflicts(&self, later: &Self, listed: &[AgentId]) -> Vec<Conflict> {
        let mut names = Names::default();
        listed.iter().for_each(|agent| names.keep(agent.as_str(), Holder::Agent));
        let agents_first = |is_agent: bool| {
            let later = later.iter();
            later.filter(move |(_, known)| (known.principal.holder() == Holder::Agent) == is_agent)
        };
        let all = self.iter().chain(agents_first(true)).chain(agents_first(false));
        all.filter_map(|(hash, known)| {
            let taken = names.take(known.principal.name(), known.principal.holder()).err()?;
            Some(Conflict { hash: *hash, principal: known.principal.clone(), taken })
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_exactly_one() {
        let named = Principal::named(None, Some("acme"), None).unwrap();
        assert_eq!(named.to_string(), "client:acme");
        assert_eq!(Principal::named(None, None, None), Err(BadPrincipal::NotOne));
        assert_eq!(Principal::named(Some("a"), Some("b"), None), Err(BadPrincipal::NotOne));
        for bad in ["", "a b", "Human", "system", "A2A-client", "../x"] {
            assert!(Principal::client(bad).is_err(), "{bad}");
            assert!(Principal::agent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = TokenHash::of("oca_x");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(hash.id().len(), 12);
        for bad in ["", "xyz", &"+f".repeat(32), &"é".repeat(32)] {
            assert_eq!(bad.parse::<TokenHash>(), Err(BadTokenHash), "{bad}");
        }
    }

    #[test]
    fn a_name_belongs_to_one_holder_whatever_its_case() {
        let of = |principal: Principal| {
            let mut tokens = Tokens::default();
            let hash = TokenHash::of(&principal.to_string());
            tokens.insert(hash, Credential { principal, expires: None });
            tokens
        };
        let client = |name| of(Principal::client(name).unwrap());
        let agent = |name| of(Principal::agent(name).unwrap());
        let operator = |name| of(Principal::operator(name).unwrap());
        let acme: AgentId = "acme".parse().unwrap();
        let refused = |first: &Tokens, later: &Tokens, listed: &[AgentId]| {
            let found = first.conflicts(later, listed);
            found
                .iter()
                .map(|found| (found.principal.to_string(), found.refuses()))
                .collect::<Vec<_>>()
        };
        let one = |holder: &str, refuses| vec![(holder.to_owned(), refuses)];
        assert_eq!(refused(&client("acme"), &agent("acme"), &[]), one("agent:acme", true));
        assert_eq!(refused(&agent("acme"), &client("Acme"), &[]), one("client:Acme", true));
        let none = Tokens::default();
        assert_eq!(
            refused(&client("ACME"), &none, std::slice::from_ref(&acme)),
            one("client:ACME", true)
        );
        assert_eq!(refused(&agent("acme"), &operator("Acme"), &[]), one("operator:Acme", false));
        assert_eq!(refused(&agent("acme"), &agent("Acme"), &[]), one("agent:Acme", false));
        // Among tokens of one file the agent keeps its name, in whatever order they are written.
        let mut file = client("tim");
        let tim = Principal::agent("Tim").unwrap();
        file.insert(TokenHash::of("y"), Credential { principal: tim, expires: None });
        assert_eq!(refused(&none, &file, &[]), one("client:tim", true));
        assert_eq!(refused(&client("acme"), &none, &[]), []);
        assert_eq!(refused(&agent("acme"), &none, &[acme]), []);
    }
}
