//! How callers prove who they are, as a card says it.
//!
//! 1.0 wraps each scheme in an object named after its type, 0.3 has a flat one with a `type`.
//! Both can stand in one object, because each reader looks only for its own.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Names of rights, with their meanings.
pub type Scopes = BTreeMap<String, String>;

/// One way of proving who one is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum SecurityScheme {
    /// A key that is sent along.
    #[serde(rename = "apiKeySecurityScheme")]
    ApiKey {
        /// What people should know about it.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Where it stands.
        location: ApiKeyLocation,
        /// The name of the header, parameter or cookie.
        name: String,
    },
    /// The header `Authorization`.
    #[serde(rename = "httpAuthSecurityScheme", rename_all = "camelCase")]
    Http {
        /// What people should know about it.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Such as `Bearer`.
        scheme: String,
        /// What a bearer token is, such as `JWT`.
        #[serde(skip_serializing_if = "Option::is_none")]
        bearer_format: Option<String>,
    },
    /// OAuth 2.
    #[serde(rename = "oauth2SecurityScheme", rename_all = "camelCase")]
    OAuth2 {
        /// What people should know about it.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// How a token is got.
        flows: OAuthFlow,
        /// Where the authorization server describes itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        oauth2_metadata_url: Option<String>,
    },
    /// OpenID Connect.
    #[serde(rename = "openIdConnectSecurityScheme", rename_all = "camelCase")]
    OpenIdConnect {
        /// What people should know about it.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Where its configuration is.
        open_id_connect_url: String,
    },
    /// A client's certificate.
    #[serde(rename = "mtlsSecurityScheme")]
    MutualTls {
        /// What people should know about it.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
}

/// Where a key stands.
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

/// How a token of OAuth 2 is got; the flows that 1.0 advises against are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum OAuthFlow {
    /// By a person in a browser.
    AuthorizationCode {
        /// Where the person is sent.
        authorization_url: String,
        /// Where the token is got.
        token_url: String,
        /// The rights there are.
        scopes: Scopes,
        /// Whether PKCE is demanded.
        pkce_required: bool,
    },
    /// By a program with a secret.
    ClientCredentials {
        /// Where the token is got.
        token_url: String,
        /// The rights there are.
        scopes: Scopes,
    },
    /// By a person on another device. 0.3 does not know it.
    DeviceCode {
        /// Where the device asks.
        device_authorization_url: String,
        /// Where the token is got.
        token_url: String,
        /// The rights there are.
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

/// Proofs that are all needed together, each with the rights it must give.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SecurityRequirement {
    schemes: BTreeMap<String, Rights>,
}

/// Protocol buffers have no map of lists, so 1.0 has an object around each.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
struct Rights {
    list: Vec<String>,
}

impl SecurityRequirement {
    /// One proof.
    #[must_use]
    pub fn one(name: &str, scopes: &[&str]) -> Self {
        Self::default().and(name, scopes)
    }

    /// Together with another one.
    #[must_use]
    pub fn and(mut self, name: &str, scopes: &[&str]) -> Self {
        let list = scopes.iter().map(|&scope| scope.to_owned()).collect();
        self.schemes.insert(name.into(), Rights { list });
        self
    }
}

/// Requirements in the form of 0.3.
pub(super) fn v0_3_requirements(requirements: &[SecurityRequirement]) -> Value {
    let old = |requirement: &SecurityRequirement| {
        let rights = requirement.schemes.iter();
        rights.map(|(name, rights)| (name.clone(), json!(rights.list))).collect::<Value>()
    };
    requirements.iter().map(old).collect()
}
