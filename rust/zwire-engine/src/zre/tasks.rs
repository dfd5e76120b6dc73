//! Tasks of a node. They hold it weakly; its end aborts them.

use super::{
    beacon,
    interfaces::{self, Purpose, Selector},
    shared::NodeShared,
};
use core::time::Duration;
use std::sync::Weak;

/// How often the interfaces are looked at. Telling a change at once would need another way on each system.
const LOOK: Duration = Duration::from_secs(2);

/// How long until a port that another program has is tried again.
const REBIND: Duration = Duration::from_secs(5);

/// Hears beacons. A port that cannot be had costs a warning and the beacons of others, nothing more.
pub(crate) async fn run_beacons(shared: Weak<NodeShared>, port: u16) {
    let mut warned = false;
    let mut datagrams = Vec::new();
    loop {
        match beacon::bind_receiver(port) {
            Ok(socket) => {
                if warned {
                    tracing::info!(port, "beacons can be heard now");
                }
                warned = false;
                match shared.upgrade() {
                    Some(strong) => *strong.deaf.lock() = None,
                    None => return,
                }
                loop {
                    let received = beacon::receive(&socket, &mut datagrams).await;
                    let Some(strong) = shared.upgrade() else { return };
                    strong.with_core(|core, now| {
                        for (source, datagram) in datagrams.drain(..) {
                            core.handle_beacon(now, source, datagram);
                        }
                    });
                    if let Err(error) = received {
                        tracing::warn!(port, %error, "beacons are not heard any more");
                        break;
                    }
                }
            }
            Err(error) => {
                let Some(strong) = shared.upgrade() else { return };
                if !warned {
                    tracing::warn!(
                        port, %error,
                        "beacons cannot be heard: peers are found by gossip, endpoints and their HELLO"
                    );
                }
                warned = true;
                *strong.deaf.lock() = Some(error.to_string());
            }
        }
        tokio::time::sleep(REBIND).await;
    }
}

/// Looks at the interfaces from time to time: addresses come and go while a node runs.
pub(crate) async fn run_interfaces(shared: Weak<NodeShared>, selectors: Vec<Selector>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(strong) = shared.upgrade() else { return };
        match interfaces::list(Purpose::Broadcast, &selectors) {
            Ok(candidates) => {
                let port = strong.options.beacon_port;
                strong.with_core(|core, now| core.look_at_interfaces(now, candidates, port));
            }
            Err(error) => tracing::debug!(%error, "the interfaces cannot be listed"),
        }
    }
}
