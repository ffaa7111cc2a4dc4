//! Validation of webhook URLs, without name lookups.
//!
//! - A URL is checked after it was parsed as the HTTP client parses it, so every spelling of an
//!   address is checked as that address.
//! - Host names are checked by their ending. Their addresses are checked for every connection
//!   ([`resolver`](super::resolver)).
//! - Errors and `Debug` output never contain path or query, which may hold secrets.

use std::fmt;

use url::{Host, Url};

use super::address::{self, AddressRefused};

/// The longest URL in bytes, as given and after parsing.
pub const MAX_URL_BYTES: usize = 2048;

/// The longest host name in DNS.
const MAX_NAME_BYTES: usize = 253;

/// The longest part of a host name between two dots.
const MAX_LABEL_BYTES: usize = 63;

/// Endings of names that are local to a network.
const LOCAL_ENDINGS: [&str; 14] = [
    "arpa",
    "corp",
    "home",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "onion",
    "private",
    "svc",
    "test",
];

/// Why a URL cannot be a webhook. It contains no part of the URL that could be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefused {
    /// Too long.
    #[error("the URL is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// Not a URL.
    #[error("this is not an absolute URL of the form https://host/path")]
    Malformed,
    /// White space, control characters and backslashes, which programs parse differently.
    #[error("the URL contains a space, a control character or a backslash")]
    Character,
    /// Another scheme.
    #[error("the scheme must be https")]
    Scheme,
    /// A name or password in front of the host.
    #[error("the URL contains a user name or an @ in front of the host")]
    UserInfo,
    /// A fragment is never sent.
    #[error("the URL contains a fragment")]
    Fragment,
    /// A host written with percent signs.
    #[error("the host is written with percent signs")]
    EncodedHost,
    /// Not a valid host name or address.
    #[error("the host is not a valid name or address")]
    Host,
    /// A name that is local to a network.
    #[error("the host name is local to a network")]
    LocalName,
    /// A low port other than 443.
    #[error("the port must be 443, or 1024 or higher")]
    Port,
    /// A forbidden address.
    #[error(transparent)]
    Address(#[from] AddressRefused),
}

/// A URL that passed validation. Its addresses are not checked yet.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckedUrl {
    url: Url,
    host: Box<str>,
}

impl CheckedUrl {
    /// Parses and validates a URL.
    ///
    /// # Errors
    /// [`UrlRefused`] states the reason.
    pub fn parse(text: &str, allow_private: bool) -> Result<Self, UrlRefused> {
        check_text(text)?;
        let url = Url::parse(text).map_err(|_| UrlRefused::Malformed)?;
        // Percent-encoding lengthens the text.
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(UrlRefused::TooLong);
        }
        match url.scheme() {
            "https" => {}
            "http" if allow_private => {}
            _ => return Err(UrlRefused::Scheme),
        }
        check_port(&url, allow_private)?;
        let host = match url.host().ok_or(UrlRefused::Malformed)? {
            Host::Domain(name) => check_name(name, allow_private)?.into(),
            Host::Ipv4(address) => literal(address.into(), allow_private)?,
            Host::Ipv6(address) => literal(address.into(), allow_private)?,
        };
        Ok(Self { url, host })
    }

    /// The normalized host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The normalized URL, including secrets in its query.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(super) fn to_url(&self) -> Url {
        self.url.clone()
    }
}

/// Omits path and query, which may hold secrets.
impl fmt::Debug for CheckedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckedUrl({}://{}", self.url.scheme(), self.host)?;
        if let Some(port) = self.url.port() {
            write!(f, ":{port}")?;
        }
        f.write_str("/…)")
    }
}

/// Checks of the text before parsing, which would accept or change it.
fn check_text(text: &str) -> Result<(), UrlRefused> {
    if text.len() > MAX_URL_BYTES {
        return Err(UrlRefused::TooLong);
    }
    let is_forbidden = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
    if text.contains(is_forbidden) {
        return Err(UrlRefused::Character);
    }
    if text.contains('#') {
        return Err(UrlRefused::Fragment);
    }
    let (scheme, rest) = text.split_once(':').ok_or(UrlRefused::Malformed)?;
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return Err(UrlRefused::Scheme);
    }
    let rest = rest.strip_prefix("//").ok_or(UrlRefused::Malformed)?;
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err(UrlRefused::Malformed);
    }
    if authority.contains('@') {
        return Err(UrlRefused::UserInfo);
    }
    if authority.contains('%') {
        return Err(UrlRefused::EncodedHost);
    }
    Ok(())
}

/// Refuses low ports: their protocols may misinterpret an HTTP request.
fn check_port(url: &Url, allow_private: bool) -> Result<(), UrlRefused> {
    match url.port_or_known_default() {
        None | Some(0) => Err(UrlRefused::Port),
        Some(443 | 1024..) => Ok(()),
        Some(_) if allow_private => Ok(()),
        Some(_) => Err(UrlRefused::Port),
    }
}

fn literal(address: std::net::IpAddr, allow_private: bool) -> Result<Box<str>, UrlRefused> {
    address::check(address, allow_private)?;
    Ok(address.to_canonical().to_string().into())
}

/// The name without a trailing dot.
fn check_name(name: &str, allow_private: bool) -> Result<&str, UrlRefused> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= MAX_LABEL_BYTES
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if name.len() > MAX_NAME_BYTES || !name.split('.').all(is_label) {
        return Err(UrlRefused::Host);
    }
    if allow_private {
        return Ok(name);
    }
    match name.rsplit_once('.') {
        // A name without dots is resolved in the local domain.
        None => Err(UrlRefused::LocalName),
        Some((_, ending)) if LOCAL_ENDINGS.contains(&ending) => Err(UrlRefused::LocalName),
        Some(_) => Ok(name),
    }
}

#[cfg(test)]
mod tests;
