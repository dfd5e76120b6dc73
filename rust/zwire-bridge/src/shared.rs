//! State of a bridge that its thread and its handle share.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use parking_lot::Mutex;
use zwire_engine::Bell;

/// Declares the counters of a bridge: once as atomics, and once as a snapshot.
macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
        }

        /// Counters and state of a bridge.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])+ pub $name: u64,)+
            /// State.
            pub state: State,
        }

        impl Stats {
            /// Counters by name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }

        impl Counters {
            fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.0.load(Ordering::Relaxed),)+ ..Stats::default() }
            }
        }
    };
}

counters! {
    /// Messages of ZRE that were published.
    to_zenoh,
    /// Messages of Zenoh that were sent to ZRE, to at least one peer or not.
    to_zre,
    /// Messages to groups that no rule names.
    not_named,
    /// Messages above the rate of their rule.
    above_rate,
    /// Messages to Zenoh that were dropped because their sender was faster than the link.
    dropped_to_zenoh,
    /// Messages to ZRE that were dropped because their sender was faster than the peers.
    dropped_to_zre,
    /// Copies for peers whose queue was full for longer than the patience.
    full,
    /// Copies for peers without a connection.
    not_responding,
    /// Copies of several frames for peers of a generation with one.
    refused,
    /// WHISPERs to peers that are not there.
    unknown_peer,
    /// Samples that had been received before.
    duplicates,
    /// Samples that had passed too many bridges.
    looped,
    /// Samples with a key, an attachment or frames that are none.
    malformed,
    /// Messages that the session or the node refused.
    failed,
    /// Samples under the UUID of a peer of this LAN, which did not come from it.
    spoofed,
    /// Messages that ZRE peers sent and the node of the bridge did not get.
    lost_by_zre,
    /// Takeovers from another bridge.
    takeovers,
    /// Messages that a takeover passed on: the other bridge had not.
    taken_over,
    /// WHISPERs of the time of a takeover: passed on by the other bridge, or lost with it.
    in_doubt,
    /// Messages in reserve that were dropped at the bound.
    reserve_dropped,
    /// Nodes of the mirror mode that did not start, or were more than the bound.
    mirror_failed,
}

/// Counter.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Replaces the value by that of another counter.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// State of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Whether it forwards.
    pub active: bool,
    /// Term in which it does.
    pub term: u64,
    /// Other bridges of the same LAN.
    pub other_bridges: usize,
    /// Peers of the LAN, without nodes of bridges.
    pub peers: usize,
    /// Peers of other bridges and programs.
    pub far_peers: usize,
    /// Groups that the node of the bridge is in.
    pub groups: usize,
    /// Nodes of the mirror mode.
    pub virtual_nodes: usize,
    /// Failure that ended the bridge.
    pub problem: Option<String>,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) bell: Bell,
    pub(crate) stop: AtomicBool,
    pub(crate) counters: Counters,
    pub(crate) state: Mutex<State>,
}

impl Shared {
    pub(crate) fn stats(&self) -> Stats {
        Stats { state: self.state.lock().clone(), ..self.counters.snapshot() }
    }
}
