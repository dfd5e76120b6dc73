//! Selection of the locators sent to a node (`zenoh-behaviour` 1.6).

use crate::{Text, zre::node::Interface};
use core::net::{IpAddr, SocketAddr};

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
