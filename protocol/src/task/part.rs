//! A part: one piece of a message or an artifact.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::Metadata;

/// One piece of a message or an artifact.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What it is.
    pub content: Content,
    /// More about it.
    pub metadata: Option<Metadata>,
    /// A name for a file.
    pub filename: Option<String>,
    /// What its bytes mean, such as `text/plain`.
    pub media_type: Option<String>,
}

/// What a part is.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Text.
    Text(String),
    /// The bytes of a file, in base64 as they came.
    Raw(String),
    /// Where a file is.
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
    /// A part that is text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text(text.into()).into()
    }

    /// A part that is any JSON.
    #[must_use]
    pub fn data(data: serde_json::Value) -> Self {
        Content::Data(data).into()
    }
}

/// How a part is written: exactly one of the first four is there.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written<T, V, M> {
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    text: Option<T>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    raw: Option<T>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    url: Option<T>,
    #[serde(default = "none", deserialize_with = "there", skip_serializing_if = "Option::is_none")]
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

/// A `data` that is `null` is there.
fn there<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<V>, D::Error> {
    V::deserialize(deserializer).map(Some)
}

/// A list; `null` stands for an empty one, as protocol buffers have it.
pub(super) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
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
        let mut written: Written<&str, &Value, &Metadata> = Written {
            text: None,
            raw: None,
            url: None,
            data: None,
            filename: self.filename.as_deref(),
            media_type: self.media_type.as_deref(),
            metadata: self.metadata.as_ref(),
        };
        match &self.content {
            Content::Text(text) => written.text = Some(text),
            Content::Raw(base64) => written.raw = Some(base64),
            Content::Url(url) => written.url = Some(url),
            Content::Data(value) => written.data = Some(value),
        }
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::<String, Value, Metadata>::deserialize(deserializer)?;
        let content = match (written.text, written.raw, written.url, written.data) {
            (Some(text), None, None, None) => Content::Text(text),
            (None, Some(base64), None, None) => Content::Raw(base64),
            (None, None, Some(url), None) => Content::Url(url),
            (None, None, None, Some(value)) => Content::Data(value),
            _ => {
                let rule = "a part has exactly one of `text`, `raw`, `url` and `data`";
                return Err(de::Error::custom(rule));
            }
        };
        let Written { metadata, filename, media_type, .. } = written;
        Ok(Self { content, metadata, filename, media_type })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_survives_a_round_trip() {
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
    fn one_content_and_only_one() {
        for bad in [r#"{}"#, r#"{"text":"a","url":"b"}"#, r#"{"text":null}"#, r#"{"text":1}"#] {
            assert!(serde_json::from_str::<Part>(bad).is_err(), "{bad}");
        }
        // The shape of the seeds: a word for the kind beside the content.
        let part: Part = serde_json::from_str(r#"{"type":"text","text":"a"}"#).unwrap();
        assert_eq!(part, Part::text("a"));
    }
}
