//! [`Log`]: records and lines waiting for the consumer that outputs them.
//!
//! A thread that logs never waits: when too many entries wait already, its entry is counted and dropped.
//! The single consumer is started with the first record. A forked child has none of the threads of its
//! parent: it begins with a log of its own.
//!
//! Records are limited per place in the source: the first few of each period are passed on, the rest is
//! counted, and at the end of the period one record reports their number.

use super::{Layer, Record};
use crate::rt::{clock, runtime::PerProcess};
use core::time::Duration;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    collections::{HashMap, VecDeque},
    io::Write as _,
    sync::OnceLock,
};
use tracing::{Level, callsite::Identifier};

/// Most waiting entries: some hundred bytes each, and more than a running consumer lets accumulate.
const MOST: usize = 4096;

/// Records of one place passed on in a [period](PERIOD): enough to see which peers are concerned.
pub const BURST: u32 = 10;

/// Period over which the records of one place are counted.
pub const PERIOD: Duration = Duration::from_secs(10);

/// Pause of the consumer when nothing is due.
const SLEEP: Duration = Duration::from_secs(3600);

/// Waiting entry, for records, lines or both.
struct Entry {
    record: Record,
    to_program: bool,
    as_line: bool,
}

/// Records of one place within its period.
struct Site {
    since: Duration,
    passed: u32,
    left_out: u64,
    /// The last record left out.
    last: Option<Record>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Consumer {
    /// No consumer was started.
    None,
    /// Running, or about to run.
    Busy,
    /// Waiting for entries.
    Idle,
}

struct LogState {
    entries: VecDeque<Entry>,
    /// Number of entries dropped because too many waited.
    lost: u64,
    sites: HashMap<Identifier, Site>,
    burst: Option<u32>,
    period: Duration,
    consumer: Consumer,
    closed: bool,
}

/// Entries taken out at once, in order.
#[derive(Debug)]
pub struct Taken {
    /// Records for the logging of the program.
    pub records: Vec<Record>,
    /// Lines for standard error.
    pub lines: Vec<String>,
    /// Set when the log is closed and nothing more will come.
    pub end: bool,
}

/// The log of this process.
pub struct Log {
    state: Mutex<LogState>,
    wake: Condvar,
    quiet: Condvar,
}

static HERE: PerProcess<Log> = PerProcess::new();
static START: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the function that starts the consumer and returns whether it did. It is called from any thread
/// and must not block.
pub fn on_first(start: fn() -> bool) {
    // Set once: there is one module in a process.
    let _ = START.set(start);
}

impl Log {
    fn new() -> Self {
        Self {
            state: Mutex::new(LogState {
                entries: VecDeque::new(),
                lost: 0,
                sites: HashMap::new(),
                burst: Some(BURST),
                period: PERIOD,
                consumer: Consumer::None,
                closed: false,
            }),
            wake: Condvar::new(),
            quiet: Condvar::new(),
        }
    }

    /// The log of the calling process.
    pub fn here() -> &'static Self {
        HERE.get(Self::new)
    }

    /// Sets how many records of one place are passed on within a period; `None`: all of them.
    pub fn limit(&self, burst: Option<u32>, period: Duration) {
        let mut state = self.state.lock();
        (state.burst, state.period) = (burst, period);
        state.sites.clear();
    }

    /// Takes an event as a record for the program, as a line, or both.
    pub(super) fn push(&self, record: Record, to_program: bool, as_line: bool) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            // The consumer has ended with the process, so this thread writes the line itself.
            if as_line {
                write_lines(&[record.line()]);
            }
            return;
        }
        let now = clock::mono();
        state.summarize(&record.site, now, false);
        let passes = to_program && state.passes(&record, now);
        if !(passes || as_line) {
            // The first record left out wakes the consumer to schedule the summary of the period.
            if state.sites.get(&record.site).is_some_and(|site| site.left_out == 1) {
                self.call(state);
            }
            return;
        }
        if state.entries.len() >= MOST {
            state.lost += 1;
            return;
        }
        state.entries.push_back(Entry { record, to_program: passes, as_line });
        self.call(state);
    }

    /// Wakes the consumer, or starts it.
    fn call(&self, mut state: MutexGuard<'_, LogState>) {
        match state.consumer {
            Consumer::None => {
                state.consumer = Consumer::Busy;
                drop(state);
                if !START.get().is_some_and(|start| start()) {
                    // Retried with the next entry.
                    self.state.lock().consumer = Consumer::None;
                }
            }
            Consumer::Busy => {}
            Consumer::Idle => {
                drop(state);
                self.wake.notify_one();
            }
        }
    }

    /// Starts the consumer if that failed before and entries wait.
    pub fn call_again(&self) {
        let state = self.state.lock();
        if !state.entries.is_empty() {
            self.call(state);
        }
    }

    /// Called by the consumer: waits for entries, and takes all of them.
    pub fn take(&self) -> Taken {
        let mut state = self.state.lock();
        loop {
            let now = clock::mono();
            let due = state.summarize_all(now);
            if !state.entries.is_empty() || state.lost > 0 || state.closed {
                break;
            }
            state.consumer = Consumer::Idle;
            self.quiet.notify_all();
            let pause = due.map_or(SLEEP, |due| due.saturating_sub(now));
            self.wake.wait_for(&mut state, pause);
        }
        state.consumer = Consumer::Busy;
        let mut taken = Taken { records: Vec::new(), lines: Vec::new(), end: state.closed };
        let lost = core::mem::take(&mut state.lost);
        let lost = state.entries.back().filter(|_| lost > 0).map(|last| told_lost(&last.record, lost));
        let entries = core::mem::take(&mut state.entries);
        drop(state);
        for Entry { record, to_program, as_line } in entries {
            if as_line {
                taken.lines.push(record.line());
            }
            if to_program {
                taken.records.push(record);
            }
        }
        taken.records.extend(lost);
        taken
    }

    /// Called by the consumer when it ends.
    pub fn leave(&self) {
        self.state.lock().consumer = Consumer::None;
        self.quiet.notify_all();
    }

    /// Waits until all entries so far were output; false if that takes longer than `limit`.
    pub fn flush(&self, limit: Duration) -> bool {
        let outputs = |state: &mut LogState| {
            state.consumer == Consumer::Busy || state.consumer == Consumer::Idle && !state.entries.is_empty()
        };
        !self.quiet.wait_while_for(&mut self.state.lock(), outputs, limit).timed_out()
    }

    /// Closes the log: pending summaries are output, and the consumer ends. Waits for it; false if that
    /// takes longer than `limit`.
    pub fn close(&self, limit: Duration) -> bool {
        let mut state = self.state.lock();
        let now = clock::mono();
        let sites: Vec<Identifier> = state.sites.keys().cloned().collect();
        sites.iter().for_each(|site| state.summarize(site, now, true));
        state.closed = true;
        self.wake.notify_all();
        let runs = |state: &mut LogState| state.consumer != Consumer::None;
        !self.quiet.wait_while_for(&mut state, runs, limit).timed_out()
    }
}

impl LogState {
    /// Whether a record is among the first of its period. If not, it is counted.
    fn passes(&mut self, record: &Record, now: Duration) -> bool {
        let Some(burst) = self.burst else { return true };
        let fresh = || Site { since: now, passed: 0, left_out: 0, last: None };
        let site = self.sites.entry(record.site.clone()).or_insert_with(fresh);
        if now.saturating_sub(site.since) >= self.period && site.left_out == 0 {
            *site = fresh();
        }
        if site.passed < burst {
            site.passed += 1;
            return true;
        }
        site.left_out += 1;
        site.last = Some(record.clone());
        false
    }

    /// Queues the summary of the records left out at one place if its period is over or `end` is set.
    fn summarize(&mut self, place: &Identifier, now: Duration, end: bool) {
        let period = self.period;
        let Some(site) = self.sites.get_mut(place) else { return };
        let passed = now.saturating_sub(site.since);
        if site.left_out == 0 || !(end || passed >= period) {
            return;
        }
        let left_out = core::mem::take(&mut site.left_out);
        let last = site.last.take();
        (site.since, site.passed) = (now, 0);
        if let Some(mut record) = last {
            record.message = told_more(left_out, passed, &record.message);
            record.fields.push(("left_out", super::Value::Unsigned(left_out)));
            self.entries.push_back(Entry { record, to_program: true, as_line: false });
        }
    }

    /// As [`Self::summarize`] for all places; returns when the next is due.
    fn summarize_all(&mut self, now: Duration) -> Option<Duration> {
        let waiting = |(place, site): (&Identifier, &Site)| (site.left_out > 0).then(|| place.clone());
        for place in self.sites.iter().filter_map(waiting).collect::<Vec<_>>() {
            self.summarize(&place, now, false);
        }
        let due = self.sites.values().filter(|site| site.left_out > 0);
        due.map(|site| site.since + self.period).min()
    }
}

fn told_more(left_out: u64, passed: Duration, last: &str) -> String {
    let mut number = left_out.to_string();
    for at in (1..number.len()).rev().filter(|at| (number.len() - at).is_multiple_of(3)).collect::<Vec<_>>() {
        number.insert(at, ',');
    }
    format!("… and {number} more in {} s, the last: {last}", passed.as_secs_f64().ceil())
}

fn told_lost(last: &Record, lost: u64) -> Record {
    Record {
        layer: Layer::Log,
        level: Level::WARN,
        message: "too many log entries at once: some were dropped".to_owned(),
        fields: vec![("lost", super::Value::Unsigned(lost))],
        ..last.clone()
    }
}

/// Writes lines to standard error.
pub fn write_lines(lines: &[String]) {
    let mut stderr = std::io::stderr().lock();
    for line in lines {
        // A closed standard error is ignored.
        let _ = writeln!(stderr, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex as Cell;
    use std::sync::Arc;
    use tracing::{Event, Metadata, span};

    /// Test subscriber that keeps the records of the events of one thread.
    #[derive(Clone, Default)]
    struct Keep(Arc<Cell<Vec<Record>>>);

    impl tracing::Subscriber for Keep {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn event(&self, event: &Event<'_>) {
            self.0.lock().push(Record::of(event, Layer::Link));
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    fn told(tell: impl Fn()) -> Vec<Record> {
        let keep = Keep::default();
        tracing::subscriber::with_default(keep.clone(), tell);
        let records = keep.0.lock().clone();
        assert!(!records.is_empty());
        records
    }

    fn some(count: usize) -> Vec<Record> {
        told(|| {
            for number in 0..count {
                tracing::warn!(number, peer = %"tcp/[::1]:7447", "closing");
            }
        })
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn messages(state: &LogState) -> Vec<String> {
        state.entries.iter().map(|entry| entry.record.text()).collect()
    }

    #[test]
    fn a_record_says_everything() {
        let record = &told(|| {
            tracing::info!(a = 1_u64, b = -1, c = true, d = 0.5, e = "x", f = ?[1], "m {}", 2);
        })[0];
        assert_eq!(record.text(), "m 2: a=1, b=-1, c=true, d=0.5, e=x, f=[1]");
        assert_eq!((record.level, record.layer), (Level::INFO, Layer::Link));
        assert!(record.file.ends_with("queue.rs") && record.line > 0);
        let line = record.line();
        assert!(line.ends_with(" zwire::zenoh::link: m 2: a=1, b=-1, c=true, d=0.5, e=x, f=[1]"), "{line}");
        assert!(line.contains("Z  INFO "), "{line}");
    }

    #[test]
    fn what_a_peer_says_is_neither_long_nor_a_line_of_its_own() {
        let record = &told(|| tracing::warn!(error = "é\n".repeat(5_000), "m"))[0];
        assert!(record.text().len() < 1_100);
        assert_eq!(record.line().lines().count(), 1);
        let record = &told(|| tracing::warn!(error = "\u{1b}[2J\n\u{9b}\u{202e}", "m\r"))[0];
        assert_eq!(record.text(), "m\\r: error=\\u001b[2J\\n\\u009b\\u202e");
    }

    #[test]
    fn of_many_records_the_first_are_passed_on_and_the_others_counted() {
        let log = Log::new();
        let mut state = log.state.lock();
        let records = some(2_000);
        let passed = records[..1_244].iter().filter(|record| state.passes(record, seconds(100))).count();
        assert_eq!(passed, 10);
        assert_eq!(state.summarize_all(seconds(103)), Some(seconds(110)));
        assert!(state.entries.is_empty());
        assert_eq!(state.summarize_all(seconds(110)), None);
        assert_eq!(
            messages(&state),
            ["… and 1,234 more in 10 s, the last: closing: number=1243, peer=tcp/[::1]:7447, left_out=1234"]
        );
        let passed = records[1_244..].iter().filter(|record| state.passes(record, seconds(111))).count();
        assert_eq!(passed, 10, "a new period");
    }

    #[test]
    fn what_comes_seldom_is_always_passed_on() {
        let log = Log::new();
        let mut state = log.state.lock();
        for (at, record) in some(100).iter().enumerate() {
            assert!(state.passes(record, seconds(at as u64 * 2)));
        }
        assert_eq!(state.summarize_all(seconds(1_000)), None);
    }

    #[test]
    fn places_do_not_count_for_each_other_and_no_limit_is_none() {
        let log = Log::new();
        log.limit(Some(1), PERIOD);
        let mut state = log.state.lock();
        let (one, other) = (some(2), some(1));
        assert!(state.passes(&one[0], seconds(1)));
        assert!(!state.passes(&one[1], seconds(1)));
        assert!(!state.passes(&other[0], seconds(1)), "the same place, however it came there");
        let elsewhere = &told(|| tracing::warn!("closing"))[0];
        assert!(state.passes(elsewhere, seconds(1)));
        drop(state);
        log.limit(None, PERIOD);
        let mut state = log.state.lock();
        assert!(some(100).iter().all(|record| state.passes(record, seconds(1))));
    }

    #[test]
    fn nobody_waits_for_a_consumer_that_does_not_come() {
        let log = Log::new();
        log.limit(None, PERIOD);
        for record in some(MOST + 5) {
            log.push(record, true, false);
        }
        let taken = log.take();
        assert_eq!(taken.records.len(), MOST + 1);
        let last = taken.records.last().unwrap();
        assert_eq!(last.text(), "too many log entries at once: some were dropped: lost=5");
        assert_eq!(last.layer, Layer::Log);
    }

    #[test]
    fn the_end_says_what_was_counted_and_lets_the_consumer_go() {
        let log = std::sync::Arc::new(Log::new());
        log.state.lock().consumer = Consumer::Busy;
        let consumer = std::thread::spawn({
            let log = log.clone();
            move || {
                let mut texts = Vec::new();
                loop {
                    let taken = log.take();
                    texts.extend(taken.records.iter().map(Record::text));
                    if taken.end {
                        break;
                    }
                }
                log.leave();
                texts
            }
        });
        for record in some(15) {
            log.push(record, true, false);
        }
        assert!(log.flush(seconds(5)));
        assert!(log.close(seconds(5)));
        let texts = consumer.join().unwrap();
        assert_eq!(texts.len(), 11);
        assert!(texts[10].starts_with("… and 5 more in "), "{}", texts[10]);
        log.push(some(1).remove(0), true, false);
        assert!(log.take().records.is_empty(), "no consumer would take it");
    }
}
