//! [`AdvancedSubscriber`]: samples in the order of their publishers, without gaps that a cache can fill.
//!
//! The next number of each numbering publisher is known. A sample with a higher number is held back,
//! while the missing ones are queried; if no cache has them, they are reported as missed and delivery
//! continues. A sample with a lower number is a repetition. While a history is queried, new samples are
//! held back for old ones.

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fmt::Write,
};

use super::{
    keys::{self, DeclaredParts, SampleSource, decode_heartbeat},
    limits::{MAX_ATTEMPTS, MAX_UNANSWERED, MIN_PERIOD, RETRY_AFTER, RETRY_WITHOUT_LINK, STATE_LIFE},
    stamped::Clock,
    types::{Answered, Ask, AskId, Miss, Output, Recovery, SubscriberConfig},
    window::Window,
};
use crate::{
    Now, Text,
    zenoh::{KeyExpr, ZenohId, session::Sample, wire::SourceInfo},
};

/// Subject of a query.
#[derive(Clone, Copy, Debug)]
pub(super) enum AskedCache {
    /// The history of all publishers.
    Everything,
    /// The history of one publisher.
    History(SampleSource),
    /// The history of publishers without numbers.
    Clock(ZenohId),
    /// The newest sample of a publisher that was away: tells whether it has restarted.
    Return { source: SampleSource, next: u64, newest: Option<u64> },
    /// Samples of one publisher from one place on, and before another.
    Missing { source: SampleSource, from: u64, to: u64 },
}

impl AskedCache {
    /// The publisher, if the query is about only one with numbers.
    pub(super) const fn source(&self) -> Option<SampleSource> {
        match self {
            Self::History(source) | Self::Return { source, .. } | Self::Missing { source, .. } => {
                Some(*source)
            }
            Self::Everything | Self::Clock(_) => None,
        }
    }
}

/// The rules of one subscriber; see the [module](super).
#[derive(Debug)]
pub struct AdvancedSubscriber {
    pub(super) config: SubscriberConfig,
    pub(super) windows: BTreeMap<SampleSource, Window>,
    pub(super) clocks: BTreeMap<ZenohId, Clock>,
    /// Number of keys of all clocks.
    pub(super) lines: usize,
    pub(super) asks: HashMap<AskId, AskedCache>,
    last_ask: u64,
    /// Whether the query for the history of all publishers is open.
    pub(super) beginning: bool,
    pub(super) held: usize,
    pub(super) held_bytes: usize,
    /// Number of stored times of delivered samples.
    pub(super) fresh: usize,
    pub(super) retries: BTreeSet<(Duration, SampleSource)>,
    next_round: Option<Duration>,
    pub(super) next_sweep: Option<Duration>,
    pub(super) outputs: VecDeque<Output>,
}

impl AdvancedSubscriber {
    /// A subscriber without any state. With a history, its first query is in the outputs.
    #[must_use]
    pub fn new(config: SubscriberConfig) -> Self {
        let mut made = Self {
            config,
            windows: BTreeMap::new(),
            clocks: BTreeMap::new(),
            lines: 0,
            asks: HashMap::new(),
            last_ask: 0,
            beginning: false,
            held: 0,
            held_bytes: 0,
            fresh: 0,
            retries: BTreeSet::new(),
            next_round: None,
            next_sweep: None,
            outputs: VecDeque::new(),
        };
        if made.config.history.is_some()
            && let Ok(key) = keys::of_all(&made.config.key)
        {
            made.beginning = true;
            made.ask(AskedCache::Everything, key, made.history_parameters());
        }
        made
    }

    // Inputs.

    /// Handles a sample of the subscription. A sample to deliver at once is returned, and comes before
    /// the outputs.
    #[inline]
    pub fn handle_sample(&mut self, now: Now, sample: Sample) -> Option<Sample> {
        if let Some(info) = &sample.source_info {
            let info = **info;
            return self.handle_numbered(now, info, sample, true);
        }
        match sample.timestamp {
            Some(timestamp) if self.config.keeps => self.keep_stamped(now, timestamp, sample, true),
            Some(timestamp) => self.handle_stamped(now, timestamp, sample),
            None => Some(sample),
        }
    }

    fn handle_numbered(&mut self, now: Now, info: SourceInfo, sample: Sample, live: bool) -> Option<Sample> {
        let (source, sn) = (SampleSource::of(&info), info.sn);
        let (keeps, recovery) = (self.config.keeps, self.config.recovery.is_some());
        let beginning = self.beginning;
        let mut window = self.window(now, source);
        let recovers = recovery && !(keeps && window.is_fruitless(now));
        let mut place = window.place(sn);
        if live && window.back {
            // A publisher that is back continues its numbers, or it is another one under the same name.
            window.back = false;
            if window.next.is_some_and(|next| place < next) {
                self.restart(now, source);
                window = self.window(now, source);
                place = window.place(sn);
            }
        }
        match window.next {
            Some(next) if place == next => {
                window.next = Some(next + 1);
                if window.is_holding() {
                    self.release(source);
                    self.look_after(source);
                }
                Some(sample)
            }
            Some(next) if place < next => (keeps && live).then_some(sample),
            Some(next) if !recovers && window.histories == 0 && !window.is_holding() => {
                window.next = Some(place + 1);
                self.outputs.push_back(Output::Miss(Miss::between(source, next, place)));
                Some(sample)
            }
            None if !beginning && window.histories == 0 => {
                window.next = Some(place + 1);
                Some(sample)
            }
            _ => {
                self.hold(source, place, sample, keeps && live);
                self.look_after(source);
                None
            }
        }
    }

    /// Handles a token that appeared or vanished. Used with the history of late publishers.
    pub fn handle_token(&mut self, now: Now, key: &KeyExpr, alive: bool) {
        let late = self.config.history.is_some_and(|history| history.late);
        match keys::publisher_of(key) {
            Some(DeclaredParts::Numbered(source)) => {
                let window = self.window(now, source);
                window.back |= alive && window.was_alive && !window.alive;
                window.was_alive |= alive;
                window.alive = alive;
                if !alive || !late || window.histories > 0 {
                    return;
                }
                window.histories += 1;
                match window.next {
                    // The publisher was away, or this node was. Its newest sample tells whether it has
                    // restarted.
                    Some(next) => {
                        let asked = AskedCache::Return { source, next, newest: None };
                        self.ask(asked, key.clone(), "_max=1;_anyke".into());
                    }
                    None => {
                        self.ask(AskedCache::History(source), key.clone(), self.history_parameters());
                    }
                }
            }
            Some(DeclaredParts::Stamped(zid)) => {
                if !alive && !self.clocks.contains_key(&zid) {
                    return;
                }
                // The token shows the clock, not its keys: only lines are counted.
                let clock = self.clocks.entry(zid).or_default();
                clock.alive = alive;
                if !alive && clock.histories == 0 && clock.keys.is_empty() {
                    self.clocks.remove(&zid);
                } else if alive && late {
                    clock.histories += 1;
                    self.ask(AskedCache::Clock(zid), key.clone(), self.history_parameters());
                }
            }
            None => {}
        }
    }

    /// Handles a heartbeat of a publisher, by its key and its payload.
    pub fn handle_heartbeat(&mut self, now: Now, key: &KeyExpr, payload: &[u8]) {
        let (Some(DeclaredParts::Numbered(source)), Some(last)) =
            (keys::publisher_of(key), decode_heartbeat(payload))
        else {
            return;
        };
        let beginning = self.beginning;
        let (keeps, keeps_new) = (self.config.keeps, self.config.keeps && self.config.history.is_none());
        let window = self.window(now, source);
        let place = window.place(last);
        window.told = window.told.max(place + 1);
        window.quiet_until = Duration::ZERO;
        match window.next {
            // The heartbeat may have overtaken its sample, which would then be delivered twice.
            Some(next)
                if keeps
                    && !window.is_holding()
                    && window.told > next
                    && window.ask.is_none()
                    && window.retry_at.is_none() =>
            {
                self.retry(source, now.mono + RETRY_AFTER);
            }
            Some(_) => self.look_after(source),
            None if keeps_new => window.next = Some(place + 1),
            // No sample came yet, and the cache may hold all there will be.
            None if !beginning && window.histories == 0 => {
                window.histories += 1;
                self.ask_history(source, format!("_sn=..{last};_anyke").into());
            }
            None => {}
        }
    }

    /// Handles a reply to a query.
    pub fn handle_reply(&mut self, now: Now, ask: AskId, sample: Sample) {
        let from = sample.source_info.as_deref().map(SampleSource::of);
        let belongs = |asked: &AskedCache| asked.source().is_none_or(|source| from == Some(source));
        let belongs = self.asks.get(&ask).is_some_and(belongs);
        // Replies on any key are accepted: no samples are published on the key of the query.
        if !belongs || !sample.key.intersects(&self.config.key) {
            return;
        }
        if let (Some(AskedCache::Return { source, newest, .. }), Some(info)) =
            (self.asks.get_mut(&ask), &sample.source_info)
            && let Some(window) = self.windows.get_mut(source)
        {
            *newest = (*newest).max(Some(window.place(info.sn)));
        }
        if let Some(AskedCache::Missing { source, .. }) = self.asks.get(&ask)
            && let Some(window) = self.windows.get_mut(source)
        {
            window.replied = true;
        }
        let given = match (sample.source_info.as_deref(), sample.timestamp) {
            (Some(&info), _) => self.handle_numbered(now, info, sample, false),
            (None, Some(timestamp)) if self.config.keeps => self.keep_stamped(now, timestamp, sample, false),
            _ => self.handle_sample(now, sample),
        };
        if let Some(sample) = given {
            self.outputs.push_front(Output::Sample(sample));
        }
    }

    /// Handles the end of a query.
    pub fn handle_answered(&mut self, now: Now, ask: AskId, how: Answered) {
        match self.asks.remove(&ask) {
            None => {}
            Some(AskedCache::Everything) => {
                self.beginning = false;
                let clocks: Vec<ZenohId> =
                    self.clocks.iter().filter(|(_, c)| c.histories == 0).map(|(&zid, _)| zid).collect();
                for zid in clocks {
                    self.release_clock(zid);
                }
                let windows: Vec<SampleSource> = self.windows.keys().copied().collect();
                for source in windows {
                    self.begin(source);
                }
            }
            Some(AskedCache::History(source)) => {
                if let Some(window) = self.windows.get_mut(&source) {
                    window.histories = window.histories.saturating_sub(1);
                    self.begin(source);
                }
            }
            Some(AskedCache::Return { source, next, newest }) => self.returned(now, source, next, newest),
            Some(AskedCache::Clock(zid)) => {
                if let Some(clock) = self.clocks.get_mut(&zid) {
                    clock.histories = clock.histories.saturating_sub(1);
                    if clock.histories == 0 && !self.beginning {
                        self.release_clock(zid);
                    }
                }
            }
            Some(AskedCache::Missing { source, from, to }) => self.settle(now, ask, source, (from, to), how),
        }
    }

    /// Call at the deadline; an earlier call has no effect.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(&(at, source)) = self.retries.first().filter(|(at, _)| *at <= now.mono) {
            self.retries.remove(&(at, source));
            if let Some(window) = self.windows.get_mut(&source) {
                window.retry_at = None;
                self.look_after(source);
            }
        }
        if let Some(Recovery::Periodic(period)) = self.config.recovery
            && self.next_round.is_some_and(|at| at <= now.mono)
        {
            self.next_round = Some(now.mono + period.max(MIN_PERIOD));
            let due = self.windows.iter().filter(|(_, window)| window.ask.is_none());
            let due: Vec<_> =
                due.filter_map(|(&source, window)| window.next.map(|next| (source, next))).collect();
            for (source, next) in due {
                self.ask_from(source, next, None);
            }
        }
        if self.next_sweep.is_some_and(|at| at <= now.mono) {
            self.sweep(now);
        }
    }

    // Outputs.

    /// The next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Deadline of [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let retry = self.retries.first().map(|&(at, _)| at);
        [retry, self.next_round, self.next_sweep].into_iter().flatten().min()
    }

    /// Number of samples held back, and their bytes.
    #[must_use]
    pub const fn pending(&self) -> (usize, usize) {
        (self.held, self.held_bytes)
    }

    /// Number of tracked publishers: those with numbers, and keys of those without.
    #[must_use]
    pub fn sources(&self) -> (usize, usize) {
        (self.windows.len(), self.lines)
    }

    // One publisher.

    pub(super) fn window(&mut self, now: Now, source: SampleSource) -> &mut Window {
        if self.windows.len() >= self.config.max_sources && !self.windows.contains_key(&source) {
            self.forget_windows(now);
        }
        self.next_sweep.get_or_insert_with(|| now.mono + STATE_LIFE);
        if let Some(Recovery::Periodic(period)) = self.config.recovery {
            self.next_round.get_or_insert_with(|| now.mono + period.max(MIN_PERIOD));
        }
        let window = self.windows.entry(source).or_insert_with(|| Window::new(now.mono));
        window.used = now.mono;
        window
    }

    fn hold(&mut self, source: SampleSource, place: u64, sample: Sample, again: bool) {
        let Some(window) = self.windows.get_mut(&source) else { return };
        let sample = sample.kept();
        let cost = sample.cost();
        if window.hold(place, sample, again) {
            self.held += 1;
            self.held_bytes += cost;
        }
        while self.is_over() && self.give_up_first(source) {}
    }

    pub(super) const fn is_over(&self) -> bool {
        self.held > self.config.max_pending || self.held_bytes > self.config.max_pending_bytes
    }

    /// Delivers the samples that are next in order.
    fn release(&mut self, source: SampleSource) {
        let Some(window) = self.windows.get_mut(&source) else { return };
        while let Some(sample) = window.take_next() {
            self.held -= 1;
            self.held_bytes -= sample.cost();
            window.attempts = 0;
            self.outputs.push_back(Output::Sample(sample));
        }
    }

    /// Gives up the first missing samples, and delivers those held back for them. Returns `false` if
    /// none were missing.
    pub(super) fn give_up_first(&mut self, source: SampleSource) -> bool {
        let Some(window) = self.windows.get_mut(&source) else { return false };
        match (window.next, window.first_held()) {
            (_, None) => return false,
            (Some(next), Some(first)) => {
                window.next = Some(first);
                if first > next {
                    self.outputs.push_back(Output::Miss(Miss::between(source, next, first)));
                }
            }
            (None, Some(first)) => window.next = Some(first),
        }
        self.release(source);
        true
    }

    /// Starts delivery once the history is complete: held samples follow.
    fn begin(&mut self, source: SampleSource) {
        if self.beginning {
            return;
        }
        let Some(window) = self.windows.get_mut(&source).filter(|window| window.histories == 0) else {
            return;
        };
        if window.next.is_none() {
            // Earlier samples are unknown, and not counted as missed.
            window.next = window.first_held().or((window.told > 0).then_some(window.told));
        }
        self.release(source);
        if self.config.recovery.is_none() {
            while self.give_up_first(source) {}
        }
        self.look_after(source);
    }

    /// Handles the place of the newest sample of a publisher that was away, if it has any.
    fn returned(&mut self, now: Now, source: SampleSource, next: u64, newest: Option<u64>) {
        let recovers = self.config.recovery.is_some();
        let Some(window) = self.windows.get_mut(&source) else { return };
        window.histories = window.histories.saturating_sub(1);
        if window.next == Some(next) && newest.is_some_and(|newest| newest + 1 < next) {
            return self.restart(now, source);
        }
        if !recovers && newest.is_some_and(|newest| newest >= next) {
            window.histories += 1;
            return self.ask_history(source, self.history_parameters());
        }
        // Missing samples before the newest are queried.
        self.begin(source);
    }

    /// Queries all samples of a publisher that has restarted, with other ones under the same numbers.
    fn restart(&mut self, now: Now, source: SampleSource) {
        while self.give_up_first(source) {}
        let Some(old) = self.windows.remove(&source) else { return };
        if let Some(at) = old.retry_at {
            self.retries.remove(&(at, source));
        }
        // Open queries are about the previous run.
        self.asks.retain(|_, asked| !matches!(asked, AskedCache::History(of) | AskedCache::Return { source: of, .. } if *of == source));
        let recovers = self.config.recovery.is_some();
        let window = self.window(now, source);
        (window.alive, window.was_alive) = (old.alive, old.was_alive);
        window.histories = 1;
        let parameters = if recovers { "_anyke".into() } else { self.history_parameters() };
        self.ask_history(source, parameters);
    }

    /// Queries missing samples, unless a query is open.
    fn look_after(&mut self, source: SampleSource) {
        if self.config.recovery.is_none() {
            return;
        }
        let Some(window) = self.windows.get(&source) else { return };
        if window.ask.is_none()
            && window.retry_at.is_none()
            && window.histories == 0
            && let (Some(next), Some(to)) = (window.next, window.missing_to())
        {
            self.ask_from(source, next, Some(to));
        }
    }

    /// Handles the end of a query for missing samples, from one place to another.
    fn settle(&mut self, now: Now, ask: AskId, source: SampleSource, (from, to): (u64, u64), how: Answered) {
        // Ignores answers about the previous run of a restarted publisher.
        let window = self.windows.get_mut(&source).filter(|window| window.ask == Some(ask));
        let Some(window) = window else { return };
        window.ask = None;
        window.count_answer(now, how == Answered::Fully);
        let Some(next) = window.next else { return };
        if next > from {
            window.attempts = 0;
        } else if next < to {
            if how == Answered::NotAsked {
                return self.retry(source, now.mono + RETRY_WITHOUT_LINK);
            }
            // A complete answer weighs more than none.
            window.attempts += if how == Answered::Fully { MAX_UNANSWERED / MAX_ATTEMPTS } else { 1 };
        }
        if window.attempts >= MAX_UNANSWERED {
            window.attempts = 0;
            self.give_up_before(source, to);
        } else if window.attempts > 0 && !window.is_holding() {
            // Known only from a heartbeat, which may have overtaken the sample.
            return self.retry(source, now.mono + RETRY_AFTER);
        }
        self.look_after(source);
    }

    fn retry(&mut self, source: SampleSource, at: Duration) {
        if let Some(window) = self.windows.get_mut(&source) {
            window.retry_at = Some(at);
            self.retries.insert((at, source));
        }
    }

    /// Gives up all missing samples before a place.
    fn give_up_before(&mut self, source: SampleSource, to: u64) {
        while let Some(window) = self.windows.get_mut(&source)
            && let (Some(next), Some(end)) = (window.next, window.first_missing_to())
            && next < to
        {
            let end = end.min(to.max(next + 1));
            window.next = Some(end);
            self.outputs.push_back(Output::Miss(Miss::between(source, next, end)));
            self.release(source);
        }
    }

    // Queries.

    /// Queries the samples of a publisher from one place on, and before another.
    fn ask_from(&mut self, source: SampleSource, from: u64, to: Option<u64>) {
        let Ok(key) = keys::of_source(&self.config.key, source) else { return };
        #[allow(clippy::cast_possible_truncation, reason = "numbers are the low half of places")]
        let parameters = match (from as u32, to.map(|to| (to - 1) as u32)) {
            (first, None) => format!("_sn={first}..;_anyke"),
            (first, Some(last)) if first <= last => format!("_sn={first}..{last};_anyke"),
            // Other implementations do not support ranges that wrap.
            _ => "_anyke".to_owned(),
        };
        let id =
            self.ask(AskedCache::Missing { source, from, to: to.unwrap_or(from) }, key, parameters.into());
        if let Some(window) = self.windows.get_mut(&source) {
            window.ask = Some(id);
        }
    }

    fn ask_history(&mut self, source: SampleSource, parameters: Text) {
        if let Ok(key) = keys::of_source(&self.config.key, source) {
            self.ask(AskedCache::History(source), key, parameters);
        }
    }

    fn ask(&mut self, asked: AskedCache, key: KeyExpr, parameters: Text) -> AskId {
        self.last_ask += 1;
        let id = AskId(self.last_ask);
        self.asks.insert(id, asked);
        self.outputs.push_back(Output::Ask(Ask { id, key, parameters }));
        id
    }

    fn history_parameters(&self) -> Text {
        let history = self.config.history.unwrap_or_default();
        let mut text = String::new();
        // Writing to a `String` does not fail.
        if let Some(most) = history.max_samples {
            let _ = write!(text, "_max={most};");
        }
        if let Some(age) = history.max_age {
            let _ = write!(text, "_time=[now(-{}s)..];", age.as_secs_f64());
        }
        text.push_str("_anyke");
        text.into()
    }
}
