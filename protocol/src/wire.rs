//! A2A as it goes over the wire: versions, method names, parameters, codes.
//!
//! Nothing outside this module knows them; inside the system there is only
//! [`Operation`](crate::operation::Operation), [`Reply`](crate::operation::Reply)
//! and [`Fault`]. Reading is liberal, writing is exact:
//!
//! ```text
//! body ─▶ jsonrpc::parse ─▶ Method ─▶ decode ─▶ Operation ─▶ … ─▶ Reply ─▶ reply ─▶ jsonrpc::success
//! path, query, body ─▶ rest::route, rest::decode ─▶ Operation         └▶ rest::reply
//!                                       (anything wrong) Fault ─▶ jsonrpc::fault, rest::fault
//! ```
//!
//! No transport, no clock, no I/O here.

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

/// The versions of A2A that are spoken here.
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

    /// What a call speaks that does not say it: A2A takes an absent header for 0.3.
    pub const DEFAULT: Self = Self::V0_3;

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_3 => "0.3",
            Self::V1_0 => "1.0",
        }
    }

    /// What the header `A2A-Version` (or the query parameter of that name) asks for; `None` when
    /// it says nothing.
    ///
    /// A patch number is read over: the protocol says that it must not be considered.
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
                // It is repeated to the caller and into logs, so it must be short and harmless.
                let version = text.chars().filter(|c| !c.is_control()).take(32).collect();
                Err(Fault::VersionNotSupported { version })
            }
        }
    }

    /// How this version is written over JSON-RPC.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::V0_3 => Dialect::V0_3,
            Self::V1_0 => Dialect::V1_0,
        }
    }
}

/// How an answer is written. 0.3 has two forms, and a caller reads only the one it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// 1.0.
    V1_0,
    /// 0.3 as its JSON Schema has it: `kind`, `parts`, lower-case words.
    V0_3,
    /// 0.3 as the ProtoJSON of its gRPC definition: `content`, `ROLE_USER`. What the SDKs of 0.3
    /// write and read over HTTP+JSON.
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
    fn a_header_names_a_version_or_none() {
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
