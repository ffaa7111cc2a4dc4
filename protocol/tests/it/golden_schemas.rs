use std::path::Path;

use a2a_protocol::{Envelope, Kind, schema};
use serde_json::Value;

/// `UPDATE_GOLDEN=1 cargo test -p a2a-protocol` rewrites the files after a change of the types.
#[test]
fn committed_schemas_are_the_generated_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    for (name, schema) in schema::all() {
        if name == schema::TASK_PROGRESS {
            continue; // not generated: a copy of its specification
        }
        let file = folder.join(format!("{name}.schema.json"));
        let generated = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, &generated).unwrap();
        }
        let committed = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            committed, generated,
            "{name}.schema.json is stale: run UPDATE_GOLDEN=1 cargo test -p a2a-protocol"
        );
    }
}

#[test]
fn every_schema_is_a_valid_schema_with_an_id_of_its_own() {
    let mut ids = std::collections::HashSet::new();
    for (name, schema) in schema::all() {
        jsonschema::meta::validate(&schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(ids.insert(schema["$id"].clone()), "{name}");
    }
    for kind in Kind::ALL {
        let schema = schema::payload(*kind);
        jsonschema::meta::validate(&schema).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(ids.insert(schema["$id"].clone()), "{kind}");
    }
}

#[test]
fn every_example_is_accepted_by_types_and_schemas() {
    let whole = jsonschema::validator_for(&schema::envelope()).unwrap();
    for kind in Kind::ALL {
        let payload = serde_json::to_value(kind.example()).unwrap();
        assert!(compiled(&schema::payload(*kind)).is_valid(&payload), "{kind}");
        let message = serde_json::to_value(kind.example_message()).unwrap();
        assert!(whole.is_valid(&message), "{kind}");
        assert!(compiled(&schema::message(*kind)).is_valid(&message), "{kind}");
        let parsed = Envelope::parse(message.to_string().as_bytes());
        assert_eq!(parsed, Ok(kind.example_message()));
    }
}

fn compiled(schema: &Value) -> jsonschema::Validator {
    jsonschema::validator_for(schema).unwrap()
}

#[test]
fn every_field_is_described() {
    fn check(name: &str, place: &str, schema: &Value) {
        let Some(properties) = schema["properties"].as_object() else { return };
        for (field, property) in properties {
            let described = property["description"].as_str().is_some_and(|text| text.len() > 10);
            assert!(described, "{name}: {place}/{field} has no description");
        }
    }
    for kind in Kind::ALL {
        let schema = schema::message(*kind);
        check(kind.as_str(), "", &schema);
        for (definition, schema) in schema["$defs"].as_object().unwrap() {
            check(kind.as_str(), definition, schema);
        }
    }
}
