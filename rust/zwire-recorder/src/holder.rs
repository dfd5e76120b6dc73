//! Threads of a spooler that shares its spool with others by shards: one shows that it runs and looks at the others, one
//! takes shards over, follows those of the others, and gives back what is theirs. A third one uploads (`tier`).

use crate::{
    follow::{Follower, Known},
    lease::Kept,
    shared::Shared,
    spread::Spread,
    steps::{Scope, Sharing, Step, Takeover},
    turns::tell_missing,
};
use core::{sync::atomic::Ordering, time::Duration};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
};
use zwire_spool::{
    Error, Gap, Meta, Result, Shard, Spool,
    tier::{Noted, Tiered, note_place, place_of},
};
use zwire_tier::{
    Store, TierWriter,
    lease::{PERIOD, RANGE},
    manifest::Manifest,
    of_store,
    spread::{Plan, Pulse},
};

/// Period of looks at the manifest, and pauses while something is to be done at once, and after an error.
const LOOK: Duration = Duration::from_millis(500);
const SOON: Duration = Duration::from_millis(50);
const LATER: Duration = Duration::from_secs(1);
/// Time for which rows of others are read at once: claims are looked at in between.
const READING: Duration = Duration::from_secs(1);
/// Time after which a shard that cannot be taken over is given back: another spooler may be able to.
const FUTILE: Duration = Duration::from_secs(10);

/// How far this spooler is with a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It has the claim since a time of the clock, and does not write yet.
    Claimed(Duration),
    Writing,
    /// No row is written any more; the rest is uploaded.
    Leaving,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    epoch: u32,
    start: u64,
    phase: Phase,
}

/// The thread that takes shards over.
pub(crate) struct Holder {
    tier: TierWriter,
    shared: Arc<Shared>,
    sharing: Arc<Sharing>,
    meta: Meta,
    dir: PathBuf,
    holds: BTreeMap<u32, Hold>,
    /// Since when rows that a shard needs cannot be followed.
    blind: Option<Duration>,
    /// Spoolers that are to get shards of this one.
    heirs: BTreeMap<u32, String>,
    /// Claims of the shards that the folder has rows of, until they were looked at.
    own: BTreeMap<u32, u32>,
    follower: Option<Follower>,
    /// Whether all rows of the store were known once: a shard that is given to this spooler before would wait for that.
    caught_up: bool,
    /// Whether the manifest was read by this writer.
    entered: bool,
    /// Time of the clock since when there are subscriptions.
    since: Option<Duration>,
}

/// The thread that shows that this spooler runs.
struct Beating {
    store: Store,
    meta: Meta,
    name: String,
    sharing: Arc<Sharing>,
    shared: Arc<Shared>,
    problem: Option<String>,
}

impl Holder {
    /// The thread of a spooler whose other threads write under the number of `uploads`.
    pub(crate) fn new(shared: &Arc<Shared>, uploads: &TierWriter, meta: &Meta, dir: &Path) -> Result<Self> {
        let sharing = shared.sharing.clone().ok_or_else(|| Error::Usage("spread: not shared".to_owned()))?;
        let mut tier = TierWriter::new(uploads.place(), meta, zwire_engine::clock::mono)?;
        tier.write_as(uploads);
        let own = place_of(dir, meta)?.and_then(|noted| noted.claims).unwrap_or_default();
        let (shared, meta, dir) = (shared.clone(), meta.clone(), dir.to_owned());
        Ok(Self {
            tier,
            shared,
            sharing,
            meta,
            dir,
            holds: BTreeMap::new(),
            blind: None,
            heirs: BTreeMap::new(),
            own,
            follower: None,
            caught_up: false,
            entered: false,
            since: None,
        })
    }

    /// Starts both threads.
    pub(crate) fn start(self) -> Result<io::Result<Kept>> {
        let beating = Beating {
            store: Store::of_lease(self.tier.place(), zwire_engine::clock::mono)?,
            meta: self.meta.clone(),
            name: self.tier.name().to_owned(),
            sharing: self.sharing.clone(),
            shared: self.shared.clone(),
            problem: None,
        };
        let (wake, woken) = mpsc::channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let started = thread("zwire-spool-lease")
            .spawn(move || beating.run(&woken))
            .and_then(|beats| Ok(vec![beats, thread("zwire-spool-holder").spawn(move || self.run())?]));
        Ok(started.map(|threads| Kept::new(threads, wake)))
    }

    fn run(mut self) {
        loop {
            if self.sharing.is_released() || self.sharing.is_abandoned() {
                let left = self.leave();
                self.shared.note(left);
                return;
            }
            let done = self.turn();
            let failed = done.is_err();
            self.shared.note(done);
            let is_soon = self.holds.values().any(|hold| hold.phase != Phase::Writing)
                || !self.is_current()
                || !self.caught_up;
            std::thread::park_timeout(match (failed, is_soon || !self.entered) {
                (true, _) => LATER,
                (false, true) => SOON,
                (false, false) => LOOK,
            });
        }
    }

    fn spread(&self) -> Option<&Spread> {
        self.sharing.spread.as_ref()
    }

    fn now(&self) -> Duration {
        self.shared.clock.now().mono
    }

    fn turn(&mut self) -> Result<()> {
        let micros = self.shared.clock.micros();
        self.spread().into_iter().for_each(|spread| spread.turn(self.now()));
        if self.entered {
            let looked = self.tier.look();
            // An entry that has arrived torn is mended on entering.
            self.entered = !matches!(looked, Err(Error::BadFile { .. }));
            looked?;
        } else {
            self.tier.enter(&self.meta, micros)?;
            self.entered = true;
        }
        if self.since.is_none() && self.sharing.has_sources() {
            self.since = Some(self.now());
        }
        self.lose()?;
        let followed = self.follow();
        let now = self.now();
        self.blind = followed.as_ref().err().map(|_| self.blind.unwrap_or(now));
        self.limit();
        let plan = self.plan();
        let joins = self.since.is_some()
            && !self.shared.stop.load(Ordering::Acquire)
            && self
                .tier
                .manifest()
                .members
                .as_ref()
                .is_none_or(|members| !members.contains_key(self.tier.name()));
        if joins || !plan.claim.is_empty() || !plan.gone.is_empty() {
            let own = self.own_rows();
            self.tier.claim_shards(&self.sharing.turns.host, &plan, &own, micros)?;
            // One that was paused writes its pulse again.
            plan.gone.iter().try_for_each(|gone| self.tier.store().forget_pulse(gone))?;
        }
        for (shard, to) in plan.release {
            self.begin_to_leave(shard, Some(to));
        }
        self.adopt();
        self.take_over()?;
        let closes =
            |manifest: &Manifest| manifest.mapping.as_ref().is_some_and(|mapping| mapping.wanted.is_some());
        if closes(self.tier.manifest()) {
            for shard in self.holds.keys().copied().collect::<Vec<_>>() {
                self.begin_to_leave(shard, None);
            }
        }
        self.give_back()?;
        if self.holds.is_empty() && closes(self.tier.manifest()) {
            self.tier.close_shards(micros)?;
        }
        let starting = self.holds.values().any(|hold| matches!(hold.phase, Phase::Claimed(_)));
        let others = self.tier.manifest().members.iter().flatten().map(|(writer, _)| writer);
        let others = others.filter(|writer| *writer != self.tier.name()).cloned().collect();
        if let Some(spread) = self.spread() {
            spread.learn(others, starting, self.tier.manifest().shard_count(self.tier.described()));
        }
        followed
    }

    /// What is to be done with shards. Without subscriptions nothing is taken.
    fn plan(&self) -> Plan {
        let takes = !self.shared.stop.load(Ordering::Acquire) && self.is_current() && self.caught_up;
        let Some((spread, since)) = self.spread().zip(self.since).filter(|_| takes) else {
            return Plan::default();
        };
        let (mut ring, now) = (spread.ring.lock(), self.now());
        let age = now.saturating_sub(since);
        spread.set_age(ring.is_willing(now).then_some(age.as_secs()));
        ring.plan(self.tier.manifest(), self.tier.described(), age, now)
    }

    /// Whether keys are spread over shards as in the last entry that is known: then shards may be taken.
    fn is_current(&self) -> bool {
        self.follower.as_ref().is_some_and(|follower| follower.generation() == self.tier.generation())
    }

    /// Stops writing the shards that another spooler has claimed.
    fn lose(&mut self) -> Result<()> {
        let claims = &self.tier.manifest().claims;
        let is_lost = |(shard, hold): &(&u32, &Hold)| {
            let claim = claims.get(&Shard::Data(**shard));
            !claim.is_some_and(|claim| claim.is_of(self.tier.name(), hold.epoch))
        };
        let lost: Vec<(u32, Hold)> =
            self.holds.iter().filter(is_lost).map(|(shard, hold)| (*shard, *hold)).collect();
        for (shard, hold) in lost {
            self.sharing.set_fence(Scope::One(shard), true);
            self.holds.remove(&shard);
            self.spread().into_iter().for_each(|spread| spread.drop_shard(shard, hold.epoch));
            if matches!(hold.phase, Phase::Claimed(_)) {
                continue;
            }
            self.sharing.run(Step::Stand(Scope::One(shard)));
            let aside = self.shared.shards[shard as usize].lock().fence()?;
            tracing::warn!(
                "{} has lost shard {shard} of the spool; {aside} segments that the store does not have were set aside \
                 in {}, with names that end in .fenced",
                self.sharing.turns.host,
                self.dir.display()
            );
            self.follow_again(shard)?;
        }
        Ok(())
    }

    fn follow_again(&mut self, shard: u32) -> Result<()> {
        self.follower.as_mut().map_or(Ok(()), |follower| follower.begin_again(shard))
    }

    /// Takes note of rows that other spoolers have stored.
    fn follow(&mut self) -> Result<()> {
        let described = self.tier.described();
        let spread = |follower: &Follower| -> Result<Step> {
            let count = follower.count()?;
            Ok(Step::Spread(if count == 0 { described } else { count }, follower.given()))
        };
        let follower = match &mut self.follower {
            Some(follower) => follower,
            none => {
                let spool = of_store(self.tier.place(), zwire_engine::clock::mono)?;
                let follower = Follower::new(spool, true)?;
                self.sharing.run(spread(&follower)?);
                none.insert(follower)
            }
        };
        let end = self.shared.clock.now().mono + READING;
        let holds = &self.holds;
        let is_followed = |shard| match shard {
            Shard::Data(number) => {
                holds.get(&number).is_none_or(|hold| matches!(hold.phase, Phase::Claimed(_)))
            }
            Shard::Gaps => true,
        };
        loop {
            match follower.turn(&self.sharing.recognition, &is_followed)? {
                Some(listed) => self.sharing.run(Step::Learn(Arc::new(listed))),
                // Samples that wait get the shards of their keys behind the change.
                None if follower.cross()? => self.sharing.run(spread(follower)?),
                None => {
                    self.caught_up = true;
                    return Ok(());
                }
            }
            if self.shared.clock.now().mono >= end {
                return Ok(());
            }
        }
    }

    fn tiered(&self, shard: u32) -> Tiered {
        self.tier.manifest().shards.get(&Shard::Data(shard)).cloned().unwrap_or_default()
    }

    /// Bounds the offsets of this spooler: the next one begins behind them.
    fn limit(&self) {
        for (shard, hold) in self.holds.iter().filter(|(_, hold)| hold.phase == Phase::Writing) {
            let end = self.tiered(*shard).mark().end;
            let mut writer = self.shared.shards[*shard as usize].lock();
            writer.limit(end.max(hold.start).saturating_add(RANGE));
        }
    }

    /// Offsets behind the rows of the folder, with the claims under which they were written.
    fn own_rows(&self) -> BTreeMap<u32, (u32, u64)> {
        let next = |shard: u32| self.shared.shards[shard as usize].lock().next_offset();
        let own = self.own.iter().filter(|(shard, _)| (**shard as usize) < self.shared.shards.len());
        own.map(|(shard, epoch)| (*shard, (*epoch, next(*shard)))).collect()
    }

    /// Takes note of claims of this spooler, also of those whose answer was lost.
    fn adopt(&mut self) {
        let now = self.now();
        for (shard, claim) in &self.tier.manifest().claims {
            let Shard::Data(number) = shard else { continue };
            if claim.is_of(self.tier.name(), claim.epoch) && (*number as usize) < self.shared.shards.len() {
                let (epoch, start) = (claim.epoch, claim.start);
                self.holds.entry(*number).or_insert(Hold { epoch, start, phase: Phase::Claimed(now) });
            }
        }
    }

    /// Begins to write the shards that were claimed, once all rows before the claim are known.
    fn take_over(&mut self) -> Result<()> {
        let log = self.tier.manifest().shards.get(&Shard::Gaps).map_or(0, |log| log.mark().end);
        for (shard, hold) in self.holds.clone() {
            let Phase::Claimed(since) = hold.phase else { continue };
            if self.shared.stop.load(Ordering::Acquire) {
                return Ok(());
            }
            // Nothing is added under an earlier claim any more.
            let end = self.tiered(shard).mark().end;
            let known = |follower: &Follower| follower.has_of(shard, end) && follower.has_log(log);
            if !self.is_current() || !self.follower.as_ref().is_some_and(known) {
                // Another spooler may be able to read them.
                if self.blind.is_some_and(|blind| self.now() >= since.max(blind) + FUTILE) {
                    self.give_up(shard, hold)?;
                }
                continue;
            }
            match self.begin(shard, hold) {
                Ok(()) => {}
                Err(error) if self.now() < since + FUTILE => return Err(error),
                Err(error) => {
                    // This spooler cannot write; another one may be able to.
                    self.give_up(shard, hold)?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Gives back a shard that this spooler cannot begin to write, and takes none for a while.
    fn give_up(&mut self, shard: u32, hold: Hold) -> Result<()> {
        let now = self.now();
        self.spread().into_iter().for_each(|spread| spread.ring.lock().hold_back(now));
        let claims = BTreeMap::from([(shard, (hold.epoch, None))]);
        self.tier.release_shards(&claims, false, self.shared.clock.micros())?;
        self.holds.remove(&shard);
        Ok(())
    }

    fn begin(&mut self, shard: u32, hold: Hold) -> Result<()> {
        let Hold { epoch, start, .. } = hold;
        let (tiered, there) = (self.tiered(shard), self.tier.segments(Shard::Data(shard))?);
        // The claim begins behind the rows of the folder: no other spooler has written since.
        let own = self.own.get(&shard).is_some_and(|own| own + 1 == epoch);
        let goes_on = {
            let mut writer = self.shared.shards[shard as usize].lock();
            let goes_on = own && writer.next_offset() == start;
            if goes_on {
                writer.join_tier(&there)?;
            } else {
                writer.resume(&tiered, &there, start, epoch)?;
            }
            writer.limit(tiered.mark().end.max(start).saturating_add(RANGE));
            goes_on
        };
        // The folder is in order: from now on its rows are those of this claim. No row of it was written before.
        let noted = place_of(&self.dir, &self.meta)?.and_then(|noted| noted.claims);
        let mut claims = noted.unwrap_or_default();
        claims.insert(shard, epoch);
        let url = self.tier.place().to_owned();
        note_place(&self.dir, &self.meta, &Noted { url, shared: Some(0), claims: Some(claims) })?;
        let with_own = if goes_on { self.with_own_rows(shard) } else { None };
        let after = self.follower.as_mut().map(|follower| follower.take(shard)).unwrap_or_default();
        let Known { numbers, missing } = with_own.unwrap_or(after);
        self.own.remove(&shard);
        if let Some(spread) = self.spread() {
            spread.hold(shard, epoch);
        }
        self.tell_start(shard, hold, (tiered.mark().end, goes_on));
        self.sharing.set_fence(Scope::One(shard), false);
        let takeover = Takeover { scope: Scope::One(shard), numbers, missing: Mutex::new(missing) };
        let takeover = Arc::new(takeover);
        self.sharing.run(Step::Write(takeover.clone()));
        tell_missing(&self.shared, shard, takeover.missing.lock().take());
        self.sharing.takeovers.fetch_add(1, Ordering::Relaxed);
        self.holds.insert(shard, Hold { phase: Phase::Writing, ..hold });
        // What was taken over is uploaded at once: this spooler may be lost as well.
        let mut writer = self.shared.shards[shard as usize].lock();
        self.shared.note(writer.flush(self.shared.clock.micros()).and_then(|()| writer.seal()));
        Ok(())
    }

    /// Writes into the log of gaps from which offset on this spooler writes a shard.
    fn tell_start(&self, shard: u32, hold: Hold, (end, goes_on): (u64, bool)) {
        let Hold { epoch, start, .. } = hold;
        let (time, host) = (self.shared.clock.micros(), &self.sharing.turns.host);
        let gap = |kind, detail| Gap { shard, offset: start, kind, time, detail, ..Gap::default() };
        let mut gaps = vec![gap("epoch", format!("{host} writes shard {shard} from here on, claim {epoch}"))];
        if start > end && !goes_on {
            let detail = format!(
                "offsets {end} to {start} (exclusive) are not used: the folder of the spooler before may have rows there"
            );
            gaps.push(gap("gap", detail));
        }
        let notes = self.sharing.take_notes(Scope::One(shard)).into_iter();
        gaps.extend(notes.map(|note| Gap { offset: start, ..note }));
        self.shared.tell(&gaps, time);
        tracing::info!("{host} writes shard {shard} of the spool, claim {epoch}");
    }

    /// What the rows of a shard in the folder tell, too.
    fn with_own_rows(&self, shard: u32) -> Option<Known> {
        let read = || -> Result<Known> {
            let spool = Spool::open(&self.dir)?.with_tier(self.tier.store().clone());
            let mut follower = Follower::new(spool, true)?;
            // Before a change of the shards, keys had other ones.
            let past = self.tier.manifest().mapping.as_ref().and_then(|mapping| mapping.closed.last());
            follower.pass_to(shard, past.and_then(|past| past.ends.get(&shard)).copied().unwrap_or(0));
            let is_own = |found| found == Shard::Data(shard);
            while let Some(listed) = follower.turn(&self.sharing.recognition, &is_own)? {
                self.sharing.run(Step::Learn(Arc::new(listed)));
            }
            Ok(follower.take(shard))
        };
        self.shared.note(read())
    }

    /// Stops writing a shard that another spooler is to write.
    fn begin_to_leave(&mut self, shard: u32, to: Option<String>) {
        let Some(hold) = self.holds.get_mut(&shard).filter(|hold| hold.phase == Phase::Writing) else {
            return;
        };
        hold.phase = Phase::Leaving;
        let why = if to.is_some() { "to another spooler" } else { "back: the number of shards changes" };
        self.heirs.extend(to.map(|to| (shard, to)));
        tracing::info!("{} gives shard {shard} of the spool {why}", self.sharing.turns.host);
        self.sharing.run(Step::Stand(Scope::One(shard)));
        self.seal(shard);
    }

    /// Ends the segment of a shard, so that its rows are uploaded; again after an error.
    fn seal(&self, shard: u32) {
        let mut writer = self.shared.shards[shard as usize].lock();
        self.shared.note(writer.flush(self.shared.clock.micros()).and_then(|()| writer.seal()));
    }

    /// Whether all rows of a shard, and the rows of the log of gaps about them, are in the store.
    fn is_uploaded(&self, shard: u32) -> bool {
        let writer = self.shared.shards[shard as usize].lock();
        let told = self.spread().is_none_or(|spread| !spread.has_rows(shard));
        told && writer.unstored().is_empty() && writer.is_empty()
    }

    /// Gives back the shards whose rows are uploaded.
    fn give_back(&mut self) -> Result<()> {
        let leaving: Vec<(u32, Hold)> = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.phase == Phase::Leaving)
            .map(|(shard, hold)| (*shard, *hold))
            .collect();
        for (shard, hold) in leaving {
            if !self.is_uploaded(shard) {
                self.seal(shard);
                continue;
            }
            let claims = BTreeMap::from([(shard, (hold.epoch, self.heirs.get(&shard).cloned()))]);
            self.tier.release_shards(&claims, false, self.shared.clock.micros())?;
            self.holds.remove(&shard);
            self.heirs.remove(&shard);
            self.spread().into_iter().for_each(|spread| spread.drop_shard(shard, hold.epoch));
            self.sharing.set_fence(Scope::One(shard), true);
            self.shared.shards[shard as usize].lock().fence()?;
            self.follow_again(shard)?;
        }
        Ok(())
    }

    /// Gives back what is uploaded. The others take over the rest as well: the spooler is none of theirs any more.
    fn leave(&mut self) -> Result<()> {
        if !self.entered {
            return Ok(());
        }
        // Without a call of `close`, threads of sources may still write.
        for shard in self.holds.keys() {
            self.sharing.run(Step::Stand(Scope::One(*shard)));
        }
        let uploaded = self.holds.iter().filter(|(shard, _)| self.is_uploaded(**shard));
        let claims: BTreeMap<_, _> = uploaded.map(|(shard, hold)| (*shard, (hold.epoch, None))).collect();
        let rest = self.holds.len() - claims.len();
        if rest > 0 {
            tracing::warn!("rows of {rest} shards are not in the store; they stay in {}", self.dir.display());
        }
        self.tier.release_shards(&claims, true, self.shared.clock.micros())
    }
}

impl Beating {
    fn run(mut self, woken: &mpsc::Receiver<()>) {
        let mut number = 0;
        while !self.sharing.is_released() && !self.sharing.is_abandoned() {
            number += 1;
            let begin = self.shared.clock.now().mono;
            let done = self.beat(number);
            self.note(done);
            let pause = (begin + PERIOD).saturating_sub(self.shared.clock.now().mono);
            if woken.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Disconnected) {
                // Dropped without a call of `release`: the process goes on without this recorder.
                self.sharing.release();
            }
        }
        let done = self.store.forget_pulse(&self.name);
        self.note(done);
    }

    /// Shows that this spooler runs, and looks at the others.
    fn beat(&self, number: u64) -> Result<()> {
        let Some(spread) = &self.sharing.spread else { return Ok(()) };
        // Claims end as well if the thread that follows them hangs, as on a full disk.
        let now = self.shared.clock.now().mono;
        if spread.hangs(now) {
            let problem = "the thread of the claims makes no progress; other spoolers take the shards over";
            return Err(Error::Usage(problem.to_owned()));
        }
        self.store.beat(&self.meta.id, &self.name, Pulse::new(number, spread.age()))?;
        let clock = &self.shared.clock;
        let (mut looked, asked, others) = (Ok(()), clock.now().mono, spread.others());
        let pulses = self.store.pulses(&self.meta.id, &others)?;
        for (other, pulse) in others.iter().zip(pulses) {
            let pulse = match pulse {
                Ok(pulse) => pulse,
                // An object that is none does not beat.
                Err(Error::BadFile { .. }) => None,
                Err(error) => {
                    looked = Err(error);
                    continue;
                }
            };
            spread.ring.lock().hear(other, pulse, asked, clock.now().mono);
        }
        looked
    }

    /// Logs an error of the store when it changes.
    fn note(&mut self, done: Result<()>) {
        let problem = done.err().map(|error| error.to_string());
        match (&self.problem, &problem) {
            (None, Some(text)) => tracing::warn!("the pulse of the spooler: {text}"),
            (Some(_), None) => tracing::info!("the store takes the pulse of the spooler again"),
            _ => {}
        }
        self.problem = problem;
    }
}
