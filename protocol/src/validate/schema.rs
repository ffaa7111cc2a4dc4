//! Published JSON Schemas, generated from the types (draft 2020-12).
//!
//! One schema per kind describes a whole message of that kind. The envelope's schema describes any
//! message and selects the payload by `type` with `if`/`then`. A `oneOf` would report every
//! violation as one unspecific error at the root.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::envelope::Frame;
use crate::{Kind, Recipient};

/// The name under which the schema of any message is published.
pub const ENVELOPE: &str = "envelope";
/// The name under which the schema of the task-progress extension is published.
pub const TASK_PROGRESS: &str = "task-progress";

/// Keyword in which a closed set passes the meanings of its values to [`append_meanings`].
pub(crate) const MEANINGS: &str = "x-meanings";

/// Every published schema: the envelope, the seven kinds, task progress.
#[must_use]
pub fn all() -> Vec<(&'static str, Value)> {
    let kinds = Kind::ALL.iter().map(|kind| (kind.as_str(), message(*kind)));
    std::iter::once((ENVELOPE, envelope()))
        .chain(kinds)
        .chain(std::iter::once((TASK_PROGRESS, task_progress())))
        .collect()
}

/// The schema of any message of the protocol.
#[must_use]
pub fn envelope() -> Value {
    let mut generator = generator();
    let root = any_message(&mut generator);
    finish(generator, root, ENVELOPE, "Any message of openclaw.a2a.v1")
}

/// The schema of any message for embedding into a larger document, and its definitions, which the
/// caller inserts at `definitions_path`.
#[must_use]
pub fn envelope_within(definitions_path: &'static str) -> (Value, Map<String, Value>) {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(tidy));
    let mut generator =
        settings.with(|it| it.definitions_path = definitions_path.into()).into_generator();
    let mut root = any_message(&mut generator);
    RecursiveTransform(tidy).transform(&mut root);
    (root.into(), generator.take_definitions(true))
}

/// A schema generator for responses, for embedding into a larger document with the definitions at
/// `definitions_path`. An optional field is never `null`; a required one may be.
#[must_use]
pub fn answers(definitions_path: &'static str) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|it| it.definitions_path = definitions_path.into());
    settings.with_transform(RecursiveTransform(tidy_answer)).into_generator()
}

fn any_message(generator: &mut SchemaGenerator) -> Schema {
    let mut root = Frame::<AnyPayload>::json_schema(generator);
    let conditions: Vec<_> = Kind::ALL
        .iter()
        .map(|kind| {
            let mut then = json!({ "properties": {
                "to": generator.subschema_for::<Recipient>(),
                "payload": kind.payload_schema(generator),
            }});
            if kind.needs_recipient() {
                then["required"] = json!(["to"]);
            }
            let condition =
                json!({ "properties": { "type": { "const": kind } }, "required": ["type"] });
            json!({ "if": condition, "then": then })
        })
        .collect();
    root.insert("allOf".into(), conditions.into());
    // The rule for `to` depends on `type`. If that is unknown, `to` is not checked.
    describe_only(&mut root, "to");
    root
}

/// The schema of a whole message of one kind.
#[must_use]
pub fn message(kind: Kind) -> Value {
    let mut generator = generator();
    let mut root = Frame::<AnyPayload>::json_schema(&mut generator);
    let payload = kind.payload_schema(&mut generator);
    set_property(&mut root, "payload", payload.into());
    let schema = json!({ "type": "string", "enum": [kind], "description": "What the message is." });
    set_property(&mut root, "type", schema);
    if kind.needs_recipient()
        && let Some(Value::Array(required)) = root.get_mut("required")
    {
        required.push("to".into());
    }
    root.insert("examples".into(), json!([kind.example_message()]));
    let title = format!("A {kind} message of openclaw.a2a.v1");
    finish(generator, root, kind.as_str(), &title)
}

/// The schema of the payload of one kind, for a tool definition where a program adds the envelope.
#[must_use]
pub fn payload(kind: Kind) -> Value {
    let mut generator = generator();
    let reference = kind.payload_schema(&mut generator);
    let mut definitions = generator.take_definitions(true);
    let name =
        reference.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/"));
    // Every payload is a named struct, so its definition exists.
    let own = name.and_then(|name| definitions.remove(name)).unwrap_or_default();
    let root = Schema::try_from(own).unwrap_or_default();
    assemble(
        root,
        definitions,
        &format!("{kind}:payload"),
        &format!("The payload of a {kind} message"),
    )
}

/// The schema of the task-progress extension, copied from its specification.
#[must_use]
pub fn task_progress() -> Value {
    let text = include_str!("../../schemas/task-progress.schema.json");
    serde_json::from_str(text).unwrap_or_else(|error| unreachable!("checked by a test: {error}"))
}

/// A payload whose shape depends on `type`.
struct AnyPayload;

impl JsonSchema for AnyPayload {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyPayload".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().with_transform(RecursiveTransform(tidy)).into_generator()
}

/// Adjusts each schema object generated by the derive.
fn tidy(schema: &mut Schema) {
    refuse_null(schema);
    append_meanings(schema);
}

/// Adjusts each schema object of a response, in which only optional fields are never `null`.
fn tidy_answer(schema: &mut Schema) {
    append_meanings(schema);
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        if !required.iter().any(|each| each == name)
            && let Ok(property) = property.try_into()
        {
            refuse_null(property);
        }
    }
}

fn append_meanings(schema: &mut Schema) {
    if let Some(Value::String(meanings)) = schema.remove(MEANINGS) {
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        schema.insert("description".into(), format!("{about} {meanings}").into());
    }
}

/// Removes `null` from a schema: `Option` means that a field may be absent.
fn refuse_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if object.get("default") == Some(&Value::Null) {
        object.remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type") != Some(&json!("null")));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
}

fn set_property(root: &mut Schema, name: &str, mut schema: Value) {
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return };
    let description = properties.get(name).and_then(|old| old.get("description")).cloned();
    if let (Value::Object(schema), Some(description)) = (&mut schema, description) {
        schema.entry("description").or_insert(description);
    }
    properties.insert(name.into(), schema);
}

fn describe_only(root: &mut Schema, name: &str) {
    set_property(root, name, json!({}));
}

fn finish(mut generator: SchemaGenerator, root: Schema, name: &str, title: &str) -> Value {
    let definitions = generator.take_definitions(true);
    assemble(root, definitions, name, title)
}

fn assemble(mut root: Schema, definitions: Map<String, Value>, name: &str, title: &str) -> Value {
    RecursiveTransform(tidy).transform(&mut root);
    let mut schema = Map::new();
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("$id".into(), format!("urn:openclaw:a2a:v1:{name}").into());
    schema.insert("title".into(), title.into());
    if let Value::Object(fields) = root.into() {
        for (key, value) in fields {
            schema.entry(key).or_insert(value);
        }
    }
    if !definitions.is_empty() {
        schema.insert("$defs".into(), definitions.into());
    }
    schema.into()
}
