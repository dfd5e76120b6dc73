//! What this project says about itself: events of `tracing`, by layer, on their way to whoever listens.
//!
//! An event comes from any thread, with locks held and in the middle of a receive loop: nothing here waits
//! for anybody. What somebody would hear goes into a bounded queue, and one consumer takes it out. There
//! are two kinds of listeners, who ask for levels of their own: *lines* are written to standard error,
//! *records* go to the logging of the program; only these are limited in their rate.
//!
//! What nobody asks for costs the comparison of two numbers.

mod filter;
mod queue;
mod record;

pub use filter::{Filter, FilterError};
pub use queue::{BURST, Log, PERIOD, Taken, on_first, write_lines};
pub use record::{Record, Value};

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use tracing::{Event, Metadata, Subscriber, level_filters::LevelFilter, span, subscriber::Interest};

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Connections and what carries them: sockets, handshakes, leases, groups.
    Link,
    /// What a program opens: its configuration, what it asked for and does not get.
    Session,
    /// Tables and what is forwarded by them.
    Routing,
    /// Who is found, and how.
    Scouting,
    /// Queues that are full: of subscribers, and of links.
    Queue,
    /// Sockets of ZMTP.
    Zmtp,
    /// Nodes of ZRE.
    Zre,
    /// This log itself.
    Log,
}

const LINK: &str = "zwire::zenoh::link";
const SESSION: &str = "zwire::zenoh::session";
const ROUTING: &str = "zwire::zenoh::routing";
const SCOUTING: &str = "zwire::zenoh::scouting";
/// Target of what is about a queue, wherever it is told.
pub const QUEUE: &str = "zwire::zenoh::queue";
const ZMTP: &str = "zwire::zmtp";
const ZRE: &str = "zwire::zre";
const LOG: &str = "zwire::log";

impl Layer {
    /// How many there are.
    pub const COUNT: usize = 8;

    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Link,
        Self::Session,
        Self::Routing,
        Self::Scouting,
        Self::Queue,
        Self::Zmtp,
        Self::Zre,
        Self::Log,
    ];

    /// Its name, as a target.
    #[must_use]
    pub const fn target(self) -> &'static str {
        match self {
            Self::Link => LINK,
            Self::Session => SESSION,
            Self::Routing => ROUTING,
            Self::Scouting => SCOUTING,
            Self::Queue => QUEUE,
            Self::Zmtp => ZMTP,
            Self::Zre => ZRE,
            Self::Log => LOG,
        }
    }

    /// That of an event: named by its target, or by the module that tells it.
    fn of(metadata: &Metadata<'_>) -> Option<Self> {
        let target = metadata.target();
        if let Some(layer) = Self::ALL.into_iter().find(|layer| layer.target() == target) {
            return Some(layer);
        }
        let mut path = target.split("::");
        let ours = path.next().is_some_and(|name| name.starts_with("zwire"));
        ours.then(|| match path.next() {
            Some("zmtp") => Self::Zmtp,
            Some("zre") => Self::Zre,
            Some("scouting" | "interfaces") => Self::Scouting,
            Some("queue") => Self::Queue,
            Some("core") => Self::Routing,
            Some("session" | "shared" | "config" | "admin" | "advanced") => Self::Session,
            _ => Self::Link,
        })
    }
}

/// Levels by layer, readable from everywhere without a lock.
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

    /// Whether anything has changed.
    fn set(&self, levels: &[LevelFilter; Layer::COUNT]) -> bool {
        let mut changed = false;
        for (own, new) in self.0.iter().zip(levels) {
            changed |= own.swap(rank(*new), Ordering::Relaxed) != rank(*new);
        }
        changed
    }
}

fn rank(level: LevelFilter) -> u8 {
    match level.into_level() {
        None => 0,
        Some(tracing::Level::ERROR) => 1,
        Some(tracing::Level::WARN) => 2,
        Some(tracing::Level::INFO) => 3,
        Some(tracing::Level::DEBUG) => 4,
        Some(tracing::Level::TRACE) => 5,
    }
}

const RANKS: [LevelFilter; 6] = [
    LevelFilter::OFF,
    LevelFilter::ERROR,
    LevelFilter::WARN,
    LevelFilter::INFO,
    LevelFilter::DEBUG,
    LevelFilter::TRACE,
];

/// Until the program says otherwise, it hears of what went wrong.
static RECORDS: Levels = Levels::new(2);
static LINES: Levels = Levels::new(0);

/// Which events become records.
pub fn set_record_levels(levels: &[LevelFilter; Layer::COUNT]) {
    if RECORDS.set(levels) {
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Which events become lines.
pub fn set_line_levels(levels: &[LevelFilter; Layer::COUNT]) {
    if LINES.set(levels) {
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Takes the events of this process. A second call changes nothing.
pub fn install() {
    // Another subscriber, if there is one, is of our own tests.
    let _ = tracing::subscriber::set_global_default(Sink);
}

/// The process is about to end.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// The process ends, and what is open goes with it: links that end now are no loss.
pub fn leave() {
    LEAVING.store(true, Ordering::Relaxed);
}

pub(crate) fn is_leaving() -> bool {
    LEAVING.load(Ordering::Relaxed)
}

struct Sink;

/// Whether an event becomes a record, and a line.
fn wanted(metadata: &Metadata<'_>) -> Option<(Layer, bool, bool)> {
    let layer = Layer::of(metadata).filter(|_| metadata.is_event())?;
    let level = *metadata.level();
    let (record, line) = (RECORDS.allows(layer, level), LINES.allows(layer, level));
    (record || line).then_some((layer, record, line))
}

impl Subscriber for Sink {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if wanted(metadata).is_some() { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        wanted(metadata).is_some()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let most = RECORDS.0.iter().chain(&LINES.0).map(|level| level.load(Ordering::Relaxed)).max();
        RANKS.get(usize::from(most?)).copied()
    }

    fn event(&self, event: &Event<'_>) {
        if let Some((layer, record, line)) = wanted(event.metadata()) {
            Log::here().push(Record::of(event, layer), record, line);
        }
    }

    // There are no spans in this project.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
