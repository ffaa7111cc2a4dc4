//! Macro for enums with a fixed set of names on the wire.
//!
//! A derive could make the enum, but describing each value would turn the schema's plain `enum`
//! into a `oneOf`. The errors of a `oneOf` do not list the allowed values.

/// Declares an enum whose values have a name on the wire and a meaning.
///
/// One list generates the enum, `ALL`, `as_str`, `from_name`, serde's traits and a JSON Schema
/// `enum`. The doc text of the values is published: the schema's description lists it.
macro_rules! closed_set {
    (
        #[doc = $doc:literal]
        $(#[$attr:meta])*
        pub enum $name:ident {
            $( #[doc = $meaning:literal] $variant:ident = $wire:literal, )+
        }
    ) => {
        #[doc = $doc]
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( #[doc = $meaning] $variant, )+
        }

        impl $name {
            /// Every value, in the order of the protocol's specification.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $wire, )+ }
            }

            /// The value with the wire name `name`.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $( $wire => Some(Self::$variant), )+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct NameVisitor;
                impl serde::de::Visitor<'_> for NameVisitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("one of", $( " `", $wire, "`", )+))
                    }
                    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<$name, E> {
                        $name::from_name(name)
                            .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(name), &self))
                    }
                }
                deserializer.deserialize_str(NameVisitor)
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool { true }
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let meanings = [$( concat!("`", $wire, "`:", $meaning), )+].join(" ");
                schemars::json_schema!({
                    "type": "string",
                    "enum": [$( $wire, )+],
                    "description": $doc.trim(),
                    // A field's own description replaces this one; `schema` appends the meanings to
                    // whichever is kept.
                    $crate::schema::MEANINGS: meanings,
                })
            }
        }
    };
}
