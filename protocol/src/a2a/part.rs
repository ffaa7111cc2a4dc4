//! Part: one piece of content of a message or an artifact.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::task::Metadata;
use crate::fields::object::present;

/// One piece of content of a message or an artifact.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The content.
    pub content: Content,
    /// Additional data.
    pub metadata: Option<Metadata>,
    /// Name of a file.
    pub filename: Option<String>,
    /// Media type of the content, such as `text/plain`.
    pub media_type: Option<String>,
}

/// Content of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Text.
    Text(String),
    /// The bytes of a file, in base64 as received.
    Raw(String),
    /// URL of a file.
    Url(String),
    /// Any JSON value, `null` included.
    Data(Value),
}

impl From<Content> for Part {
    fn from(content: Content) -> Self {
        Self { content, metadata: None, filename: None, media_type: None }
    }
}

impl Part {
    /// A text part.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text(text.into()).into()
    }

    /// A data part.
    #[must_use]
    pub fn data(data: serde_json::Value) -> Self {
        Content::Data(data).into()
    }
}

/// The wire form of a part: exactly one of the first four fields is present.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartFields<T, V, M> {
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    text: Option<T>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    raw: Option<T>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    url: Option<T>,
    #[serde(
        default = "none",
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[serde(bound(deserialize = "V: Deserialize<'de>"))]
    data: Option<V>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    filename: Option<T>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    media_type: Option<T>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    metadata: Option<M>,
}

fn none<T>() -> Option<T> {
    None
}

/// Reads a list; `null` is an empty list, as in ProtoJSON.
pub(super) fn list_or_null<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl JsonSchema for Part {
    fn schema_name() -> Cow<'static, str> {
        "Part".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "One piece of a message or an artifact: exactly one of `text`, `raw`, `url` and `data`.",
            "properties": {
                "text": { "type": "string" },
                "raw": { "type": "string", "contentEncoding": "base64", "description": "The bytes of a file." },
                "url": { "type": "string", "description": "Where a file is." },
                "data": { "description": "Any JSON value." },
                "filename": { "type": "string" },
                "mediaType": { "type": "string", "description": "What its bytes mean, such as `text/plain`." },
                "metadata": { "type": "object" },
            },
            "oneOf": [
                { "required": ["text"] },
                { "required": ["raw"] },
                { "required": ["url"] },
                { "required": ["data"] },
            ],
        })
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields: PartFields<&str, &Value, &Metadata> = PartFields {
            text: None,
            raw: None,
            url: None,
            data: None,
            filename: self.filename.as_deref(),
            media_type: self.media_type.as_deref(),
            metadata: self.metadata.as_ref(),
        };
        match &self.content {
            Content::Text(text) => fields.text = Some(text),
            Content::Raw(base64) => fields.raw = Some(base64),
            Content::Url(url) => fields.url = Some(url),
            Content::Data(value) => fields.data = Some(value),
        }
        fields.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = PartFields::<String, Value, Metadata>::deserialize(deserializer)?;
        let content = match (fields.text, fields.raw, fields.url, fields.data) {
            (Some(text), None, None, None) => Content::Text(text),
            (None, Some(base64), None, None) => Content::Raw(base64),
            (None, None, Some(url), None) => Content::Url(url),
            (None, None, None, Some(value)) => Content::Data(value),
            _ => {
                let rule = "a part has exactly one of `text`, `raw`, `url` and `data`";
                return Err(de::Error::custom(rule));
            }
        };
        let PartFields { metadata, filename, media_type, .. } = fields;
        Ok(Self { content, metadata, filename, media_type })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_each_kind_round_trips() {
        for text in [
            r#"{"text":"hi"}"#,
            r#"{"text":""}"#,
            r#"{"raw":"AAEC","filename":"a.bin","mediaType":"application/octet-stream"}"#,
            r#"{"url":"https://example.com/a"}"#,
            r#"{"data":null}"#,
            r#"{"data":{"n":[1,2]},"metadata":{"k":1}}"#,
        ] {
            let part: Part = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&part).unwrap(), text);
        }
    }

    #[test]
    fn part_without_exactly_one_content_is_refused() {
        for bad in [r#"{}"#, r#"{"text":"a","url":"b"}"#, r#"{"text":null}"#, r#"{"text":1}"#] {
            assert!(serde_json::from_str::<Part>(bad).is_err(), "{bad}");
        }
        // Some clients add a field with the kind of the part.
        let part: Part = serde_json::from_str(r#"{"type":"text","text":"a"}"#).unwrap();
        assert_eq!(part, Part::text("a"));
    }
}
