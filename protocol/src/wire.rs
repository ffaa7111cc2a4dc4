//! A2A wire formats: versions, method names, parameters and error codes.
//!
//! The rest of the system uses only [`Operation`](crate::operation::Operation),
//! [`Reply`](crate::operation::Reply) and [`Fault`]. Reading is liberal, writing is exact:
//!
//! ```text
//! body ─▶ jsonrpc::parse ─▶ Method ─▶ decode ─▶ Operation ─▶ … ─▶ Reply ─▶ reply ─▶ jsonrpc::success
//! path, query, body ─▶ rest::route, rest::decode ─▶ Operation         └▶ rest::reply
//!                                          (any violation) Fault ─▶ jsonrpc::fault, rest::fault
//! ```
//!
//! - Bindings: `jsonrpc`, `rest`. Names: `method`. Codes: `error`. OpenAPI parts: `describe`.
//! - Reading: `params` (serde types of all spellings) ─▶ `decode`; on failure `param_error` finds
//!   the path and the reason. `unique_keys` refuses duplicate keys in free-form JSON.
//! - Writing: `encode` ─▶ `v1` or `v0_3`, with `opt` for objectives and plans.

mod decode;
pub mod describe;
mod encode;
pub mod error;
pub mod jsonrpc;
mod method;
mod opt;
mod param_error;
mod params;
pub mod rest;
mod unique_keys;
mod v0_3;
mod v1;

pub use decode::{Decoded, decode};
pub use encode::{Encoded, event, push_body, reply};
pub use method::Method;

use crate::fault::Fault;

/// The supported versions of A2A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// 0.3, with `kind` in every object.
    V0_3,
    /// 1.0, as ProtoJSON.
    V1_0,
}

impl Version {
    /// Every version, the oldest first.
    pub const ALL: &'static [Self] = &[Self::V0_3, Self::V1_0];

    /// The version of a call without a version header: A2A defines 0.3.
    pub const DEFAULT: Self = Self::V0_3;

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_3 => "0.3",
            Self::V1_0 => "1.0",
        }
    }

    /// Parses the header `A2A-Version` or the query parameter of that name; `None` if it is absent or
    /// empty.
    ///
    /// A patch number is ignored, as the protocol requires.
    ///
    /// # Errors
    /// Any other version is [`Fault::VersionNotSupported`].
    pub fn from_header(header: Option<&str>) -> Result<Option<Self>, Fault> {
        let Some(text) = header.map(str::trim).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let mut numbers = text.split('.');
        let asked = (numbers.next(), numbers.next());
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let well_formed = numbers.next().is_none_or(is_number) && numbers.next().is_none();
        match asked {
            (Some("0"), Some("3")) if well_formed => Ok(Some(Self::V0_3)),
            (Some("1"), Some("0")) if well_formed => Ok(Some(Self::V1_0)),
            _ => {
                // The text is repeated in the reply and in logs, so control characters are removed and
                // its length is limited.
                let version = text.chars().filter(|c| !c.is_control()).take(32).collect();
                Err(Fault::VersionNotSupported { version })
            }
        }
    }

    /// The form of this version over JSON-RPC.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::V0_3 => Dialect::V0_3,
            Self::V1_0 => Dialect::V1_0,
        }
    }
}

/// The form of a reply. 0.3 has two forms, and a client reads only the one that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// 1.0.
    V1_0,
    /// 0.3 as in its JSON Schema: `kind`, `parts`, lower-case names.
    V0_3,
    /// 0.3 as the ProtoJSON of its gRPC definition: `content`, `ROLE_USER`. The SDKs of 0.3 use it
    /// over HTTP+JSON.
    V0_3Proto,
}

impl Dialect {
    /// The version it belongs to.
    #[must_use]
    pub const fn version(self) -> Version {
        match self {
            Self::V1_0 => Version::V1_0,
            Self::V0_3 | Self::V0_3Proto => Version::V0_3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_header_is_parsed_or_refused() {
        let cases = [
            (None, Ok(None)),
            (Some(""), Ok(None)),
            (Some("  "), Ok(None)),
            (Some("0.3"), Ok(Some(Version::V0_3))),
            (Some(" 1.0 "), Ok(Some(Version::V1_0))),
            (Some("1.0.1"), Ok(Some(Version::V1_0))),
            (Some("0.3.0"), Ok(Some(Version::V0_3))),
        ];
        for (header, expected) in cases {
            assert_eq!(Version::from_header(header), expected, "{header:?}");
        }
        for bad in ["1", "1.1", "0.2", "2.0", "1.0.", "1.0.1.1", "1.0.x", "v1.0", "01.0", "99.0"] {
            let version = bad.to_owned();
            let expected = Err(Fault::VersionNotSupported { version });
            assert_eq!(Version::from_header(Some(bad)), expected, "{bad}");
        }
        let endless = format!("9\u{7}{}", "9".repeat(10_000));
        let Err(Fault::VersionNotSupported { version }) = Version::from_header(Some(&endless))
        else {
            panic!("accepted");
        };
        assert_eq!(version, "9".repeat(32));
    }
}
