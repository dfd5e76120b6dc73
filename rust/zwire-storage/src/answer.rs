//! Thread of a storage that answers queries.

use crate::{
    error::{Error, Result},
    rules::Value,
    shared::Shared,
    volume::{History, Past},
};
use core::{sync::atomic::Ordering, time::Duration};
use std::sync::Arc;
use zwire_engine::{Query, Queue, clock, runtime};
use zwire_proto::zenoh::{
    Encoding, KeyExpr, Parameters, TimeRange, Timestamp,
    session::{QueryReply, QueryReplyBody, ReplyError},
    wire::{Del, PushBody, Put},
};

/// Parameter of a query that is answered when everything published before it is durable.
pub const DURABLE: &str = "_durable";

/// Longest wait for samples that came before the query. A volume that fails answers with its last state.
const VISIBLE: Duration = Duration::from_secs(1);

/// Longest wait for the commit that a query with [`DURABLE`] asks for: the default timeout of a get.
const COMMITTED: Duration = Duration::from_secs(10);

/// Wildcard queries that are answered at the same time, each with one page in memory. A further one waits, and with it
/// those behind it.
const STREAMS: usize = 16;

/// Takes queries until their queue ends.
pub(crate) fn run(shared: &Arc<Shared>, queries: &Queue<Query>) {
    while let Ok(query) = queries.recv(None, &mut || false) {
        if !shared.is_stopping() {
            take(shared, query);
        } else if is_durable(&query) {
            // The end of the replies alone would tell the querier that everything is safe.
            refuse(&query, &Error::Usage("the storage is closing"));
        }
    }
}

/// Whether the end of the replies confirms what came before.
fn is_durable(query: &Query) -> bool {
    Parameters::new(query.parameters.clone()).contains(DURABLE)
}

/// Place of a query that is being answered.
struct Busy(Arc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers a query: one key here, and several in a thread for blocking work.
fn take(shared: &Arc<Shared>, query: Query) {
    shared.counters.queries.fetch_add(1, Ordering::Relaxed);
    let is_long = query.key.is_wild()
        || is_durable(&query)
        || Parameters::new(query.parameters.clone()).contains(Parameters::TIME);
    let place = Busy(shared.clone());
    let number = shared.streams.fetch_add(1, Ordering::AcqRel);
    let work = move || {
        answer(&place.0, &query);
        // The final reply goes out before the place is free.
        drop(query);
        drop(place);
    };
    if is_long
        && number < STREAMS
        && let Ok(runtime) = runtime::handle()
    {
        runtime.spawn_blocking(work);
        return;
    }
    work();
}

fn answer(shared: &Shared, query: &Query) {
    if let Err(error) = Answer::new(shared, query).and_then(|answer| answer.give())
        && (!matches!(error, Error::Session(_)) || is_durable(query))
    {
        refuse(query, &error);
    }
}

/// Replies with an error.
fn refuse(query: &Query, error: &Error) {
    let payload = error.to_string().into_bytes();
    let error = ReplyError { encoding: Encoding::TEXT_PLAIN, payload: payload.into(), stamps: None };
    let reply = QueryReply { body: QueryReplyBody::Err(error), express: None, stamps: None };
    // The reply fails if the querier is gone or the session closed; no reply is needed then.
    let _ = query.reply(reply, &mut || false);
}

struct Answer<'a> {
    shared: &'a Shared,
    query: &'a Query,
    times: Option<TimeRange<Duration>>,
}

impl<'a> Answer<'a> {
    /// Waits for updates before the query.
    fn new(shared: &'a Shared, query: &'a Query) -> Result<Self> {
        let parameters = Parameters::new(query.parameters.clone());
        let times = parameters
            .time_range()
            .map_err(|error| Error::Setting { path: "_time".to_owned(), problem: error.to_string() })?;
        if parameters.contains(DURABLE) {
            // The end of the storage ends the wait, too: then everything is durable, or will never be.
            shared.flush(COMMITTED, &mut || false)?;
        } else {
            shared.wait_visible(VISIBLE);
        }
        Ok(Self { shared, query, times: times.map(|times| times.resolve(clock::now().wall)) })
    }

    fn give(&self) -> Result<()> {
        let Shared { place, store, .. } = self.shared;
        let asked = &self.query.key;
        if let Some(times) = self.times
            && store.capability().history == History::All
        {
            return self.give_past(times);
        }
        if !asked.is_wild() {
            let found = place.strip(asked).map(|key| store.get(key)).transpose()?.flatten();
            return found.map_or(Ok(()), |(stamp, value)| self.reply(asked.clone(), stamp, value));
        }
        let span = place.span(asked);
        let wanted = |stored: &str| place.restore_of(stored, asked).is_some();
        let mut after: Option<String> = None;
        loop {
            let page = store.page(&span, after.as_deref(), &wanted)?;
            for found in page.found {
                self.reply(place.restore(&found.key)?, found.stamp, found.value)?;
            }
            page.damaged.iter().for_each(|error| refuse(self.query, error));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Sends a value if its time is wanted. Waits while the querier takes no more.
    fn reply(&self, key: KeyExpr, stamp: Timestamp, value: Value) -> Result<()> {
        if self.times.is_some_and(|times| !times.contains_ntp64(stamp.time)) {
            return Ok(());
        }
        let Value { payload, encoding, attachment } = value;
        let put = Put { timestamp: Some(stamp), encoding, attachment, ..Put::new(payload) };
        self.send(key, PushBody::Put(put))
    }

    /// Sends each update of a time.
    fn give_past(&self, times: TimeRange<Duration>) -> Result<()> {
        let Shared { place, store, .. } = self.shared;
        store.past(place, &self.query.key, times, &mut |Past { key, stamp, value }| {
            let key = place.restore(&key)?;
            match value {
                Some(value) => self.reply(key, stamp, value),
                None => self.send(key, PushBody::Del(Del { timestamp: Some(stamp), ..Del::default() })),
            }
        })
    }

    fn send(&self, key: KeyExpr, body: PushBody) -> Result<()> {
        let body = QueryReplyBody::Sample { key, body };
        let reply = QueryReply { body, express: None, stamps: None };
        self.query.reply(reply, &mut || self.shared.is_stopping())?;
        self.shared.counters.replies.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
