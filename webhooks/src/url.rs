//! Checks the text of a webhook's URL, before any name is resolved.
//!
//! A URL is judged after it was read the way the client will read it, so that every disguise of an
//! address is the address. Names are judged by their ending only: where they lead is decided when
//! a connection is made ([`resolver`](super::resolver)). Nothing here resolves or connects, and no
//! error or `Debug` output repeats the path or the query, where people put secrets.

use std::fmt;

use url::{Host, Url};

use super::address::{self, AddressRefused};

/// The longest URL, in bytes, as given and as read.
pub const MAX_URL_BYTES: usize = 2048;

/// The longest host name that name servers can answer for.
const MAX_NAME_BYTES: usize = 253;

/// The longest part of a host name between two dots.
const MAX_LABEL_BYTES: usize = 63;

/// Endings that never lead out of a network.
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

/// Why a URL cannot be a webhook. Repeats no part of the URL that could be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefused {
    /// Too long.
    #[error("the URL is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// Not a URL.
    #[error("this is not an absolute URL of the form https://host/path")]
    Malformed,
    /// White space, control characters, backslashes: read differently by different programs.
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
    /// Not a valid host name.
    #[error("the host is not a valid name or address")]
    Host,
    /// A name that only means something inside a network.
    #[error("the host name is local to a network")]
    LocalName,
    /// A port where no web server is expected.
    #[error("the port must be 443, or 1024 or higher")]
    Port,
    /// An address that may not be called.
    #[error(transparent)]
    Address(#[from] AddressRefused),
}

/// A URL that may be a webhook, as far as can be seen in it.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckedUrl {
    url: Url,
    host: Box<str>,
}

impl CheckedUrl {
    /// Parses and checks a URL.
    ///
    /// # Errors
    /// [`UrlRefused`] with the reason.
    pub fn parse(text: &str, allow_private: bool) -> Result<Self, UrlRefused> {
        check_text(text)?;
        let url = Url::parse(text).map_err(|_| UrlRefused::Malformed)?;
        // Escaping lengthens what was given.
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

    /// The host, in one spelling for all of its spellings.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The URL as it will be called: normalised, with whatever secrets its query holds.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(super) fn to_url(&self) -> Url {
        self.url.clone()
    }
}

/// Path and query may hold secrets, so they are not shown.
impl fmt::Debug for CheckedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckedUrl({}://{}", self.url.scheme(), self.host)?;
        if let Some(port) = self.url.port() {
            write!(f, ":{port}")?;
        }
        f.write_str("/…)")
    }
}

/// What must be judged before the text is read, because reading forgives it.
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

/// Low ports belong to other protocols, some of which can be fooled by an HTTP request.
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

/// The name without the dot that may end it.
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
        // A name without dots is looked up in the network's own domain.
        None => Err(UrlRefused::LocalName),
        Some((_, ending)) if LOCAL_ENDINGS.contains(&ending) => Err(UrlRefused::LocalName),
        Some(_) => Ok(name),
    }
}

#[cfg(test)]
mod tests;
