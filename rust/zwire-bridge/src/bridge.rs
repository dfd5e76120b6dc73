//! [`ZreBridge`]: the public handle.

use crate::{
    error::{Error, Result},
    options::Options,
    shared::{Shared, Stats},
    worker::Worker,
};
use core::{sync::atomic::Ordering, time::Duration};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::{sync::Arc, thread::JoinHandle};
use zwire_engine::{Session, clock, runtime::Birth};
use zwire_proto::{
    zenoh::{Encoding, ZenohId},
    zre::Uuid,
};

/// Networks that sessions of this process are bridged to: two bridges with the same id would take each other's messages
/// for their own.
static NAMES: Mutex<Vec<(ZenohId, String)>> = Mutex::new(Vec::new());

/// Name that is taken until this is dropped.
struct Taken((ZenohId, String));

impl Drop for Taken {
    fn drop(&mut self) {
        NAMES.lock().retain(|known| *known != self.0);
    }
}

/// A bridge between a ZRE network and the Zenoh network of a session. Dropping it closes it.
pub struct ZreBridge {
    shared: Arc<Shared>,
    network: String,
    uuid: Uuid,
    thread: Mutex<Option<JoinHandle<()>>>,
    birth: Birth,
    taken: Mutex<Option<Taken>>,
}

impl ZreBridge {
    /// Starts a bridge: its ZRE node is found, and its subscribers are declared, from here on.
    ///
    /// # Errors
    /// The session has a bridge to this network, or is closed; the ZRE node cannot start.
    pub fn start(session: &Session, options: Options) -> Result<Self> {
        session.check()?;
        let network = options.network.name().to_owned();
        let name = (session.zid(), network.clone());
        {
            let mut names = NAMES.lock();
            if names.contains(&name) {
                return Err(Error::Twice(network));
            }
            names.push(name.clone());
        }
        let taken = Taken(name);
        let shared = Arc::new(Shared::default());
        let uuid = options.node.machine.uuid;
        let worker = Worker::start(session, options, shared.clone())?;
        let thread = std::thread::Builder::new().name("zwire-zre-bridge".to_owned());
        let thread = thread.spawn(move || worker.run()).map_err(Error::Thread)?;
        let (weak, path) = (Arc::downgrade(&shared), format!("status/plugins/zre/{network}"));
        session.add_status(Arc::new(move || {
            let shared = weak.upgrade()?;
            let report = status(&shared.stats()).to_string().into_bytes();
            Some(vec![(path.clone(), Encoding::APPLICATION_JSON, report)])
        }));
        Ok(Self {
            shared,
            network,
            uuid,
            thread: Mutex::new(Some(thread)),
            birth: Birth::here(),
            taken: Mutex::new(Some(taken)),
        })
    }

    /// Name of the network.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.network
    }

    /// UUID of the ZRE node.
    #[must_use]
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Counters and state.
    ///
    /// # Errors
    /// The bridge belongs to another process.
    pub fn stats(&self) -> Result<Stats> {
        self.birth.check()?;
        Ok(self.shared.stats())
    }

    /// Ends the bridge: sends what waits as far as there is room, takes back what it has declared, and says goodbye to the
    /// ZRE peers. A second call does nothing.
    ///
    /// # Errors
    /// The bridge belongs to another process, or its thread did not end in time.
    pub fn close(&self, timeout: Duration) -> Result<()> {
        self.birth.check()?;
        let mut slot = self.thread.lock();
        let Some(thread) = slot.take() else { return Ok(()) };
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
        let end = clock::mono() + timeout;
        while !thread.is_finished() {
            if clock::mono() >= end {
                *slot = Some(thread);
                return Err(Error::Usage("the bridge did not end within the timeout: close it again"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Another bridge of the session may have the name.
        *self.taken.lock() = None;
        thread.join().map_err(|_| Error::Usage("the thread of the bridge has failed"))
    }
}

impl Drop for ZreBridge {
    fn drop(&mut self) {
        /// Longest delay of the program.
        const LONGEST: Duration = Duration::from_secs(5);
        if self.birth.is_here()
            && let Err(error) = self.close(LONGEST)
        {
            tracing::warn!(network = self.network, %error, "the bridge was dropped and is still running");
        }
    }
}

/// Counters and state for the admin space.
fn status(stats: &Stats) -> Value {
    let mut all: Map<String, Value> =
        stats.named().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let state = &stats.state;
    all.extend([
        ("active".to_owned(), state.active.into()),
        ("term".to_owned(), state.term.into()),
        ("other_bridges".to_owned(), state.other_bridges.into()),
        ("peers".to_owned(), state.peers.into()),
        ("far_peers".to_owned(), state.far_peers.into()),
        ("groups".to_owned(), state.groups.into()),
        ("virtual_nodes".to_owned(), state.virtual_nodes.into()),
        ("problem".to_owned(), state.problem.clone().into()),
    ]);
    all.into()
}
