//! `[auth]`: tokens by their SHA-256.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use a2a_gateway::auth::tokens::{Credential, Principal, TokenHash, Tokens};

/// `[auth]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct AuthValues {
    /// A token by its hash; once there is one, every call needs one. See also `openclaw-a2a token`
    tokens: Vec<TokenEntry>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    /// The agent whose it is: it sends under this name and reads its own inbox
    #[schemars(example = &"roman")]
    agent: Option<String>,
    /// Or the program that speaks A2A: it has its own tasks, and nothing of the bus
    #[schemars(example = &"acme")]
    client: Option<String>,
    /// Or the person, who sees and stops everything. One of the three is written
    #[schemars(example = &"david")]
    operator: Option<String>,
    /// The SHA-256 of the token, in hex
    #[schemars(example = &"1e92f0bbacbf3a5c240b01517fd64d434170f1b8f025061b338e235aea6e2615")]
    sha256: String,
}

impl AuthValues {
    pub(in crate::config) fn tokens(&self) -> Result<Tokens, String> {
        let mut tokens = Tokens::default();
        for (place, entry) in (1..).zip(&self.tokens) {
            let (hash, credential) = entry
                .read()
                .map_err(|problem| format!("[[auth.tokens]] number {place}: {problem}"))?;
            if !tokens.insert(hash, credential) {
                return Err(format!("[[auth.tokens]] number {place}: the same token again"));
            }
        }
        Ok(tokens)
    }
}

impl TokenEntry {
    fn read(&self) -> Result<(TokenHash, Credential), String> {
        let (agent, client) = (self.agent.as_deref(), self.client.as_deref());
        let principal = Principal::named(agent, client, self.operator.as_deref());
        let principal = principal.map_err(|error| error.to_string())?;
        let hash = self.sha256.parse::<TokenHash>().map_err(|error| error.to_string())?;
        Ok((hash, Credential { principal, expires: None }))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn parse(text: &str) -> Result<(), String> {
        Config::parse(text)?.tokens().map(drop)
    }

    #[test]
    fn token_entry_has_exactly_one_holder() {
        let sha = "a".repeat(64);
        let entry = |who: &str| format!("[[auth.tokens]]\n{who}\nsha256 = \"{sha}\"");
        assert!(parse("").is_ok());
        assert!(parse(&entry("agent = \"roman\"")).is_ok());
        assert!(parse(&entry("operator = \"david\"")).is_ok());
        assert!(parse(&entry("client = \"acme\"")).is_ok());
        let listed = format!("{}\n[[agents]]\nid = \"acme\"", entry("client = \"acme\""));
        assert!(parse(&listed).unwrap_err().contains("there is the agent `acme`"));
        for bad in [
            "",
            "agent = \"a b\"",
            "agent = \"human\"",
            "client = \"a2a-client\"",
            "client = \"acme\"\noperator = \"david\"",
            "operator = \"a b\"",
            "agent = \"roman\"\noperator = \"david\"",
        ] {
            assert!(parse(&entry(bad)).unwrap_err().contains("number 1"), "{bad}");
        }
        let twice = format!("{}\n{}", entry("agent = \"roman\""), entry("agent = \"tim\""));
        assert!(parse(&twice).unwrap_err().contains("same token"));
        for bad in ["", "xyz", &"+f".repeat(32), &"é".repeat(32)] {
            let text = format!("[[auth.tokens]]\nagent = \"roman\"\nsha256 = \"{bad}\"");
            assert!(parse(&text).unwrap_err().contains("64 hex digits"), "{bad}");
        }
    }
}
