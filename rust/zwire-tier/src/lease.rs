//! Lease of a spool in a store: which of several spoolers writes it.
//!
//! The rules alone, without network and clock. The caller sends each [`Request`] to the store, one after the other, and
//! brings the [`Answer`]; times are readings of its own monotonic clock, which no other spooler sees.
//!
//! | LeaseObject | Written | Meaning |
//! |---|---|---|
//! | [`LeaseObject::Claim`] | once, if it does not exist | spooler that has the lease from this epoch on |
//! | [`LeaseObject::Start`] | once, likewise | offsets before which the epoch writes no rows |
//! | [`LeaseObject::Beat`] | by the author of the claim, again and again | it runs |
//!
//! The holder is the author of the claim with the greatest epoch. A spooler that has lost the lease does not know it
//! before it looks: the manifest refuses what it writes.

mod objects;

use core::time::Duration;

/// Time for which a beat stands still before another spooler claims the lease.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Further time for a spooler that has not received all samples that the store lacks: one that has more goes first.
pub const HESITATION: Duration = Duration::from_millis(1500);
/// Period of beats, and of looking at them.
pub const PERIOD: Duration = Duration::from_secs(1);
/// Time for which a spooler that has given the lease back because it could not write does not claim it again.
pub const RELUCTANCE: Duration = Duration::from_secs(30);
/// Offsets that an epoch may use beyond those that the manifest lists: the next epoch begins behind them.
pub const RANGE: u64 = 1 << 32;

/// LeaseObject of the lease, by its epoch. Epochs count from 1 without a hole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LeaseObject {
    /// Author of the epoch.
    Claim(u32),
    /// Offsets before which the epoch writes no rows.
    Start(u32),
    /// Counter of the author.
    Beat(u32),
}

/// Content of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// Of a claim: random number of a start of a spooler, and the name of its host.
    Claim(Author),
    /// Of a start: an offset for each shard, and finally for the gap log.
    Start(Vec<u64>),
    /// Of a beat.
    Beat(Beat),
}

/// Spooler that has claimed the lease.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Author {
    /// Random number of one start.
    pub writer: String,
    /// Name of its host, for messages.
    pub host: String,
}

/// Sign of life of a holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beat {
    /// Number of the beat.
    pub number: u64,
    /// Whether the holder has given the lease back.
    pub released: bool,
}

/// Call of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Reads an object.
    Get(LeaseObject),
    /// Writes an object if it does not exist.
    Create(LeaseObject, Record),
    /// Writes an object.
    Put(LeaseObject, Record),
}

/// Outcome of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The object, or `None` if it does not exist.
    Found(Option<Record>),
    /// The object was written.
    Done,
    /// The object exists, and was not written.
    Exists,
    /// It is not known whether the call was, or will be, carried out.
    Failed,
}

/// What the caller has to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The lease was claimed. The caller adds an entry of this epoch to the manifest, so that no earlier epoch can add
    /// one, and calls [`Lease::start`] with an offset for each shard: [`RANGE`] behind `floors`, if there are some, and
    /// behind the end that the manifest has. If the manifest has a later epoch, it does neither.
    Claimed {
        /// Epoch of this spooler.
        epoch: u32,
        /// Start of the last epoch that may have written rows.
        floors: Option<Vec<u64>>,
    },
    /// Rows may be written from now on, from the offsets of the start.
    Holding(u32),
    /// Another spooler has the lease.
    Lost {
        /// Its epoch.
        epoch: u32,
        /// The spooler.
        author: Author,
    },
    /// The lease was given back after [`Lease::give_up`]; this spooler stands by.
    GivenUp(u32),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum State {
    /// Reads the claims behind an epoch.
    Finding,
    /// Reads claims and beats; the beat stands still since a time.
    Watching { beat: Option<Beat>, since: Duration, look: Look },
    /// Creates the claim of the next epoch, or looks which one is there.
    Claiming { look: bool },
    /// Looks for the start of an earlier epoch.
    Inheriting { from: u32 },
    /// Beats.
    Leading { phase: Phase, step: Step },
    /// The lease was given back, or is not wanted any more.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    Claim,
    Beat,
}

/// How far the holder of the greatest claim is.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// The manifest has no entry of the epoch yet.
    Claimed,
    /// The start is to be created.
    Starting(Vec<u64>),
    /// The start exists; the next claim was not looked for since.
    Started,
    /// Rows are written.
    Holding,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Beat,
    Start,
    Claim,
}

/// Lease as one spooler sees it.
#[derive(Debug)]
pub struct Lease {
    author: Author,
    /// Epoch of the manifest when this spooler began.
    base: u32,
    /// Epoch of the greatest claim that is known.
    epoch: u32,
    /// First epoch that may have a claim.
    first: u32,
    holder: Option<Author>,
    state: State,
    /// Number of the last beat.
    beats: u64,
    /// Time of the next request.
    due: Duration,
    /// Time of the request that waits for its answer.
    asked: Option<Duration>,
    patience: Duration,
    releasing: bool,
    /// Whether the lease is to be given back although the spooler goes on.
    giving_up: bool,
    /// Whether the beat that says so was sent.
    told: bool,
    /// Time before which this spooler does not claim the lease.
    reluctant: Duration,
}

impl Lease {
    /// Lease of a spooler that has read the manifest; `base` is the epoch of its last entry, or 0 if there is none.
    /// Its `author` has a number of its own.
    pub const fn new(author: Author, base: u32, now: Duration) -> Self {
        Self {
            author,
            base,
            // The manifest may be of a spooler without a lease.
            epoch: base.saturating_sub(1),
            first: 1,
            holder: None,
            state: State::Finding,
            beats: 0,
            due: now,
            asked: None,
            patience: PATIENCE,
            releasing: false,
            giving_up: false,
            told: false,
            reluctant: Duration::ZERO,
        }
    }

    /// Tells whether another spooler should claim the lease before this one does.
    pub const fn hesitate(&mut self, hesitates: bool) {
        self.patience = if hesitates { PATIENCE.saturating_add(HESITATION) } else { PATIENCE };
    }

    /// Epoch of the holder, as far as known.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Spooler that has the lease, as far as known.
    pub const fn holder(&self) -> Option<&Author> {
        self.holder.as_ref()
    }

    /// Whether this spooler writes rows, unless it has lost the lease and does not know it yet.
    pub const fn holds(&self) -> bool {
        matches!(self.state, State::Leading { phase: Phase::Holding, .. })
    }

    /// Whether nothing more is to be done.
    pub const fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Tells from which offsets the claimed epoch writes rows, once the manifest has an entry of it.
    pub fn start(&mut self, epoch: u32, offsets: Vec<u64>) {
        if let State::Leading { phase: phase @ Phase::Claimed, .. } = &mut self.state
            && self.epoch == epoch
        {
            *phase = Phase::Starting(offsets);
        }
    }

    /// Gives the lease back with the next request, if this spooler has it.
    pub const fn release(&mut self, now: Duration) {
        self.releasing = true;
        self.due = now;
    }

    /// Gives the lease back with the next request, if this spooler has it, and stands by: it cannot write, and another
    /// spooler may be able to. It does not claim the lease again for [`RELUCTANCE`].
    pub const fn give_up(&mut self, now: Duration) {
        if matches!(self.state, State::Leading { .. }) && !self.giving_up {
            self.giving_up = true;
            self.due = now;
        }
    }

    /// Time of the next request; `None` while one waits for its answer, and at the end.
    pub const fn due(&self) -> Option<Duration> {
        if self.asked.is_some() || self.is_ended() { None } else { Some(self.due) }
    }

    /// The next call of the store, if it is due.
    pub fn next(&mut self, now: Duration) -> Option<Request> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        if self.releasing && !matches!(self.state, State::Leading { .. }) {
            self.state = State::Ended;
            return None;
        }
        let epoch = self.epoch;
        let request = match &mut self.state {
            State::Finding | State::Watching { look: Look::Claim, .. } | State::Claiming { look: true } => {
                Request::Get(LeaseObject::Claim(epoch + 1))
            }
            State::Watching { look: Look::Beat, .. } => Request::Get(LeaseObject::Beat(epoch)),
            State::Claiming { look: false } => {
                Request::Create(LeaseObject::Claim(epoch + 1), Record::Claim(self.author.clone()))
            }
            State::Inheriting { from } => Request::Get(LeaseObject::Start(*from)),
            State::Leading { phase: Phase::Starting(start), step: Step::Start }
                if !self.releasing && !self.giving_up =>
            {
                Request::Create(LeaseObject::Start(epoch), Record::Start(start.clone()))
            }
            State::Leading { step: Step::Claim, .. } if !self.releasing && !self.giving_up => {
                Request::Get(LeaseObject::Claim(epoch + 1))
            }
            State::Leading { step, .. } => {
                *step = Step::Beat;
                self.told = self.giving_up;
                self.beats += 1;
                let beat = Beat { number: self.beats, released: self.releasing || self.giving_up };
                Request::Put(LeaseObject::Beat(epoch), Record::Beat(beat))
            }
            State::Ended => return None,
        };
        self.asked = Some(now);
        Some(request)
    }

    /// Takes the answer to the last request.
    pub fn answer(&mut self, answer: Answer, now: Duration) -> Option<Event> {
        let asked = self.asked.take()?;
        // Without a word to the contrary the next request follows at once.
        self.due = now;
        if let Answer::Found(Some(Record::Claim(author))) = answer {
            return self.behind(author, now);
        }
        match (self.state.clone(), answer) {
            (State::Finding, Answer::Found(_)) => {
                if self.holder.is_some() {
                    self.state = State::Watching { beat: None, since: now, look: Look::Beat };
                    return None;
                }
                // There is no claim at all, and none to wait for.
                (self.epoch, self.first) = (self.base, self.base + 1);
                self.state = State::Claiming { look: false };
                None
            }
            (State::Watching { beat, since, look: Look::Claim }, Answer::Found(_)) => {
                self.state = State::Watching { beat, since, look: Look::Beat };
                None
            }
            (State::Watching { beat, since, look: Look::Beat }, Answer::Found(found)) => {
                let found = match found {
                    Some(Record::Beat(found)) => Some(found),
                    _ => None,
                };
                let still = found == beat;
                // It stood still from the last answer to this request at least.
                let is_free =
                    found.is_some_and(|found| found.released) || still && asked >= since + self.patience;
                if is_free && now >= self.reluctant {
                    self.state = State::Claiming { look: false };
                    return None;
                }
                let since = if still { since } else { now };
                self.state = State::Watching { beat: found, since, look: Look::Claim };
                self.due = now.max(asked + PERIOD);
                None
            }
            (State::Claiming { .. }, Answer::Done) => {
                (self.epoch, self.holder) = (self.epoch + 1, Some(self.author.clone()));
                self.inherit()
            }
            // An attempt that has failed, or fails without an answer, may arrive later: a claim counts when it is read.
            (State::Claiming { .. }, Answer::Exists) => {
                self.state = State::Claiming { look: true };
                None
            }
            (State::Claiming { look: true }, Answer::Found(_)) => {
                self.state = State::Claiming { look: false };
                None
            }
            (State::Inheriting { .. }, Answer::Found(Some(Record::Start(floors)))) => {
                Some(self.lead(Some(floors)))
            }
            // The epoch was over before it has written rows.
            (State::Inheriting { from }, Answer::Found(_)) => self.inherit_from(from - 1),
            (State::Leading { .. }, _) if self.giving_up && !self.releasing => self.gave_up(now),
            (State::Leading { phase, step }, answer) => self.led(phase, step, &answer, asked),
            // Nothing new is known of the store.
            (state, _) => {
                if matches!(state, State::Claiming { .. }) {
                    self.state = State::Claiming { look: true };
                }
                self.due = now.max(asked + PERIOD);
                None
            }
        }
    }

    /// A claim of the next epoch was read.
    fn behind(&mut self, author: Author, now: Duration) -> Option<Event> {
        let led = matches!(self.state, State::Leading { .. } | State::Inheriting { .. });
        (self.giving_up, self.told) = (false, false);
        self.epoch += 1;
        self.holder = Some(author.clone());
        if author.writer == self.author.writer {
            // The answer to an attempt was lost.
            return self.inherit();
        }
        if self.state != State::Finding {
            self.state = State::Watching { beat: None, since: now, look: Look::Claim };
        }
        led.then_some(Event::Lost { epoch: self.epoch, author })
    }

    fn inherit(&mut self) -> Option<Event> {
        self.beats = 0;
        self.inherit_from(self.epoch - 1)
    }

    fn inherit_from(&mut self, from: u32) -> Option<Event> {
        if from < self.first {
            return Some(self.lead(None));
        }
        self.state = State::Inheriting { from };
        None
    }

    fn lead(&mut self, floors: Option<Vec<u64>>) -> Event {
        self.state = State::Leading { phase: Phase::Claimed, step: Step::Beat };
        Event::Claimed { epoch: self.epoch, floors }
    }

    /// The last beat was sent, or an earlier request is answered. Without an answer the others wait until the beat stands
    /// still.
    fn gave_up(&mut self, now: Duration) -> Option<Event> {
        if !self.told {
            return None;
        }
        (self.giving_up, self.told) = (false, false);
        self.reluctant = now + RELUCTANCE;
        self.state = State::Watching { beat: None, since: now, look: Look::Claim };
        Some(Event::GivenUp(self.epoch))
    }

    /// An answer while this spooler has the greatest claim that it knows of.
    fn led(&mut self, phase: Phase, step: Step, answer: &Answer, asked: Duration) -> Option<Event> {
        if self.releasing {
            // Without an answer the others wait until the beat stands still.
            self.state = if step == Step::Beat { State::Ended } else { State::Leading { phase, step } };
            return None;
        }
        let mut event = None;
        let (phase, step) = match (phase, step, answer) {
            (phase @ Phase::Starting(_), Step::Beat, Answer::Done) => (phase, Step::Start),
            (phase, Step::Beat, Answer::Done) => (phase, Step::Claim),
            // It exists already: the answer to an earlier attempt was lost.
            (_, Step::Start, Answer::Done | Answer::Exists) => (Phase::Started, Step::Claim),
            // The start was there before the next claim was looked for: its author will find the start.
            (Phase::Started, Step::Claim, Answer::Found(None)) => {
                event = Some(Event::Holding(self.epoch));
                (Phase::Holding, Step::Beat)
            }
            (phase, _, _) => (phase, Step::Beat),
        };
        if step == Step::Beat {
            self.due = self.due.max(asked + PERIOD);
        }
        self.state = State::Leading { phase, step };
        event
    }
}

#[cfg(test)]
pub(crate) mod tests;
