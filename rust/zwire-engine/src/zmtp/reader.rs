//! The receiving side of a connection.
//!
//! Idle connections hold no buffer: each thread of the runtime has one block, into which the connection
//! that is being read fills its data, and messages are cut out of it. The incomplete rest of a frame
//! stays with its connection: as a small copy or, for a large frame, in a buffer of its size that is read
//! into directly.

use super::{CloseReason, Connection, Owner, Pause, sending};
use crate::rt::clock;
use bytes::{Buf, BufMut, BytesMut};
use core::{cell::RefCell, sync::atomic::Ordering, time::Duration};
use std::{io, sync::Arc};
use zwire_proto::zmtp::link::{Inbound, ZmtpRx};

/// Size of a thread's block, and so the most memory that a small message can keep alive.
const BLOCK: usize = 64 * 1024;

/// A block with less free room than this is abandoned to the messages cut out of it.
const LITTLE: usize = 4 * 1024;

/// A frame that still misses more bytes than this gets a buffer of its own.
const LARGE: usize = 32 * 1024;

/// Bytes reserved for a frame before any of it has arrived. Later reservations at most double the bytes
/// received, so a size that a peer only claims costs no more than this.
const STEP: usize = 2 << 20;

/// Extra room behind a large frame, for the header of the next one.
const SLACK: usize = 64;

/// Large buffers that a thread keeps for the next large frames: their pages are mapped already, while a
/// new buffer takes a page fault for each.
const KEPT: usize = 4;

/// Largest size of a kept buffer; larger ones are freed at once.
const KEPT_BYTES: usize = 4 << 20;

/// Messages that are delivered at once.
const AT_ONCE: usize = 1024;

/// Reads before other connections get their turn.
const READS: usize = 16;

/// State shared by the connections of one thread.
#[derive(Default)]
struct Scratch {
    block: BytesMut,
    /// Remains of large buffers behind their frames: once the frames are dropped, the whole buffer can be
    /// reclaimed. The latest is last.
    large: Vec<BytesMut>,
    inbound: Vec<Inbound>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

enum ReadTurn {
    /// No more data to read.
    Idle,
    /// There may be more to read, after other tasks had their turn.
    Yield,
    Pause(Pause),
}

/// Reads until the connection ends, and returns the reason.
pub(super) async fn run(
    connection: &Arc<Connection>,
    rx: ZmtpRx,
    rest: BytesMut,
    owner: &dyn Owner,
) -> CloseReason {
    let mut reader = Reader { connection, owner, rx, buf: rest, away: false, large: 0 };
    let sleep = tokio::time::sleep(Duration::ZERO);
    tokio::pin!(sleep);
    let mut armed: Option<Duration> = None;
    loop {
        let turn = SCRATCH.with_borrow_mut(|scratch| reader.turn(scratch));
        match turn {
            Err(reason) => return reason,
            Ok(ReadTurn::Yield) => tokio::task::yield_now().await,
            Ok(ReadTurn::Pause(pause)) => tokio::select! {
                () = pause => {}
                () = connection.closed() => return CloseReason::Local,
            },
            Ok(ReadTurn::Idle) => {
                let deadline = reader.rx.poll_timeout();
                // The deadline moves with every message; the timer is reset only when it fires, or if a
                // peer asks for a shorter deadline.
                if let Some(deadline) = deadline
                    && armed.is_none_or(|armed| deadline < armed)
                {
                    sleep.as_mut().reset(clock::instant(deadline));
                    armed = Some(deadline);
                }
                tokio::select! {
                    ready = connection.stream.readable() => if let Err(error) = ready {
                        return sending::broken(error);
                    },
                    () = &mut sleep, if armed.is_some() => {
                        armed = None;
                        if reader.rx.handle_timeout(clock::now()) {
                            return CloseReason::Silent;
                        }
                    }
                    () = connection.closed() => return CloseReason::Local,
                }
            }
        }
        if connection.is_closed() {
            return CloseReason::Local;
        }
    }
}

struct Reader<'a> {
    connection: &'a Arc<Connection>,
    owner: &'a dyn Owner,
    rx: ZmtpRx,
    /// Bytes read and not yet decoded.
    buf: BytesMut,
    /// Set if `buf` is a small copy of its own, not the block.
    away: bool,
    /// Size of `buf` if it is a large buffer, else 0.
    large: usize,
}

impl Reader<'_> {
    fn turn(&mut self, scratch: &mut Scratch) -> Result<ReadTurn, CloseReason> {
        // Decode what is left first: bytes read with the handshake, or from before a pause.
        let mut turn = self.deliver(&mut scratch.inbound)?;
        for _ in 0..READS {
            if turn.is_some() {
                break;
            }
            self.make_room(scratch);
            match self.connection.stream.try_read_buf(&mut self.buf) {
                Ok(0) => return Err(CloseReason::Peer),
                Ok(n) => {
                    self.connection.received.bytes.fetch_add(n as u64, Ordering::Relaxed);
                    self.connection.received.reads.fetch_add(1, Ordering::Relaxed);
                    turn = self.deliver(&mut scratch.inbound)?;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.put_away(scratch);
                    return Ok(ReadTurn::Idle);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(sending::broken(e)),
            }
        }
        self.put_away(scratch);
        Ok(turn.map_or(ReadTurn::Yield, ReadTurn::Pause))
    }

    /// Delivers all complete messages, or those up to a pause.
    fn deliver(&mut self, inbound: &mut Vec<Inbound>) -> Result<Option<Pause>, CloseReason> {
        while !self.buf.is_empty() {
            let more = self.rx.read(clock::now(), &mut self.buf, inbound, AT_ONCE);
            inbound.retain(|item| match item {
                Inbound::Ping(ping) => {
                    self.connection.pong(ping);
                    false
                }
                _ => true,
            });
            let mut pause = None;
            if !inbound.is_empty() {
                self.connection.received.messages.fetch_add(inbound.len() as u64, Ordering::Relaxed);
                pause = self.owner.received(self.connection, inbound);
                inbound.clear();
            }
            let more = more?;
            if pause.is_some() {
                return Ok(pause);
            }
            if !more {
                break;
            }
        }
        Ok(None)
    }

    /// Ensures that there is room to read into.
    fn make_room(&mut self, scratch: &mut Scratch) {
        let missing = if self.buf.is_empty() { 0 } else { self.rx.needed(&self.buf) };
        // The end of a large frame is read into the same buffer as its beginning.
        if missing > LARGE || (self.large > 0 && self.buf.len() > LARGE) {
            if room(&self.buf) < missing.min(LITTLE) {
                let more = missing.min(self.buf.len().max(STEP)) + SLACK;
                let size = self.buf.len() + more;
                self.give_back(scratch, |scratch, rest| {
                    let mut own = scratch.large_buffer(size);
                    own.put_slice(rest);
                    own
                });
                self.away = false;
                self.large = size;
            }
            return;
        }
        if self.large > 0 {
            self.give_back(scratch, |_, rest| BytesMut::from(rest));
            self.away = true;
        }
        let missing = missing.max(LITTLE);
        if core::mem::take(&mut self.away) {
            let rest = core::mem::replace(&mut self.buf, core::mem::take(&mut scratch.block));
            reserve(&mut self.buf, rest.len() + missing);
            self.buf.put_slice(&rest);
        }
        reserve(&mut self.buf, missing);
    }

    /// Copies the rest of a frame, and gives the block back.
    fn put_away(&mut self, scratch: &mut Scratch) {
        if !self.away && self.buf.len() <= LARGE {
            self.give_back(scratch, |_, rest| BytesMut::from(rest));
            self.away = true;
        }
    }

    /// Replaces the buffer by one that `make` creates from the undecoded rest, and keeps the old one for
    /// reuse.
    fn give_back(&mut self, scratch: &mut Scratch, make: impl FnOnce(&mut Scratch, &[u8]) -> BytesMut) {
        let next = make(scratch, &self.buf);
        let mut old = core::mem::replace(&mut self.buf, next);
        // The rest was copied above.
        old.advance(old.len());
        match core::mem::take(&mut self.large) {
            0 => scratch.keep(old),
            size if size <= KEPT_BYTES => {
                if scratch.large.len() == KEPT {
                    scratch.large.remove(0);
                }
                scratch.large.push(old);
            }
            _ => {}
        }
    }
}

impl Scratch {
    /// An empty buffer of at least that size.
    fn large_buffer(&mut self, size: usize) -> BytesMut {
        let found = self.large.iter_mut().position(|kept| kept.try_reclaim(size));
        found.map_or_else(|| BytesMut::with_capacity(size), |at| self.large.remove(at))
    }

    /// Keeps the larger of two blocks, unless it exceeds twice the size of a block.
    fn keep(&mut self, block: BytesMut) {
        if block.capacity() <= 2 * BLOCK && block.capacity() > self.block.capacity() {
            self.block = block;
        }
    }
}

fn room(buf: &BytesMut) -> usize {
    buf.capacity() - buf.len()
}

/// Ensures room for `more` bytes: uses free room, reclaims the buffer, or makes a new block.
fn reserve(buf: &mut BytesMut, more: usize) {
    if room(buf) < more && !buf.try_reclaim(more) {
        let mut fresh = BytesMut::with_capacity(BLOCK.max(buf.len() + more));
        fresh.put_slice(buf);
        *buf = fresh;
    }
}
