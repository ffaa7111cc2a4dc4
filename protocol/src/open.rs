//! Objects that carry more than the protocol knows.
//!
//! `context`, `result` and `metadata` have a few typed fields and any others. The
//! others must come out as they went in, so the object's own bytes are kept: a
//! number too precise for a double or the order of keys survives a round trip.

mod glance;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::limits::{ARRAY_ITEMS, DEPTH, STRING_CHARS};
use crate::text::longer_than;

/// The typed fields of an open object.
pub trait Known: DeserializeOwned + Serialize + JsonSchema {}

/// An open object: the fields of `T`, and whatever else the sender put beside them.
///
/// ```
/// use a2a_protocol::{Open, body::TaskContext};
///
/// let context: Open<TaskContext> =
///     serde_json::from_str(r#"{"branch": "roman/a2a", "ticket": "A-17"}"#).unwrap();
/// assert_eq!(context.branch.as_deref(), Some("roman/a2a"));
/// assert_eq!(context.get::<String>("ticket").as_deref(), Some("A-17"));
/// ```
#[derive(Clone)]
pub struct Open<T> {
    raw: Box<RawValue>,
    known: T,
}

/// The value cannot be an open object: it is no object, or it breaks a limit.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotOpen(#[from] serde_json::Error);

/// Every open object of this protocol stands inside a payload inside a message.
const LEVELS_ABOVE: usize = 2;

impl<T: Known> Open<T> {
    /// An open object from anything that is written as a JSON object with the fields of `T` and
    /// others.
    ///
    /// # Errors
    /// When it is no object, a field of `T` is wrong, or a limit is broken.
    pub fn from_value(value: &impl Serialize) -> Result<Self, NotOpen> {
        Ok(Self::from_raw(serde_json::value::to_raw_value(value)?)?)
    }

    /// An open object of fields that are known and others beside them, which is not read again.
    ///
    /// # Errors
    /// When `others` are no object, say one of the fields once more, or break a limit.
    pub fn new(known: T, others: &impl Serialize) -> Result<Self, NotOpen> {
        #[derive(Serialize)]
        struct Both<'a, T, O> {
            #[serde(flatten)]
            known: &'a T,
            #[serde(flatten)]
            others: &'a O,
        }
        let raw = serde_json::value::to_raw_value(&Both { known: &known, others })?;
        check(&raw)?;
        Ok(Self { raw, known })
    }

    fn from_raw(raw: Box<RawValue>) -> serde_json::Result<Self> {
        check(&raw)?;
        let known = serde_json::from_str(raw.get())?;
        Ok(Self { raw, known })
    }

    /// The field `key` read as `V`; `None` when it is absent or of another type.
    #[must_use]
    pub fn get<V: DeserializeOwned>(&self, key: &str) -> Option<V> {
        self.to_value().get(key).cloned().and_then(|value| serde_json::from_value(value).ok())
    }

    /// The whole object, typed fields and others alike.
    #[must_use]
    pub fn to_value(&self) -> Value {
        // The bytes were read when this was made, so reading them again cannot fail.
        serde_json::from_str(self.raw.get()).unwrap_or(Value::Null)
    }

    /// The object's own bytes, as the sender wrote them.
    #[must_use]
    pub fn as_json(&self) -> &str {
        self.raw.get()
    }
}

/// Whether it is an object within the limits.
fn check(raw: &RawValue) -> serde_json::Result<()> {
    if !raw.get().starts_with('{') {
        return Err(de::Error::custom("expected an object"));
    }
    if !glance::surely_fits(raw.get()) {
        let mut reader = serde_json::Deserializer::from_str(raw.get());
        Anything { depth: LEVELS_ABOVE }.deserialize(&mut reader)?;
    }
    Ok(())
}

impl<T> Deref for Open<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.known
    }
}

impl<T: Known> PartialEq for Open<T> {
    fn eq(&self, other: &Self) -> bool {
        self.raw.get() == other.raw.get() || self.to_value() == other.to_value()
    }
}

impl<T> fmt::Debug for Open<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw.get())
    }
}

impl<T> Serialize for Open<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de, T: Known> Deserialize<'de> for Open<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_raw(Box::<RawValue>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl<T: Known> JsonSchema for Open<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Open_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        schema.insert("additionalProperties".into(), generator.subschema_for::<Anything>().into());
        schema.insert("propertyNames".into(), serde_json::json!({ "maxLength": STRING_CHARS }));
        schema
    }
}

/// Reads any JSON without keeping it, to see that it keeps the limits that hold everywhere.
struct Anything {
    /// Containers around this value.
    depth: usize,
}

impl JsonSchema for Anything {
    fn schema_name() -> Cow<'static, str> {
        "Anything".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Any JSON value within the protocol's limits.",
            "maxLength": STRING_CHARS,
            "maxItems": ARRAY_ITEMS,
            "items": generator.subschema_for::<Self>(),
            "additionalProperties": generator.subschema_for::<Self>(),
            "propertyNames": { "maxLength": STRING_CHARS },
        })
    }
}

impl Anything {
    fn below<E: de::Error>(&self) -> Result<Self, E> {
        if self.depth >= DEPTH {
            return Err(E::custom(format_args!("nested deeper than {DEPTH}")));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

fn check_string<E: de::Error>(text: &str) -> Result<(), E> {
    if longer_than(text, STRING_CHARS) {
        return Err(E::custom(format_args!("longer than {STRING_CHARS} characters")));
    }
    if memchr::memchr(0, text.as_bytes()).is_some() {
        return Err(E::custom("contains U+0000"));
    }
    Ok(())
}

impl<'de> DeserializeSeed<'de> for Anything {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Anything {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        check_string(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for _ in 0..=ARRAY_ITEMS {
            if seq.next_element_seed(self.below()?)?.is_none() {
                return Ok(());
            }
        }
        Err(de::Error::custom(format_args!("more than {ARRAY_ITEMS} items")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = SeenKeys::default();
        self.below::<A::Error>()?;
        while let Some(Key(key)) = map.next_key()? {
            check_string(&key)?;
            map.next_value_seed(self.below()?)?;
            if !keys.insert(key) {
                return Err(de::Error::custom("duplicate key"));
            }
        }
        Ok(())
    }
}

/// An object's key, borrowed from the text where no escape stands in it.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(text.into()))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(text.to_owned().into()))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// The keys of one object so far. Most objects have a handful, for which looking beats hashing.
#[derive(Default)]
struct SeenKeys<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> SeenKeys<'de> {
    const FEW: usize = 16;

    /// Adds a key; `false` when it was there.
    fn insert(&mut self, key: Cow<'de, str>) -> bool {
        if self.few.contains(&key) {
            return false;
        }
        if self.few.len() < Self::FEW {
            self.few.push(key);
            return true;
        }
        self.many.insert(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Extensions, TaskContext};

    #[test]
    fn keeps_numbers_and_key_order_to_the_letter() {
        let json = r#"{"z":123456789012345678901234567890.10,"a":1.0}"#;
        let open: Open<Extensions> = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&open).unwrap(), json);
    }

    #[test]
    fn refuses_what_breaks_a_limit_inside() {
        let deep = |levels: usize| {
            let json = format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
            serde_json::from_str::<Open<Extensions>>(&json).is_ok()
        };
        let room = DEPTH - LEVELS_ABOVE - 1;
        assert!(deep(room));
        assert!(!deep(room + 1));
        for bad in [r#"{"a":{"b":1,"b":2}}"#, r#"{"a":"\u0000"}"#, r#"{"a":1e400}"#, "[]", "null"] {
            assert!(serde_json::from_str::<Open<Extensions>>(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<Open<TaskContext>>(r#"{"branch":7}"#).is_err());
    }

    #[test]
    fn known_fields_and_others_are_written_together_and_only_once() {
        let known =
            || TaskContext { branch: crate::Text::try_from("b").ok(), ..TaskContext::default() };
        let made = Open::new(known(), &serde_json::json!({"ticket": 17})).unwrap();
        assert_eq!(made.as_json(), r#"{"branch":"b","ticket":17}"#);
        assert_eq!(made, serde_json::from_str(made.as_json()).unwrap());
        assert_eq!(made.branch.as_deref(), Some("b"));
        for bad in [serde_json::json!({"branch": "c"}), serde_json::json!([1])] {
            assert!(Open::new(known(), &bad).is_err(), "{bad}");
        }
        let nul = serde_json::json!({"a": "\0"});
        assert!(Open::new(known(), &nul).is_err());
    }

    #[test]
    fn finds_a_repeated_key_among_few_and_among_many() {
        let object = |keys: usize, again: usize| {
            let fields: Vec<_> = (0..keys).chain([again]).map(|i| format!("\"k{i}\":0")).collect();
            serde_json::from_str::<Open<Extensions>>(&format!("{{{}}}", fields.join(","))).is_ok()
        };
        for keys in [1, 15, 16, 17, 18, 100] {
            assert!(object(keys, keys), "{keys} different keys");
            assert!(!object(keys, 0) && !object(keys, keys - 1), "{keys} keys, one twice");
        }
    }
}
