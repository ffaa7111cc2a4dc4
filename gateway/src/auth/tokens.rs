//! Who may come in: the tokens that are known, by their hashes, and whose each is.
//!
//! Nothing here knows HTTP; `gateway/auth.rs` reads the header and words the refusal.

mod file;
mod registry;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use a2a_policy::{Holder, NameTaken, Names, Roster};
use a2a_protocol::{AgentId, BadAgentId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

pub use file::{StoredToken, TokenFile, TokenFileError};
pub use registry::{AuthGrant, RefusedToken, TokenCheck, TokenRegistry};

/// The name on the bus of an A2A caller that has none of its own there.
pub const UNNAMED_CLIENT: &str = "a2a-client";

/// The names of the agents that come with the server; no A2A client can have one of them.
pub const BUILT_IN_AGENTS: [&str; 2] = ["openclaw", "conformance"];

/// Whose token it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Principal {
    /// An agent's: it sends under its own name and reads its own inbox.
    Agent(AgentId),
    /// A program's that speaks A2A: it has the tasks it asked for, and nothing of the bus.
    Client(AgentId),
    /// A person's: it sees and stops everything.
    Operator(Arc<str>),
}

/// A name nobody's token can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPrincipal {
    /// It is no id.
    #[error("{what} = {text:?}: {source}")]
    Name {
        /// Whose name it would be.
        what: &'static str,
        /// The name.
        text: String,
        /// What the rule is.
        source: BadAgentId,
    },
    /// It belongs to the bus.
    #[error("`{0}` is a name of the bus or of people, and no agent's; a person is an operator")]
    Reserved(AgentId),
    /// It is what callers without a name travel under.
    #[error("`{UNNAMED_CLIENT}` is the name of callers that have none; choose another")]
    Unnamed,
    /// An agent of this name comes with the server.
    #[error("`{0}` is an agent that comes with the server; choose another name for the client")]
    BuiltIn(AgentId),
    /// It is no operator's name.
    #[error("operator is a name of 1 to 64 letters, digits, . _ - @")]
    Operator,
    /// There is none, or more than one.
    #[error("write one of agent = \"…\", client = \"…\" and operator = \"…\"")]
    NotOne,
}

impl Principal {
    /// The agent of this name.
    ///
    /// # Errors
    /// When no agent can be called that.
    pub fn agent(text: &str) -> Result<Self, BadPrincipal> {
        name("agent", text).map(Self::Agent)
    }

    /// The A2A client of this name.
    ///
    /// # Errors
    /// When no client can be called that.
    pub fn client(text: &str) -> Result<Self, BadPrincipal> {
        name("client", text).map(Self::Client)
    }

    /// The operator of this name.
    ///
    /// # Errors
    /// When no operator can be called that.
    pub fn operator(text: &str) -> Result<Self, BadPrincipal> {
        let plain = |c: char| c.is_alphanumeric() || "._-@".contains(c);
        if text.is_empty() || text.chars().count() > 64 || !text.chars().all(plain) {
            return Err(BadPrincipal::Operator);
        }
        Ok(Self::Operator(text.into()))
    }

    /// Whoever is named, if exactly one is.
    ///
    /// # Errors
    /// When none or several are, or the name is bad.
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

    /// What the name stands for.
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
    if Roster::is_reserved(&name) {
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

/// `agent:tim`, `client:acme`, `operator:david`: also the owner of what it asks for.
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
/// A plain hash is enough, and looking it up in a map is: a token of 256 random bits can be
/// neither guessed nor found from its hash, and the time of a lookup depends on the hash of what
/// was sent, which says nothing about any token that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

/// The text is no SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sha256 is the token's SHA-256 in 64 hex digits (printf %s TOKEN | sha256sum)")]
pub struct BadTokenHash;

impl TokenHash {
    /// The hash of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// What a person calls the token by: the first digits of the hash.
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

/// What is known of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Whose it is.
    pub principal: Principal,
    /// When it stops being good.
    pub expires: Option<DateTime<Utc>>,
}

impl Credential {
    /// Whether it is no longer good.
    #[must_use]
    pub fn is_expired(&self, now: DateTime<Utc>) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// Tokens by their hashes: the tokens themselves are nowhere.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    by_hash: HashMap<TokenHash, Credential>,
    /// In the order in which they were added.
    order: Vec<TokenHash>,
}

/// A token whose name cannot be had, because it stands for something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The token.
    pub hash: TokenHash,
    /// Whose it is.
    pub principal: Principal,
    /// What is in the way.
    pub taken: NameTaken,
}

impl Conflict {
    /// Whether the token is refused for it. An operator never sends or receives under the name of
    /// the token, so that one is only worth a warning.
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

    /// What is known of a token.
    #[must_use]
    pub fn get(&self, hash: &TokenHash) -> Option<&Credential> {
        self.by_hash.get(hash)
    }

    /// Every token, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&TokenHash, &Credential)> {
        self.order.iter().filter_map(|hash| Some((hash, self.by_hash.get(hash)?)))
    }

    /// The names of the A2A clients, each once.
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

    /// The tokens whose names are taken: first the `listed` agents have theirs, then these tokens
    /// in their order, then those of `later`: the agents among them, because messages may wait
    /// for them, then the others.
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
        // Among tokens of one file the agent keeps its name, wherever it stands.
        let mut file = client("tim");
        let tim = Principal::agent("Tim").unwrap();
        file.insert(TokenHash::of("y"), Credential { principal: tim, expires: None });
        assert_eq!(refused(&none, &file, &[]), one("client:tim", true));
        assert_eq!(refused(&client("acme"), &none, &[]), []);
        assert_eq!(refused(&agent("acme"), &none, &[acme]), []);
    }
}
