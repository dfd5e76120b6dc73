//! Headers in front of the IP packet.

use super::field::{be_u16, byte};
use super::file::LinkType;
use zwire_proto::error::Result;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// VLAN tags: IEEE 802.1Q, 802.1ad and the number in use before the latter.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Most VLAN tags in a row; two is the usual maximum.
const MAX_VLAN_TAGS: usize = 4;

/// Offset of the IP packet in a packet of this link type; `None` if it carries another protocol.
pub(super) fn network_at(link_type: LinkType, data: &[u8]) -> Result<Option<usize>> {
    match link_type {
        LinkType::ETHERNET => by_ethertype(data, 12),
        LinkType::LINUX_SLL => by_ethertype(data, 14),
        // The protocol comes first and 18 more bytes of header follow.
        LinkType::LINUX_SLL2 => match be_u16(data, 0, "SLL2 protocol")? {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => by_version(data, 20),
            tag if ETHERTYPES_VLAN.contains(&tag) => by_ethertype(data, 22),
            _ => Ok(None),
        },
        // The numbers of address families differ between systems; the IP version is just as good.
        LinkType::NULL | LinkType::LOOP => by_version(data, 4),
        // Some systems wrote 12 and 14 for RAW.
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12 | 14) => by_version(data, 0),
        _ => Ok(None),
    }
}

/// Follows the type field at `at` and the VLAN tags behind it.
fn by_ethertype(data: &[u8], mut at: usize) -> Result<Option<usize>> {
    for _ in 0..=MAX_VLAN_TAGS {
        match be_u16(data, at, "Ethernet type")? {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return by_version(data, at + 2),
            tag if ETHERTYPES_VLAN.contains(&tag) => at += 4,
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn by_version(data: &[u8], at: usize) -> Result<Option<usize>> {
    let version = byte(data, at, "IP version")? >> 4;
    Ok(matches!(version, 4 | 6).then_some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(link_type: LinkType, head: &[u8], expected: Option<usize>) {
        let mut data = head.to_vec();
        data.push(0x45);
        assert_eq!(network_at(link_type, &data), Ok(expected));
        for len in 0..data.len() {
            // A truncated packet is an error or, for a foreign type, still foreign; the offset is never
            // outside.
            if let Ok(Some(at)) = network_at(link_type, &data[..len]) {
                assert!(at < len);
            }
        }
    }

    #[test]
    fn ethernet_with_and_without_tags() {
        let macs = [0u8; 12];
        check(LinkType::ETHERNET, &[&macs[..], &[8, 0]].concat(), Some(14));
        check(LinkType::ETHERNET, &[&macs[..], &[0x81, 0, 0, 5, 8, 0]].concat(), Some(18));
        let double = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd];
        check(LinkType::ETHERNET, &[&macs[..], &double].concat(), Some(22));
        check(LinkType::ETHERNET, &[&macs[..], &[8, 6]].concat(), None);
        let endless = [0x81, 0, 0, 5].repeat(10);
        check(LinkType::ETHERNET, &[&macs[..], &endless].concat(), None);
    }

    #[test]
    fn cooked_captures() {
        let mut sll = [0u8; 16];
        sll[14] = 8;
        check(LinkType::LINUX_SLL, &sll, Some(16));
        let mut sll2 = [0u8; 20];
        sll2[0] = 8;
        check(LinkType::LINUX_SLL2, &sll2, Some(20));
        sll2[1] = 6;
        check(LinkType::LINUX_SLL2, &sll2, None);
        check(LinkType::LINUX_SLL2, &[&[0x81, 0][..], &[0; 18], &[0, 5, 8, 0]].concat(), Some(24));
    }

    #[test]
    fn loopback_and_raw() {
        check(LinkType::NULL, &[2, 0, 0, 0], Some(4));
        check(LinkType::LOOP, &[0, 0, 0, 2], Some(4));
        check(LinkType::RAW, &[], Some(0));
        check(LinkType::IPV4, &[], Some(0));
        check(LinkType(147), &[0, 0, 0, 0], None);
        assert_eq!(network_at(LinkType::RAW, &[0x15]), Ok(None));
    }
}
