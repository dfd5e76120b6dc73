//! Spread of a spool: which of several spoolers writes which of its shards.
//!
//! The rules alone, without network and clock, as in [`crate::lease`]. The right to write a shard is a [`Claim`] in the
//! manifest, so the entry that claims it is also the one that fences the spooler before: the number of an entry is taken
//! once. A spooler shows that it runs by a [`Pulse`], an object of its own that it replaces again and again.
//!
//! Each spooler looks at the pulses of the others and at the manifest, and finds out by [`Ring::plan`] what to do. Two that
//! see the same plan the same; if they do not, one of them has its claim refused.
//!
//! - A shard of a spooler whose pulse stands still for [`PATIENCE`] is free, and so is one that was given back. The spooler
//!   with the fewest shards claims it, of those that have had their subscriptions for [`SEASON`]: one that has just started
//!   has not received the samples that the store lacks.
//! - Every spooler that runs gets as many shards as the others, or one more. A spooler with more gives a shard to one that
//!   has had its subscriptions for [`READY`]. It writes no more of it, and uploads its rows, before the other one begins.
//! - If another number of shards is asked for, every spooler gives back all of its shards, and none is claimed but those of a
//!   spooler that does not run any more. Once all are given back, the next entry names their ends. Then the shards of
//!   the new number are free, for the spoolers that held shards when the change was asked for.

mod objects;

use crate::{
    lease::{PATIENCE, PERIOD, RANGE, RELUCTANCE},
    manifest::{Asked, CHANGES, Change, Claim, MAPPED, Manifest, Mapping, Members},
    store::Store,
    writer::{Draft, TierWriter},
};
use core::{cmp::Reverse, time::Duration};
use std::collections::{BTreeMap, BTreeSet};
use zwire_spool::{
    Error, Meta, Result, Shard, SpoolId,
    tier::{Past, Tier as _},
};

/// Time for which a spooler has to have had its subscriptions before another one gives it a shard: it has to receive every
/// sample that the other one no longer writes.
pub const READY: Duration = Duration::from_secs(3);
/// Time of subscriptions after which a spooler has the samples that the store lacks.
pub const SEASON: Duration = Duration::from_secs(20);
/// Time for which a spooler has to have more shards than its share before it gives one back.
pub const SETTLED: Duration = Duration::from_secs(2);

/// Most shards of a spool that several spoolers share, unless it has begun with more: each spooler has files for so many.
pub const MOST: u32 = 64;

/// Sign of life of a spooler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pulse {
    /// Number of the beat.
    pub number: u64,
    /// Seconds for which it has had its subscriptions; `None` if it takes no shards.
    pub age: Option<u64>,
    /// Newest version of entries of the manifest that the spooler reads.
    pub(crate) reads: u64,
}

impl Pulse {
    /// A beat of a spooler of this version.
    pub const fn new(number: u64, age: Option<u64>) -> Self {
        Self { number, age, reads: MAPPED }
    }
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    pulse: Option<Pulse>,
    /// Time at which it changed last, and time of the last look.
    since: Duration,
    looked: Duration,
}

/// Steps of a spooler.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Shards to claim, each with the number of the claim that it has, 0 without one.
    pub claim: BTreeMap<u32, u32>,
    /// Shards to give away, each with the spooler that gets it.
    pub release: BTreeMap<u32, String>,
    /// Spoolers that do not run any more.
    pub gone: Vec<String>,
    /// Whether all shards are to be given back, because their number changes.
    pub closes: bool,
    /// Number of changes of the number of shards so far.
    pub generation: u32,
}

/// Spoolers of a spool, as one of them sees them.
#[derive(Debug)]
pub struct Ring {
    me: String,
    seen: BTreeMap<String, Seen>,
    /// Shards that are not part of the share of this spooler, and since when.
    surplus: BTreeMap<u32, Duration>,
    /// Time before which this spooler takes no shards.
    reluctant: Duration,
}

/// A number for a pair, by which shards are spread: the same in every spooler.
fn score(writer: &str, shard: u32) -> u64 {
    let mut hash = u64::from(crc32c::crc32c(writer.as_bytes())) << 32 | u64::from(shard);
    // SplitMix64: every bit of the pair changes every bit of the number.
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
        hash = (hash ^ hash >> shift).wrapping_mul(factor);
    }
    hash ^ hash >> 31
}

/// Spooler for each shard if none is free: those in `held` stay, except that no spooler has more than its part.
fn shares<'a>(
    shards: u32,
    held: &BTreeMap<u32, &'a str>,
    takers: &BTreeSet<&'a str>,
) -> BTreeMap<u32, &'a str> {
    let Some(count) = u32::try_from(takers.len()).ok().filter(|count| *count > 0) else {
        return BTreeMap::new();
    };
    let mut loads: Vec<(&str, Vec<u32>)> = takers.iter().map(|taker| (*taker, Vec::new())).collect();
    for (shard, holder) in held {
        if let Some((_, load)) = loads.iter_mut().find(|(taker, _)| taker == holder) {
            load.push(*shard);
        }
    }
    // Those that have more get the shards that are left over.
    loads.sort_by_key(|(taker, load)| (Reverse(load.len()), *taker));
    let (part, over) = (shards / count, (shards % count) as usize);
    let room = |index: usize| part as usize + usize::from(index < over);
    let mut given = BTreeMap::new();
    for (index, (taker, load)) in loads.iter_mut().enumerate() {
        load.sort_by_key(|shard| Reverse(score(taker, *shard)));
        load.truncate(room(index));
        given.extend(load.iter().map(|shard| (*shard, *taker)));
    }
    for shard in 0..shards {
        if given.contains_key(&shard) {
            continue;
        }
        let free = loads.iter_mut().enumerate().filter(|(index, (_, load))| load.len() < room(*index));
        if let Some((_, (taker, load))) = free.max_by_key(|(_, (taker, _))| score(taker, shard)) {
            load.push(shard);
            given.insert(shard, *taker);
        }
    }
    given
}

/// Spooler for each free shard: the one with the fewest.
fn fill<'a>(
    shards: u32,
    held: &BTreeMap<u32, &'a str>,
    takers: &BTreeSet<&'a str>,
) -> BTreeMap<u32, &'a str> {
    let count = |taker: &str| held.values().filter(|holder| **holder == taker).count();
    let mut loads: BTreeMap<&str, usize> = takers.iter().map(|taker| (*taker, count(taker))).collect();
    let mut given = BTreeMap::new();
    for shard in (0..shards).filter(|shard| !held.contains_key(shard)) {
        let least = loads.iter_mut().min_by_key(|(taker, load)| (**load, Reverse(score(taker, shard))));
        if let Some((taker, load)) = least {
            *load += 1;
            given.insert(shard, *taker);
        }
    }
    given
}

impl Ring {
    /// The spoolers of a spool, for the one with this random number.
    pub const fn new(me: String) -> Self {
        Self { me, seen: BTreeMap::new(), surplus: BTreeMap::new(), reluctant: Duration::ZERO }
    }

    /// Takes note of a look at the pulse of another spooler, which was begun at a time.
    pub fn hear(&mut self, writer: &str, pulse: Option<Pulse>, asked: Duration, now: Duration) {
        let seen = self.seen.entry(writer.to_owned()).or_insert(Seen { pulse, since: now, looked: asked });
        if seen.pulse != pulse {
            (seen.pulse, seen.since) = (pulse, now);
        }
        seen.looked = asked;
    }

    /// Does not take shards for a while: this spooler could not write one.
    pub fn hold_back(&mut self, now: Duration) {
        self.reluctant = now + RELUCTANCE;
    }

    /// Whether this spooler may take shards.
    pub fn is_willing(&self, now: Duration) -> bool {
        now >= self.reluctant
    }

    /// Whether the pulse of another spooler stands still. It is one that was looked at: a spooler that was paused itself,
    /// or does not reach the store, takes nothing from the others.
    fn is_still(&self, writer: &str) -> bool {
        self.seen.get(writer).is_some_and(|seen| seen.looked >= seen.since + PATIENCE)
    }

    /// What this spooler is to do now. `described`: number of shards in the description of the spool; `age`: time for which
    /// this spooler has had its subscriptions.
    pub fn plan(&mut self, manifest: &Manifest, described: u32, age: Duration, now: Duration) -> Plan {
        let (none, mapping) = (Members::new(), manifest.mapping.as_ref());
        let shards = manifest.shard_count(described);
        let members = manifest.members.as_ref().unwrap_or(&none);
        self.seen.retain(|writer, _| members.contains_key(writer));
        let closes = mapping.is_some_and(|mapping| mapping.wanted.is_some());
        let generation = mapping.map_or(0, |mapping| mapping.generation);
        let mut plan = Plan { closes, generation, ..Plan::default() };
        if !members.contains_key(&self.me) {
            return plan;
        }
        let me = self.me.clone();
        let others = || members.keys().map(String::as_str).filter(|writer| *writer != me);
        let (still, live): (Vec<&str>, Vec<&str>) = others().partition(|writer| self.is_still(writer));
        let age_of = |writer: &str| {
            let pulse = self.seen.get(writer).and_then(|seen| seen.pulse);
            pulse.and_then(|pulse| pulse.age).map(Duration::from_secs)
        };
        let mut ages: BTreeMap<&str, Duration> =
            live.iter().filter_map(|writer| Some((*writer, age_of(writer)?))).collect();
        if self.is_willing(now) {
            ages.insert(&me, age);
        }
        // Ages of others are a beat old.
        let oldest = ages.values().max().copied().unwrap_or_default().saturating_sub(2 * PERIOD).min(SEASON);
        let takers = |least: Duration| -> BTreeSet<&str> {
            ages.iter().filter(|(_, age)| **age >= least).map(|(writer, _)| *writer).collect()
        };
        let runs = |writer: &str| writer == me || live.contains(&writer);
        // What was given to a spooler is its own, although it has no claim yet.
        let holder = |claim: &'_ Claim| match &claim.to {
            Some(to) if claim.released => members.get_key_value(to).map(|(to, _)| to.as_str()),
            _ if claim.released => None,
            _ => members.get_key_value(&claim.writer).map(|(writer, _)| writer.as_str()),
        };
        let claim = |shard| manifest.claims.get(&Shard::Data(shard));
        let held: BTreeMap<u32, &str> = (0..shards)
            .filter_map(|shard| Some((shard, holder(claim(shard)?)?)))
            .filter(|(_, writer)| runs(writer))
            .collect();
        // Alone it has nothing to wait for.
        let alone = live.is_empty() && still.is_empty();
        let able = takers(if alone { Duration::ZERO } else { oldest.max(PERIOD) });
        // After a change, those that have received what no shard got meanwhile come first.
        let named = mapping.into_iter().flat_map(|mapping| &mapping.takers);
        let named: BTreeSet<&str> =
            named.filter_map(|name| ages.get_key_value(name.as_str())).map(|(name, _)| *name).collect();
        let given = fill(shards, &held, if named.is_empty() { &able } else { &named });
        for shard in 0..shards {
            let is_given =
                held.get(&shard) == Some(&me.as_str()) && claim(shard).is_some_and(|claim| claim.released);
            // Of a shard that was given back, the store has all rows: nothing is written there before the change.
            let waits = closes && claim(shard).is_none_or(|claim| claim.released);
            if !waits && (is_given || given.get(&shard) == Some(&me.as_str())) {
                plan.claim.insert(shard, claim(shard).map_or(0, |claim| claim.epoch));
            }
        }
        let leads = live.iter().all(|other| *other > me.as_str());
        if leads || !plan.claim.is_empty() {
            plan.gone = still.into_iter().map(str::to_owned).collect();
        }
        if closes {
            return plan;
        }
        let ready = takers(READY);
        let shares = if given.is_empty() { shares(shards, &held, &ready) } else { BTreeMap::new() };
        let surplus: BTreeMap<u32, &str> = shares
            .into_iter()
            .filter(|(shard, taker)| held.get(shard) == Some(&me.as_str()) && *taker != me)
            .filter(|(shard, _)| claim(*shard).is_some_and(|claim| !claim.released))
            .collect();
        self.surplus.retain(|shard, _| surplus.contains_key(shard));
        for (shard, taker) in surplus {
            let since = *self.surplus.entry(shard).or_insert(now);
            if now >= since + SETTLED {
                plan.release.insert(shard, taker.to_owned());
            }
        }
        plan
    }
}

/// Spoolers that hold shards. Another member may have joined a moment ago, before publishers knew its subscriptions.
fn holders_of(manifest: &Manifest) -> Vec<String> {
    let holds =
        |writer: &String| manifest.claims.values().any(|claim| !claim.released && claim.writer == *writer);
    let members = manifest.members.iter().flatten().map(|(writer, _)| writer);
    members.filter(|writer| holds(writer)).cloned().collect()
}

/// Why a spooler of the other kind does not write a spool.
fn other_kind(spread: bool) -> String {
    let problem = if spread {
        "several spoolers hold shards of this spool: it is written by spoolers with spread alone"
    } else {
        "this spool has one writer at a time: spoolers with spread have a spool that they have begun"
    };
    problem.to_owned()
}

impl Store {
    /// Fails with [`Error::Mismatch`] if the spool is one of spoolers of the other kind: those that hold shards, or others.
    /// Returns the number of shards over which keys are spread, if it has changed.
    pub fn check_kind(&self, spool: &SpoolId, spread: bool) -> Result<Option<u32>> {
        let spool = *spool;
        let manifest = self.call(|client| async move {
            let mut manifest = Manifest::default();
            client.follow(&spool, &mut manifest).await?;
            Ok(manifest)
        })?;
        let there = manifest.members.is_some();
        if manifest.number == 0 || there == spread {
            return Ok(manifest.mapping.map(|mapping| mapping.shards));
        }
        Err(Error::Mismatch { path: self.place().into(), problem: other_kind(there) })
    }
}

impl TierWriter {
    /// Begins as one of several spoolers that hold shards. Fails with [`Error::Mismatch`] if the store has a spool that one
    /// spooler writes.
    pub fn enter(&mut self, meta: &Meta, at: i64) -> Result<()> {
        (self.spread, self.author.epoch) = (true, 0);
        self.begin(meta, at)
    }

    /// Writes from now on under the number of another writer of this process.
    pub fn write_as(&mut self, other: &Self) {
        self.author = other.author.clone();
    }

    /// Learns of the entries of all spoolers.
    pub fn look(&mut self) -> Result<()> {
        self.catch_up().map(|_| ())
    }

    /// Fails with [`Error::Mismatch`] if an entry, or the spool, is of the other kind: with a claim for each shard, or
    /// written by one spooler.
    pub(crate) fn check_kind(&mut self, spread: bool) -> Result<()> {
        if spread == self.spread {
            return Ok(());
        }
        self.fenced = true;
        Err(Error::Mismatch { path: self.place().into(), problem: other_kind(spread) })
    }

    /// Fails with [`Error::Mismatch`] if another spooler has claimed a shard that an entry needs, and with
    /// [`Error::Unreachable`] if it has added to the log of gaps where this entry is to.
    pub(crate) fn check_claims(&mut self, shards: &BTreeMap<Shard, Change>) -> Result<()> {
        if !self.spread {
            return Ok(());
        }
        (self.fenced, self.overtaken) = (false, false);
        let place = self.place().to_owned();
        for (shard, epoch) in &self.needs {
            let claim = self.manifest.claims.get(shard);
            if claim.is_some_and(|claim| claim.is_of(&self.author.writer, *epoch)) {
                continue;
            }
            self.fenced = true;
            let there = claim.map_or(0, |claim| claim.epoch);
            let problem = format!(
                "another spooler has taken {shard} over with claim {there}, and this one wrote with claim {epoch}"
            );
            return Err(Error::Mismatch { path: place.into(), problem });
        }
        let base = shards.get(&Shard::Gaps).and_then(|change| change.add.first()).map(|added| added.base);
        let end = self.manifest.shards.get(&Shard::Gaps).map_or(0, |log| log.mark().end);
        if base.is_some_and(|base| base < end) {
            self.overtaken = true;
            let problem = "another spooler has added to the log of gaps meanwhile".to_owned();
            return Err(Error::Unreachable { place, problem, at: None });
        }
        Ok(())
    }

    /// Adds an entry under claims of this spooler: the numbers of those of some shards. Fails with [`Error::Mismatch`] if
    /// another spooler has claimed one of them.
    pub fn record_under(
        &mut self,
        claims: &BTreeMap<Shard, u32>,
        shards: BTreeMap<Shard, Change>,
        at: i64,
    ) -> Result<()> {
        (self.fenced, self.overtaken) = (false, false);
        let me = &self.author.writer;
        let has = |(shard, epoch): (&Shard, &u32)| {
            self.manifest.claims.get(shard).is_some_and(|claim| claim.is_of(me, *epoch))
        };
        if !claims.iter().all(has) {
            // Another writer of this process may have claimed them.
            self.look()?;
        }
        self.needs.clone_from(claims);
        let done = self.record(shards, at);
        self.needs.clear();
        done
    }

    /// Whether the last attempt has found new rows of the log of gaps in the place of its own.
    pub const fn is_overtaken(&self) -> bool {
        self.overtaken
    }

    /// Joins the spoolers that may take shards, and claims some: each with the number of the claim before it. Others are
    /// taken from the list. Of a shard whose last claim is that of the folder, `own` has the offset behind the rows there.
    /// Shards that another spooler has claimed meanwhile are left out.
    pub fn claim_shards(
        &mut self,
        host: &str,
        plan: &Plan,
        own: &BTreeMap<u32, (u32, u64)>,
        at: i64,
    ) -> Result<()> {
        let me = self.author.writer.clone();
        self.record_draft(at, &mut |manifest| {
            let mut members = manifest.members.clone().unwrap_or_default();
            plan.gone.iter().for_each(|gone| drop(members.remove(gone)));
            members.insert(me.clone(), host.to_owned());
            let claim = |(shard, before): (&u32, &u32)| {
                let known = manifest.claims.get(&Shard::Data(*shard));
                let epoch = known.map_or(0, |claim| claim.epoch);
                let end = manifest.shards.get(&Shard::Data(*shard)).map_or(0, |tiered| tiered.mark().end);
                // A spooler that has given the shard back has no rows that the store lacks.
                let next = known.map_or(end, |claim| {
                    end.max(claim.start).saturating_add(if claim.released { 0 } else { RANGE })
                });
                // No other spooler has used the offsets behind the rows of the folder.
                let own = own.get(shard).filter(|(own, _)| *own == epoch).map(|(_, next)| *next);
                let start = own.filter(|own| (end..next).contains(own)).unwrap_or(next);
                let claim = Claim {
                    epoch: epoch.checked_add(1)?,
                    writer: me.clone(),
                    start,
                    released: false,
                    to: None,
                };
                (epoch == *before)
                    .then(|| (Shard::Data(*shard), Change { claim: Some(claim), ..Change::default() }))
            };
            // What was planned before a change of the shards does not count behind it.
            let generation = manifest.mapping.as_ref().map_or(0, |mapping| mapping.generation);
            let planned = plan.claim.iter().filter(|_| plan.generation == generation);
            let shards: BTreeMap<Shard, Change> = planned.filter_map(claim).collect();
            let has_one = |shard: u32| {
                let shard = Shard::Data(shard);
                shards.contains_key(&shard)
                    || manifest.claims.get(&shard).is_some_and(|claim| !claim.released)
            };
            let mapping = manifest.mapping.as_ref().filter(|mapping| !mapping.takers.is_empty());
            let mapping = mapping.filter(|mapping| (0..mapping.greatest).all(has_one));
            let mapping = mapping.map(|mapping| Mapping { takers: Vec::new(), ..mapping.clone() });
            let changes = !shards.is_empty() || Some(&members) != manifest.members.as_ref();
            changes.then_some(Draft { shards, members: Some(members), mapping })
        })?;
        self.hint()
    }

    /// Number of shards in the description of the spool, once the store was read.
    pub const fn described(&self) -> u32 {
        self.described
    }

    /// Number of changes of the number of shards, as far as this writer knows.
    pub fn generation(&self) -> u32 {
        self.manifest.mapping.as_ref().map_or(0, |mapping| mapping.generation)
    }

    /// Asks for another number of shards, over which keys are spread by their checksums from the change on. Another change
    /// that was asked for and is not made is forgotten. Returns the number of changes after it; `None` if it cannot be asked
    /// for now, since a shard is on its way from one spooler to another: one that has joined meanwhile lacks samples
    /// of it. Fails with [`Error::Usage`] for a number that is not possible, and with [`Error::Mismatch`] if the spool has one
    /// writer at a time, or a spooler of a version that does not know changes.
    pub fn ask_shards(&mut self, shards: u32, at: i64) -> Result<Option<u32>> {
        let (described, most) = (self.described, MOST.max(self.described));
        if !(1..=most).contains(&shards) {
            return Err(Error::Usage(format!("{shards} shards: 1 to {most} are possible")));
        }
        if self.manifest.members.is_none() {
            return Err(Error::Mismatch { path: self.place().into(), problem: other_kind(false) });
        }
        self.check_versions()?;
        let mut is_busy = false;
        self.record_draft(at, &mut |manifest| {
            let first = Mapping { shards: described, greatest: described, ..Mapping::default() };
            let known = manifest.mapping.clone().unwrap_or(first);
            let members = manifest.members.clone();
            let (asked, takers) = match &known.wanted {
                Some(asked) => (asked.shards, asked.takers.clone()),
                None => (known.shards, holders_of(manifest)),
            };
            let is_held =
                |shard| manifest.claims.get(&Shard::Data(shard)).is_some_and(|claim| !claim.released);
            let is_alone = members.as_ref().is_none_or(Members::is_empty);
            let held = is_alone || known.wanted.is_some() || (0..known.greatest).all(is_held);
            is_busy = !held && asked != shards;
            let mapping = Mapping { wanted: Some(Asked { shards, takers }), ..known };
            (held && asked != shards).then(|| Draft {
                shards: BTreeMap::new(),
                members,
                mapping: Some(mapping),
            })
        })?;
        self.hint()?;
        let waits = self.manifest.mapping.as_ref().is_some_and(|mapping| mapping.wanted.is_some());
        Ok((!is_busy).then(|| self.generation() + u32::from(waits)))
    }

    /// Fails with [`Error::Mismatch`] before the first change if a spooler is of a version that takes the entry of a change
    /// for one that has arrived torn: it would replace it.
    fn check_versions(&self) -> Result<()> {
        if self.manifest.mapping.is_some() {
            return Ok(());
        }
        let members = self.manifest.members.iter().flatten();
        let (writers, hosts): (Vec<String>, Vec<&String>) =
            members.map(|(writer, host)| (writer.clone(), host)).unzip();
        for (host, pulse) in hosts.into_iter().zip(self.store.pulses(&self.id, &writers)?) {
            if pulse?.is_some_and(|pulse| pulse.reads < MAPPED) {
                let problem = format!(
                    "the spooler on {host} is of a version that does not know changes of the number of shards: update it \
                     first"
                );
                return Err(Error::Mismatch { path: self.place().into(), problem });
            }
        }
        Ok(())
    }

    /// Makes a change of the number of shards that was asked for, if all shards are given back. Returns whether it is made,
    /// here or by another spooler.
    pub fn close_shards(&mut self, at: i64) -> Result<bool> {
        let before = self.generation();
        self.record_draft(at, &mut |manifest| {
            let mapping = manifest.mapping.as_ref()?;
            let Asked { shards, takers } = mapping.wanted.clone()?;
            let is_back =
                |shard| manifest.claims.get(&Shard::Data(shard)).is_none_or(|claim: &Claim| claim.released);
            if !(0..mapping.greatest).all(is_back) {
                return None;
            }
            let end = |shard| manifest.shards.get(&Shard::Data(shard)).map_or(0, |tiered| tiered.mark().end);
            let ends = (0..mapping.greatest).map(|shard| (shard, end(shard))).collect();
            let mut closed = mapping.closed.clone();
            closed.push(Past { count: mapping.shards, ends });
            closed.drain(..closed.len().saturating_sub(CHANGES));
            let mapping = Mapping {
                generation: mapping.generation.checked_add(1)?,
                shards,
                greatest: mapping.greatest.max(shards),
                wanted: None,
                closed,
                takers,
            };
            let members = manifest.members.clone();
            Some(Draft { shards: BTreeMap::new(), members, mapping: Some(mapping) })
        })?;
        self.hint()?;
        Ok(self.generation() > before)
    }

    /// Gives shards back, as far as this spooler still has these claims, each perhaps to another spooler. `leaves`: it takes no
    /// shards any more.
    pub fn release_shards(
        &mut self,
        claims: &BTreeMap<u32, (u32, Option<String>)>,
        leaves: bool,
        at: i64,
    ) -> Result<()> {
        let me = self.author.writer.clone();
        self.record_draft(at, &mut |manifest| {
            let mut members = manifest.members.clone().unwrap_or_default();
            if leaves {
                members.remove(&me);
            }
            let release = |(shard, (epoch, to)): (&u32, &(u32, Option<String>))| {
                let known = manifest.claims.get(&Shard::Data(*shard))?;
                let claim = known.is_of(&me, *epoch).then(|| Claim {
                    released: true,
                    to: to.clone(),
                    ..known.clone()
                })?;
                Some((Shard::Data(*shard), Change { claim: Some(claim), ..Change::default() }))
            };
            let shards: BTreeMap<Shard, Change> = claims.iter().filter_map(release).collect();
            let changes = !shards.is_empty() || Some(&members) != manifest.members.as_ref();
            changes.then_some(Draft { shards, members: Some(members), mapping: None })
        })?;
        self.hint()
    }
}

#[cfg(test)]
mod tests;
