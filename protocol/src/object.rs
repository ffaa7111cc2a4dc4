//! Structs that are read from JSON objects only.
//!
//! serde's derive also reads a struct from an array, field by field. No schema says
//! so, and nobody means it: `"from": ["roman"]` must be a value of the wrong type.

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

/// A derived `deserialize`, as a value that can be called for any map.
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

/// Gives each struct, derived with `#[serde(remote = "Self")]`, its serde traits back,
/// with the reading side closed to arrays.
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
                impl<'de> $crate::object::ReadMap<'de, $name> for Derived {
                    fn read<A: serde::de::MapAccess<'de>>(
                        self,
                        map: serde::de::value::MapAccessDeserializer<A>,
                    ) -> Result<$name, A::Error> {
                        $name::deserialize(map)
                    }
                }
                $crate::object::read_object(deserializer, Derived)
            }
        }
    )+ };
}

/// For optional fields: present means a value; `null` is a value of the wrong type.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::Deserialize<'de>,
    D::Error: Error,
{
    T::deserialize(deserializer).map(Some)
}
