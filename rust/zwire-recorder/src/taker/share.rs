//! Thread of a source in a shared spool: it keeps items while another spooler writes, and writes them when it takes over.

use super::{AT_ONCE, AT_ONCE_BYTES, Rows, Taker, Turn};
use crate::{
    identity::Identity,
    numbers::{MAX_SOURCES, Numbers, Publisher},
    standby::Standby,
    steps::{Member, Scope, Sharing, Step, Takeover},
    time::wall_micros,
};
use core::{sync::atomic::Ordering, time::Duration};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};
use zwire_engine::{RecvError, queue::Weigh as _};
use zwire_proto::Now;
use zwire_spool::{Gap, Rule};

/// Time after a takeover in which samples may arrive that the spooler before has written.
const LATE: Duration = Duration::from_secs(30);

/// Share of a source in a shared spool.
pub(super) struct Turned<I> {
    member: Member,
    standby: Standby<I>,
    /// Whether rows are written, by shard.
    writing: Vec<bool>,
    /// Monotonic time up to which samples are looked for among those of the spooler before, by shard.
    until: Vec<Option<Duration>>,
    /// Number of shards over which keys are spread.
    pub(super) count: usize,
    /// Their number before it has changed, and the monotonic time up to which samples may arrive that were written then.
    before: Option<(usize, Duration)>,
    /// Shards of publishers, if the spoolers share the spool by them.
    homes: Option<HashMap<Publisher, u32>>,
}

impl<I> Turned<I> {
    pub(super) fn new(sharing: &Arc<Sharing>) -> Self {
        let (member, (writing, count)) = Member::join(sharing.clone());
        let standby = Standby::new(sharing.turns.standby_bytes, sharing.held.clone());
        let homes = sharing.spread.as_ref().map(|_| HashMap::new());
        let (count, until) = (count as usize, vec![None; writing.len()]);
        Self { member, standby, until, writing, count, before: None, homes }
    }

    /// Whether no row is written.
    pub(super) fn is_idle(&self) -> bool {
        !self.writing.contains(&true)
    }

    pub(super) fn writes(&self, shard: usize) -> bool {
        self.writing.get(shard).is_some_and(|writing| *writing)
    }

    /// Shard for gaps that belong to none: the usual one, or else the first that is written.
    pub(super) fn home(&self, usual: usize) -> Option<usize> {
        if self.writes(usual) { Some(usual) } else { self.writing.iter().position(|writing| *writing) }
    }

    /// Shard for what is missing of a publisher, if its rows are written here. One that was never heard belongs to the usual
    /// shard.
    pub(super) fn place(&self, publisher: Publisher, usual: usize) -> Option<usize> {
        let Some(homes) = &self.homes else { return Some(usual) };
        let shard = homes.get(&publisher).map_or(usual, |shard| *shard as usize);
        self.writes(shard).then_some(shard)
    }

    /// Takes note of the shard of a publisher.
    fn settle(&mut self, publisher: Option<Publisher>, shard: u32) {
        if let (Some(homes), Some(publisher)) = (&mut self.homes, publisher) {
            if homes.len() >= MAX_SOURCES {
                homes.clear();
            }
            homes.insert(publisher, shard);
        }
    }
}

impl<R: Rows> Taker<R> {
    /// Carries out the next step, if there is one; `false` if the recorder was closed meanwhile.
    pub(super) fn take_step(&mut self, now: Now) -> bool {
        let Some(turned) = &mut self.turned else { return true };
        let Some(step) = turned.member.next() else { return true };
        let done = match step {
            Step::Learn(listed) => {
                let removed = turned.standby.learn(&listed);
                if let (Some(sharing), true) = (&self.shared.sharing, removed > 0) {
                    sharing.connect();
                }
                self.source.done.fetch_add(removed, Ordering::Release);
                true
            }
            Step::Write(takeover) => self.take_over(&takeover, now),
            Step::Stand(scope) => {
                self.stop_writing(scope);
                true
            }
            Step::Spread(count, numbers) => {
                self.rows.begin(Numbers::clone(&numbers));
                self.spread(count as usize, now);
                true
            }
        };
        if let Some(turned) = &mut self.turned {
            turned.member.carried_out();
        }
        done
    }

    /// Writes the samples that the store does not have.
    fn take_over(&mut self, takeover: &Takeover, now: Now) -> bool {
        self.rows.begin(takeover.numbers.clone());
        let Some(turned) = &mut self.turned else { return true };
        let scope = takeover.scope;
        let shards: Vec<usize> = (0..turned.writing.len()).filter(|shard| scope.has(*shard)).collect();
        for shard in &shards {
            (turned.writing[*shard], turned.until[*shard]) = (true, None);
        }
        let (waiting, dropped) = turned.standby.take(scope);
        let mut unknown = 0;
        for waits in &waiting {
            match waits.identity {
                Some(Identity::Number(publisher, number)) => {
                    takeover.missing.lock().remove(publisher, number, number);
                }
                Some(Identity::Stamp(_)) => {}
                Some(Identity::Content(_)) | None => unknown += 1,
            }
        }
        let home =
            if scope == Scope::All { self.shard } else { shards.first().copied().unwrap_or(self.shard) };
        let offset = self.shared.shards[home].lock().next_offset();
        if scope == Scope::All {
            self.gaps.retain(|gap| gap.kind == "drop");
            self.gaps.iter_mut().for_each(|gap| gap.offset = offset);
        }
        let gap = |kind, count, detail: &str| Gap {
            shard: home as u32,
            offset,
            kind,
            count: Some(count),
            time: wall_micros(now),
            detail: format!("{}: {detail}", self.source.name),
            ..Gap::default()
        };
        let gaps = [
            ("drop", dropped, "samples that the spooler before has not stored no longer had room here"),
            ("duplicate", unknown, "samples without number and time; some may be stored twice"),
        ];
        let gaps: Vec<Gap> = gaps
            .into_iter()
            .filter(|(_, count, _)| *count > 0)
            .map(|(kind, count, detail)| gap(kind, count, detail))
            .collect();
        gaps.into_iter().for_each(|gap| self.add_gap(gap));
        let written = self.append(waiting.iter().map(|waits| (&waits.item, waits.time)));
        self.tell_misses(true, now);
        if let Some(turned) = &mut self.turned {
            shards.iter().for_each(|shard| turned.until[*shard] = Some(now.mono + LATE));
        }
        self.due = Some(now.mono);
        written
    }

    /// Gives the samples that wait the shards of their keys among another number of shards.
    fn spread(&mut self, count: usize, now: Now) {
        let (rows, by_hash) = (&self.rows, self.shared.by_hash);
        let Some(turned) = self.turned.as_mut().filter(|turned| by_hash && turned.count != count) else {
            return;
        };
        turned.standby.spread(|item| Rule::hash(rows.key(item), count));
        turned.before = Some((turned.count, now.mono + 2 * LATE));
        turned.count = count;
        if let Some(homes) = &mut turned.homes {
            homes.clear();
            let found = turned.standby.items();
            homes.extend(
                found.filter_map(|(item, shard)| Some((rows.publisher(item)?, shard))).take(MAX_SOURCES),
            );
        }
    }

    /// Whether a spooler has written a sample before the number of shards has changed.
    fn was_spread(
        turned: &mut Turned<R::Item>,
        key: &str,
        identity: Option<Identity>,
        now: Duration,
    ) -> bool {
        let Some((count, until)) = turned.before else { return false };
        if now > until {
            turned.before = None;
            turned.standby.forget_before();
            return false;
        }
        turned.standby.had(Rule::hash(key, count), identity)
    }

    /// Forgets rows that no longer belong to this spooler.
    fn stop_writing(&mut self, scope: Scope) {
        let Some(turned) = &mut self.turned else { return };
        let writing = turned.writing.iter_mut().enumerate().filter(|(shard, _)| scope.has(*shard));
        writing.for_each(|(_, writing)| *writing = false);
        let (told, left): (Vec<Gap>, Vec<Gap>) =
            core::mem::take(&mut self.gaps).into_iter().partition(|gap| scope.has(gap.shard as usize));
        self.gaps = left;
        if scope != Scope::All {
            // A shard that is given back is still held: its rows of the log of gaps come into the store before that.
            self.shared.tell(&told, self.shared.clock.micros());
        }
        if scope == Scope::All {
            turned.standby.forget();
        } else if !turned.is_idle() {
            return;
        }
        self.due = None;
        // They are not readable, and will not be.
        self.source.done.fetch_add(core::mem::take(&mut self.unseen), Ordering::Release);
    }

    /// Whether the spooler before has written a sample that arrives after the takeover.
    pub(super) fn was_written(&mut self, item: &R::Item, shard: usize) -> bool {
        let Some(turned) = &mut self.turned else { return false };
        if turned.homes.is_some() {
            turned.settle(self.rows.publisher(item), shard as u32);
        }
        let (Some(sharing), Some(until)) = (&self.shared.sharing, turned.until[shard]) else { return false };
        if self.shared.clock.now().mono > until {
            turned.until[shard] = None;
            // What is known of other shards is needed as long as other spoolers write them.
            if turned.homes.is_none() {
                turned.standby.forget();
                turned.until.fill(None);
            }
            return false;
        }
        let identity = self.rows.identify(item, &sharing.recognition);
        turned.standby.has(shard as u32, identity)
            || Self::was_spread(turned, self.rows.key(item), identity, self.shared.clock.now().mono)
    }

    /// Keeps the items that have arrived until the store has them.
    pub(super) fn stand_by(&mut self, came: Result<(), RecvError>, stopping: bool, now: Now) -> Turn {
        if came.is_ok() {
            let mut items = self.queue.take_many(AT_ONCE, AT_ONCE_BYTES, usize::MAX);
            self.keep_others(&mut items, now);
            self.queue.give_back(items);
        }
        self.rows.stand_by();
        self.count_drops(wall_micros(now));
        if came.is_err() {
            // Nothing becomes readable here.
            self.shared.hurry.store(false, Ordering::Release);
        }
        if matches!(came, Err(RecvError::Closed)) || stopping && came.is_err() {
            Turn::Ended
        } else {
            Turn::Again
        }
    }

    /// Takes out the items of shards that other spoolers write, and keeps them until the store has them.
    pub(super) fn keep_others(&mut self, items: &mut VecDeque<R::Item>, now: Now) {
        let shared = self.shared.clone();
        let (Some(sharing), Some(turned)) = (&shared.sharing, &mut self.turned) else { return };
        if !turned.writing.contains(&false) {
            return;
        }
        let count = turned.count;
        let mut done = 0;
        let mut ours = VecDeque::new();
        for mut item in items.drain(..) {
            if !self.rows.is_ours(&item) {
                done += 1;
                continue;
            }
            let key = self.rows.key(&item);
            let by_hash = shared.by_hash && count > 1;
            let shard = if by_hash { Rule::hash(key, count) } else { self.shard as u32 };
            if turned.writes(shard as usize) {
                ours.push_back(item);
                continue;
            }
            if turned.homes.is_some() {
                turned.settle(self.rows.publisher(&item), shard);
            }
            let identity = self.rows.identify(&item, &sharing.recognition);
            if turned.standby.has(shard, identity) || Self::was_spread(turned, key, identity, now.mono) {
                done += 1;
                continue;
            }
            R::detach(&mut item);
            let weight = item.weight();
            done += turned.standby.push(shard, item, identity, (wall_micros(now), weight));
        }
        *items = ours;
        self.source.done.fetch_add(done, Ordering::Release);
    }
}
