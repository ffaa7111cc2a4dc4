//! Decodes messages and their parts in the forms of both versions.

use serde_json::Value;

use super::param_errors::{ParamErrors, ParamPath};
use super::{Decoded, filled, push};
use crate::fault::Fault;
use crate::limits::ARRAY_ITEMS;
use crate::operation::{Operation, SendMessage};
use crate::task::{Content, ContextId, Message, Metadata, Part, Role};
use crate::validate::violation::Code;
use crate::wire::params::{self, EnumValue, Object, SendConfiguration, SendParams};
use crate::wire::{Dialect, Method, Version, v0_3};

/// Decodes `message/send` and `message/stream`.
pub(super) fn send(
    version: Version,
    method: Method,
    read: SendParams<'_>,
) -> Result<Decoded, Fault> {
    let mut errors = ParamErrors::new();
    let tenant = filled(read.tenant.as_ref()).map(str::to_owned);
    let dialect = match (version, &read.message) {
        (Version::V0_3, Some(Object(message))) if message.content.is_some() => Dialect::V0_3Proto,
        _ => version.dialect(),
    };
    let path = ParamPath::Key(&ParamPath::Root, "message");
    let message = match read.message {
        Some(Object(read)) => message(&mut errors, dialect, &path, read),
        None => {
            errors.missing(&path, "an object with `messageId`, `role` and `parts`");
            None
        }
    };
    errors
        .check_metadata_depth(ParamPath::Key(&ParamPath::Root, "metadata"), read.metadata.as_ref());
    let configured = read.configuration.is_some();
    let Object(configuration) = read.configuration.unwrap_or(Object(SendConfiguration::default()));
    let return_immediately = match dialect {
        Dialect::V1_0 => configuration.return_immediately.as_ref().is_some_and(|flag| flag.0),
        Dialect::V0_3 => configuration.blocking.as_ref().is_some_and(|flag| !flag.0),
        // Proto 3 does not write `false`: in a configuration an absent `blocking` means `false`.
        Dialect::V0_3Proto => configured && !configuration.blocking.as_ref().is_some_and(|b| b.0),
    };
    let waits_unless_planned = dialect == Dialect::V0_3 && configuration.blocking.is_none();
    let at = ParamPath::Key(&ParamPath::Root, "configuration");
    let history_length = errors.history_length(&at, configuration.history_length);
    let (field, push) = match version {
        Version::V1_0 if configuration.task_push_notification_config.is_some() => {
            ("taskPushNotificationConfig", configuration.task_push_notification_config)
        }
        _ => ("pushNotificationConfig", configuration.push_notification_config),
    };
    let push = match push {
        Some(Object(read)) => {
            push::config(&mut errors, version, &ParamPath::Key(&at, field), read).map(Some)
        }
        None => Some(None),
    };
    let send = message.zip(push).map(|(message, push)| {
        Box::new(SendMessage {
            message,
            accepted_output_modes: configuration.accepted_output_modes.unwrap_or_default(),
            push,
            history_length,
            return_immediately,
            waits_unless_planned,
            metadata: read.metadata,
        })
    });
    let send = errors.finish(send)?;
    let operation = match method {
        Method::StreamMessage => Operation::StreamMessage(send),
        _ => Operation::SendMessage(send),
    };
    Ok(Decoded { tenant, operation, dialect })
}

fn message(
    errors: &mut ParamErrors,
    dialect: Dialect,
    at: &ParamPath<'_>,
    read: params::MessageParams<'_>,
) -> Option<Message> {
    let message_id =
        errors.required_id(&ParamPath::Key(at, "messageId"), filled(read.message_id.as_ref()));
    let context_id = filled(read.context_id.as_ref()).and_then(|text| {
        errors.accept(&ParamPath::Key(at, "contextId"), ContextId::try_from(text))
    });
    let task_id = errors.optional_id(&ParamPath::Key(at, "taskId"), filled(read.task_id.as_ref()));
    let role = role(errors, dialect.version(), &ParamPath::Key(at, "role"), read.role);
    errors.check_metadata_depth(ParamPath::Key(at, "metadata"), read.metadata.as_ref());
    let (field, written) = match (read.parts, read.content) {
        (Some(parts), _) => ("parts", parts),
        (None, Some(content)) => ("content", content),
        (None, None) => ("parts", Vec::new()),
    };
    let path = ParamPath::Key(at, field);
    if written.is_empty() {
        let message = "A message has at least one part, such as {\"text\": \"…\"}.";
        let message = match dialect {
            Dialect::V0_3 => {
                "A message has at least one part, such as {\"kind\": \"text\", \"text\": \"…\"}."
            }
            Dialect::V1_0 | Dialect::V0_3Proto => message,
        };
        errors.wrong(&path, Code::TooFew, message);
    }
    if written.len() > ARRAY_ITEMS {
        let message =
            format!("There are {} parts; at most {ARRAY_ITEMS} are possible.", written.len());
        errors.wrong(&path, Code::TooMany, message);
        return None;
    }
    let mut parts = Vec::with_capacity(written.len());
    for (i, Object(read)) in written.into_iter().enumerate() {
        parts.extend(part(errors, dialect, &ParamPath::Index(&path, i), read));
    }
    Some(Message {
        message_id: message_id?,
        context_id,
        task_id,
        role: role?,
        parts,
        metadata: read.metadata,
        extensions: read.extensions.unwrap_or_default(),
        reference_task_ids: read.reference_task_ids.unwrap_or_default(),
    })
}

fn role(
    errors: &mut ParamErrors,
    version: Version,
    at: &ParamPath<'_>,
    written: Option<EnumValue<'_>>,
) -> Option<Role> {
    let role = match &written {
        Some(EnumValue::Text(text)) => v0_3::role_from_name(text).or_else(|| Role::from_name(text)),
        Some(EnumValue::Number(1)) => Some(Role::User),
        Some(EnumValue::Number(2)) => Some(Role::Agent),
        Some(EnumValue::Number(_)) => None,
        None => {
            errors.missing(at, v0_3::role_rule(version));
            return None;
        }
    };
    if role.is_none() {
        let names = Role::ALL.iter().map(|&role| match version {
            Version::V1_0 => role.as_str(),
            Version::V0_3 => v0_3::role_name(role),
        });
        errors.not_one_of(at, &written.unwrap_or(EnumValue::Number(0)), names);
    }
    role
}

fn part(
    errors: &mut ParamErrors,
    dialect: Dialect,
    at: &ParamPath<'_>,
    read: params::PartParams<'_>,
) -> Option<Part> {
    let named = match (&read.kind, &read.type_) {
        (Some(kind), _) => Some(("kind", &*kind.0)),
        (None, Some(Value::String(kind))) => Some(("type", kind.as_str())),
        (None, _) => None,
    };
    if let (Dialect::V0_3, Some((key, kind))) = (dialect, named)
        && !matches!(kind, "text" | "file" | "data")
    {
        let value = EnumValue::Text(kind.into());
        errors.not_one_of(&ParamPath::Key(at, key), &value, ["text", "file", "data"].into_iter());
        return None;
    }
    let (mut filename, mut media_type, mut metadata) =
        (read.filename, read.media_type, read.metadata);
    errors.check_metadata_depth(ParamPath::Key(at, "metadata"), metadata.as_ref());
    let content = match (read.text, read.raw, read.url, read.data, read.file) {
        (Some(text), None, None, None, None) => Content::Text(text),
        (None, Some(base64), None, None, None) => Content::Raw(base64),
        (None, None, Some(url), None, None) => Content::Url(url),
        (None, None, None, Some(value), None) => {
            errors.check_depth(ParamPath::Key(at, "data"), &value);
            Content::Data(data(dialect, value, &mut metadata))
        }
        (None, None, None, None, Some(Object(file))) => {
            filename = file.name.or(filename);
            media_type = file.mime_type.or(media_type);
            // ProtoJSON writes an unset field as an empty text.
            let set = |text: Option<String>| text.filter(|text| !text.is_empty());
            match (file.bytes, set(file.uri)) {
                (Some(base64), None) => Content::Raw(base64),
                (None, Some(url)) => Content::Url(url),
                _ => {
                    let message = "A file has either `bytes` (in base64) or `uri`.";
                    errors.wrong(&ParamPath::Key(at, "file"), Code::Mismatch, message);
                    return None;
                }
            }
        }
        _ => {
            errors.wrong(at, Code::Mismatch, match dialect {
                Dialect::V1_0 => "A part has exactly one of `text`, `raw`, `url` and `data`.",
                Dialect::V0_3 | Dialect::V0_3Proto => {
                    "A part has exactly one of `text`, `file` and `data`, the one that its `kind` names."
                }
            });
            return None;
        }
    };
    if let Content::Raw(base64) = &content
        && !is_base64(base64)
    {
        let message = "This is not base64. Encode the bytes of the file.";
        errors.wrong(at, Code::NotAllowed, message);
    }
    let set = |text: Option<String>| text.filter(|text| !text.is_empty());
    Some(Part { content, metadata, filename: set(filename), media_type: set(media_type) })
}

/// The value of a data part, without the wrappers of 0.3.
fn data(dialect: Dialect, value: Value, metadata: &mut Option<Metadata>) -> Value {
    let value = match (dialect, value) {
        // The proto file of 0.3 wraps the data: `{"data": {"data": {…}}}`.
        (Dialect::V0_3Proto, Value::Object(mut fields)) if fields.len() == 1 => {
            match fields.shift_remove("data") {
                Some(inner) => inner,
                None => Value::Object(fields),
            }
        }
        (_, value) => value,
    };
    if dialect == Dialect::V1_0 {
        return value;
    }
    v0_3::unwrap_data(value, metadata)
}

/// Whether this is base64, of the standard or the URL alphabet, padded or not.
fn is_base64(text: &str) -> bool {
    let bytes = text.trim_end_matches('=');
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_');
    text.len() - bytes.len() <= 2 && bytes.len() % 4 != 1 && bytes.bytes().all(alphabet)
}
