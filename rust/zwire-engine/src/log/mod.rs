//! Logging of this project: `tracing` events, by layer, on their way to their listeners.
//!
//! An event may come from any thread, with locks held and in the middle of a receive loop, so nothing
//! here blocks. Events that a listener wants enter a bounded queue, and one consumer takes them out.
//! There are two kinds of output with levels of their own: *lines* are written to standard error,
//! *records* go to the logging of the program; only records are rate-limited. Nodes that serve their log keep the
//! last events.
//!
//! Events that no listener wants cost the comparison of two numbers.

mod filter;
mod queue;
mod recent;
mod record;

pub use filter::{Filter, FilterError};
pub use queue::{BURST, Log, PERIOD, Taken, on_first, write_lines};
pub use recent::{keep_recent, recent};
pub use record::{Record, Value};

use self::recent::KEPT;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use tracing::{Event, Metadata, Subscriber, level_filters::LevelFilter, span, subscriber::Interest};

/// Declares the layers, each with its target and those of eclipse-zenoh for the same subject.
macro_rules! layers {
    ($($(#[$about:meta])* $layer:ident = $target:expr, [$($other:literal),*];)*) => {
        /// Subject of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Layer {
            $($(#[$about])* $layer,)*
        }

        impl Layer {
            /// All layers.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$layer),*];

            /// Number of layers.
            pub const COUNT: usize = [$(Self::$layer),*].len();

            /// Targets that select the layer, its own first.
            const fn names(self) -> &'static [&'static str] {
                match self {
                    $(Self::$layer => &[$target, $($other),*],)*
                }
            }
        }
    };
}

layers! {
    /// Connections and their transports: sockets, handshakes, leases, groups.
    Link = "zwire::zenoh::link", [
        "zenoh::link", "zenoh_link", "zenoh_transport", "zenoh_protocol", "zenoh::net::protocol",
        "zenoh::net::transport"
    ];
    /// Session: configuration, endpoints, and failures of what the program asked for.
    Session = "zwire::zenoh::session", ["zenoh::session", "zenoh::api", "zenoh_config"];
    /// Routing tables and forwarding.
    Routing = "zwire::zenoh::routing", ["zenoh::net::routing", "zenoh::net::primitives"];
    /// Discovery of nodes.
    Scouting = "zwire::zenoh::scouting", ["zenoh::net::runtime", "zenoh::scouting"];
    /// Full queues of subscribers and of links.
    Queue = QUEUE, ["zenoh::api::handlers", "zenoh::handlers"];
    /// Storages and their volumes.
    Storage = "zwire::storage", ["zenoh_plugin_storage_manager", "zenoh_backend_traits"];
    /// Sockets of ZMTP.
    Zmtp = "zwire::zmtp", ["zmtp"];
    /// Nodes of ZRE.
    Zre = "zwire::zre", ["zre"];
    /// This log itself.
    Log = "zwire::log", [];
}

/// Target of events about queues, whichever module emits them.
pub const QUEUE: &str = "zwire::zenoh::queue";

impl Layer {
    /// Name of the layer, as a target.
    #[must_use]
    pub const fn target(self) -> &'static str {
        self.names()[0]
    }

    /// Layer of an event: named by its target, or by the module that emits it.
    fn of(metadata: &Metadata<'_>) -> Option<Self> {
        let target = metadata.target();
        if let Some(layer) = Self::ALL.into_iter().find(|layer| layer.target() == target) {
            return Some(layer);
        }
        let mut path = target.split("::");
        // The module of Python is `_zwire`.
        let part = path.next().map(|name| name.strip_prefix('_').unwrap_or(name));
        let part = part.filter(|name| name.starts_with("zwire"))?;
        if part == "zwire_storage" {
            return Some(Self::Storage);
        }
        Some(match (path.next().unwrap_or_default(), path.next().unwrap_or_default()) {
            ("zmtp", _) => Self::Zmtp,
            ("zre", _) => Self::Zre,
            ("zenoh", "scouting") | ("net", "interfaces") => Self::Scouting,
            ("rt", "queue") => Self::Queue,
            ("zenoh", "core") => Self::Routing,
            (
                "zenoh",
                "session" | "shared" | "admin" | "changes" | "advanced" | "advanced_entities" | "authoriser"
                | "queryable",
            )
            | ("config", _) => Self::Session,
            ("storage", _) => Self::Storage,
            _ => Self::Link,
        })
    }
}

/// Levels by layer, readable from any thread without a lock.
struct Levels([AtomicU8; Layer::COUNT]);

impl Levels {
    const fn new(level: u8) -> Self {
        let mut levels = [const { AtomicU8::new(0) }; Layer::COUNT];
        let mut at = 0;
        while at < Layer::COUNT {
            levels[at] = AtomicU8::new(level);
            at += 1;
        }
        Self(levels)
    }

    fn allows(&self, layer: Layer, level: tracing::Level) -> bool {
        rank(LevelFilter::from_level(level)) <= self.0[layer as usize].load(Ordering::Relaxed)
    }

    fn set(&self, levels: &[LevelFilter; Layer::COUNT]) {
        let mut changed = false;
        for (own, new) in self.0.iter().zip(levels) {
            changed |= own.swap(rank(*new), Ordering::Relaxed) != rank(*new);
        }
        if changed {
            tracing::callsite::rebuild_interest_cache();
        }
    }
}

/// Levels from the least verbose on.
const RANKS: [LevelFilter; 6] = [
    LevelFilter::OFF,
    LevelFilter::ERROR,
    LevelFilter::WARN,
    LevelFilter::INFO,
    LevelFilter::DEBUG,
    LevelFilter::TRACE,
];

#[allow(clippy::cast_possible_truncation, reason = "there are six")]
fn rank(level: LevelFilter) -> u8 {
    RANKS.iter().take_while(|known| **known < level).count() as u8
}

/// Levels of records; by default warnings and errors.
static RECORDS: Levels = Levels::new(2);
static LINES: Levels = Levels::new(0);

/// Sets the levels of events that become records.
pub fn set_record_levels(levels: &[LevelFilter; Layer::COUNT]) {
    RECORDS.set(levels);
}

/// Sets the levels of events that become lines.
pub fn set_line_levels(levels: &[LevelFilter; Layer::COUNT]) {
    LINES.set(levels);
}

/// Installs the subscriber for the events of this process. A second call changes nothing.
pub fn install() {
    // If another subscriber is set already, it belongs to the tests.
    let _ = tracing::subscriber::set_global_default(Sink);
}

/// Set when the process is about to end.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// Marks the end of the process: links that end from now on are not reported as lost.
pub fn leave() {
    LEAVING.store(true, Ordering::Relaxed);
}

pub(crate) fn is_leaving() -> bool {
    LEAVING.load(Ordering::Relaxed)
}

struct Sink;

/// Layer of an event, and its uses.
struct Wanted {
    layer: Layer,
    record: bool,
    line: bool,
    kept: bool,
}

/// Uses of an event; `None` if it has none.
fn wanted(metadata: &Metadata<'_>) -> Option<Wanted> {
    let layer = Layer::of(metadata).filter(|_| metadata.is_event())?;
    let level = *metadata.level();
    let [record, line, kept] = [&RECORDS, &LINES, &KEPT].map(|levels| levels.allows(layer, level));
    (record || line || kept).then_some(Wanted { layer, record, line, kept })
}

impl Subscriber for Sink {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if wanted(metadata).is_some() { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        wanted(metadata).is_some()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let most =
            RECORDS.0.iter().chain(&LINES.0).chain(&KEPT.0).map(|level| level.load(Ordering::Relaxed)).max();
        RANKS.get(usize::from(most?)).copied()
    }

    fn event(&self, event: &Event<'_>) {
        if let Some(Wanted { layer, record, line, kept }) = wanted(event.metadata()) {
            let found = Record::of(event, layer);
            if kept {
                recent::add(&found);
            }
            if record || line {
                Log::here().push(found, record, line);
            }
        }
    }

    // Spans are not used in this project.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
