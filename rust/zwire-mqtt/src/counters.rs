//! Counters of a bridge.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use parking_lot::Mutex;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counters, as tasks and threads raise them.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)+
            pub(crate) connected: AtomicBool,
            pub(crate) problem: Mutex<Option<String>>,
        }

        /// Counters as of a moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// Samples that the spool has not read yet, or whose messages wait for the broker.
            pub out_waiting: u64,
            /// Samples that queues of subscribers have dropped at their bounds.
            pub out_dropped: u64,
            /// Samples that are missing by the numbers of their publishers.
            pub out_missing: u64,
            /// Whether the broker has accepted the connection and answered the subscriptions.
            pub connected: bool,
            /// Text of the last failure; none while the bridge works.
            pub problem: Option<String>,
        }

        impl Counters {
            pub(crate) fn stats(&self) -> Stats {
                Stats {
                    $($name: self.$name.load(Ordering::Relaxed),)+
                    connected: self.connected.load(Ordering::Relaxed),
                    problem: self.problem.lock().clone(),
                    ..Stats::default()
                }
            }
        }
    };
}

counters! {
    /// Messages from the broker.
    in_received,
    /// Messages that were put into Zenoh.
    in_put,
    /// Messages that were put once more, after a link was lost.
    in_repeated,
    /// Messages that came back to the bridge, and were dropped.
    in_looped,
    /// Messages without a key, or on topics without a rule.
    in_unmapped,
    /// Messages above the largest packet.
    in_too_large,
    /// Messages with QoS 2 that may be lost: the bridge was killed, or a link lost, while they were put.
    in_uncertain,
    /// Messages that were sent to the broker.
    out_sent,
    /// Messages that were sent once more, after a connection was lost.
    out_repeated,
    /// Messages with QoS 1 and 2 that the broker has acknowledged.
    out_acked,
    /// Samples that came back to the bridge, and were dropped.
    out_looped,
    /// Samples without a topic.
    out_unmapped,
    /// Samples above the largest packet, of the broker or of the bridge.
    out_too_large,
    /// Messages that the broker has refused.
    out_refused,
    /// Messages that left the spool unsent, because it was full.
    out_expired,
    /// Connections that the broker has accepted.
    connections,
}

/// Raises a counter by one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    /// Takes note of a failure, and logs it if it is another one than before.
    pub(crate) fn fail(&self, broker: &str, problem: String) {
        let mut known = self.problem.lock();
        if known.as_ref() != Some(&problem) {
            tracing::warn!(target: "zwire.bridge.mqtt", broker, "{problem}");
            *known = Some(problem);
        }
    }
}
