//! Schema checker: translates JSON Schema errors into violations with advice.
//!
//! The schema also contains what a field is for, which values it allows and what its object
//! requires. The sentences quote these parts, so that the sender can correct the message.

use std::collections::HashSet;

use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind as ErrorKind};
use serde_json::Value;

use crate::fields::ids::UUID_V7_PATTERN;
use crate::fields::text::NOT_BLANK_PATTERN;
use crate::validate::document::push_token;
use crate::validate::violation::{Code, Violation};
use crate::validate::violation_text::{
    alternatives, bad_timestamp, bad_uuid, is_item, name_of, nearest, quote, rewritten, strings,
    type_name, with_article,
};
use crate::{AgentId, Timestamp};

/// A compiled schema that lists the violations of a value.
pub(crate) struct Checker {
    schema: Value,
    validator: jsonschema::Validator,
}

impl Checker {
    pub(crate) fn new(schema: Value) -> Self {
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema)
            .unwrap_or_else(|error| unreachable!("the schema is checked by a test: {error}"));
        Self { schema, validator }
    }

    /// All violations of `value`.
    pub(crate) fn violations(&self, value: &Value) -> Vec<Violation> {
        let mut found = Vec::new();
        for error in self.validator.iter_errors(value) {
            self.translate(&error, value, &mut found);
        }
        // A value of the wrong type also fails its `enum`; reporting both adds nothing.
        let wrong: HashSet<_> =
            found.iter().filter(|v| v.code == Code::WrongType).map(|v| v.path.clone()).collect();
        found.retain(|v| v.code == Code::WrongType || !wrong.contains(&v.path));
        found
    }

    fn translate(&self, error: &ValidationError<'_>, whole: &Value, found: &mut Vec<Violation>) {
        let path = error.instance_path().as_str();
        let value = error.instance().as_ref();
        let name = name_of(path);
        let (code, sentence) = match error.kind() {
            ErrorKind::Required { property } => {
                let property = property.as_str().unwrap_or_default();
                return found.push(self.missing(error, whole, property));
            }
            ErrorKind::AdditionalProperties { unexpected } => {
                return found.extend(unexpected.iter().map(|key| self.unknown_field(error, key)));
            }
            ErrorKind::PropertyNames { error: inner } => {
                let mut at = path.to_owned();
                push_token(&mut at, inner.instance().as_str().unwrap_or_default());
                let sentence = "The name of this field is too long. Shorten it.";
                return found.push(Violation::new(at, Code::TooLong, sentence));
            }
            ErrorKind::Type { kind } => return found.push(self.wrong_type(error, &name, kind)),
            ErrorKind::Enum { options } => {
                return found.push(not_in_set(path, &name, value, options));
            }
            ErrorKind::Pattern { pattern } => bad_text(&name, value, code_of(pattern)),
            ErrorKind::Format { format } if format == "uuid" => {
                bad_text(&name, value, Code::BadUuid)
            }
            ErrorKind::Format { .. } => bad_text(&name, value, Code::BadTimestamp),
            ErrorKind::MinLength { .. } => {
                (Code::Blank, format!("{name} is empty. Write at least one character."))
            }
            ErrorKind::MaxLength { limit } => {
                let length = value.as_str().map_or(0, |text| text.chars().count());
                let sentence = format!(
                    "{name} has {length} characters; at most {limit} are allowed. Shorten it."
                );
                (Code::TooLong, sentence)
            }
            ErrorKind::MaxItems { limit } => {
                let items = value.as_array().map_or(0, Vec::len);
                let sentence = format!(
                    "{name} has {items} items; at most {limit} are allowed. Send the rest in another message."
                );
                (Code::TooMany, sentence)
            }
            ErrorKind::MinItems { limit } => {
                (Code::TooFew, format!("{name} needs at least {limit} item."))
            }
            ErrorKind::Minimum { limit } => {
                (Code::NotAllowed, format!("{name} is {value}; it must be at least {limit}."))
            }
            ErrorKind::Maximum { limit } => {
                (Code::NotAllowed, format!("{name} is {value}; it must be at most {limit}."))
            }
            // The schemas of this crate use no other keyword that can fail.
            _ => (Code::NotAllowed, format!("{name}: {error}.")),
        };
        found.push(Violation::new(path, code, sentence));
    }

    fn missing(&self, error: &ValidationError<'_>, whole: &Value, property: &str) -> Violation {
        let mut path = error.instance_path().as_str().to_owned();
        let place = if path.is_empty() { "the message".to_owned() } else { name_of(&path) };
        push_token(&mut path, property);
        let field = &self.context(error)["properties"][property];
        // The shape of `payload` depends on `type`.
        let shape = self.of_kind(whole, property).filter(|_| path.matches('/').count() == 1);
        let shape = self.definition(shape.unwrap_or(field));
        let sentence =
            format!("`{property}` is missing. Add it to {place}: {}", describe(field, shape));
        let mut violation = Violation::new(path, Code::Missing, sentence);
        violation.allowed = strings(&shape["enum"]);
        violation
    }

    fn unknown_field(&self, error: &ValidationError<'_>, key: &str) -> Violation {
        let mut path = error.instance_path().as_str().to_owned();
        let fields = |schema: &Value| -> Vec<String> {
            let properties = schema["properties"].as_object();
            properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
        };
        let known = fields(self.context(error));
        let near = nearest(key, &known);
        let of_envelope = !path.is_empty() && fields(&self.schema).iter().any(|field| field == key);
        let hint = match &near {
            _ if of_envelope => "It belongs to the message itself, beside `payload`.".to_owned(),
            Some(near) => format!("Did you mean `{near}`?"),
            None => format!("Leave it out, or use one of {}.", alternatives(&known)),
        };
        push_token(&mut path, key);
        let sentence = format!("There is no field {} here. {hint}", quote(key));
        let mut violation = Violation::new(path, Code::UnknownField, sentence);
        violation.allowed = known;
        violation.suggestion = near.filter(|_| !of_envelope);
        violation
    }

    fn wrong_type(&self, error: &ValidationError<'_>, name: &str, kind: &TypeKind) -> Violation {
        let path = error.instance_path().as_str();
        let value = error.instance().as_ref();
        let expected = match kind {
            TypeKind::Single(kind) => with_article(kind.as_str()),
            TypeKind::Multiple(_) => "a value of another type".to_owned(),
        };
        let schema = self.context(error);
        let allowed = strings(&schema["enum"]);
        let hint = if allowed.is_empty() {
            rewritten(value, schema).unwrap_or_default()
        } else {
            format!(" Write {}.", alternatives(&allowed))
        };
        let found = with_article(type_name(value));
        let sentence = match (path.is_empty(), value.is_null()) {
            (true, _) => format!("This must be a JSON object, but it is {found}."),
            (_, true) if is_item(path) => {
                format!("{name} is null. Remove this item, or write {expected}.")
            }
            (_, true) if self.is_required(error) => {
                format!("{name} is null, but it must be {expected}.{hint}")
            }
            (_, true) => format!(
                "{name} is null. Leave the field out if it has no value; otherwise write {expected}.{hint}"
            ),
            _ => format!("{name} must be {expected}, but it is {found}.{hint}"),
        };
        let mut violation = Violation::new(path, Code::WrongType, sentence);
        violation.allowed = allowed;
        violation
    }

    /// The schema object whose keyword failed.
    fn context(&self, error: &ValidationError<'_>) -> &Value {
        let keyword = error.schema_path().as_str();
        let parent = keyword.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.schema.pointer(parent).unwrap_or(&Value::Null)
    }

    /// Whether the enclosing object requires the field that contains the violation.
    fn is_required(&self, error: &ValidationError<'_>) -> bool {
        let field = error.instance_path().as_str().rsplit('/').next().unwrap_or_default();
        let keyword = error.evaluation_path().as_str();
        let around = keyword.rfind("/properties/").map_or("", |at| &keyword[..at]);
        strings(&self.at_evaluation_path(around)["required"]).iter().any(|name| name == field)
    }

    /// The schema at an evaluation path, with references resolved.
    fn at_evaluation_path(&self, path: &str) -> &Value {
        path.split('/').skip(1).fold(&self.schema, |at, token| match token {
            "$ref" => self.definition(at),
            token => match token.parse::<usize>() {
                Ok(index) => &at[index],
                Err(_) => &at[token],
            },
        })
    }

    /// The definition a schema refers to, or the schema itself.
    fn definition<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let target = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        target.and_then(|pointer| self.schema.pointer(pointer)).unwrap_or(schema)
    }

    /// The schema of an envelope field for the kind of `message`.
    fn of_kind(&self, message: &Value, property: &str) -> Option<&Value> {
        let branches = self.schema["allOf"].as_array()?;
        let own = |branch: &&Value| branch["if"]["properties"]["type"]["const"] == message["type"];
        branches.iter().find(own)?["then"]["properties"].get(property)
    }
}

/// The code for a failed pattern. The schemas use no other patterns.
fn code_of(pattern: &str) -> Code {
    match pattern {
        AgentId::PATTERN => Code::BadAgentId,
        Timestamp::PATTERN | Timestamp::ANY_PATTERN => Code::BadTimestamp,
        UUID_V7_PATTERN => Code::BadUuid,
        NOT_BLANK_PATTERN => Code::Blank,
        _ => Code::NotAllowed,
    }
}

/// Describes a missing field: its type, its purpose and an example.
fn describe(field: &Value, shape: &Value) -> String {
    let about = field["description"].as_str().or(shape["description"].as_str());
    let about = about.unwrap_or("see the schema.");
    let kind = shape["type"].as_str().map_or("a value".to_owned(), with_article);
    let required = strings(&shape["required"]);
    let with = match required.as_slice() {
        [] => String::new(),
        [only] => format!(" with `{only}`"),
        [init @ .., last] => format!(" with `{}` and `{last}`", init.join("`, `")),
    };
    let example = match (shape["type"].as_str(), shape["examples"][0].as_str()) {
        (Some("string"), Some(example)) => format!(" It looks like {}.", quote(example)),
        _ => String::new(),
    };
    format!("{kind}{with} — {about}{example}")
}

fn not_in_set(path: &str, name: &str, value: &Value, options: &Value) -> Violation {
    let allowed = strings(options);
    let given = value.as_str().unwrap_or_default();
    let near = nearest(given, &allowed);
    let hint = near.as_ref().map_or_else(
        || format!("Write {}.", alternatives(&allowed)),
        |near| format!("Did you mean `{near}`? Allowed: {}.", alternatives(&allowed)),
    );
    let sentence = format!("{name} cannot be {}. {hint}", quote(given));
    let mut violation = Violation::new(path, Code::NotAllowed, sentence);
    violation.allowed = allowed;
    violation.suggestion = near;
    violation
}

fn bad_text(name: &str, value: &Value, code: Code) -> (Code, String) {
    let text = value.as_str().unwrap_or_default();
    let given = quote(text);
    let sentence = match code {
        Code::BadAgentId => format!(
            "{given} is not an agent id. Write 1 to 64 of the characters A-Z a-z 0-9 . _ - and start with a letter or a digit."
        ),
        Code::BadTimestamp => bad_timestamp(text),
        Code::BadUuid => bad_uuid(name, text),
        Code::Blank => {
            format!("{name} is blank. Write at least one character that is not white space.")
        }
        _ => format!("{name} cannot be {given}."),
    };
    (code, sentence)
}
