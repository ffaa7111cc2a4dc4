//! Parameters as callers write them, in both versions and every spelling.
//!
//! Every field is optional, `null` means absent, and unknown fields are ignored. [`super::decode()`]
//! reports all missing and invalid fields at once. ProtoJSON also requires the names of the proto
//! files (`message_id`), which are aliases here.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::task::Metadata;

/// A struct that is read from an object only; serde's derive also accepts an array.
pub(super) struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Only<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Only<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Only(PhantomData))
    }
}

/// A text, borrowed if it contains no escape.
pub(super) struct Str<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;
        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = Str<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Str<'de>, E> {
                Ok(Str(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Str<'de>, E> {
                Ok(Str(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(ValueVisitor)
    }
}

/// A whole number; in ProtoJSON and in a query it may be a string.
pub(super) struct Count(pub i64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;
        impl Visitor<'_> for ValueVisitor {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }
            fn visit_i64<E>(self, number: i64) -> Result<Count, E> {
                Ok(Count(number))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Count, E> {
                // Saturates: above every limit, which is checked later.
                Ok(Count(i64::try_from(number).unwrap_or(i64::MAX)))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Count, E> {
                if number.fract() == 0.0 && number.abs() < 1e15 {
                    #[allow(clippy::cast_possible_truncation)] // whole and small, so exact
                    return Ok(Count(number as i64));
                }
                Err(E::invalid_value(Unexpected::Float(number), &self))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Count, E> {
                let bad = || E::invalid_value(Unexpected::Str(text), &self);
                text.parse().map(Count).map_err(|_| bad())
            }
        }
        deserializer.deserialize_any(ValueVisitor)
    }
}

/// A boolean; in a query it is the text `true` or `false`.
pub(super) struct Flag(pub bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;
        impl Visitor<'_> for ValueVisitor {
            type Value = Flag;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false")
            }
            fn visit_bool<E>(self, flag: bool) -> Result<Flag, E> {
                Ok(Flag(flag))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Flag, E> {
                match text {
                    "true" => Ok(Flag(true)),
                    "false" => Ok(Flag(false)),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(ValueVisitor)
    }
}

/// A value of an enum: its name, or its number, which ProtoJSON also allows.
pub(super) enum EnumValue<'a> {
    Text(Cow<'a, str>),
    Number(u64),
}

impl<'de: 'a, 'a> Deserialize<'de> for EnumValue<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;
        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = EnumValue<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<EnumValue<'de>, E> {
                Ok(EnumValue::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<EnumValue<'de>, E> {
                Ok(EnumValue::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_u64<E>(self, number: u64) -> Result<EnumValue<'de>, E> {
                Ok(EnumValue::Number(number))
            }
        }
        deserializer.deserialize_any(ValueVisitor)
    }
}

/// Field name of a duplicate-key error whose path already ends in the key.
pub(super) const THIS_KEY: &str = "";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct SendParams<'a> {
    pub tenant: Option<Str<'a>>,
    #[serde(alias = "request")]
    pub message: Option<Object<MessageParams<'a>>>,
    pub configuration: Option<Object<SendConfiguration<'a>>>,
    #[serde(deserialize_with = "super::unique_keys::metadata")]
    pub metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct SendConfiguration<'a> {
    #[serde(alias = "accepted_output_modes")]
    pub accepted_output_modes: Option<Vec<String>>,
    #[serde(alias = "history_length")]
    pub history_length: Option<Count>,
    /// 1.0.
    #[serde(alias = "return_immediately")]
    pub return_immediately: Option<Flag>,
    /// 0.3.
    pub blocking: Option<Flag>,
    /// 1.0.
    #[serde(alias = "task_push_notification_config")]
    pub task_push_notification_config: Option<Object<PushParams<'a>>>,
    /// 0.3; the alias is the name in its proto file.
    #[serde(alias = "pushNotification", alias = "push_notification")]
    pub push_notification_config: Option<Object<PushParams<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct MessageParams<'a> {
    #[serde(alias = "message_id")]
    pub message_id: Option<Str<'a>>,
    #[serde(alias = "context_id")]
    pub context_id: Option<Str<'a>>,
    #[serde(alias = "task_id")]
    pub task_id: Option<Str<'a>>,
    pub role: Option<EnumValue<'a>>,
    pub parts: Option<Vec<Object<PartParams<'a>>>>,
    /// The parts, in the proto file of 0.3.
    pub content: Option<Vec<Object<PartParams<'a>>>>,
    #[serde(deserialize_with = "super::unique_keys::metadata")]
    pub metadata: Option<Metadata>,
    pub extensions: Option<Vec<String>>,
    #[serde(alias = "reference_task_ids")]
    pub reference_task_ids: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct PartParams<'a> {
    /// 0.3.
    pub kind: Option<Str<'a>>,
    /// Some clients write this instead of `kind`.
    #[serde(rename = "type")]
    pub type_: Option<Value>,
    pub text: Option<String>,
    pub raw: Option<String>,
    pub url: Option<String>,
    #[serde(deserialize_with = "super::unique_keys::data")]
    pub data: Option<Value>,
    /// 0.3.
    pub file: Option<Object<FileParams>>,
    pub filename: Option<String>,
    #[serde(alias = "media_type")]
    pub media_type: Option<String>,
    #[serde(deserialize_with = "super::unique_keys::metadata")]
    pub metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FileParams {
    #[serde(alias = "fileWithBytes", alias = "file_with_bytes")]
    pub bytes: Option<String>,
    #[serde(alias = "fileWithUri", alias = "file_with_uri")]
    pub uri: Option<String>,
    pub name: Option<String>,
    #[serde(alias = "mime_type")]
    pub mime_type: Option<String>,
}

/// A push notification configuration: flat in 1.0, nested in 0.3, nested twice in its proto file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct PushParams<'a> {
    pub tenant: Option<Str<'a>>,
    pub id: Option<Str<'a>>,
    #[serde(alias = "task_id")]
    pub task_id: Option<Str<'a>>,
    pub url: Option<String>,
    pub token: Option<String>,
    pub authentication: Option<Object<AuthenticationParams>>,
    #[serde(alias = "push_notification_config")]
    pub push_notification_config: Option<Box<Object<PushParams<'a>>>>,
    pub config: Option<Box<Object<PushParams<'a>>>>,
    #[serde(alias = "config_id")]
    pub config_id: Option<Str<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthenticationParams {
    /// 1.0.
    pub scheme: Option<String>,
    /// 0.3.
    pub schemes: Option<Vec<String>>,
    pub credentials: Option<String>,
}

/// The parameters of all other methods of A2A; each method uses some.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct CommonParams<'a> {
    pub tenant: Option<Str<'a>>,
    pub id: Option<Str<'a>>,
    #[serde(alias = "task_id")]
    pub task_id: Option<Str<'a>>,
    #[serde(alias = "push_notification_config_id")]
    pub push_notification_config_id: Option<Str<'a>>,
    #[serde(alias = "history_length")]
    pub history_length: Option<Count>,
    #[serde(deserialize_with = "super::unique_keys::metadata")]
    pub metadata: Option<Metadata>,
    #[serde(alias = "context_id")]
    pub context_id: Option<Str<'a>>,
    pub status: Option<EnumValue<'a>>,
    #[serde(alias = "page_size")]
    pub page_size: Option<Count>,
    #[serde(alias = "page_token")]
    pub page_token: Option<Str<'a>>,
    #[serde(alias = "status_timestamp_after")]
    pub status_timestamp_after: Option<Str<'a>>,
    #[serde(alias = "include_artifacts")]
    pub include_artifacts: Option<Flag>,
}

/// The parameters of all methods of OPT; each method uses some.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct OptParams<'a> {
    pub tenant: Option<Str<'a>>,
    pub id: Option<Str<'a>>,
    #[serde(alias = "objective_id")]
    pub objective_id: Option<Str<'a>>,
    #[serde(alias = "plan_id")]
    pub plan_id: Option<Str<'a>>,
    pub name: Option<Str<'a>>,
    pub description: Option<Str<'a>>,
    pub status: Option<EnumValue<'a>>,
    pub tasks: Option<Vec<Object<PlanTaskParams<'a>>>>,
    pub dependencies: Option<Vec<Str<'a>>>,
    #[serde(deserialize_with = "super::unique_keys::metadata")]
    pub metadata: Option<Metadata>,
    #[serde(alias = "include_plans")]
    pub include_plans: Option<Flag>,
    #[serde(alias = "include_tasks")]
    pub include_tasks: Option<Flag>,
    #[serde(alias = "since_revision")]
    pub since_revision: Option<Count>,
    #[serde(alias = "wait_ms")]
    pub wait_ms: Option<Count>,
    #[serde(alias = "page_size")]
    pub page_size: Option<Count>,
    #[serde(alias = "page_token")]
    pub page_token: Option<Str<'a>>,
}

/// A new task of a plan.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct PlanTaskParams<'a> {
    pub name: Option<Str<'a>>,
    pub description: Option<Str<'a>>,
    pub dependencies: Option<Vec<Str<'a>>>,
    #[serde(deserialize_with = "super::unique_keys::metadata")]
    pub metadata: Option<Metadata>,
}
