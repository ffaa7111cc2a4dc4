//! The macro for closed sets of words.
//!
//! A derive would do for the enum itself, but describing each word would turn
//! the schema's plain `enum` into a `oneOf`, whose failures name no allowed value.

/// Declares an enum whose values are words on the wire, each with its meaning.
///
/// One list gives the enum, `ALL`, `as_str`, serde, and a JSON Schema `enum`
/// whose description explains every word.
macro_rules! closed_set {
    (
        #[doc = $doc:literal]
        $(#[$attr:meta])*
        pub enum $name:ident {
            $( #[doc = $meaning:literal] $variant:ident = $word:literal, )+
        }
    ) => {
        #[doc = $doc]
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( #[doc = $meaning] $variant, )+
        }

        impl $name {
            /// Every value, in the order of the protocol's text.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }

            /// The value whose word is `word`.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $( $word => Some(Self::$variant), )+ _ => None }
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
                struct Word;
                impl serde::de::Visitor<'_> for Word {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("one of", $( " `", $word, "`", )+))
                    }
                    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<$name, E> {
                        $name::from_word(word)
                            .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(word), &self))
                    }
                }
                deserializer.deserialize_str(Word)
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool { true }
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let meanings = [$( concat!("`", $word, "`:", $meaning), )+].join(" ");
                schemars::json_schema!({
                    "type": "string",
                    "enum": [$( $word, )+],
                    "description": $doc.trim(),
                    // A field's own description replaces ours; `schema` joins this to either.
                    $crate::schema::MEANINGS: meanings,
                })
            }
        }
    };
}
