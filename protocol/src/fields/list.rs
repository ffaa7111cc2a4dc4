//! Bounded arrays.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::ARRAY_ITEMS;

/// Array of `MIN` to [`ARRAY_ITEMS`] values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T, const MIN: usize = 0>(Vec<T>);

/// The number of items is outside the list's bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{items} items, but {min} to {ARRAY_ITEMS} are allowed")]
pub struct BadLength {
    /// Number of items found. Reading stops one item above the limit.
    pub items: usize,
    /// Minimum number of items.
    pub min: usize,
}

impl<T, const MIN: usize> TryFrom<Vec<T>> for List<T, MIN> {
    type Error = BadLength;

    fn try_from(items: Vec<T>) -> Result<Self, BadLength> {
        if (MIN..=ARRAY_ITEMS).contains(&items.len()) {
            Ok(Self(items))
        } else {
            Err(BadLength { items: items.len(), min: MIN })
        }
    }
}

impl<T, const MIN: usize> From<List<T, MIN>> for Vec<T> {
    fn from(list: List<T, MIN>) -> Self {
        list.0
    }
}

impl<T> Default for List<T, 0> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MIN: usize> Deref for List<T, MIN> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'a, T, const MIN: usize> IntoIterator for &'a List<T, MIN> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Serialize, const MIN: usize> Serialize for List<T, MIN> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>, const MIN: usize> Deserialize<'de> for List<T, MIN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const MIN: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MIN: usize> de::Visitor<'de> for Items<T, MIN> {
            type Value = List<T, MIN>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of {MIN} to {ARRAY_ITEMS} items")
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                    if items.len() > ARRAY_ITEMS {
                        break;
                    }
                }
                items.try_into().map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

impl<T: JsonSchema, const MIN: usize> JsonSchema for List<T, MIN> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("List_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({
            "type": "array",
            "items": generator.subschema_for::<T>(),
            "maxItems": ARRAY_ITEMS,
        });
        if MIN > 0 {
            schema.insert("minItems".into(), MIN.into());
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_outside_its_bounds_is_refused() {
        assert!(List::<u8>::try_from(vec![0; 1_000]).is_ok());
        assert_eq!(List::<u8>::try_from(vec![0; 1_001]), Err(BadLength { items: 1_001, min: 0 }));
        assert_eq!(List::<u8, 1>::try_from(vec![]), Err(BadLength { items: 0, min: 1 }));
        assert!(serde_json::from_str::<List<u8, 1>>("[]").is_err());
    }
}
