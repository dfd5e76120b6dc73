//! Selection of the locators sent to a node (`zenoh-behaviour` 1.6), and of those that a neighbour tells.

use crate::{Text, zre::node::Interface};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The address of a locator that has one: `tcp/10.0.0.1:7447?rel=1` has `10.0.0.1:7447`.
#[must_use]
pub fn address(locator: &str) -> Option<SocketAddr> {
    let (_, rest) = locator.split_once('/')?;
    rest.split(['?', '#']).next()?.parse().ok()
}

/// The `locators` that an asker can use: loopback and files only on this host, and those in the same
/// network first. `networks` are the addresses of this host and their networks.
#[must_use]
pub fn fitted(locators: &[Text], asker: IpAddr, networks: &[Interface]) -> Vec<Text> {
    let asker = asker.to_canonical();
    // Without any other interface, multicast over loopback has an unspecified source address.
    let local = asker.is_loopback()
        || asker.is_unspecified()
        || networks.iter().any(|network| network.address == asker);
    let home = networks.iter().filter(|network| network.contains(asker)).max_by_key(|network| network.prefix);
    let distance = |locator: &Text| {
        if locator.as_str().starts_with("unix") {
            return if local { 1 } else { 2 };
        }
        let Some(ip) = address(locator.as_str()).map(|address| address.ip().to_canonical()) else { return 1 };
        if ip.is_loopback() {
            return if local { 0 } else { 2 };
        }
        u8::from(!home.is_some_and(|home| home.contains(ip)))
    };
    let mut useful: Vec<(u8, &Text)> = locators.iter().map(|locator| (distance(locator), locator)).collect();
    useful.retain(|(distance, _)| *distance < 2);
    // A stable sort: equal ones keep the order of the node.
    useful.sort_by_key(|(distance, _)| *distance);
    useful.into_iter().map(|(_, locator)| locator.clone()).collect()
}

/// Addresses of nodes that a neighbour may tell of: a stranger must not make this node connect to any host
/// that it can reach and the stranger cannot.
#[derive(Clone, Debug)]
pub struct GossipReach {
    /// Remote address of the link on which they are told; `None`: a link of this host without addresses.
    pub teller: Option<IpAddr>,
    /// Addresses of this host, and their networks.
    pub own: Vec<Interface>,
    /// Networks in the configuration. Empty: those of the kind of the link.
    pub listed: Vec<Interface>,
}

impl GossipReach {
    /// Whether a locator may be connected to. One with a name is judged by the addresses of the name.
    #[must_use]
    pub fn allows_locator(&self, locator: &str) -> bool {
        match address(locator) {
            Some(address) => self.allows(address.ip()),
            None => !locator.starts_with("unix") || self.is_here(),
        }
    }

    /// Whether an address may be connected to. Without listed networks: all addresses, if the teller is on
    /// this host; else none of loopback, link-local ones of a network of the teller, private ones if
    /// the teller's is private or in a network of this host, and public ones if the teller's is public.
    #[must_use]
    pub fn allows(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        if ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return false;
        }
        if !self.listed.is_empty() {
            return self.listed.iter().any(|network| network.contains(ip));
        }
        let Some(teller) = self.teller.map(|teller| teller.to_canonical()).filter(|_| !self.is_here()) else {
            return true;
        };
        let near = |ip: IpAddr| self.own.iter().filter(move |own| own.prefix > 0 && own.contains(ip));
        if ip.is_loopback() {
            false
        } else if near(teller).any(|own| own.contains(ip)) {
            true
        } else if is_link_local(ip) {
            is_link_local(teller)
        } else if is_private(ip) {
            is_private(teller) || is_link_local(teller) || near(teller).next().is_some()
        } else {
            !is_private(teller) && !is_link_local(teller)
        }
    }

    fn is_here(&self) -> bool {
        self.teller.is_none_or(|teller| {
            let teller = teller.to_canonical();
            teller.is_loopback() || self.own.iter().any(|own| own.address == teller)
        })
    }
}

const fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Whether an address is in a private network: RFC 1918, RFC 6598, RFC 4193.
const fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64,
        IpAddr::V6(ip) => ip.is_unique_local(),
    }
}
