//! Object-only deserialization for structs.
//!
//! serde's derive also reads a struct from an array, field by field. The published schemas do not
//! allow that: `"from": ["roman"]` must be a value of the wrong type.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

/// Reads an object with `read`, which must come from a derive with `remote = "Self"`.
pub(crate) fn read_object<'de, D, T, F>(deserializer: D, read: F) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    F: ReadMap<'de, T>,
{
    deserializer.deserialize_map(ObjectOnly { read, value: PhantomData })
}

/// A derived `deserialize`, made callable for any map.
pub(crate) trait ReadMap<'de, T> {
    fn read<A: MapAccess<'de>>(self, map: MapAccessDeserializer<A>) -> Result<T, A::Error>;
}

struct ObjectOnly<T, F> {
    read: F,
    value: PhantomData<T>,
}

impl<'de, T, F: ReadMap<'de, T>> Visitor<'de> for ObjectOnly<T, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        self.read.read(MapAccessDeserializer::new(map))
    }
}

/// Implements serde's traits for structs derived with `#[serde(remote = "Self")]`.
/// Reading accepts objects only.
macro_rules! object_only {
    ($($name:ident),+ $(,)?) => { $(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Derived;
                impl<'de> $crate::fields::object::ReadMap<'de, $name> for Derived {
                    fn read<A: serde::de::MapAccess<'de>>(
                        self,
                        map: serde::de::value::MapAccessDeserializer<A>,
                    ) -> Result<$name, A::Error> {
                        $name::deserialize(map)
                    }
                }
                $crate::fields::object::read_object(deserializer, Derived)
            }
        }
    )+ };
}

/// Reads an optional field that is present. `null` is read as `T`, so for most types it is an
/// error.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::Deserialize<'de>,
    D::Error: Error,
{
    T::deserialize(deserializer).map(Some)
}
