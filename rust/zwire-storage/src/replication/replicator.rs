//! [`Replicator`]: threads that publish digests, fetch events, and answer the queries of replicas.

use crate::{
    error::{Error, Result},
    replication::{
        aligner_key,
        answer::Source,
        digest_key,
        inlet::Replica,
        log::EventLog,
        pull::{Pull, Sink},
        wire::{AlignQuery, AlignReply, Difference, Digest},
    },
    rules::Value,
    shared::Shared,
};
use core::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::sync::Arc;
use twox_hash::XxHash3_64;
use zwire_engine::{Full, Handler, Query, Queue, RecvError, Session, clock, runtime};
use zwire_proto::zenoh::{
    KeyExpr, Ntp64, ZenohId,
    session::{
        EntityId, Get, GetEnd, Locality, Publication, QueryReply, QueryReplyBody, QueryableOptions, Reply,
        Sample, SubscriberOptions,
    },
    wire::{Consolidation, PushBody, Put, QueryTarget},
};

/// Replicas whose digest waits: a newer one of a replica takes the place of its earlier one.
const DIGESTS: usize = 64;

/// Queries of replicas that wait.
const QUERIES: usize = 256;

/// Queries of replicas that are answered at the same time.
const STREAMS: usize = 4;

/// Replies that wait; those that do not fit are asked for again.
const REPLIES: usize = 4096;

/// Longest answer to one query, at either side.
const ANSWER: Duration = Duration::from_secs(30);

/// Longest turn of one replica: the thread serves one at a time, and a slow one must not keep the others from theirs. What
/// came stays, and the next digest goes on from there.
const TURN: Duration = Duration::from_secs(180);

/// Most queries of one pull: others have their turn after that.
const QUERIES_OF_PULL: usize = 100_000;

/// Most pulls from one replica in a row.
const PULLS: usize = 64;

/// Time between two warnings of a kind: a replica that is wrong is wrong each interval.
const WARNING: Duration = Duration::from_secs(60);

/// End of the replies to a query.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answered {
    /// Every reply has come.
    Whole,
    /// Replies are missing.
    Partly,
    /// The time passed before the first reply.
    Silent,
}

/// Replication of one storage.
pub(crate) struct Replicator {
    shared: Arc<Shared>,
    session: Session,
    /// Age at which deletes are forgotten.
    lifespan: Duration,
    fingerprint: u64,
    zid: String,
    streams: AtomicUsize,
    warned: Mutex<Option<Duration>>,
}

/// Answer to a replica that is under way; its place is free at the end, also after a panic.
struct Stream(Arc<Replicator>);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Names of threads, and their work.
pub(crate) type Threads = [(&'static str, Box<dyn FnOnce() + Send>); 3];

impl Replicator {
    /// Declares what replicas need. Returns it, and the work of the threads.
    ///
    /// # Errors
    /// The session is closed.
    pub(crate) fn start(
        session: &Session,
        shared: &Arc<Shared>,
        fingerprint: u64,
        lifespan: Duration,
    ) -> Result<([EntityId; 2], Threads)> {
        let zid = session.zid().to_string();
        let (all, own) = (digest_key("*", fingerprint), aligner_key(&zid, fingerprint));
        let (Ok(all), Ok(own)) = (all, own) else {
            return Err(Error::Usage("the keys of the replication are no keys"));
        };
        let options = SubscriberOptions { origin: Locality::Remote };
        let handler = Handler::Channel(DIGESTS, Full::Latest);
        let (subscriber, digests) = session.declare_subscriber(all, options, handler)?;
        let options = QueryableOptions { complete: false, origin: Locality::Remote };
        let handler = Handler::Channel(QUERIES, Full::DropNewest);
        let (queryable, queries) = session.declare_queryable(own, options, handler)?;
        let replicator = Arc::new(Self {
            shared: shared.clone(),
            session: session.clone(),
            lifespan,
            fingerprint,
            zid,
            streams: AtomicUsize::new(0),
            warned: Mutex::new(None),
        });
        let [publisher, puller, answerer] = [(); 3].map(|()| replicator.clone());
        Ok((
            [subscriber, queryable],
            [
                ("zwire-storage-digest", Box::new(move || publisher.publish())),
                ("zwire-storage-align", Box::new(move || puller.fetch(&digests))),
                ("zwire-storage-serve", Box::new(move || answerer.serve(&queries))),
            ],
        ))
    }

    fn stops(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Runs work on the state of the replica; a storage without one has no replicator.
    fn replica(&self) -> Result<&Replica> {
        self.shared.replica.as_ref().ok_or(Error::Usage("the storage has no replicas"))
    }

    fn present(&self, log: &EventLog) -> u64 {
        log.settings().interval_of(clock::now().wall)
    }

    /// Warns, at most once in a while.
    fn warn(&self, replica: &str, problem: &str) {
        let now = clock::mono();
        let mut warned = self.warned.lock();
        if warned.is_none_or(|warned| now >= warned + WARNING) {
            *warned = Some(now);
            tracing::warn!(storage = self.shared.name, replica, problem, "what a replica sent is not taken");
        }
    }

    fn malformed(&self, replica: &str, problem: &str) {
        self.shared.counters.malformed.fetch_add(1, Ordering::Relaxed);
        self.warn(replica, problem);
    }

    /// Publishes a digest in each interval.
    fn publish(&self) {
        let Ok(replica) = self.replica() else { return };
        let Ok(key) = digest_key(&self.zid, self.fingerprint) else { return };
        if !replica.inlet.wait_open(&|| self.stops()) {
            return;
        }
        let settings = *replica.log.read().settings();
        loop {
            let wall = clock::now().wall;
            let next = settings.interval_of(wall).saturating_add(1);
            let boundary = Duration::from_millis(next.saturating_mul(settings.millis()));
            if !self.rest(boundary.saturating_sub(wall) + settings.delay) {
                return;
            }
            let digest = {
                let log = replica.log.read();
                log.digest(self.present(&log))
            };
            // Replicas publish at different times, always the same within an interval.
            let spread = XxHash3_64::oneshot(format!("{} {next}", self.zid).as_bytes()) % 1000;
            if !self.rest(settings.interval / 3000 * u32::try_from(spread).unwrap_or(0)) {
                return;
            }
            let put = PushBody::Put(Put::new(digest.encode()));
            match self.session.put(Publication::new(key.clone(), put), &mut || self.stops()) {
                Ok(_) => self.shared.counters.digests.fetch_add(1, Ordering::Relaxed),
                // The session is closed, or the next digest is sent.
                Err(_) => 0,
            };
        }
    }

    /// Waits; false if the storage ends.
    fn rest(&self, time: Duration) -> bool {
        let end = clock::mono() + time;
        while !self.stops() {
            let left = end.saturating_sub(clock::mono());
            if left.is_zero() {
                return true;
            }
            let Ok(replica) = self.replica() else { return false };
            replica.bell.wait(left);
        }
        false
    }

    /// Compares the digests of replicas with the log, and fetches what differs.
    fn fetch(&self, digests: &Queue<Sample>) {
        let Ok(replica) = self.replica() else { return };
        if !replica.inlet.wait_open(&|| self.stops()) {
            return;
        }
        self.greet(replica);
        let settings = *replica.log.read().settings();
        loop {
            let sample = match digests.recv(None, &mut || self.stops()) {
                Ok(sample) => sample,
                Err(RecvError::Closed | RecvError::Interrupted) => return,
                Err(_) => continue,
            };
            let zid = sample.key.as_str().split('/').nth(1).unwrap_or_default().to_owned();
            match Digest::decode_bounded(&sample.payload.into_bytes(), &settings) {
                Ok(digest) if digest.settings == self.fingerprint => {
                    let differs = |log: &EventLog| log.difference(&digest, self.present(log));
                    self.align(replica, &zid, &differs);
                }
                Ok(_) => self.malformed(&zid, "its digest is of other settings than its key"),
                Err(flaw) => self.malformed(&zid, flaw),
            }
        }
    }

    /// Fetches everything from one replica, if the storage starts without any events.
    fn greet(&self, replica: &Replica) {
        if !replica.log.read().is_empty() || !self.rest_for_links() {
            return;
        }
        let Ok(all) = aligner_key("*", self.fingerprint) else { return };
        let mut first = None;
        let asked = self.ask(all, &AlignQuery::Discovery, |reply, _| {
            if let AlignReply::Discovery(zid) = reply
                && zid.parse::<ZenohId>().is_ok_and(|zid| zid != self.session.zid())
            {
                first.get_or_insert(zid);
            }
            Ok(())
        });
        if asked.is_ok()
            && let Some(zid) = first
        {
            self.align(replica, &zid, &|log| log.everything(self.present(log)));
        }
    }

    /// Waits for links as a node does at its start. The bell is that of another thread.
    fn rest_for_links(&self) -> bool {
        let end = clock::mono() + self.session.config().scouting.delay;
        while clock::mono() < end && !self.stops() {
            std::thread::sleep(Duration::from_millis(20));
        }
        !self.stops()
    }

    /// Fetches from a replica until nothing differs, or a fetch brings nothing.
    fn align(&self, replica: &Replica, zid: &str, differs: &dyn Fn(&EventLog) -> Difference) {
        if zid.parse::<ZenohId>().is_err() {
            return self.malformed(zid, "its key has no id of a session");
        }
        let end = clock::mono() + TURN;
        for _ in 0..PULLS {
            let difference = differs(&replica.log.read());
            if difference.is_empty() {
                return;
            }
            self.shared.counters.differences.fetch_add(1, Ordering::Relaxed);
            let mut pull = Pull::new(difference);
            let before = self.shared.counters.aligned.load(Ordering::Relaxed);
            let done = self.pull(replica, zid, &mut pull, end);
            let rejected = pull.rejected;
            let counters = &self.shared.counters;
            counters.malformed.fetch_add(rejected.strange, Ordering::Relaxed);
            counters.ahead.fetch_add(rejected.ahead, Ordering::Relaxed);
            if let Some(flaw) = rejected.flaw {
                self.warn(zid, flaw);
            } else if rejected.ahead > 0 {
                self.warn(
                    zid,
                    "its events are ahead of the clock here: they are taken when their time has come",
                );
            }
            let came = counters.aligned.load(Ordering::Relaxed) - before;
            if came > 0 {
                tracing::debug!(
                    storage = self.shared.name,
                    replica = zid,
                    came,
                    "updates of a replica are applied"
                );
            }
            if let Err(error) = done {
                if !self.stops() {
                    tracing::debug!(storage = self.shared.name, replica = zid, %error, "a replica did not answer to its end");
                }
                return;
            }
            if !pull.is_cut() || came == 0 {
                return;
            }
        }
    }

    fn pull(&self, replica: &Replica, zid: &str, pull: &mut Pull, end: Duration) -> Result<()> {
        let key = aligner_key(zid, self.fingerprint).map_err(|_| Error::Usage("a replica has no key"))?;
        let drift = self.session.config().timestamping.max_drift;
        for _ in 0..QUERIES_OF_PULL {
            let Some(query) = pull.next_query() else { return Ok(()) };
            let wall = clock::now().wall;
            let sink = Sink {
                log: &replica.log,
                store: &*self.shared.store,
                place: &self.shared.place,
                oldest: Ntp64::from_duration(wall.saturating_sub(self.lifespan)).unwrap_or(Ntp64::MAX),
                latest: Ntp64::from_duration(wall.saturating_add(drift)).unwrap_or(Ntp64::MAX),
            };
            if clock::mono() >= end {
                return Err(Error::Usage("its turn took 180 s: the other replicas have theirs now"));
            }
            let answered = self.ask(key.clone(), &query, |reply, value| {
                pull.take(reply, value, &sink, &mut |update| {
                    if !replica.inlet.push(update, &|| self.stops()) {
                        return Err(Error::Usage("the storage is closed"));
                    }
                    self.shared.counters.aligned.fetch_add(1, Ordering::Relaxed);
                    self.shared.bell.ring();
                    Ok(())
                })
            })?;
            match answered {
                Answered::Whole => {}
                Answered::Partly => pull.cut(),
                Answered::Silent => return Err(Error::Usage("it gave no reply within 30 s")),
            }
            if !replica.inlet.wait_done(&|| self.stops()) {
                return Ok(());
            }
        }
        pull.cut();
        Ok(())
    }

    /// Asks a replica. Returns how its replies ended.
    fn ask(
        &self,
        key: KeyExpr,
        query: &AlignQuery,
        mut each: impl FnMut(AlignReply, Value) -> Result<()>,
    ) -> Result<Answered> {
        let get = Get {
            target: QueryTarget::All,
            consolidation: Consolidation::None,
            timeout: Some(ANSWER),
            attachment: Some(query.encode().into()),
            destination: Locality::Remote,
            ..Get::new(key)
        };
        let handler = Handler::Channel(REPLIES, Full::DropNewest);
        let (id, replies) = self.session.get(get, handler, &mut || self.stops())?;
        let mut silent = true;
        loop {
            match replies.queue.recv(None, &mut || self.stops()) {
                Ok(reply) => {
                    // The end of the time is an error reply.
                    silent &= reply.result.is_err();
                    if let Err(error) = self.take(reply, &mut each) {
                        // The rest is not waited for.
                        let _ = self.session.cancel(id);
                        return Err(error);
                    }
                }
                Err(RecvError::Closed) => {
                    return Ok(match replies.done.get() {
                        Some(GetEnd::Completed) if replies.queue.dropped() == 0 => Answered::Whole,
                        Some(GetEnd::TimedOut) if silent => Answered::Silent,
                        _ => Answered::Partly,
                    });
                }
                Err(_) => {
                    let _ = self.session.cancel(id);
                    return Err(Error::Usage("the storage is closed"));
                }
            }
        }
    }

    fn take(&self, reply: Reply, each: &mut impl FnMut(AlignReply, Value) -> Result<()>) -> Result<()> {
        let Ok(sample) = reply.result else { return Ok(()) };
        let replier = sample.key.as_str().split('/').nth(1).unwrap_or_default();
        let Some(attachment) = &sample.attachment else {
            self.malformed(replier, "its reply has no attachment");
            return Ok(());
        };
        match AlignReply::decode(attachment) {
            Ok(decoded) => {
                let payload = sample.payload.into_bytes();
                each(decoded, Value { payload, encoding: sample.encoding, attachment: None })
            }
            Err(flaw) => {
                self.malformed(replier, flaw);
                Ok(())
            }
        }
    }

    /// Answers the queries of replicas.
    fn serve(self: &Arc<Self>, queries: &Queue<Query>) {
        let Ok(replica) = self.replica() else { return };
        if !replica.inlet.wait_open(&|| self.stops()) {
            return;
        }
        while let Ok(query) = queries.recv(None, &mut || self.stops()) {
            // Queries without an attachment are none of a replica.
            let Some(attachment) = &query.attachment else { continue };
            let asked = match AlignQuery::decode(attachment) {
                Ok(asked) => asked,
                Err(flaw) => {
                    self.malformed("unknown", flaw);
                    continue;
                }
            };
            let stream = Stream(self.clone());
            let number = self.streams.fetch_add(1, Ordering::AcqRel);
            let work = move || {
                stream.0.reply(&query, asked);
                // The final reply goes out before the place is free.
                drop(query);
                drop(stream);
            };
            match runtime::handle() {
                Ok(runtime) if number < STREAMS => drop(runtime.spawn_blocking(work)),
                _ => work(),
            }
        }
    }

    fn reply(&self, query: &Query, asked: AlignQuery) {
        let Ok(replica) = self.replica() else { return };
        let present = self.present(&replica.log.read());
        let end = clock::mono() + ANSWER;
        let goes_on = || !self.stops() && clock::mono() < end;
        let source = Source {
            log: &replica.log,
            store: &*self.shared.store,
            present,
            zid: &self.zid,
            goes_on: &goes_on,
        };
        let given = source.answer(asked, &mut |reply, value| {
            let Value { payload, encoding, .. } = value.unwrap_or_default();
            let put = Put { encoding, attachment: Some(reply.encode().into()), ..Put::new(payload) };
            let body = QueryReplyBody::Sample { key: query.key.clone(), body: PushBody::Put(put) };
            let reply = QueryReply { body, express: None, stamps: None };
            query.reply(reply, &mut || !goes_on())?;
            if clock::mono() >= end {
                return Err(Error::Usage("the replica takes its replies too slowly"));
            }
            Ok(())
        });
        if let Err(error) = given
            && !self.stops()
        {
            tracing::debug!(storage = self.shared.name, %error, "a replica did not get all replies");
        }
    }
}
