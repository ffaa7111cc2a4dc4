//! The agent card: who an agent is, where it is reached and what it can do.
//!
//! Its serialised form is that of A2A 1.0. [`AgentCard::hybrid`] adds what clients of 0.3 look
//! for, so that one document serves both. Nothing here knows where it is served.

mod extensions;
mod security;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use security::{ApiKeyLocation, OAuthFlow, Scopes, SecurityRequirement, SecurityScheme};

use crate::task::Metadata;
use crate::wire::Version;

/// Who an agent is, where it is reached and what it can do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// Its name for people.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where it is reached; the first is preferred.
    pub supported_interfaces: Vec<Interface>,
    /// Who runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Its own version.
    pub version: String,
    /// Where to read more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// What of the protocol it can do.
    pub capabilities: Capabilities,
    /// How callers can prove who they are, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Map<String, Value>")]
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// Which proofs it asks for: all of one entry, any of the entries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub security_requirements: Vec<SecurityRequirement>,
    /// Media types it takes.
    pub default_input_modes: Vec<String>,
    /// Media types it gives.
    pub default_output_modes: Vec<String>,
    /// What it can do.
    pub skills: Vec<Skill>,
    /// Signatures over the 1.0 form of this card.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<Signature>,
    /// A picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
}

/// One way to reach an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentInterface")]
pub struct Interface {
    /// Where.
    pub url: String,
    /// `JSONRPC`, `HTTP+JSON`, `GRPC`, or the URI of another one.
    pub protocol_binding: String,
    /// What calls there must give as their tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// `0.3` or `1.0`.
    pub protocol_version: String,
}

impl Interface {
    /// JSON-RPC at `url`.
    #[must_use]
    pub fn json_rpc(url: impl Into<String>, version: Version) -> Self {
        Self::new(url, "JSONRPC", version)
    }

    /// HTTP+JSON below `url`.
    #[must_use]
    pub fn http_json(url: impl Into<String>, version: Version) -> Self {
        Self::new(url, "HTTP+JSON", version)
    }

    fn new(url: impl Into<String>, binding: &str, version: Version) -> Self {
        Self {
            url: url.into(),
            protocol_binding: binding.into(),
            tenant: None,
            protocol_version: version.as_str().into(),
        }
    }
}

/// Who runs an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AgentProvider")]
pub struct Provider {
    /// Where to read about it.
    pub url: String,
    /// Its name.
    pub organization: String,
}

/// What of the protocol an agent can do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentCapabilities")]
pub struct Capabilities {
    /// It sends events while it works.
    pub streaming: bool,
    /// It calls webhooks.
    pub push_notifications: bool,
    /// What it can do beyond the protocol.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
    /// It has another card for callers who are known.
    pub extended_agent_card: bool,
}

/// Something beyond the protocol.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AgentExtension")]
pub struct Extension {
    /// Which.
    pub uri: String,
    /// How it is used here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Callers must activate it.
    pub required: bool,
    /// What it says about itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Metadata>,
}

/// Something an agent can do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentSkill")]
pub struct Skill {
    /// Its id within the card.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// What one could ask.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Media types it takes, where they are not the card's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_modes: Vec<String>,
    /// Media types it gives, where they are not the card's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
    /// Which proofs it asks for beyond the card's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub security_requirements: Vec<SecurityRequirement>,
}

/// A JSON Web Signature over the card.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AgentCardSignature")]
pub struct Signature {
    /// The protected header, in base64url.
    pub protected: String,
    /// The signature, in base64url.
    pub signature: String,
    /// The unprotected header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<Metadata>,
}

impl Skill {
    /// A skill; A2A wants at least one tag.
    #[must_use]
    pub fn new(id: &str, name: &str, description: &str, tags: &[&str]) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            examples: Vec::new(),
            input_modes: Vec::new(),
            output_modes: Vec::new(),
            security_requirements: Vec::new(),
        }
    }
}

impl AgentCard {
    /// A card of an agent that takes and gives text and JSON. It is complete with an interface
    /// and a skill.
    #[must_use]
    pub fn new(name: &str, description: &str, version: &str) -> Self {
        let modes = vec!["text/plain".to_owned(), "application/json".to_owned()];
        Self {
            name: name.into(),
            description: description.into(),
            supported_interfaces: Vec::new(),
            provider: None,
            version: version.into(),
            documentation_url: None,
            capabilities: Capabilities::default(),
            security_schemes: BTreeMap::new(),
            security_requirements: Vec::new(),
            default_input_modes: modes.clone(),
            default_output_modes: modes,
            skills: Vec::new(),
            signatures: Vec::new(),
            icon_url: None,
        }
    }

    /// With one more way to reach it, less preferred than those before.
    #[must_use]
    pub fn interface(mut self, interface: Interface) -> Self {
        self.supported_interfaces.push(interface);
        self
    }

    /// With one more skill.
    #[must_use]
    pub fn skill(mut self, skill: Skill) -> Self {
        self.skills.push(skill);
        self
    }

    /// With these capabilities.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// With a proof that every call needs, or one more of which any will do.
    #[must_use]
    pub fn secured_by(mut self, name: &str, scheme: SecurityScheme, scopes: &[&str]) -> Self {
        self.security_schemes.insert(name.into(), scheme);
        self.security_requirements.push(SecurityRequirement::one(name, scopes));
        self
    }

    /// With who runs it.
    #[must_use]
    pub fn provider(mut self, organization: &str, url: &str) -> Self {
        self.provider = Some(Provider { organization: organization.into(), url: url.into() });
        self
    }

    /// The card as clients of both versions read it: the 1.0 form, and beside it what 0.3 looks
    /// for, if it speaks 0.3. Neither stumbles over the fields of the other; see docs/decisions/0008.
    #[must_use]
    pub fn hybrid(&self) -> Value {
        let mut card = match serde_json::to_value(self) {
            Ok(Value::Object(card)) => card,
            _ => return Value::Null, // all its keys are strings, so this cannot be
        };
        if !self.add_connection(&mut card) {
            return Value::Object(card);
        }
        let extended = self.capabilities.extended_agent_card;
        card.insert("supportsAuthenticatedExtendedCard".into(), extended.into());
        if !self.security_requirements.is_empty() {
            card.insert(
                "security".into(),
                security::v0_3_requirements(&self.security_requirements),
            );
        }
        if let Some(Value::Object(schemes)) = card.get_mut("securitySchemes") {
            for (name, scheme) in &self.security_schemes {
                if let Some(Value::Object(written)) = schemes.get_mut(name) {
                    written.extend(scheme.v0_3_fields());
                }
            }
        }
        if let Some(Value::Array(skills)) = card.get_mut("skills") {
            for (written, skill) in skills.iter_mut().zip(&self.skills) {
                if !skill.security_requirements.is_empty() {
                    written["security"] = security::v0_3_requirements(&skill.security_requirements);
                }
            }
        }
        Value::Object(card)
    }

    /// How 0.3 says where an agent is reached; `false` if it speaks 0.3 nowhere.
    fn add_connection(&self, card: &mut Map<String, Value>) -> bool {
        let spoken = |interface: &&Interface| interface.protocol_version == Version::V0_3.as_str();
        let old: Vec<_> = self.supported_interfaces.iter().filter(spoken).collect();
        let Some(first) = old.first() else { return false };
        card.insert("protocolVersion".into(), "0.3.0".into());
        card.insert("url".into(), first.url.clone().into());
        card.insert("preferredTransport".into(), first.protocol_binding.clone().into());
        let all = old.iter().map(|i| json!({"url": i.url, "transport": i.protocol_binding}));
        card.insert("additionalInterfaces".into(), all.collect());
        true
    }
}
