//! Scouting of a node: it answers SCOUT messages, and connects to the nodes that it finds.

use super::{
    sockets::reachable,
    station::{Station, StationEvent, until},
};
use crate::{
    config::{ConnectRules, Endpoint, LinkOptions, Locator, Roles, Target},
    error::ConnectReason,
    net::{interfaces, io::group_of, race::STAGGER, tcp},
    rt::clock,
    zenoh::{
        connect::dial::{dial, is_max_links, log},
        core::Side,
        effects::Effects,
        gate::Ticket,
        link_settings::is_supported,
        shared::SessionShared,
    },
};
use core::{net::SocketAddr, time::Duration};
use std::sync::{Arc, Weak, atomic::Ordering};
use zwire_proto::{
    Text,
    zenoh::{
        WhatAmI, ZenohId,
        discovery::{DialOutcome, DueDial, GossipReach, MAX_TRIED_LOCATORS, ScoutingConfig, address},
        node::FaceId,
    },
};

/// Way in which a node was found.
#[derive(Debug)]
enum Via {
    /// By its answer to a SCOUT.
    Multicast,
    /// By gossip of a neighbour, which may lead to these addresses.
    Gossip(Arc<GossipReach>),
}

/// Delay after a refusal with `MAX_LINKS` the crossing connection of the other side should have
/// arrived.
const CROSSING: Duration = Duration::from_millis(200);

/// Roles that this node scouts for, and whether it answers SCOUT.
pub(crate) fn scouting_config(shared: &SessionShared) -> Option<ScoutingConfig> {
    let multicast = &shared.config.scouting.multicast;
    // A client connects to one node only, and never to others that it hears of.
    let what = match shared.config.mode {
        WhatAmI::Client => Roles::NONE,
        _ => multicast.autoconnect,
    };
    let config = ScoutingConfig {
        zid: shared.zid,
        whatami: shared.config.mode,
        what: what.mask(),
        answer: multicast.listen,
    };
    (multicast.enabled && (config.answer || config.what != 0)).then_some(config)
}

/// Scouts, answers, and watches the addresses of this machine until the session closes. `station` is
/// `None` for a node that neither scouts nor answers.
pub(crate) async fn run(shared: Weak<SessionShared>, mut station: Option<Station>) {
    let mut look = tokio::time::interval(Duration::from_secs(2));
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let (due, dials) = {
            let Some(shared) = shared.upgrade() else { return };
            connect_found(&shared);
            let due = shared.dials.candidates.lock().poll_timeout(clock::now());
            (due, shared.dials.clone())
        };
        let event = async {
            match &mut station {
                Some(station) => station.next().await,
                None => core::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = event => Some(event),
            () = until(due) => None,
            () = dials.changed.notified() => None,
            _ = look.tick() => Some(StationEvent::Network),
        };
        let Some(shared) = shared.upgrade() else { return };
        match event {
            Some(StationEvent::Found(found)) => {
                discovered(&shared, Via::Multicast, found.zid, found.whatami, found.locators);
            }
            Some(StationEvent::Asked(to)) => {
                if let Some(station) = &station {
                    station.answer(to, &shared.locators.lock());
                }
            }
            Some(StationEvent::Network) => update_locators(&shared),
            None => {}
        }
    }
}

/// Handles a node that the neighbour of a face tells of: at locators that gossip may lead to.
pub(crate) fn gossiped(
    shared: &Arc<SessionShared>,
    from: FaceId,
    zid: ZenohId,
    whatami: WhatAmI,
    mut locators: Vec<Text>,
) {
    let Some(reach) = reach(shared, from) else { return };
    locators.truncate(MAX_TRIED_LOCATORS);
    let told = locators.len();
    locators.retain(|locator| reach.allows_locator(locator.as_str()));
    let refused = told - locators.len();
    if refused > 0 {
        shared.dials.refused.fetch_add(refused as u64, Ordering::Relaxed);
        tracing::debug!(%zid, refused, "gossip named locators in other networks than zwire/gossip/networks allows");
    }
    discovered(shared, Via::Gossip(Arc::new(reach)), zid, whatami, locators);
}

/// Addresses that the neighbour of a face may tell of; `None` if its link has ended.
fn reach(shared: &SessionShared, from: FaceId) -> Option<GossipReach> {
    let teller = match &shared.core.lock().side {
        Side::Node(side) => side.links.get(&from)?.addresses.map(|(_, remote)| remote.ip()),
        Side::Client(_) => return None,
    };
    let own = interfaces::networks().unwrap_or_else(|error| {
        tracing::warn!(%error, "the interfaces of this host cannot be read: gossip leads to fewer nodes");
        Vec::new()
    });
    Some(GossipReach { teller, own, listed: shared.config.scouting.gossip.networks.clone() })
}

/// Handles a node that was found: connects to it if the rules allow (`zenoh-behaviour` 1.8).
fn discovered(
    shared: &Arc<SessionShared>,
    via: Via,
    zid: ZenohId,
    whatami: WhatAmI,
    mut locators: Vec<Text>,
) {
    let scouting = &shared.config.scouting;
    let (roles, strategy) = match via {
        Via::Multicast => (scouting.multicast.autoconnect, scouting.multicast.strategy),
        Via::Gossip(_) => (scouting.gossip.autoconnect, scouting.gossip.strategy),
    };
    let wanted = roles.contains(whatami) && zid != shared.zid && strategy.allows(shared.zid, zid, whatami);
    if !wanted || shared.config.mode == WhatAmI::Client || shared.contacts.contains(zid) {
        return;
    }
    // Configured endpoints have a connector of their own.
    let configured = |locator: &Text| {
        shared.config.connect.targets().any(|target| target.endpoint.locator().as_str() == locator.as_str())
    };
    locators.retain(|locator| !configured(locator));
    tracing::debug!(%zid, %whatami, ?via, ?locators, "a node was found");
    let told = match via {
        Via::Gossip(reach) => Some(reach),
        Via::Multicast => None,
    };
    shared.dials.candidates.lock().handle_found(clock::now(), zid, locators, told);
    connect_found(shared);
}

/// Starts the connections that are due.
fn connect_found(shared: &Arc<SessionShared>) {
    let now = clock::now();
    let mut due = Vec::new();
    {
        let mut candidates = shared.dials.candidates.lock();
        candidates.handle_timeout(now);
        while let Some(dial) = candidates.poll_dial(now) {
            due.push(dial);
        }
    }
    for due in due {
        let ticket = shared.config.open.connect_scouted.then(|| shared.gate.ticket());
        shared.spawn(connect_to(Arc::downgrade(shared), due, ticket));
    }
}

/// Targets for the locators that this build supports and the configuration allows.
pub(crate) fn targets(shared: &SessionShared, locators: &[Text]) -> Vec<Target> {
    let target = |locator: &Text| {
        let endpoint = Locator::new(locator.as_str()).ok()?.into_endpoint();
        let options = LinkOptions::of(&endpoint).ok()?;
        let target = Target { endpoint, options, rules: ConnectRules::default() };
        // No node accepts connections at a multicast group.
        let usable = group_of(&target).is_none() && is_supported(&shared.config, &target);
        usable.then_some(target)
    };
    locators.iter().filter_map(target).collect()
}

/// Attempt to connect to a node that was found; holds the connection until it ends.
async fn connect_to(shared: Weak<SessionShared>, due: DueDial, ticket: Option<Ticket>) {
    let Some(strong) = shared.upgrade() else { return };
    let DueDial { zid, locators, reach } = due;
    let mut targets = targets(&strong, &locators);
    if let Some(reach) = reach {
        targets = resolved(&strong, targets, &reach).await;
    }
    let mut outcome = DialOutcome::Failed;
    match dial(&strong, &targets, Some(zid), STAGGER).await {
        Ok(_) => outcome = DialOutcome::Connected,
        Err(failures) => {
            if failures.iter().any(|(_, reason)| is_crossing(reason)) {
                // The connection of the other side is under way, or established already.
                tokio::time::sleep(CROSSING).await;
            }
            if strong.contacts.contains(zid) {
                outcome = DialOutcome::Connected;
            } else {
                log(&failures);
            }
        }
    }
    strong.dials.candidates.lock().handle_dialled(clock::now(), zid, outcome);
    strong.dials.changed.notify_one();
    if outcome == DialOutcome::Connected {
        strong.gate.wait_for(zid, ticket);
        let contacts = strong.contacts.clone();
        drop(strong);
        contacts.gone(zid).await;
        let Some(strong) = shared.upgrade() else { return };
        strong.dials.candidates.lock().handle_lost(clock::now(), zid);
        strong.dials.changed.notify_one();
    }
}

/// Targets with a name that resolves to addresses that gossip may lead to. A bare address was judged when the
/// peer announced it.
async fn resolved(shared: &SessionShared, targets: Vec<Target>, reach: &GossipReach) -> Vec<Target> {
    let mut allowed = Vec::with_capacity(targets.len());
    for target in targets {
        let named = address(target.endpoint.locator().as_str()).is_none();
        let addresses = if named { tcp::resolve(target.endpoint.address()).await } else { Ok(Vec::new()) };
        match addresses {
            Ok(addresses) if addresses.iter().all(|address| reach.allows(address.ip())) => {
                allowed.push(target)
            }
            Ok(_) => drop(shared.dials.refused.fetch_add(1, Ordering::Relaxed)),
            Err(reason) => log(&vec![(target.endpoint.to_string(), reason)]),
        }
    }
    allowed
}

fn is_crossing(reason: &ConnectReason) -> bool {
    matches!(reason, ConnectReason::Connected(_)) || is_max_links(reason)
}

/// Determines the locators of this node, and sends them to its neighbours if they have changed.
pub(crate) fn update_locators(shared: &Arc<SessionShared>) {
    let listening: Vec<Text> =
        shared.listening.lock().iter().map(|listening| Text::from(listening.locator.as_str())).collect();
    let locators = expanded(&listening);
    {
        let mut known = shared.locators.lock();
        if *known == locators {
            return;
        }
        known.clone_from(&locators);
    }
    shared.with_core(&mut Effects::default(), |core, now, _| {
        if let Side::Node(side) = &mut core.side {
            side.node.set_locators(now, locators);
        }
    });
}

/// Replaces listeners on all interfaces by one locator for each address.
fn expanded(listening: &[Text]) -> Vec<Text> {
    let mut all: Vec<Text> = Vec::new();
    let mut addresses = None;
    for locator in listening {
        let wildcard = address(locator.as_str()).filter(|address| address.ip().is_unspecified());
        let Some(wildcard) = wildcard else {
            all.push(locator.clone());
            continue;
        };
        for ip in addresses.get_or_insert_with(reachable) {
            if wildcard.is_ipv6() || ip.is_ipv4() {
                let reached = SocketAddr::new(*ip, wildcard.port()).to_string();
                let endpoint = Endpoint::new(locator.as_str()).and_then(|e| e.with_address(&reached));
                all.extend(endpoint.map(|endpoint| Text::from(endpoint.as_str())));
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|locator| seen.insert(locator.clone()));
    all
}
