//! [`Outbound`]: keeps a connection to one endpoint, and reconnects.

use super::{
    CloseReason, Connection, ConnectionConfig, Owner, Writing, endpoint, establish, lending::Side,
    sending::closed,
};
use crate::{error::Error, net::tcp, rt::runtime::Birth};
use core::{fmt, time::Duration};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{runtime::Handle, sync::Notify, task::JoinHandle, time::timeout};
use zwire_proto::zmtp::link::{Message, Rejected, Security, ZmtpPushError};

/// Rules for reconnecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// First pause; used again after each established connection.
    pub first: Duration,
    /// Longest pause. Each pause is twice the one before; with a maximum below `first` all pauses equal
    /// `first`.
    pub max: Duration,
    /// Whether a random part of `first` is added to each pause, so that a fleet does not reconnect at
    /// once.
    pub jitter: bool,
    /// Whether to reconnect after a connection breaks, or is refused for good.
    pub again: bool,
}

impl Default for Reconnect {
    /// From 100 ms, as in libzmq, up to 5 s.
    fn default() -> Self {
        Self { first: Duration::from_millis(100), max: Duration::from_secs(5), jitter: true, again: true }
    }
}

impl Reconnect {
    fn delay(&self, attempt: u32) -> Duration {
        // A pause of zero would make this a busy loop.
        let first = self.first.max(Duration::from_millis(1));
        let delay = first.saturating_mul(1u32.checked_shl(attempt.min(31)).unwrap_or(u32::MAX));
        let delay = delay.min(self.max.max(first));
        // Without a random source there is no jitter.
        let part = if self.jitter { getrandom::u32().unwrap_or(0) } else { 0 };
        delay + first.mul_f64(f64::from(part) / f64::from(u32::MAX))
    }
}

/// Free capacity of a queue. The last message may exceed the remaining bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Number of messages.
    pub messages: usize,
    /// Number of bytes.
    pub bytes: usize,
}

impl Room {
    /// No bound.
    pub const MAX: Self = Self { messages: usize::MAX, bytes: usize::MAX };

    /// The capacity that both have.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { messages: self.messages.min(other.messages), bytes: self.bytes.min(other.bytes) }
    }
}

/// An endpoint to connect to, with the messages that wait for it. Dropping it closes it.
pub struct Outbound {
    inner: Arc<OutboundInner>,
}

struct OutboundInner {
    endpoint: String,
    address: String,
    runtime: Handle,
    birth: Birth,
    config: ConnectionConfig,
    reconnect: Reconnect,
    owner: Arc<dyn Owner>,
    state: Mutex<OutboundState>,
    closed: AtomicBool,
    close_wake: Notify,
}

#[derive(Default)]
struct OutboundState {
    connection: Option<Arc<Connection>>,
    /// Messages for the next connection.
    waiting: VecDeque<Message>,
    bytes: usize,
    over: bool,
}

impl Outbound {
    /// Connects to `tcp://host:port`, and reconnects until [`Self::close`].
    ///
    /// # Errors
    /// The endpoint is invalid.
    pub fn connect(
        runtime: &Handle,
        endpoint: &str,
        config: ConnectionConfig,
        reconnect: Reconnect,
        owner: Arc<dyn Owner>,
    ) -> Result<Arc<Self>, Error> {
        let inner = Arc::new(OutboundInner {
            endpoint: endpoint.to_owned(),
            address: endpoint::connect(endpoint)?,
            runtime: runtime.clone(),
            birth: Birth::here(),
            config,
            reconnect,
            owner,
            state: Mutex::default(),
            closed: AtomicBool::new(false),
            close_wake: Notify::new(),
        });
        runtime.spawn(keep_connected(inner.clone()));
        Ok(Arc::new(Self { inner }))
    }

    /// The endpoint as it was given.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.inner.endpoint
    }

    /// Queues a message for the connection, or for the next one. Never waits.
    ///
    /// # Errors
    /// The message, with the reason of the rejection.
    pub fn try_send(&self, message: Message) -> Result<(), Rejected> {
        self.try_send_many(&mut core::iter::once(message)).1.map_or(Ok(()), Err)
    }

    /// As [`Self::try_send`], but makes no system call: a connection that is returned has to be flushed by
    /// [`Connection::flush_deferred`] once the caller has released its locks.
    pub(crate) fn try_defer(
        &self,
        message: Message,
        writing: Writing,
    ) -> Result<Option<Arc<Connection>>, Rejected> {
        let Some(connection) = self.connection() else { return self.try_send(message).map(|()| None) };
        match connection.try_defer(message, writing) {
            Err(Rejected { message, error: ZmtpPushError::Closed }) => self.try_send(message).map(|()| None),
            result => result.map(|owes| owes.then_some(connection)),
        }
    }

    /// Asks [`ConnectionConfig::progress`] to be told of room.
    pub(crate) fn want_room(&self) {
        if let Some(connection) = self.connection() {
            connection.outbox.lock().backlog.want_room();
        }
    }

    /// Queues messages until one is rejected. Returns the number of accepted ones, and the rejected one.
    pub fn try_send_many(&self, messages: &mut dyn Iterator<Item = Message>) -> (usize, Option<Rejected>) {
        let inner = &self.inner;
        if !inner.birth.is_here() {
            return (0, messages.next().map(closed));
        }
        let connection = inner.state.lock().connection.clone();
        let (mut taken, mut left) = (0, None);
        if let Some(connection) = connection {
            match connection.try_send_many(messages) {
                // The connection has just ended. Its unsent messages are older, and go before this one
                // when put back.
                (n, Some(Rejected { message, error: ZmtpPushError::Closed })) => {
                    (taken, left) = (n, Some(message))
                }
                result => return result,
            }
        }
        let mut state = inner.state.lock();
        for message in left.into_iter().chain(messages) {
            match state.check(&inner.config) {
                Ok(()) => state.bytes += message.cost(),
                Err(error) => return (taken, Some(Rejected { message, error })),
            }
            state.waiting.push_back(message);
            taken += 1;
        }
        (taken, None)
    }

    /// The current connection.
    #[must_use]
    pub fn connection(&self) -> Option<Arc<Connection>> {
        self.inner.state.lock().connection.clone()
    }

    /// Number of messages that wait to be written or for a connection.
    #[must_use]
    pub fn queued(&self) -> usize {
        let state = self.inner.state.lock();
        state.waiting.len() + state.connection.as_ref().map_or(0, |connection| connection.waiting().0)
    }

    /// Free capacity of the queue.
    #[must_use]
    pub fn room(&self) -> Room {
        let state = self.inner.state.lock();
        let tx = &self.inner.config.tx;
        let (messages, bytes) = match &state.connection {
            Some(connection) => connection.waiting(),
            None => (state.waiting.len(), state.bytes),
        };
        Room { messages: tx.max_messages.saturating_sub(messages), bytes: tx.max_bytes.saturating_sub(bytes) }
    }

    /// Whether everything was passed to the system.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        let state = self.inner.state.lock();
        state.waiting.is_empty() && state.connection.as_ref().is_none_or(|connection| connection.is_flushed())
    }

    /// Drops the messages that wait for the next connection; returns their number.
    pub fn clear(&self) -> usize {
        let mut state = self.inner.state.lock();
        state.bytes = 0;
        core::mem::take(&mut state.waiting).len()
    }

    /// Whether no further attempt to connect will be made.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.inner.state.lock().over
    }

    /// Stops connecting, and closes the connection at once; queued messages are dropped.
    pub fn close(&self) {
        let inner = &self.inner;
        // A forked child must not wait for a lock that its parent may have held.
        if !inner.birth.is_here() {
            return;
        }
        inner.closed.store(true, Ordering::Release);
        let connection = {
            let mut state = inner.state.lock();
            state.give_up();
            state.connection.clone()
        };
        if let Some(connection) = connection {
            connection.close();
        }
        inner.close_wake.notify_one();
    }
}

impl OutboundState {
    fn check(&self, config: &ConnectionConfig) -> Result<(), ZmtpPushError> {
        if self.over {
            return Err(ZmtpPushError::Closed);
        }
        if self.waiting.len() >= config.tx.max_messages {
            return Err(ZmtpPushError::HighWaterMark { waiting: self.waiting.len() });
        }
        if self.bytes >= config.tx.max_bytes && self.bytes > 0 {
            return Err(ZmtpPushError::Bytes { waiting: self.bytes });
        }
        Ok(())
    }

    fn give_up(&mut self) {
        self.over = true;
        self.waiting = VecDeque::new();
        self.bytes = 0;
    }
}

impl OutboundInner {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    async fn closing(&self) {
        while !self.is_closed() {
            self.close_wake.notified().await;
        }
    }

    /// Whether the owner wants a connection to the server of the configured key.
    async fn is_permitted(&self) -> bool {
        if !matches!(self.config.handshake.security, Security::CurveClient(_)) {
            return true;
        }
        let owner = self.owner.clone();
        // A panic of the owner, or the end of the runtime, permits nothing.
        tokio::task::spawn_blocking(move || owner.permits()).await.unwrap_or(false)
    }

    async fn open(&self) -> Result<establish::ShakenStream, CloseReason> {
        let limit = self.config.handshake_timeout;
        let connecting = async {
            let mut last = CloseReason::Unresolved;
            for address in endpoint::resolve(&self.address).await? {
                match tcp::connect_to(address, |_| Ok(())).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error.into(),
                }
            }
            Err(last)
        };
        let stream = timeout(limit, connecting).await.map_err(|_| CloseReason::HandshakeTimeout(limit))??;
        let promise = || core::future::ready(Ok(()));
        establish::establish(stream, &self.config, &self.owner, Side::Connects, promise).await
    }

    /// Starts the tasks of a connection, and hands it the waiting messages. `None` if this endpoint is
    /// closed.
    fn start(
        self: &Arc<Self>,
        established: establish::ShakenStream,
    ) -> io::Result<Option<(Arc<Connection>, JoinHandle<()>)>> {
        let fresh = {
            let mut state = self.state.lock();
            if state.over {
                return Ok(None);
            }
            let waiting = core::mem::take(&mut state.waiting);
            state.bytes = 0;
            let fresh = Connection::fresh(established, &self.config, waiting)?;
            state.connection = Some(fresh.connection.clone());
            fresh
        };
        let connection = fresh.connection.clone();
        let this = self.clone();
        let task = fresh.start(&self.runtime, self.owner.clone(), move |connection| this.detach(connection));
        Ok(Some((connection, task)))
    }

    /// Handles the end of a connection: its unsent messages go to the next one.
    fn detach(&self, connection: &Connection) {
        let mut state = self.state.lock();
        state.connection = None;
        if !self.reconnect.again {
            state.give_up();
        }
        if state.over {
            return;
        }
        let mut waiting = connection.take_messages();
        state.bytes += waiting.iter().map(Message::cost).sum::<usize>();
        waiting.append(&mut state.waiting);
        state.waiting = waiting;
    }

    /// Whether to try again after a connection ended or failed for `reason`.
    fn goes_on(&self, reason: &CloseReason) -> bool {
        let mut state = self.state.lock();
        // "Fatal: close and do not retry with the same credentials" (`zmtp` 11). Failures due to the local
        // configuration are retried if `again` is set, since the other side may be reconfigured.
        let refused = reason.is_final() && (!self.reconnect.again || reason.is_told());
        if refused {
            state.give_up();
        }
        !state.over
    }
}

async fn keep_connected(inner: Arc<OutboundInner>) {
    if !inner.is_permitted().await {
        inner.state.lock().give_up();
        inner.owner.closed(None, &CloseReason::NotAllowed);
        return;
    }
    let mut attempt = 0;
    while !inner.is_closed() {
        let opened = tokio::select! {
            opened = inner.open() => opened,
            () = inner.closing() => return,
        };
        let started = opened.and_then(|established| inner.start(established).map_err(CloseReason::from));
        let goes_on = match started {
            Ok(None) => return,
            Ok(Some((connection, task))) => {
                attempt = 0;
                // Ends with the connection; a panic of the owner closes this endpoint as well.
                if task.await.is_err() {
                    connection.close();
                    return;
                }
                let reason = connection.close_reason().unwrap_or(CloseReason::Local);
                inner.reconnect.again && inner.goes_on(&reason)
            }
            Err(reason) => {
                tracing::debug!(endpoint = inner.endpoint, %reason, "not connected");
                let goes_on = inner.goes_on(&reason);
                inner.owner.closed(None, &reason);
                goes_on
            }
        };
        if !goes_on {
            return;
        }
        let delay = inner.reconnect.delay(attempt);
        attempt = attempt.saturating_add(1);
        // Either the pause is over, or the endpoint is closed.
        let _ = timeout(delay, inner.closing()).await;
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound").field("endpoint", &self.inner.endpoint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most_with_jitter() {
        let steady = Reconnect { jitter: false, max: Duration::from_secs(1), ..Reconnect::default() };
        let delays: Vec<_> = (0..6).map(|n| steady.delay(n).as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(steady.delay(u32::MAX), Duration::from_secs(1));
        // "0 = no back-off"
        let same = Reconnect { max: Duration::ZERO, ..steady };
        assert_eq!(same.delay(9), Duration::from_millis(100));
        let random = Reconnect { jitter: true, ..same };
        let delays: Vec<_> = (0..50).map(|_| random.delay(0)).collect();
        assert!(delays.iter().all(|d| (100..=200).contains(&d.as_millis())));
        assert!(delays.iter().any(|d| *d != delays[0]));
        assert!(Reconnect { first: Duration::ZERO, ..same }.delay(0) > Duration::ZERO);
    }
}
