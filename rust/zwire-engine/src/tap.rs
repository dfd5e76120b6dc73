//! [`Tap`]: everything that crosses the wire, as a capture file (`zwire/tap`).
//!
//! No packet is captured: the bytes that were written to and read from each connection are wrapped
//! in synthetic packets, so neither root nor a capture library is needed.

use crate::{io::Ends, runtime::Birth};
use bytes::Bytes;
use core::time::Duration;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use zwire_proto::pcap::{Direction, FrameBuilder, PcapWriter};

/// From this many collected bytes on they are written to the file.
const WRITE_BYTES: usize = 256 * 1024;

/// What has waited for so long is written with the next bytes that cross the wire. Keep-alives cross it
/// too, so a file that somebody reads while it grows is a few seconds behind, not a quarter megabyte.
const WRITE_AFTER: Duration = Duration::from_secs(1);

/// A connection in the file, and the direction in which we speak.
struct Conversation {
    frames: FrameBuilder,
    ours: Direction,
}

struct State {
    path: PathBuf,
    file: File,
    writer: PcapWriter,
    connections: HashMap<u64, Conversation>,
    /// Connections so far.
    count: u64,
    /// When it was last written, in time of the wall clock.
    written: Duration,
    failed: bool,
}

/// A capture file being written.
pub(crate) struct Tap {
    birth: Birth,
    state: Mutex<State>,
}

impl Tap {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        let state = State {
            path: path.to_owned(),
            file,
            writer: PcapWriter::new(),
            connections: HashMap::new(),
            count: 0,
            written: Duration::ZERO,
            failed: false,
        };
        let tap = Self { birth: Birth::here(), state: Mutex::new(state) };
        tap.flush();
        Ok(tap)
    }

    /// Changes the state, and writes to the file what is due. A forked child writes nothing: the file is
    /// its parent's, and so may be the lock.
    fn with(&self, write: impl FnOnce(&mut State, Duration)) {
        if !self.birth.is_here() {
            return;
        }
        let now = crate::clock::now().wall;
        let mut state = self.state.lock();
        write(&mut state, now);
        // A clock that was set back writes at once, and goes on from there.
        let waited = now.checked_sub(state.written).unwrap_or(WRITE_AFTER);
        if state.writer.len() >= WRITE_BYTES || waited >= WRITE_AFTER {
            state.written = now;
            state.write_out();
        }
    }

    /// Writes what was collected to the file.
    pub(crate) fn flush(&self) {
        if self.birth.is_here() {
            self.state.lock().write_out();
        }
    }
}

/// One connection in the file. It ends there at the latest when this is dropped.
pub(crate) struct TappedConnection {
    tap: Arc<Tap>,
    id: u64,
}

impl TappedConnection {
    /// A connection of which nothing was read or written yet: a reader of the file knows by its
    /// handshake what it is. `accepted` says that the peer connected to us.
    ///
    /// Whatever carries it, in the file it is TCP: batches behind their prefixes, and in plain.
    pub(crate) fn open(tap: &Arc<Tap>, ends: &Ends, accepted: bool) -> Self {
        let mut id = 0;
        tap.with(|state, now| {
            state.count += 1;
            id = state.count;
            let (local, peer) = ends.addresses.unwrap_or_else(|| made_up(id, accepted));
            let (client, server, ours) = if accepted {
                (peer, local, Direction::ToClient)
            } else {
                (local, peer, Direction::ToServer)
            };
            let mut frames = FrameBuilder::new(client, server, initial_seq(id));
            frames.open(now, &mut state.writer);
            state.connections.insert(id, Conversation { frames, ours });
        });
        Self { tap: tap.clone(), id }
    }

    pub(crate) fn sent(&self, parts: &[Bytes]) {
        self.tap.with(|State { connections, writer, .. }, now| {
            if let Some(Conversation { frames, ours }) = connections.get_mut(&self.id) {
                for part in parts {
                    frames.data(now, *ours, part, writer);
                }
            }
        });
    }

    pub(crate) fn received(&self, bytes: &[u8]) {
        self.tap.with(|State { connections, writer, .. }, now| {
            if let Some(Conversation { frames, ours }) = connections.get_mut(&self.id) {
                frames.data(now, ours.reverse(), bytes, writer);
            }
        });
    }

    /// What comes behind it is not written any more. Idempotent.
    pub(crate) fn close(&self) {
        self.tap.with(|State { connections, writer, .. }, now| {
            if let Some(Conversation { mut frames, ours }) = connections.remove(&self.id) {
                frames.close(now, ours, writer);
            }
        });
    }
}

impl Drop for TappedConnection {
    fn drop(&mut self) {
        self.close();
    }
}

/// Addresses for a connection that has none, ours first: different ones for each.
#[allow(clippy::cast_possible_truncation, reason = "the remainder is small")]
fn made_up(id: u64, accepted: bool) -> (SocketAddr, SocketAddr) {
    /// Ports that systems give to clients.
    const EPHEMERAL: u16 = 49_152;
    let client = SocketAddr::from(([127, 0, 0, 1], EPHEMERAL + (id % 16_384) as u16));
    let server = SocketAddr::from(([127, 0, 0, 2], 7447));
    if accepted { (server, client) } else { (client, server) }
}

/// Sequence numbers of the two SYNs. They differ between connections, so that two with the same ports
/// one after the other are not taken for one.
#[allow(clippy::cast_possible_truncation, reason = "any numbers do")]
const fn initial_seq(id: u64) -> [u32; 2] {
    // An odd number near 2^32 divided by the golden ratio: neighbours are far from each other.
    let client = (id as u32).wrapping_mul(0x9e37_79b1);
    [client, !client]
}

impl State {
    fn write_out(&mut self) {
        let bytes = self.writer.take();
        if self.failed || bytes.is_empty() {
            return;
        }
        if let Err(error) = self.file.write_all(&bytes) {
            // A full disk must not end the traffic; what follows would be a file with a hole.
            tracing::error!(path = %self.path.display(), %error, "the capture file cannot be written any more: it ends here, the traffic goes on");
            self.failed = true;
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.flush();
    }
}
