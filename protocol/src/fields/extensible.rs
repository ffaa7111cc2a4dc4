//! Extensible objects: a few typed fields plus any other fields.
//!
//! `context`, `result` and `metadata` are such objects. The other fields must be forwarded
//! unchanged, so the original bytes are kept. A number too precise for a double and the order of
//! the keys survive a round trip.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::fields::fast_limits;
use crate::fields::text::longer_than;
use crate::limits::{ARRAY_ITEMS, DEPTH, STRING_CHARS};

/// The typed fields of an extensible object.
pub trait TypedFields: DeserializeOwned + Serialize + JsonSchema {}

/// An extensible object: the fields of `T`, and any others that the sender added.
///
/// ```
/// use a2a_protocol::{Extensible, body::TaskContext};
///
/// let context: Extensible<TaskContext> =
///     serde_json::from_str(r#"{"branch": "roman/a2a", "ticket": "A-17"}"#).unwrap();
/// assert_eq!(context.branch.as_deref(), Some("roman/a2a"));
/// assert_eq!(context.get::<String>("ticket").as_deref(), Some("A-17"));
/// ```
#[derive(Clone)]
pub struct Extensible<T> {
    raw: Box<RawValue>,
    typed: T,
}

/// The value is not an object, a typed field is wrong, or a limit is broken.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotExtensible(#[from] serde_json::Error);

/// Nesting above an extensible object: the message and its payload.
const LEVELS_ABOVE: usize = 2;

impl<T: TypedFields> Extensible<T> {
    /// Builds the object from a value that serializes to a JSON object.
    ///
    /// # Errors
    /// The value is not an object, a field of `T` is wrong, or a limit is broken.
    pub fn from_value(value: &impl Serialize) -> Result<Self, NotExtensible> {
        Ok(Self::from_raw(serde_json::value::to_raw_value(value)?)?)
    }

    /// Builds the object from typed fields and others, without parsing the result again.
    ///
    /// # Errors
    /// `others` is not an object, repeats a typed field, or breaks a limit.
    pub fn new(typed: T, others: &impl Serialize) -> Result<Self, NotExtensible> {
        #[derive(Serialize)]
        struct Both<'a, T, O> {
            #[serde(flatten)]
            typed: &'a T,
            #[serde(flatten)]
            others: &'a O,
        }
        let raw = serde_json::value::to_raw_value(&Both { typed: &typed, others })?;
        check(&raw)?;
        Ok(Self { raw, typed })
    }

    fn from_raw(raw: Box<RawValue>) -> serde_json::Result<Self> {
        check(&raw)?;
        let typed = serde_json::from_str(raw.get())?;
        Ok(Self { raw, typed })
    }

    /// The field `key` as `V`; `None` if it is absent or of another type.
    #[must_use]
    pub fn get<V: DeserializeOwned>(&self, key: &str) -> Option<V> {
        self.to_value().get(key).cloned().and_then(|value| serde_json::from_value(value).ok())
    }

    /// The whole object: typed fields and others.
    #[must_use]
    pub fn to_value(&self) -> Value {
        // The constructor has parsed these bytes, so parsing them again cannot fail.
        serde_json::from_str(self.raw.get()).unwrap_or(Value::Null)
    }

    /// The original bytes, as the sender wrote them.
    #[must_use]
    pub fn as_json(&self) -> &str {
        self.raw.get()
    }
}

/// Checks that `raw` is an object within the limits.
fn check(raw: &RawValue) -> serde_json::Result<()> {
    if !raw.get().starts_with('{') {
        return Err(de::Error::custom("expected an object"));
    }
    if !fast_limits::surely_within_limits(raw.get()) {
        let mut reader = serde_json::Deserializer::from_str(raw.get());
        Anything { depth: LEVELS_ABOVE }.deserialize(&mut reader)?;
    }
    Ok(())
}

impl<T> Deref for Extensible<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.typed
    }
}

impl<T: TypedFields> PartialEq for Extensible<T> {
    fn eq(&self, other: &Self) -> bool {
        self.raw.get() == other.raw.get() || self.to_value() == other.to_value()
    }
}

impl<T> fmt::Debug for Extensible<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw.get())
    }
}

impl<T> Serialize for Extensible<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de, T: TypedFields> Deserialize<'de> for Extensible<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_raw(Box::<RawValue>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl<T: TypedFields> JsonSchema for Extensible<T> {
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

/// Reads any JSON value without keeping it, and checks the limits that apply to every value.
struct Anything {
    /// Number of containers around this value.
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
        let mut keys = KeySet::default();
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

/// A key of an object, borrowed from the text if it contains no escape.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
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
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// The keys of one object so far. Most objects have few keys, for which a linear search is faster
/// than hashing.
#[derive(Default)]
struct KeySet<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> KeySet<'de> {
    const FEW: usize = 16;

    /// Adds a key; `false` if it was present.
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
    fn numbers_and_key_order_survive_a_round_trip() {
        let json = r#"{"z":123456789012345678901234567890.10,"a":1.0}"#;
        let open: Extensible<Extensions> = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&open).unwrap(), json);
    }

    #[test]
    fn value_that_breaks_a_limit_is_refused() {
        let deep = |levels: usize| {
            let json = format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
            serde_json::from_str::<Extensible<Extensions>>(&json).is_ok()
        };
        let deepest = DEPTH - LEVELS_ABOVE - 1;
        assert!(deep(deepest));
        assert!(!deep(deepest + 1));
        for bad in [r#"{"a":{"b":1,"b":2}}"#, r#"{"a":"\u0000"}"#, r#"{"a":1e400}"#, "[]", "null"] {
            assert!(serde_json::from_str::<Extensible<Extensions>>(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<Extensible<TaskContext>>(r#"{"branch":7}"#).is_err());
    }

    #[test]
    fn typed_and_other_fields_are_written_once() {
        let typed =
            || TaskContext { branch: crate::Text::try_from("b").ok(), ..TaskContext::default() };
        let made = Extensible::new(typed(), &serde_json::json!({"ticket": 17})).unwrap();
        assert_eq!(made.as_json(), r#"{"branch":"b","ticket":17}"#);
        assert_eq!(made, serde_json::from_str(made.as_json()).unwrap());
        assert_eq!(made.branch.as_deref(), Some("b"));
        for bad in [serde_json::json!({"branch": "c"}), serde_json::json!([1])] {
            assert!(Extensible::new(typed(), &bad).is_err(), "{bad}");
        }
        let nul = serde_json::json!({"a": "\0"});
        assert!(Extensible::new(typed(), &nul).is_err());
    }

    #[test]
    fn repeated_key_is_found_among_few_and_many() {
        let object = |keys: usize, again: usize| {
            let fields: Vec<_> = (0..keys).chain([again]).map(|i| format!("\"k{i}\":0")).collect();
            serde_json::from_str::<Extensible<Extensions>>(&format!("{{{}}}", fields.join(",")))
                .is_ok()
        };
        for keys in [1, 15, 16, 17, 18, 100] {
            assert!(object(keys, keys), "{keys} different keys");
            assert!(!object(keys, 0) && !object(keys, keys - 1), "{keys} keys, one twice");
        }
    }
}
