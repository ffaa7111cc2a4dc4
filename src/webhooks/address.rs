//! IP addresses that webhooks may be sent to, as a guard against SSRF.
//!
//! The caller who registers a webhook chooses where this program connects, so addresses inside the
//! operator's network are refused.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The purpose of an address range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// Public internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network (RFC 1918, unique local IPv6, local NAT64).
    Private,
    /// Shared by the customers of a carrier (100.64.0.0/10).
    CarrierShared,
    /// The network segment; cloud metadata services respond with credentials here.
    LinkLocal,
    /// A cloud metadata service, which returns credentials.
    Metadata,
    /// No address at all (0.0.0.0/8, `::`).
    Unspecified,
    /// Multicast.
    Multicast,
    /// An IPv4 address embedded in IPv6 for a tunnel (6to4, Teredo, ISATAP, IPv4-compatible).
    Tunnel,
    /// Documentation, benchmarks, protocol assignments, or unassigned.
    Reserved,
}

impl AddressKind {
    /// Whether a webhook may be sent there. `allow_private` allows loopback and private networks,
    /// but never a cloud metadata service.
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

/// A forbidden address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address} is a {kind} address")]
pub struct AddressRefused {
    /// The address.
    pub address: IpAddr,
    /// Its range.
    pub kind: AddressKind,
}

/// Checks that a webhook may be sent to the address.
///
/// # Errors
/// [`AddressRefused`] states the range of the address.
pub fn check(address: IpAddr, allow_private: bool) -> Result<(), AddressRefused> {
    let kind = kind_of(address);
    if kind.is_allowed(allow_private) { Ok(()) } else { Err(AddressRefused { address, kind }) }
}

/// The range of an address.
#[must_use]
pub fn kind_of(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => kind_of_v4(address),
        IpAddr::V6(address) => kind_of_v6(address),
    }
}

/// Metadata services outside link-local addresses: Alibaba's, Azure's, Oracle's.
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
        // Protocol assignments, three documentation ranges, the old 6to4 relays, benchmarks.
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
        // NAT64: checked as the embedded IPv4 address.
        (0x64, 0xff9b) if address.segments()[2..6] == [0; 4] => {
            kind_of_v4(embedded(seventh, eighth))
        }
        (0x64, 0xff9b) if third == 1 => AddressKind::Private,
        _ if address.is_unspecified() => AddressKind::Unspecified,
        _ if address.is_loopback() => AddressKind::Loopback,
        // The rest of ::/96 once held IPv4 addresses.
        _ if address.segments()[..6] == [0; 6] => AddressKind::Tunnel,
        _ if first & 0xfe00 == 0xfc00 => AddressKind::Private,
        // Site-local, the predecessor of unique local; routers still forward it inside a site.
        _ if first & 0xffc0 == 0xfec0 => AddressKind::Private,
        _ if first & 0xffc0 == 0xfe80 => AddressKind::LinkLocal,
        _ if first & 0xff00 == 0xff00 => AddressKind::Multicast,
        // Only 2000::/3 is assigned as global unicast.
        _ if first & 0xe000 != 0x2000 => AddressKind::Reserved,
        (0x2002, _) | (0x2001, 0) => AddressKind::Tunnel,
        _ if sixth == 0x5efe && fifth & 0xfdff == 0 => AddressKind::Tunnel,
        // Protocol assignments and two documentation ranges.
        (0x2001, 0x0001..=0x01ff | 0x0db8) | (0x3fff, 0x0000..=0x0fff) => AddressKind::Reserved,
        _ => AddressKind::Public,
    }
}

/// The IPv4 address in two groups of an IPv6 address.
fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests;
