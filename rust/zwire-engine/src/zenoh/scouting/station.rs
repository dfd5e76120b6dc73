//! [`Station`]: drives the scouting machine over its sockets.

use super::sockets::Sockets;
use crate::{config::MulticastScouting, rt::clock};
use core::{net::SocketAddr, time::Duration};
use tokio::time::MissedTickBehavior;
use zwire_proto::{
    Text,
    zenoh::discovery::{Found, Scouting, ScoutingConfig, Transmit, fitted},
    zre::node::Interface,
};

/// Interval at which the interfaces are listed. Immediate notification would need different code on each
/// system.
const LOOK: Duration = Duration::from_secs(2);

/// Station that sends SCOUT, receives answers and answers others.
pub(crate) struct Station {
    pub(super) sockets: Sockets,
    machine: Scouting,
    look: tokio::time::Interval,
}

/// Event for the owner of a station.
pub(crate) enum StationEvent {
    /// A node has answered.
    Found(Found),
    /// A node asks and has to be answered with [`Station::answer`].
    Asked(SocketAddr),
    /// The set of interfaces has changed.
    Network,
}

impl Station {
    /// Opens the sockets; must run in a runtime. Without multicast it neither sends nor receives.
    pub(crate) fn new(multicast: &MulticastScouting, config: ScoutingConfig) -> Self {
        let mut sockets = Sockets::new(multicast, config.answer);
        sockets.refresh();
        let mut look = tokio::time::interval_at(clock::instant(clock::mono() + LOOK), LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { sockets, machine: Scouting::new(config, clock::now()), look }
    }

    /// Works until there is an event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> StationEvent {
        loop {
            while let Some(transmit) = self.machine.poll_transmit() {
                match transmit {
                    Transmit::Scout(datagram) => self.sockets.send_to_group(&datagram),
                    Transmit::Answer { to } => return StationEvent::Asked(to),
                }
            }
            if let Some(found) = self.machine.poll_found() {
                return StationEvent::Found(found);
            }
            let due = self.machine.poll_timeout();
            tokio::select! {
                (from, datagram) = self.sockets.receive() => {
                    self.machine.handle_datagram(clock::now(), from, &datagram);
                }
                () = until(due) => self.machine.handle_timeout(clock::now()),
                _ = self.look.tick() => {
                    if self.sockets.refresh() {
                        self.machine.restart(clock::now());
                        return StationEvent::Network;
                    }
                }
            }
        }
    }

    /// Answers a SCOUT with the id of this node and the locators that the asker can use.
    pub(crate) fn answer(&self, to: SocketAddr, locators: &[Text]) {
        let networks: Vec<Interface> = self.sockets.networks();
        let hello = self.machine.hello(fitted(locators, to.ip(), &networks));
        self.sockets.send_to(to, &hello);
    }

    /// Whether there is an interface to send on.
    pub(crate) fn works(&self) -> bool {
        self.sockets.works()
    }
}

/// Sleeps until a time, or for ever if there is none.
pub(super) async fn until(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep_until(clock::instant(due)).await,
        None => core::future::pending().await,
    }
}
