//! [`Streams`]: one stream that both sides write on, or beside it one for each priority and direction.
//!
//! The first stream carries the handshake and what is most urgent. With several, the stream of one direction
//! with number n carries priority n + 1; it begins to exist with its first byte. Nothing that is lost or not
//! read on one keeps the others waiting.

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

/// What we may have written that is not acknowledged, at first. Later it is what the congestion window lets
/// go out, and the room of the link behind it.
pub(super) const SEND_WINDOW: u64 = 128 * 1024;

/// Most bytes of one read.
const READ: usize = 256 * 1024;

/// Most parts of one write.
const PARTS: usize = 64;

/// Wakes whoever waits for a connection.
#[derive(Default)]
pub(super) struct Signal(Notify);

impl Signal {
    pub(super) async fn raised(&self) {
        self.0.notified().await;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

/// One direction of a connection: what it can do later raises its signal.
pub(super) struct Direction {
    pub(super) signal: Arc<Signal>,
    waker: Waker,
}

impl Direction {
    fn new() -> Self {
        let signal = Arc::new(Signal::default());
        Self { waker: signal.clone().into(), signal }
    }

    /// What `future` gives at once; else the signal tells when to ask again.
    fn poll<F: Future>(&self, future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
}

struct Sender {
    stream: SendStream,
    finished: bool,
}

impl Sender {
    /// Nothing more will be written.
    fn finish(&mut self) {
        if !core::mem::replace(&mut self.finished, true) {
            // It fails where the connection is lost, and then there is nothing to wait for.
            let _ = self.stream.finish();
        }
    }
}

/// A stream of the other side.
struct Inlet {
    stream: RecvStream,
    /// The beginning of a batch.
    partial: BytesMut,
    ended: bool,
}

/// What reading has come to.
pub(super) enum End {
    /// There may be more.
    Open,
    /// The other side has ended it.
    Closed,
    Lost(io::Error),
}

pub(super) struct Streams {
    connection: Connection,
    pub(super) sending: Direction,
    pub(super) receiving: Direction,
    /// By priority; or one for all.
    send: Vec<Mutex<Sender>>,
    /// By priority, as far as there are any.
    receive: Mutex<[Option<Inlet>; Priority::COUNT]>,
    /// Batches are handed out whole, because they come from more than one place.
    whole: AtomicBool,
    /// The handshake is over, and the other streams count.
    open: AtomicBool,
    /// The last write has found no room.
    full: AtomicBool,
    /// Where something was written last, and a bit for each where something was.
    last: AtomicU8,
    used: AtomicU8,
    /// The next byte waits until everything before it has arrived.
    held: AtomicBool,
    /// Bytes that may wait behind what is on the way.
    room: AtomicU32,
    /// What the connection was told of both.
    window: AtomicU64,
}

impl Streams {
    /// `multistream`: opens our streams of one direction. `None`: the other side does not take them.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) fn new(
        connection: &Connection,
        (send, receive): (SendStream, RecvStream),
        multistream: bool,
        datagrams: bool,
    ) -> Result<Option<Self>, ConnectionError> {
        let receiving = Direction::new();
        let mut all = vec![Mutex::new(Sender { stream: send, finished: false })];
        if multistream {
            for priority in 1..Priority::COUNT {
                let Some(stream) = receiving.poll(connection.open_uni()).transpose()? else {
                    return Ok(None);
                };
                // Larger is earlier here. A stream that was just opened is not closed.
                let _ = stream.set_priority(i32::try_from(priority).map_or(0, |priority| -priority));
                all.push(Mutex::new(Sender { stream, finished: false }));
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

    /// Whether each priority has its own.
    pub(super) fn is_multistream(&self) -> bool {
        self.send.len() > 1
    }

    /// The handshake is over.
    pub(super) fn open(&self) {
        self.open.store(true, Ordering::Release);
        self.used.store(0, Ordering::Relaxed);
        // They may have had something to say for a while.
        self.receiving.waker.wake_by_ref();
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Prefixes have another width: there is one stream only, and its bytes are handed out as they are.
    pub(super) fn set_low_latency(&self) {
        self.whole.store(false, Ordering::Release);
    }

    /// Appends what there is, the most urgent first.
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
                // The first one says how it ends, when nothing is left on the others.
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

    /// Streams that the other side has begun.
    fn accept(&self, inlets: &mut [Option<Inlet>]) {
        while inlets.iter().any(Option::is_none) {
            // That it fails is seen on the first stream.
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
                // The end, or what comes of it: now, or at the next call.
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

    /// Returns when reading may give something.
    pub(super) async fn readable(&self) {
        let missing = self.is_multistream()
            && self.open.load(Ordering::Acquire)
            && self.receive.lock().iter().any(Option::is_none);
        tokio::select! {
            () = self.receiving.signal.raised() => {}
            // Nobody is woken by a stream that nobody waits for.
            stream = self.connection.accept_uni(), if missing => {
                if let Ok(stream) = stream {
                    self.adopt(&mut self.receive.lock()[..], stream);
                }
            }
        }
    }

    /// Writes what the stream of `outlet` takes: true when that is all.
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
                // A part that was written to its middle begins there now.
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
                // What is less urgent has taken all the room, and goes out behind this.
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
        // Everything before it has arrived.
        if self.held.swap(false, Ordering::AcqRel) {
            self.connection.set_send_window(self.window.load(Ordering::Relaxed));
        }
    }

    /// Whether something less urgent than what leaves at `outlet` was written.
    fn is_ahead(&self, outlet: usize) -> bool {
        self.used.load(Ordering::Relaxed) >> outlet > 1
    }

    /// The room that was made for what is urgent is for nothing else.
    fn calm(&self, urged: bool) {
        if urged {
            self.connection.set_send_window(self.window.load(Ordering::Relaxed));
        }
    }

    pub(super) fn set_room(&self, bytes: u32) {
        self.room.store(bytes, Ordering::Relaxed);
    }

    /// Lets as much be written as the network takes, and the room behind it: whether that is more than
    /// before. What is written and waits on one stream goes out in order.
    fn widen(&self) -> bool {
        let congestion = self.connection.stats().path.cwnd;
        let wanted = congestion.saturating_add(self.room.load(Ordering::Relaxed).into());
        let told = self.window.load(Ordering::Relaxed);
        // Each word to the connection wakes it.
        if wanted > told.saturating_add(told / 4) || wanted < told / 2 {
            self.window.store(wanted, Ordering::Relaxed);
            self.connection.set_send_window(wanted);
        }
        wanted > told.saturating_add(told / 4)
    }

    /// Whether a stream has found no room since this was asked.
    pub(super) fn take_full(&self) -> bool {
        self.full.swap(false, Ordering::AcqRel)
    }

    /// Where the last batch was written.
    pub(super) fn last(&self) -> usize {
        self.last.load(Ordering::Relaxed).into()
    }

    /// The next batch is CLOSE, and who reads it ends the link: it is sent when all streams have arrived.
    pub(super) fn hold(&self) {
        if self.used.load(Ordering::Relaxed).count_ones() > 1 {
            self.held.store(true, Ordering::Release);
            // A byte is taken when none is on the way.
            self.connection.set_send_window(1);
        }
    }

    /// Nothing more will be written: whether everything has arrived.
    pub(super) fn is_delivered(&self) -> bool {
        let mut sender = self.send[self.last()].lock();
        sender.finish();
        self.sending.poll(sender.stream.stopped()).is_some()
    }

    /// Ends what was written last; the future ends when it has arrived.
    pub(super) fn finish(&self) -> impl Future<Output = ()> + Send + 'static {
        let stopped = {
            let mut sender = self.send[self.last()].lock();
            sender.finish();
            sender.stream.stopped()
        };
        async move {
            // Whether it has arrived changes nothing any more.
            let _ = stopped.await;
        }
    }
}

/// How many bytes at the start of `bytes` are whole batches behind prefixes of two bytes.
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
