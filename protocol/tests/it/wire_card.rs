//! The agent card serves clients of both versions.

use a2a_protocol::card::{
    AgentCard, ApiKeyLocation, Capabilities, Extension, Interface, OAuthFlow, SecurityScheme, Skill,
};
use a2a_protocol::wire::Version;

use super::wire_golden::golden;

fn card() -> AgentCard {
    let mut skill = Skill::new("talk", "Talk", "Answers", &["chat"]);
    skill.security_requirements =
        vec![a2a_protocol::card::SecurityRequirement::one("oauth", &["talk"])];
    let flow = OAuthFlow::AuthorizationCode {
        authorization_url: "https://example.com/auth".into(),
        token_url: "https://example.com/token".into(),
        scopes: [("talk".to_owned(), "to talk".to_owned())].into(),
        pkce_required: true,
    };
    AgentCard::new("Tim", "Writes code", "1.2.3")
        .interface(Interface::json_rpc("https://example.com/a2a", Version::V1_0))
        .interface(Interface::json_rpc("https://example.com/a2a", Version::V0_3))
        .interface(Interface::http_json("https://example.com/", Version::V1_0))
        .interface(Interface::http_json("https://example.com", Version::V0_3))
        .capabilities(Capabilities {
            streaming: true,
            push_notifications: true,
            extensions: vec![Extension {
                uri: "https://example.com/ext".into(),
                description: None,
                required: false,
                params: None,
            }],
            extended_agent_card: true,
        })
        .provider("OpenClaw", "https://example.com")
        .secured_by("bearer", SecurityScheme::bearer(), &[])
        .secured_by(
            "oauth",
            SecurityScheme::OAuth2 { description: None, flows: flow, oauth2_metadata_url: None },
            &["talk"],
        )
        .secured_by(
            "key",
            SecurityScheme::ApiKey {
                description: Some("A key".into()),
                location: ApiKeyLocation::Header,
                name: "X-Key".into(),
            },
            &[],
        )
        .secured_by(
            "oidc",
            SecurityScheme::OpenIdConnect {
                description: None,
                open_id_connect_url: "https://example.com/oidc".into(),
            },
            &[],
        )
        .secured_by("mtls", SecurityScheme::MutualTls { description: None }, &[])
        .skill(skill)
}

#[test]
fn one_card_serves_both_versions() {
    let hybrid = card().hybrid();
    golden("card.json", &(serde_json::to_string_pretty(&hybrid).unwrap() + "\n"));
    // The official types of 1.0 parse it to the same card as the pure 1.0 form.
    let read: a2a::AgentCard = serde_json::from_value(hybrid.clone()).unwrap();
    let pure: a2a::AgentCard =
        serde_json::from_value(serde_json::to_value(card()).unwrap()).unwrap();
    assert_eq!(read, pure);
    assert_eq!(read.supported_interfaces.len(), 4);
    assert_eq!(read.security_schemes.unwrap().len(), 5);
    // The fields that the JSON Schema of 0.3 requires are present.
    for field in [
        "protocolVersion",
        "name",
        "description",
        "url",
        "version",
        "capabilities",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
    ] {
        assert!(hybrid.get(field).is_some(), "{field}");
    }
    let without_old = AgentCard::new("a", "b", "c")
        .interface(Interface::json_rpc("https://example.com/a2a", Version::V1_0));
    let pure = serde_json::to_value(&without_old).unwrap();
    assert_eq!(without_old.hybrid(), pure, "a card that does not speak 0.3");
}
