//! Reader for free-form JSON (metadata, data parts) that refuses duplicate keys.
//!
//! Programs differ in which of two equal keys they use, so one program could check a value that
//! another one does not use.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::task::Metadata;

/// Reads an object, or `null` for none.
pub(super) fn metadata<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Metadata>, D::Error> {
    struct Fields(Metadata);
    impl<'de> Deserialize<'de> for Fields {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(OnlyFields).map(Self)
        }
    }
    Ok(Option::<Fields>::deserialize(deserializer)?.map(|Fields(fields)| fields))
}

/// Reads any value, including `null`.
pub(super) fn data<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    AnyValue.deserialize(deserializer).map(Some)
}

fn fields<'de, A: MapAccess<'de>>(mut map: A) -> Result<Map<String, Value>, A::Error> {
    let mut fields = Map::new();
    while let Some(key) = map.next_key::<String>()? {
        if fields.contains_key(&key) {
            // Deserialized as the value of that key, so that the error path contains it.
            map.next_value_seed(SecondOne)?;
        } else {
            let value = map.next_value_seed(AnyValue)?;
            fields.insert(key, value);
        }
    }
    Ok(fields)
}

struct OnlyFields;

impl<'de> Visitor<'de> for OnlyFields {
    type Value = Metadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Metadata, A::Error> {
        fields(map)
    }
}

struct SecondOne;

impl<'de> DeserializeSeed<'de> for SecondOne {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
        Err(D::Error::duplicate_field(super::params::THIS_KEY))
    }
}

struct AnyValue;

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Self)? {
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        fields(map).map(Value::Object)
    }
}
