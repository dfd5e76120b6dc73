//! [`Streams`]: one bidirectional stream, and optionally one more for each priority and direction.
//!
//! The first stream carries the handshake and the most urgent priority. With several, the unidirectional
//! stream number n carries priority n + 1; it is created by its first byte. Data that is lost or not read
//! on one stream does not delay the others.

use super::refusal::lost;
use bytes::{Buf, Bytes, BytesMut};
use core::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering},
    task::{Context, Poll, Waker},
};
use parking_lot::Mutex;
use quinn::{Connection, ConnectionError, ReadError, RecvStream, SendStream, WriteError};
use std::{collections::VecDeque, io, sync::Arc, task::Wake};
use tokio::sync::Notify;
use zwire_proto::zenoh::Priority;

/// Initial limit of unacknowledged bytes; later it is the congestion window plus the room of the link.
pub(super) const SEND_WINDOW: u64 = 128 * 1024;

/// Most bytes of one read.
const READ: usize = 256 * 1024;

/// Most parts of one write.
const PARTS: usize = 64;

/// Wakes the task that waits for a connection.
#[derive(Default)]
pub(super) struct StreamSignal(Notify);

impl StreamSignal {
    pub(super) async fn raised(&self) {
        self.0.notified().await;
    }
}

impl Wake for StreamSignal {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

/// Direction of a connection; raises its signal when a pending operation may continue.
pub(super) struct Direction {
    pub(super) signal: Arc<StreamSignal>,
    waker: Waker,
}

impl Direction {
    fn new() -> Self {
        let signal = Arc::new(StreamSignal::default());
        Self { waker: signal.clone().into(), signal }
    }

    /// Polls a future once; if it is pending, the signal is raised when to poll again.
    fn poll<F: Future>(&self, future: F) -> Option<F::Output> {
        poll_once(&self.waker, future)
    }
}

pub(super) fn poll_once<F: Future>(waker: &Waker, future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

struct StreamSender {
    stream: SendStream,
    finished: bool,
}

impl StreamSender {
    /// Finishes the stream: nothing more will be written.
    fn finish(&mut self) {
        if !core::mem::replace(&mut self.finished, true) {
            // Fails if the connection is lost; then there is nothing to wait for.
            let _ = self.stream.finish();
        }
    }
}

/// Receiving side of a stream.
struct Inlet {
    stream: RecvStream,
    /// Beginning of an incomplete batch.
    partial: BytesMut,
    ended: bool,
}

/// Result of a read.
pub(super) enum End {
    /// There may be more.
    Open,
    /// The other side has finished the stream.
    Closed,
    Lost(io::Error),
}

pub(super) struct Streams {
    connection: Connection,
    pub(super) sending: Direction,
    pub(super) receiving: Direction,
    /// Senders by priority, or a single one.
    send: Vec<Mutex<StreamSender>>,
    /// Receivers by priority, as far as they exist.
    receive: Mutex<[Option<Inlet>; Priority::COUNT]>,
    /// Whether only complete batches are returned, because they come from several streams.
    whole: AtomicBool,
    /// Whether the handshake is over, so that the other streams are used.
    open: AtomicBool,
    /// Whether the last write found no room.
    full: AtomicBool,
    /// Stream of the last write, and a bit for each stream that was written to.
    last: AtomicU8,
    used: AtomicU8,
    /// Whether the next byte waits until everything before it has arrived.
    held: AtomicBool,
    /// Bytes that may wait in addition to those in flight.
    room: AtomicU32,
    /// Send window last set for the connection.
    window: AtomicU64,
}

impl Streams {
    /// With `multistream`, opens the unidirectional streams; `None` if the other side does not allow them.
    pub(super) fn new(
        connection: &Connection,
        (send, receive): (SendStream, RecvStream),
        multistream: bool,
        datagrams: bool,
    ) -> Result<Option<Self>, ConnectionError> {
        let receiving = Direction::new();
        let mut all = vec![Mutex::new(StreamSender { stream: send, finished: false })];
        if multistream {
            for priority in 1..Priority::COUNT {
                let Some(stream) = receiving.poll(connection.open_uni()).transpose()? else {
                    return Ok(None);
                };
                // QUIC prefers larger numbers. The call cannot fail for a stream that was just opened.
                let _ = stream.set_priority(i32::try_from(priority).map_or(0, |priority| -priority));
                all.push(Mutex::new(StreamSender { stream, finished: false }));
            }
        }
        let mut inlets = [const { None }; Priority::COUNT];
        inlets[0] = Some(Inlet { stream: receive, partial: BytesMut::new(), ended: false });
        Ok(Some(Self {
            connection: connection.clone(),
            sending: Direction::new(),
            receiving,
            send: all,
            receive: Mutex::new(inlets),
            whole: AtomicBool::new(multistream || datagrams),
            open: AtomicBool::new(false),
            full: AtomicBool::new(false),
            last: AtomicU8::new(0),
            used: AtomicU8::new(0),
            held: AtomicBool::new(false),
            #[allow(clippy::cast_possible_truncation, reason = "128 KiB")]
            room: AtomicU32::new(SEND_WINDOW as u32),
            window: AtomicU64::new(SEND_WINDOW),
        }))
    }

    /// Whether each priority has its own stream.
    pub(super) fn is_multistream(&self) -> bool {
        self.send.len() > 1
    }

    /// Marks the end of the handshake.
    pub(super) fn open(&self) {
        self.open.store(true, Ordering::Release);
        self.used.store(0, Ordering::Relaxed);
        // The other streams may have data already.
        self.receiving.waker.wake_by_ref();
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Switches to low-latency mode: prefixes are wider, and the bytes of the only stream are returned as they come.
    pub(super) fn set_low_latency(&self) {
        self.whole.store(false, Ordering::Release);
    }

    /// Appends available batches, the most urgent first.
    pub(super) fn read(&self, buf: &mut BytesMut) -> End {
        let mut inlets = self.receive.lock();
        let whole = self.whole.load(Ordering::Acquire);
        if !whole {
            let Some(inlet) = &mut inlets[0] else { return End::Closed };
            buf.extend_from_slice(&inlet.partial.split());
            return self.read_stream(inlet, buf);
        }
        let several = self.is_multistream() && self.open.load(Ordering::Acquire);
        if several {
            self.accept(&mut inlets[..]);
        }
        let before = buf.len();
        let mut end = End::Open;
        let streams = if several { &mut inlets[..] } else { &mut inlets[..1] };
        for (index, inlet) in streams.iter_mut().enumerate() {
            let Some(inlet) = inlet.as_mut().filter(|inlet| !inlet.ended) else { continue };
            let start = buf.len();
            buf.extend_from_slice(&inlet.partial.split());
            match self.read_stream(inlet, buf) {
                End::Open => {}
                // The result of the first stream is returned when the others have no data left.
                other if index == 0 => end = other,
                _ => inlet.ended = true,
            }
            let tail = start + whole_batches(&buf[start..]);
            inlet.partial.extend_from_slice(&buf[tail..]);
            buf.truncate(tail);
            if buf.len() - before >= READ {
                break;
            }
        }
        if buf.len() > before { End::Open } else { end }
    }

    /// Accepts the streams that the other side has opened.
    fn accept(&self, inlets: &mut [Option<Inlet>]) {
        while inlets.iter().any(Option::is_none) {
            // A failure shows up on the first stream as well.
            let Some(Ok(stream)) = self.receiving.poll(self.connection.accept_uni()) else { break };
            self.adopt(inlets, stream);
        }
    }

    fn adopt(&self, inlets: &mut [Option<Inlet>], stream: RecvStream) {
        let priority = stream.id().index() + 1;
        let place = usize::try_from(priority).ok().and_then(|priority| inlets.get_mut(priority));
        if let Some(place @ None) = place {
            *place = Some(Inlet { stream, partial: BytesMut::new(), ended: false });
        }
    }

    fn read_stream(&self, inlet: &mut Inlet, buf: &mut BytesMut) -> End {
        let before = buf.len();
        while buf.len() - before < READ {
            match self.receiving.poll(inlet.stream.read_chunk(READ, true)) {
                Some(Ok(Some(chunk))) => buf.extend_from_slice(&chunk.bytes),
                // Return the data first; the next call returns the end or error.
                Some(_) if buf.len() > before => break,
                Some(Ok(None)) => return End::Closed,
                Some(Err(ReadError::ConnectionLost(ConnectionError::ApplicationClosed(_)))) => {
                    return End::Closed;
                }
                Some(Err(ReadError::ConnectionLost(error))) => return End::Lost(lost(error)),
                Some(Err(error)) => return End::Lost(io::Error::other(error)),
                None => break,
            }
        }
        End::Open
    }

    /// Returns when a read may succeed.
    pub(super) async fn readable(&self) {
        let missing = self.is_multistream()
            && self.open.load(Ordering::Acquire)
            && self.receive.lock().iter().any(Option::is_none);
        tokio::select! {
            () = self.receiving.signal.raised() => {}
            // The signal is not raised by a stream that has not been accepted yet.
            stream = self.connection.accept_uni(), if missing => {
                if let Ok(stream) = stream {
                    self.adopt(&mut self.receive.lock()[..], stream);
                }
            }
        }
    }

    /// Writes as much as the stream of `outlet` takes: true when all is written.
    pub(super) fn write(
        &self,
        outlet: usize,
        out: &mut VecDeque<Bytes>,
        mut progress: impl FnMut(usize),
    ) -> io::Result<bool> {
        let mut sender = self.send[outlet].lock();
        let mut urged = false;
        while !out.is_empty() {
            let parts = out.len().min(PARTS);
            let written = self.sending.poll(sender.stream.write_chunks(&mut out.make_contiguous()[..parts]));
            match written {
                // A partly written part is advanced by the library.
                Some(Ok(written)) => {
                    out.drain(..written.chunks);
                    progress(written.bytes);
                    self.note(outlet);
                }
                Some(Err(WriteError::ConnectionLost(error))) => return Err(lost(error)),
                Some(Err(error)) => return Err(io::Error::other(error)),
                None if self.held.load(Ordering::Acquire) => {
                    self.full.store(true, Ordering::Release);
                    return Ok(false);
                }
                None if self.widen() => {}
                // Less urgent data has taken all the room: extend the window for this stream.
                None if !urged && self.is_ahead(outlet) => {
                    urged = true;
                    let more: usize = out.iter().map(Bytes::len).sum();
                    let window = self.window.load(Ordering::Relaxed);
                    self.connection.set_send_window(window.saturating_add(more as u64));
                }
                None => {
                    self.full.store(true, Ordering::Release);
                    self.calm(urged);
                    return Ok(false);
                }
            }
        }
        self.calm(urged);
        Ok(true)
    }

    fn note(&self, outlet: usize) {
        if self.is_multistream() {
            #[allow(clippy::cast_possible_truncation, reason = "there are eight")]
            let outlet = outlet as u8;
            self.last.store(outlet, Ordering::Relaxed);
            self.used.fetch_or(1 << outlet, Ordering::Relaxed);
        }
        // Everything before the held byte has arrived.
        if self.held.swap(false, Ordering::AcqRel) {
            self.connection.set_send_window(self.window.load(Ordering::Relaxed));
        }
    }

    /// Whether data less urgent than that of `outlet` was written.
    fn is_ahead(&self, outlet: usize) -> bool {
        self.used.load(Ordering::Relaxed) >> outlet > 1
    }

    /// Restores the window that was extended for urgent data.
    fn calm(&self, urged: bool) {
        if urged {
            self.connection.set_send_window(self.window.load(Ordering::Relaxed));
        }
    }

    pub(super) fn set_room(&self, bytes: u32) {
        self.room.store(bytes, Ordering::Relaxed);
    }

    /// Adjusts the send window to the congestion window plus the room; returns whether it has grown. Data
    /// waiting on one stream leaves in order, so it must not be larger.
    fn widen(&self) -> bool {
        let congestion = self.connection.stats().path.cwnd;
        let wanted = congestion.saturating_add(self.room.load(Ordering::Relaxed).into());
        let told = self.window.load(Ordering::Relaxed);
        // Each update wakes the connection, so small changes are skipped.
        if wanted > told.saturating_add(told / 4) || wanted < told / 2 {
            self.window.store(wanted, Ordering::Relaxed);
            self.connection.set_send_window(wanted);
        }
        wanted > told.saturating_add(told / 4)
    }

    /// Whether a stream found no room since the last call.
    pub(super) fn take_full(&self) -> bool {
        self.full.swap(false, Ordering::AcqRel)
    }

    /// Stream of the last batch.
    pub(super) fn last(&self) -> usize {
        self.last.load(Ordering::Relaxed).into()
    }

    /// Makes the next batch, a CLOSE that ends the link for its reader, wait until all streams have arrived.
    pub(super) fn hold(&self) {
        if self.used.load(Ordering::Relaxed).count_ones() > 1 {
            self.held.store(true, Ordering::Release);
            // With a window of one byte, a byte is accepted only when none is in flight.
            self.connection.set_send_window(1);
        }
    }

    /// Whether everything has arrived; called when nothing more will be written.
    pub(super) fn is_delivered(&self) -> bool {
        let mut sender = self.send[self.last()].lock();
        sender.finish();
        self.sending.poll(sender.stream.stopped()).is_some()
    }

    /// Finishes the stream written last; the future ends when its data has arrived.
    pub(super) fn finish(&self) -> impl Future<Output = ()> + Send + 'static {
        let stopped = {
            let mut sender = self.send[self.last()].lock();
            sender.finish();
            sender.stream.stopped()
        };
        async move {
            // The result has no effect any more.
            let _ = stopped.await;
        }
    }
}

/// Length of the complete batches, with prefixes of two bytes, at the start of `bytes`.
fn whole_batches(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let [a, b, behind @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*a, *b]));
        if behind.len() < len {
            break;
        }
        rest.advance(2 + len);
    }
    bytes.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_counted_when_they_are_whole() {
        for (bytes, whole) in [
            (&b""[..], 0),
            (b"\x01", 0),
            (b"\x00\x00", 2),
            (b"\x02\x00a", 0),
            (b"\x02\x00ab\x01", 4),
            (b"\x02\x00ab\x01\x00c\xff\xff", 7),
        ] {
            assert_eq!(whole_batches(bytes), whole, "{bytes:?}");
        }
    }
}
