//! `[auth]`: the tokens that are known, by their SHA-256.

use serde::Deserialize;

use crate::gateway::{Principal, Tokens};

/// `[auth]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AuthValues {
    tokens: Vec<TokenEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    agent: Option<String>,
    operator: Option<String>,
    sha256: String,
}

impl AuthValues {
    pub(super) fn tokens(&self) -> Result<Tokens, String> {
        let mut tokens = Tokens::default();
        for (place, entry) in (1..).zip(&self.tokens) {
            let (hash, principal) = entry
                .read()
                .map_err(|problem| format!("[[auth.tokens]] number {place}: {problem}"))?;
            if !tokens.insert(hash, principal) {
                return Err(format!("[[auth.tokens]] number {place}: the same token again"));
            }
        }
        Ok(tokens)
    }
}

impl TokenEntry {
    fn read(&self) -> Result<([u8; 32], Principal), String> {
        let principal = match (&self.agent, &self.operator) {
            (Some(agent), None) => {
                let agent = agent.parse().map_err(|error| format!("agent = {agent:?}: {error}"))?;
                if a2a_policy::Roster::is_reserved(&agent) {
                    return Err(format!(
                        "`{agent}` is reserved; write operator = \"…\" for a person"
                    ));
                }
                Principal::Agent(agent)
            }
            (None, Some(name)) => {
                let plain = |c: char| c.is_alphanumeric() || "._-@".contains(c);
                if name.is_empty() || name.chars().count() > 64 || !name.chars().all(plain) {
                    return Err("operator is a name of 1 to 64 letters, digits, . _ - @".into());
                }
                Principal::Operator(name.as_str().into())
            }
            _ => return Err("write either agent = \"…\" or operator = \"…\"".into()),
        };
        Ok((hash(&self.sha256)?, principal))
    }
}

fn hash(text: &str) -> Result<[u8; 32], String> {
    let problem = || {
        "sha256 is the token's SHA-256 in 64 hex digits (printf %s TOKEN | sha256sum)".to_owned()
    };
    if text.len() != 64 || !text.is_ascii() {
        return Err(problem());
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| problem())?;
        // `from_str_radix` would also read a sign.
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(problem());
        }
        *byte = u8::from_str_radix(digits, 16).map_err(|_| problem())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn parse(text: &str) -> Result<(), String> {
        let config = toml::from_str::<Config>(text).map_err(|error| error.to_string())?;
        config.tokens().map(drop)
    }

    #[test]
    fn a_token_is_an_agents_or_a_persons() {
        let sha = "a".repeat(64);
        let entry = |who: &str| format!("[[auth.tokens]]\n{who}\nsha256 = \"{sha}\"");
        assert!(parse("").is_ok());
        assert!(parse(&entry("agent = \"roman\"")).is_ok());
        assert!(parse(&entry("operator = \"david\"")).is_ok());
        for bad in [
            "",
            "agent = \"a b\"",
            "agent = \"human\"",
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
