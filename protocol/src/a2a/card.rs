//! Agent card: identity, endpoints and capabilities of an agent.
//!
//! The serde form is that of A2A 1.0. [`AgentCard::hybrid`] adds the fields that clients of 0.3
//! read, so that one document serves both.

mod extensions;
mod security;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use security::{ApiKeyLocation, OAuthFlow, Scopes, SecurityRequirement, SecurityScheme};

use crate::task::Metadata;
use crate::wire::Version;

/// Identity, endpoints and capabilities of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// Display name.
    pub name: String,
    /// Purpose of the agent.
    pub description: String,
    /// Endpoints, the preferred one first.
    pub supported_interfaces: Vec<Interface>,
    /// Operator of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Version of the agent.
    pub version: String,
    /// URL of the documentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// Optional protocol features of the agent.
    pub capabilities: Capabilities,
    /// Authentication schemes by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Map<String, Value>")]
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// Required authentication: all schemes of one entry, any of the entries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub security_requirements: Vec<SecurityRequirement>,
    /// Accepted media types.
    pub default_input_modes: Vec<String>,
    /// Produced media types.
    pub default_output_modes: Vec<String>,
    /// Skills of the agent.
    pub skills: Vec<Skill>,
    /// Signatures over the 1.0 form of this card.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<Signature>,
    /// URL of an icon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
}

/// An endpoint of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentInterface")]
pub struct Interface {
    /// URL of the endpoint.
    pub url: String,
    /// `JSONRPC`, `HTTP+JSON`, `GRPC`, or the URI of another binding.
    pub protocol_binding: String,
    /// Tenant that calls to this endpoint must send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// A2A version: `0.3` or `1.0`.
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

/// Operator of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AgentProvider")]
pub struct Provider {
    /// URL of the operator.
    pub url: String,
    /// Name of the operator.
    pub organization: String,
}

/// Optional protocol features of an agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentCapabilities")]
pub struct Capabilities {
    /// Streams events while it works.
    pub streaming: bool,
    /// Sends push notifications to webhooks.
    pub push_notifications: bool,
    /// Supported protocol extensions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
    /// Has an extended card for authenticated callers.
    pub extended_agent_card: bool,
}

/// A protocol extension.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AgentExtension")]
pub struct Extension {
    /// URI of the extension.
    pub uri: String,
    /// How the agent uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether callers must activate it.
    pub required: bool,
    /// Parameters of the extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Metadata>,
}

/// A skill of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentSkill")]
pub struct Skill {
    /// Its id within the card.
    pub id: String,
    /// Display name.
    pub name: String,
    /// What the skill does.
    pub description: String,
    /// Search terms.
    pub tags: Vec<String>,
    /// Example requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Accepted media types, if they differ from the card's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_modes: Vec<String>,
    /// Produced media types, if they differ from the card's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
    /// Required authentication in addition to the card's.
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
    /// A skill; A2A requires at least one tag.
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
    /// A card of an agent that accepts and produces text and JSON. A complete card also needs an
    /// interface and a skill.
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

    /// Adds an endpoint, less preferred than the previous ones.
    #[must_use]
    pub fn interface(mut self, interface: Interface) -> Self {
        self.supported_interfaces.push(interface);
        self
    }

    /// Adds a skill.
    #[must_use]
    pub fn skill(mut self, skill: Skill) -> Self {
        self.skills.push(skill);
        self
    }

    /// Sets the capabilities.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Adds an authentication scheme. Callers need any one of the schemes added.
    #[must_use]
    pub fn secured_by(mut self, name: &str, scheme: SecurityScheme, scopes: &[&str]) -> Self {
        self.security_schemes.insert(name.into(), scheme);
        self.security_requirements.push(SecurityRequirement::one(name, scopes));
        self
    }

    /// Sets the operator.
    #[must_use]
    pub fn provider(mut self, organization: &str, url: &str) -> Self {
        self.provider = Some(Provider { organization: organization.into(), url: url.into() });
        self
    }

    /// The card for clients of both versions: the 1.0 form, and the fields of 0.3 if an interface
    /// uses 0.3. Clients ignore the fields of the other version; see docs/decisions/0008.
    #[must_use]
    pub fn hybrid(&self) -> Value {
        let mut card = match serde_json::to_value(self) {
            Ok(Value::Object(card)) => card,
            _ => return Value::Null, // unreachable: all keys are strings
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

    /// Adds the endpoint fields of 0.3; `false` if no interface uses 0.3.
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
