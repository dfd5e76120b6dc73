//! [`Tap`]: capture file of all bytes on the wire (`zwire/tap`).
//!
//! No packets are captured: the bytes written to and read from each connection are wrapped in synthetic
//! packets, so neither root nor a capture library is needed.

use crate::{net::io::transport::Ends, rt::runtime::Birth};
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

/// Number of collected bytes that triggers a write to the file.
const WRITE_BYTES: usize = 256 * 1024;

/// Age of collected bytes at which the next bytes on the wire, keep-alives included, trigger a write.
const WRITE_AFTER: Duration = Duration::from_secs(1);

/// Connection in the file, and the direction in which this node sends.
struct Conversation {
    frames: FrameBuilder,
    ours: Direction,
}

struct TapState {
    path: PathBuf,
    file: File,
    writer: PcapWriter,
    connections: HashMap<u64, Conversation>,
    /// Number of connections so far.
    count: u64,
    /// Wall-clock time of the last write.
    written: Duration,
    failed: bool,
}

/// Capture file being written.
pub(crate) struct Tap {
    birth: Birth,
    state: Mutex<TapState>,
}

impl Tap {
    /// Creates the file, or truncates it. Only the owner of this process may read it, because it holds
    /// payloads and credentials.
    ///
    /// # Errors
    /// The file cannot be opened, or is a symbolic link outside `/dev` and `/proc`: another user may have put it
    /// there, to have a file of this one overwritten.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = create_private(path)?;
        let state = TapState {
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

    /// Changes the state, and writes to the file if it is due. A forked child writes nothing: the file
    /// belongs to its parent, which may also have held the lock.
    fn with(&self, write: impl FnOnce(&mut TapState, Duration)) {
        if !self.birth.is_here() {
            return;
        }
        let now = crate::rt::clock::now().wall;
        let mut state = self.state.lock();
        write(&mut state, now);
        // After a step back of the clock, write at once and continue from the new time.
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

#[cfg(unix)]
fn create_private(path: &Path) -> io::Result<File> {
    use std::{
        fs::Permissions,
        os::unix::fs::{OpenOptionsExt, PermissionsExt},
    };
    // Pipes of a shell, such as `>(wireshark -ki -)`, are links there.
    let is_of_system = ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
    let flags = if is_of_system { 0 } else { libc::O_NOFOLLOW };
    let opened =
        File::options().write(true).create(true).truncate(true).mode(0o600).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::new(error.kind(), "a symbolic link, which a tap does not follow"),
        _ => error,
    })?;
    // A file of an earlier run may be readable by others.
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> io::Result<File> {
    File::create(path)
}

/// Connection in the file; closed there when this is dropped.
pub(crate) struct TappedConnection {
    tap: Arc<Tap>,
    id: u64,
}

impl TappedConnection {
    /// Begins a connection before anything was read or written: readers of the file recognise the
    /// protocol by its handshake. `accepted` says that the peer opened the connection.
    ///
    /// The file shows every transport as TCP: batches behind their length prefixes, decrypted.
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
        self.tap.with(|TapState { connections, writer, .. }, now| {
            if let Some(Conversation { frames, ours }) = connections.get_mut(&self.id) {
                for part in parts {
                    frames.data(now, *ours, part, writer);
                }
            }
        });
    }

    pub(crate) fn received(&self, bytes: &[u8]) {
        self.tap.with(|TapState { connections, writer, .. }, now| {
            if let Some(Conversation { frames, ours }) = connections.get_mut(&self.id) {
                frames.data(now, ours.reverse(), bytes, writer);
            }
        });
    }

    /// Ends the connection in the file; later bytes are not recorded. Idempotent.
    pub(crate) fn close(&self) {
        self.tap.with(|TapState { connections, writer, .. }, now| {
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

/// Substitute addresses for a connection that has none, the local one first; different for each.
#[allow(clippy::cast_possible_truncation, reason = "the remainder is small")]
fn made_up(id: u64, accepted: bool) -> (SocketAddr, SocketAddr) {
    /// First of the ports that systems give to clients.
    const EPHEMERAL: u16 = 49_152;
    let client = SocketAddr::from(([127, 0, 0, 1], EPHEMERAL + (id % 16_384) as u16));
    let server = SocketAddr::from(([127, 0, 0, 2], 7447));
    if accepted { (server, client) } else { (client, server) }
}

/// Initial sequence numbers; they tell successive connections with equal ports apart.
#[allow(clippy::cast_possible_truncation, reason = "any numbers do")]
const fn initial_seq(id: u64) -> [u32; 2] {
    // An odd number near 2^32 divided by the golden ratio spreads neighbouring ids widely.
    let client = (id as u32).wrapping_mul(0x9e37_79b1);
    [client, !client]
}

impl TapState {
    fn write_out(&mut self) {
        let bytes = self.writer.take();
        if self.failed || bytes.is_empty() {
            return;
        }
        if let Err(error) = self.file.write_all(&bytes) {
            // A full disk must not end the traffic; writing on later would leave a gap in the file.
            tracing::error!(path = %self.path.display(), %error, "writing the capture file failed: no more is captured, the traffic goes on");
            self.failed = true;
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.flush();
    }
}
