//! [`Tap`]: everything that crosses the wire, as a capture file (`zwire/tap`).
//!
//! No packet is captured: the bytes that were written to and read from each connection are wrapped
//! in synthetic packets, so neither root nor a capture library is needed.

use crate::runtime::Birth;
use bytes::Bytes;
use core::time::Duration;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write as _},
    net::SocketAddr,
    path::Path,
};
use zwire_proto::capture::{Direction, FrameBuilder, PcapWriter};

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
    file: File,
    writer: PcapWriter,
    connections: HashMap<u64, Conversation>,
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
            file,
            writer: PcapWriter::new(),
            connections: HashMap::new(),
            written: Duration::ZERO,
            failed: false,
        };
        let tap = Self { birth: Birth::here(), state: Mutex::new(state) };
        tap.flush();
        Ok(tap)
    }

    fn with(&self, write: impl FnOnce(&mut PcapWriter, &mut HashMap<u64, Conversation>, Duration)) {
        let now = crate::clock::now().wall;
        let mut state = self.state.lock();
        let State { writer, connections, .. } = &mut *state;
        write(writer, connections, now);
        // A clock that was set back writes at once, and goes on from there.
        let waited = now.checked_sub(state.written).unwrap_or(WRITE_AFTER);
        if state.writer.len() >= WRITE_BYTES || waited >= WRITE_AFTER {
            state.written = now;
            state.write_out();
        }
    }

    /// A connection is established; `accepted` says that the peer connected to us.
    pub(crate) fn opened(&self, connection: u64, local: SocketAddr, peer: SocketAddr, accepted: bool) {
        self.with(|writer, connections, now| {
            let (client, server, ours) = if accepted {
                (peer, local, Direction::ToClient)
            } else {
                (local, peer, Direction::ToServer)
            };
            let mut frames = FrameBuilder::new(client, server, [0; 2]);
            frames.open(now, writer);
            connections.insert(connection, Conversation { frames, ours });
        });
    }

    pub(crate) fn sent(&self, connection: u64, parts: &[Bytes]) {
        self.with(|writer, connections, now| {
            if let Some(Conversation { frames, ours }) = connections.get_mut(&connection) {
                for part in parts {
                    frames.data(now, *ours, part, writer);
                }
            }
        });
    }

    pub(crate) fn received(&self, connection: u64, bytes: &[u8]) {
        self.with(|writer, connections, now| {
            if let Some(Conversation { frames, ours }) = connections.get_mut(&connection) {
                frames.data(now, ours.reverse(), bytes, writer);
            }
        });
    }

    pub(crate) fn closed(&self, connection: u64) {
        self.with(|writer, connections, now| {
            if let Some(Conversation { mut frames, ours }) = connections.remove(&connection) {
                frames.close(now, ours, writer);
            }
        });
    }

    /// Writes what was collected to the file.
    pub(crate) fn flush(&self) {
        self.state.lock().write_out();
    }
}

impl State {
    fn write_out(&mut self) {
        let bytes = self.writer.take();
        if self.failed || bytes.is_empty() {
            return;
        }
        if let Err(error) = self.file.write_all(&bytes) {
            // A full disk must not end the traffic; what follows would be a file with a hole.
            tracing::error!(%error, "the capture file cannot be written any more");
            self.failed = true;
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // What a forked child inherited in the buffer is written by its parent.
        if self.birth.is_here() {
            self.flush();
        }
    }
}
