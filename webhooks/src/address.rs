//! Classifies IP addresses: the address half of the SSRF guard.
//!
//! The client that registers a webhook chooses where this program connects, so an address that only
//! has a meaning inside the operator's network is refused. No names, no URLs, no sockets here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// A global unicast address.
    Public,
    /// This machine.
    Loopback,
    /// A private network (RFC 1918, unique local IPv6, local NAT64).
    Private,
    /// Shared by the customers of a carrier (100.64.0.0/10).
    CarrierShared,
    /// This network segment; clouds answer with credentials here.
    LinkLocal,
    /// A cloud's metadata service, which returns credentials of the machine.
    Metadata,
    /// No address at all (0.0.0.0/8, `::`).
    Unspecified,
    /// Many receivers at once.
    Multicast,
    /// An IPv4 address packed into IPv6 for a tunnel (6to4, Teredo, ISATAP, IPv4-compatible).
    Tunnel,
    /// For examples, measurements or protocols, or not assigned yet.
    Reserved,
}

impl AddressKind {
    /// Whether a webhook may be sent to this class. `allow_private` opens this machine and private
    /// networks only; a cloud's metadata service stays refused.
    #[must_use]
    pub fn is_allowed(self, allow_private: bool) -> bool {
        match self {
            Self::Public => true,
            Self::Loopback | Self::Private | Self::CarrierShared => allow_private,
            Self::LinkLocal
            | Self::Metadata
            | Self::Unspecified
            | Self::Multicast
            | Self::Tunnel
            | Self::Reserved => false,
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::CarrierShared => "carrier-shared",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Unspecified => "unspecified",
            Self::Multicast => "multicast",
            Self::Tunnel => "tunnel",
            Self::Reserved => "reserved",
        })
    }
}

/// The address may not be called by a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address} is a {kind} address")]
pub struct AddressRefused {
    /// The address.
    pub address: IpAddr,
    /// Its class.
    pub kind: AddressKind,
}

/// Succeeds if a webhook may be sent to the address.
///
/// # Errors
/// [`AddressRefused`] names the class of the address.
pub fn check(address: IpAddr, allow_private: bool) -> Result<(), AddressRefused> {
    let kind = kind_of(address);
    if kind.is_allowed(allow_private) { Ok(()) } else { Err(AddressRefused { address, kind }) }
}

/// Classifies an address.
#[must_use]
pub fn kind_of(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => kind_of_v4(address),
        IpAddr::V6(address) => kind_of_v6(address),
    }
}

/// The metadata services that do not sit at a link-local address: Alibaba's, Azure's, Oracle's.
const METADATA_V4: [Ipv4Addr; 4] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The metadata services of Amazon and Google in unique local space.
const METADATA_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

fn kind_of_v4(address: Ipv4Addr) -> AddressKind {
    if METADATA_V4.contains(&address) {
        return AddressKind::Metadata;
    }
    match address.octets() {
        [0, ..] => AddressKind::Unspecified,
        [127, ..] => AddressKind::Loopback,
        [10, ..] | [192, 168, ..] => AddressKind::Private,
        [172, second, ..] if second & 0xf0 == 16 => AddressKind::Private,
        [100, second, ..] if second & 0xc0 == 64 => AddressKind::CarrierShared,
        [169, 254, ..] => AddressKind::LinkLocal,
        // Protocol assignments, three ranges for examples, the old 6to4 relays, measurements.
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [192, 88, 99, _] => {
            AddressKind::Reserved
        }
        [198, 18 | 19, ..] => AddressKind::Reserved,
        [224..=239, ..] => AddressKind::Multicast,
        [240..=255, ..] => AddressKind::Reserved,
        _ => AddressKind::Public,
    }
}

fn kind_of_v6(address: Ipv6Addr) -> AddressKind {
    if METADATA_V6.contains(&address) {
        return AddressKind::Metadata;
    }
    if let Some(inner) = address.to_ipv4_mapped() {
        return kind_of_v4(inner);
    }
    let [first, second, third, _, fifth, sixth, seventh, eighth] = address.segments();
    match (first, second) {
        // What IPv6-only networks resolve IPv4 names to: as good as the address inside.
        (0x64, 0xff9b) if address.segments()[2..6] == [0; 4] => {
            kind_of_v4(embedded(seventh, eighth))
        }
        (0x64, 0xff9b) if third == 1 => AddressKind::Private,
        _ if address.is_unspecified() => AddressKind::Unspecified,
        _ if address.is_loopback() => AddressKind::Loopback,
        // The rest of ::/96 once held IPv4 addresses.
        _ if address.segments()[..6] == [0; 6] => AddressKind::Tunnel,
        _ if first & 0xfe00 == 0xfc00 => AddressKind::Private,
        // Site-local is what unique local replaced; routers still pass it inside a site.
        _ if first & 0xffc0 == 0xfec0 => AddressKind::Private,
        _ if first & 0xffc0 == 0xfe80 => AddressKind::LinkLocal,
        _ if first & 0xff00 == 0xff00 => AddressKind::Multicast,
        // Only 2000::/3 is given out as global unicast.
        _ if first & 0xe000 != 0x2000 => AddressKind::Reserved,
        (0x2002, _) | (0x2001, 0) => AddressKind::Tunnel,
        _ if sixth == 0x5efe && fifth & 0xfdff == 0 => AddressKind::Tunnel,
        // Protocol assignments with their measurements and hashes, and two ranges for examples.
        (0x2001, 0x0001..=0x01ff | 0x0db8) | (0x3fff, 0x0000..=0x0fff) => AddressKind::Reserved,
        _ => AddressKind::Public,
    }
}

/// The IPv4 address that two groups of an IPv6 address spell.
fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests;
