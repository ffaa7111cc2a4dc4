//! The failure path: why a message was refused, everything at once.
//!
//! The types have said no. Here the schema generated from those types lists each
//! fault with its place, and the faults no schema can see are added. The sentences
//! quote the schema's own descriptions, so they teach what the field is for.

use std::sync::LazyLock;

use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind as Fault};
use serde_json::Value;

use crate::body::{NextAction, Verdict};
use crate::document::{Document, push_token};
use crate::envelope::session_key_fits;
use crate::ids::UUID_V7_PATTERN;
use crate::text::NOT_BLANK_PATTERN;
use crate::violation::{Code, Report, Violation};
use crate::{AgentId, Timestamp, schema};

/// A schema ready to list the faults of a value.
pub(crate) struct Checker {
    schema: Value,
    validator: jsonschema::Validator,
}

static ENVELOPE: LazyLock<Checker> = LazyLock::new(|| Checker::new(schema::envelope()));

/// Everything that is wrong with the bytes of a message that was refused.
pub(crate) fn explain(bytes: &[u8]) -> Report {
    let document = match Document::read(bytes) {
        Ok(document) => document,
        Err(violation) => return violation.into(),
    };
    let mut violations = document.duplicate_keys;
    violations.extend(ENVELOPE.faults(&document.value));
    violations.extend(contradictions(&document.value));
    if violations.is_empty() {
        // Types and schema disagree: a defect of this crate that the property tests look for.
        let message = "The message cannot be read, and no single field says why. Compare it with `openclaw-a2a schema`.";
        violations.push(Violation::new("", Code::WrongType, message));
    }
    Report::new(violations)
}

/// Faults that lie between two fields.
fn contradictions(message: &Value) -> Vec<Violation> {
    let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
    let mut found = Vec::new();
    if let (Some(agent), Some(key)) = (text("/from/agentId"), text("/from/sessionKey"))
        && !session_key_fits(agent, key)
    {
        let sentence = format!(
            "The session key {} belongs to another agent than `from.agentId`, which is {}. Use a session key of your own, or leave it out.",
            quote(key),
            quote(agent)
        );
        found.push(Violation::new("/from/sessionKey", Code::Mismatch, sentence));
    }
    let verdict = text("/payload/verdict").and_then(Verdict::from_word);
    let next = text("/payload/nextAction").and_then(NextAction::from_word);
    if let (Some("review_response"), Some(verdict), Some(next)) = (text("/type"), verdict, next)
        && verdict.contradicts(next)
    {
        let fitting: Vec<_> =
            NextAction::ALL.iter().filter(|n| !verdict.contradicts(**n)).collect();
        let sentence = format!(
            "`nextAction` `{next}` contradicts the verdict `{verdict}`. Write {}, or change the verdict.",
            alternatives(&fitting)
        );
        let mut violation = Violation::new("/payload/nextAction", Code::Mismatch, sentence);
        violation.allowed = fitting.iter().map(ToString::to_string).collect();
        found.push(violation);
    }
    found
}

impl Checker {
    pub(crate) fn new(schema: Value) -> Self {
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema)
            .unwrap_or_else(|error| unreachable!("the schema is checked by a test: {error}"));
        Self { schema, validator }
    }

    /// The faults of `value`, one violation each.
    pub(crate) fn faults(&self, value: &Value) -> Vec<Violation> {
        let mut found = Vec::new();
        for error in self.validator.iter_errors(value) {
            self.translate(&error, &mut found);
        }
        // A value of the wrong type is also outside its closed set; saying so helps nobody.
        let wrong: std::collections::HashSet<_> =
            found.iter().filter(|v| v.code == Code::WrongType).map(|v| v.path.clone()).collect();
        found.retain(|v| v.code == Code::WrongType || !wrong.contains(&v.path));
        found
    }

    fn translate(&self, error: &ValidationError<'_>, found: &mut Vec<Violation>) {
        let path = error.instance_path().as_str();
        let value = error.instance();
        let name = quote(path.rsplit('/').next().unwrap_or_default());
        let violation = match error.kind() {
            Fault::Required { property } => {
                self.missing(error, property.as_str().unwrap_or_default())
            }
            Fault::AdditionalProperties { unexpected } => {
                found.extend(unexpected.iter().map(|key| self.unknown_field(error, key)));
                return;
            }
            Fault::PropertyNames { error: inner } => {
                let mut at = path.to_owned();
                push_token(&mut at, inner.instance().as_str().unwrap_or_default());
                Violation::new(at, Code::TooLong, "The name of this field is too long. Shorten it.")
            }
            Fault::Type { kind } => wrong_type(path, &name, value, kind),
            Fault::Enum { options } => not_in_set(path, &name, value, options),
            Fault::Pattern { pattern } => bad_text(path, &name, value, code_of(pattern)),
            Fault::Format { format } => {
                let code = if format == "uuid" { Code::BadUuid } else { Code::BadTimestamp };
                bad_text(path, &name, value, code)
            }
            Fault::MinLength { .. } => bad_text(path, &name, value, Code::Blank),
            Fault::MaxLength { limit } => {
                let length = value.as_str().map_or(0, |text| text.chars().count());
                Violation::new(
                    path,
                    Code::TooLong,
                    format!(
                        "{name} has {length} characters; at most {limit} are allowed. Shorten it."
                    ),
                )
            }
            Fault::MaxItems { limit } => too_many(path, value, *limit),
            Fault::MinItems { limit } => {
                Violation::new(path, Code::TooFew, format!("{name} needs at least {limit} item."))
            }
            Fault::Minimum { limit } => Violation::new(
                path,
                Code::NotAllowed,
                format!("{name} is {value}; it must be at least {limit}."),
            ),
            Fault::Maximum { limit } => Violation::new(
                path,
                Code::NotAllowed,
                format!("{name} is {value}; it must be at most {limit}."),
            ),
            // Our schemas use no other keyword that can fail.
            _ => Violation::new(path, Code::NotAllowed, format!("{name}: {error}.")),
        };
        found.push(violation);
    }

    /// The schema object whose keyword failed.
    fn context(&self, error: &ValidationError<'_>) -> &Value {
        let keyword = error.schema_path().as_str();
        let parent = keyword.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.schema.pointer(parent).unwrap_or(&Value::Null)
    }

    fn missing(&self, error: &ValidationError<'_>, property: &str) -> Violation {
        let mut path = error.instance_path().as_str().to_owned();
        let place = path
            .rsplit('/')
            .next()
            .filter(|t| !t.is_empty())
            .map_or("the message".to_owned(), quote);
        push_token(&mut path, property);
        let field = self.resolve(&self.context(error)["properties"][property]);
        let about = field["description"].as_str().unwrap_or_default();
        let sentence =
            format!("`{property}` is missing. Add it to {place}: {}", describe(about, field));
        let mut violation = Violation::new(path, Code::Missing, sentence);
        violation.allowed = words(&field["enum"]);
        violation
    }

    fn unknown_field(&self, error: &ValidationError<'_>, key: &str) -> Violation {
        let mut path = error.instance_path().as_str().to_owned();
        push_token(&mut path, key);
        let known: Vec<String> = self.context(error)["properties"]
            .as_object()
            .map(|properties| properties.keys().cloned().collect())
            .unwrap_or_default();
        let near = nearest(key, &known);
        let hint = near.as_ref().map_or_else(
            || format!("Leave it out, or use one of {}.", alternatives(&known)),
            |near| format!("Did you mean `{near}`?"),
        );
        let mut violation = Violation::new(
            path,
            Code::UnknownField,
            format!("There is no field {} here. {hint}", quote(key)),
        );
        violation.allowed = known;
        violation.suggestion = near;
        violation
    }

    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        if schema.get("description").is_some() {
            return schema;
        }
        let target = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        target.and_then(|pointer| self.schema.pointer(pointer)).unwrap_or(schema)
    }
}

/// The code of a failed pattern; every pattern in our schemas is one of these.
fn code_of(pattern: &str) -> Code {
    match pattern {
        AgentId::PATTERN => Code::BadAgentId,
        Timestamp::PATTERN => Code::BadTimestamp,
        UUID_V7_PATTERN => Code::BadUuid,
        NOT_BLANK_PATTERN => Code::Blank,
        _ => Code::NotAllowed,
    }
}

/// What to write into a field, by the schema of the field.
fn describe(about: &str, field: &Value) -> String {
    let kind = field["type"].as_str().map(|word| format!("{} ", with_article(word)));
    let example = field["examples"][0].as_str().filter(|_| field["type"] == "string");
    let example = example.map(|example| format!(" For example {}.", quote(example)));
    let about = if about.is_empty() { "see the schema." } else { about };
    format!("{}— {about}{}", kind.unwrap_or_default(), example.unwrap_or_default())
}

fn wrong_type(path: &str, name: &str, value: &Value, kind: &TypeKind) -> Violation {
    let expected = match kind {
        TypeKind::Single(kind) => with_article(kind.as_str()),
        TypeKind::Multiple(_) => "a value of another type".to_owned(),
    };
    let found = with_article(type_name(value));
    let sentence = match (path.is_empty(), value.is_null()) {
        (true, _) => format!("A message is a JSON object, but this is {found}."),
        (_, true) => format!(
            "{name} is null. Leave the field out if it has no value; otherwise write {expected}."
        ),
        _ => format!("{name} must be {expected}, but it is {found}."),
    };
    Violation::new(path, Code::WrongType, sentence)
}

fn not_in_set(path: &str, name: &str, value: &Value, options: &Value) -> Violation {
    let allowed = words(options);
    let given = value.as_str().unwrap_or_default();
    let near = nearest(given, &allowed);
    let hint = near.as_ref().map_or_else(
        || format!("Write {}.", alternatives(&allowed)),
        |near| format!("Did you mean `{near}`? Allowed: {}.", alternatives(&allowed)),
    );
    let mut violation = Violation::new(
        path,
        Code::NotAllowed,
        format!("{name} cannot be {}. {hint}", quote(given)),
    );
    violation.allowed = allowed;
    violation.suggestion = near;
    violation
}

fn bad_text(path: &str, name: &str, value: &Value, code: Code) -> Violation {
    let given = quote(value.as_str().unwrap_or_default());
    let sentence = match code {
        Code::BadAgentId => format!(
            "{given} is not an agent id. Write 1 to 64 of the characters A-Z a-z 0-9 . _ - and start with a letter or a digit."
        ),
        Code::BadTimestamp => format!(
            "{given} is not a timestamp of RFC 3339. Write date, `T`, time and offset, such as \"2026-02-21T18:30:00Z\"."
        ),
        Code::BadUuid => format!(
            "{given} is not a UUID of version 7. Make a new one with a UUIDv7 generator, or copy it from the message you answer; it looks like \"0192a4c8-7e1a-7b3c-9d4e-000000000001\"."
        ),
        Code::Blank => {
            format!("{name} is blank. Write at least one character that is not white space.")
        }
        _ => format!("{name} cannot be {given}."),
    };
    Violation::new(path, code, sentence)
}

pub(crate) fn too_many(path: &str, value: &Value, limit: u64) -> Violation {
    let items = value.as_array().map_or(0, Vec::len);
    let sentence = format!(
        "There are {items} items here; at most {limit} are allowed. Send the rest in another message."
    );
    Violation::new(path, Code::TooMany, sentence)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn with_article(word: &str) -> String {
    match word {
        "null" => word.to_owned(),
        "array" | "object" | "integer" => format!("an {word}"),
        word => format!("a {word}"),
    }
}

fn words(options: &Value) -> Vec<String> {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    options.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn alternatives(words: &[impl ToString]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{}`", word.to_string())).collect();
    match quoted.as_slice() {
        [init @ .., a, b] => {
            let init: String = init.iter().map(|word| format!("{word}, ")).collect();
            format!("{init}{a} or {b}")
        }
        [only] => only.clone(),
        [] => "nothing".to_owned(),
    }
}

/// Text of the sender inside our sentence: short, and with nothing a terminal would act on.
fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// The known word nearest to `given`, if it is near enough to be what was meant.
fn nearest(given: &str, known: &[String]) -> Option<String> {
    const NEAR: f64 = 0.82;
    if given.len() > 64 {
        return None;
    }
    let plain = |word: &str| word.to_ascii_lowercase().replace(['-', ' '], "_");
    let given = plain(given);
    known
        .iter()
        .map(|word| (strsim::jaro_winkler(&given, &plain(word)), word))
        .filter(|(similarity, _)| *similarity >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word.clone())
}
