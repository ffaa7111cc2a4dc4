//! Security schemes of an agent card.
//!
//! 1.0 wraps each scheme in an object named after its type; 0.3 has a flat object with a `type`.
//! One object can contain both forms, because each client reads only its own.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// OAuth scopes with their descriptions.
pub type Scopes = BTreeMap<String, String>;

/// An authentication scheme.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum SecurityScheme {
    /// API key.
    #[serde(rename = "apiKeySecurityScheme")]
    ApiKey {
        /// Description for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Part of the request that contains the key.
        location: ApiKeyLocation,
        /// The name of the header, parameter or cookie.
        name: String,
    },
    /// HTTP authentication with the header `Authorization`.
    #[serde(rename = "httpAuthSecurityScheme", rename_all = "camelCase")]
    Http {
        /// Description for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Scheme, such as `Bearer`.
        scheme: String,
        /// Format of a bearer token, such as `JWT`.
        #[serde(skip_serializing_if = "Option::is_none")]
        bearer_format: Option<String>,
    },
    /// OAuth 2.
    #[serde(rename = "oauth2SecurityScheme", rename_all = "camelCase")]
    OAuth2 {
        /// Description for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Flow that issues the token.
        flows: OAuthFlow,
        /// URL of the authorization server's metadata.
        #[serde(skip_serializing_if = "Option::is_none")]
        oauth2_metadata_url: Option<String>,
    },
    /// OpenID Connect.
    #[serde(rename = "openIdConnectSecurityScheme", rename_all = "camelCase")]
    OpenIdConnect {
        /// Description for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// URL of the provider's configuration.
        open_id_connect_url: String,
    },
    /// Mutual TLS with a client certificate.
    #[serde(rename = "mtlsSecurityScheme")]
    MutualTls {
        /// Description for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
}

/// Part of a request that contains an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApiKeyLocation {
    /// In a header.
    Header,
    /// In the query.
    Query,
    /// In a cookie.
    Cookie,
}

/// An OAuth 2 flow, without those that A2A 1.0 has deprecated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum OAuthFlow {
    /// Authorization code: a person signs in with a browser.
    AuthorizationCode {
        /// URL of the sign-in page.
        authorization_url: String,
        /// URL that issues tokens.
        token_url: String,
        /// Available scopes.
        scopes: Scopes,
        /// Whether PKCE is required.
        pkce_required: bool,
    },
    /// Client credentials: a program with a secret.
    ClientCredentials {
        /// URL that issues tokens.
        token_url: String,
        /// Available scopes.
        scopes: Scopes,
    },
    /// Device code: a person signs in on another device. Not part of 0.3.
    DeviceCode {
        /// URL that issues device codes.
        device_authorization_url: String,
        /// URL that issues tokens.
        token_url: String,
        /// Available scopes.
        scopes: Scopes,
    },
}

impl SecurityScheme {
    /// A bearer token in the header `Authorization`.
    #[must_use]
    pub fn bearer() -> Self {
        Self::Http { description: None, scheme: "Bearer".into(), bearer_format: None }
    }

    /// The fields of its 0.3 form.
    pub(super) fn v0_3_fields(&self) -> Map<String, Value> {
        let (kind, description, more) = match self {
            Self::ApiKey { description, location, name } => {
                ("apiKey", description, json!({"in": location, "name": name}))
            }
            Self::Http { description, scheme, bearer_format } => {
                let mut fields = json!({"scheme": scheme});
                if let Some(format) = bearer_format {
                    fields["bearerFormat"] = json!(format);
                }
                ("http", description, fields)
            }
            Self::OAuth2 { description, flows, oauth2_metadata_url } => {
                let flows = match flows {
                    OAuthFlow::DeviceCode { .. } => json!({}),
                    flows => json!(flows),
                };
                let mut fields = json!({"flows": flows});
                if let Some(url) = oauth2_metadata_url {
                    fields["oauth2MetadataUrl"] = json!(url);
                }
                ("oauth2", description, fields)
            }
            Self::OpenIdConnect { description, open_id_connect_url } => {
                ("openIdConnect", description, json!({"openIdConnectUrl": open_id_connect_url}))
            }
            Self::MutualTls { description } => ("mutualTLS", description, json!({})),
        };
        let mut fields = Map::new();
        fields.insert("type".into(), kind.into());
        if let Some(description) = description {
            fields.insert("description".into(), description.clone().into());
        }
        if let Value::Object(more) = more {
            fields.extend(more);
        }
        fields
    }
}

/// Schemes that are required together, each with its scopes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SecurityRequirement {
    schemes: BTreeMap<String, ScopeList>,
}

/// Protocol buffers have no map of lists, so 1.0 wraps each list in an object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
struct ScopeList {
    list: Vec<String>,
}

impl SecurityRequirement {
    /// A requirement of one scheme.
    #[must_use]
    pub fn one(name: &str, scopes: &[&str]) -> Self {
        Self::default().and(name, scopes)
    }

    /// Adds another scheme that is required together with the others.
    #[must_use]
    pub fn and(mut self, name: &str, scopes: &[&str]) -> Self {
        let list = scopes.iter().map(|&scope| scope.to_owned()).collect();
        self.schemes.insert(name.into(), ScopeList { list });
        self
    }
}

/// Requirements in the form of 0.3.
pub(super) fn v0_3_requirements(requirements: &[SecurityRequirement]) -> Value {
    let old = |requirement: &SecurityRequirement| {
        let schemes = requirement.schemes.iter();
        schemes.map(|(name, scopes)| (name.clone(), json!(scopes.list))).collect::<Value>()
    };
    requirements.iter().map(old).collect()
}
