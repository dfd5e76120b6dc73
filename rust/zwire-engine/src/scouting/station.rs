//! [`Station`]: the machine of scouting, turned on sockets.

use super::sockets::Sockets;
use crate::{clock, config::MulticastScouting};
use core::{net::SocketAddr, time::Duration};
use tokio::time::MissedTickBehavior;
use zwire_proto::{
    Text,
    zenoh::discovery::{Found, Scouting, ScoutingConfig, Transmit, fitted},
    zre::node::Interface,
};

/// How often the interfaces are looked at. Telling a change at once would need another way on each system.
const LOOK: Duration = Duration::from_secs(2);

/// Hears, asks and answers.
pub(crate) struct Station {
    sockets: Sockets,
    machine: Scouting,
    look: tokio::time::Interval,
}

/// Something for the owner of a station.
pub(crate) enum Event {
    /// A node has answered.
    Found(Found),
    /// Somebody is to be answered with [`Station::answer`].
    Asked(SocketAddr),
    /// The interfaces are other ones than before.
    Network,
}

impl Station {
    /// Opens its sockets; in a runtime. Without multicast it is silent and deaf.
    pub(crate) fn new(multicast: &MulticastScouting, config: ScoutingConfig) -> Self {
        let mut sockets = Sockets::new(multicast, config.answer);
        sockets.refresh();
        let mut look = tokio::time::interval_at(clock::instant(clock::mono() + LOOK), LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { sockets, machine: Scouting::new(config, clock::now()), look }
    }

    /// Works until there is something to tell. Nothing is lost if it is dropped before.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            while let Some(transmit) = self.machine.poll_transmit() {
                match transmit {
                    Transmit::Scout(datagram) => self.sockets.send_to_group(&datagram),
                    Transmit::Answer { to } => return Event::Asked(to),
                }
            }
            if let Some(found) = self.machine.poll_found() {
                return Event::Found(found);
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
                        return Event::Network;
                    }
                }
            }
        }
    }

    /// Tells an asker who we are and where we listen, as far as that is of use to it.
    pub(crate) fn answer(&self, to: SocketAddr, locators: &[Text]) {
        let networks: Vec<Interface> = self.sockets.networks();
        let hello = self.machine.hello(fitted(locators, to.ip(), &networks));
        self.sockets.send_to(to, &hello);
    }

    /// Whether anybody can be asked.
    pub(crate) fn works(&self) -> bool {
        self.sockets.works()
    }

    /// The names of the interfaces on which it asks.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        self.sockets.names()
    }
}

/// Returns at a time, or never.
pub(super) async fn until(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep_until(clock::instant(due)).await,
        None => core::future::pending().await,
    }
}
