//! Unix stream sockets: `unixsock-stream/<path>` (`zenoh-behaviour` 1.2).
//!
//! A lock file beside the socket, locked as long as the listener lives, distinguishes a socket in use
//! from one that a killed process has left behind.

use super::transport::{Ends, Transport};
use crate::{config::Target, error::ConnectReason, net::gather, rt::runtime::Birth};
use bytes::{Bytes, BytesMut};
use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};
use tokio::net::{UnixListener, UnixStream};

/// Protocol name in endpoints.
pub(super) const PROTOCOL: &str = "unixsock-stream";

/// Suffix of the lock file, as in eclipse-zenoh.
const LOCK_SUFFIX: &str = ".lock";

/// Most times that a lock file may vanish between opening and locking it, because a listener ended.
const LOCK_ATTEMPTS: usize = 10;

pub(crate) struct LocalStream {
    stream: UnixStream,
    ends: Ends,
}

impl LocalStream {
    pub(super) async fn connect(target: &Target) -> Result<Self, ConnectReason> {
        let path = target.endpoint.address();
        let stream = UnixStream::connect(path).await.map_err(ConnectReason::io)?;
        let ends = Ends { local: locator("unnamed"), peer: locator(path), addresses: None };
        Ok(Self { stream, ends })
    }
}

impl Transport for LocalStream {
    fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        self.stream.try_read_buf(buf)
    }

    fn try_write(&self, out: &mut VecDeque<Bytes>, progress: impl FnMut(usize)) -> io::Result<bool> {
        gather::write(|slices| self.stream.try_write_vectored(slices), out, progress)
    }

    async fn readable(&self) -> io::Result<()> {
        self.stream.readable().await
    }

    async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }

    fn ends(&self) -> io::Result<Ends> {
        Ok(self.ends.clone())
    }
}

pub(crate) struct LocalListener {
    listener: UnixListener,
    path: String,
}

impl LocalListener {
    /// Binds the path. Removes a socket without a living listener; any other file is kept.
    pub(super) async fn bind(target: &Target) -> Result<(Self, SocketFile), ConnectReason> {
        let path = target.endpoint.address().to_owned();
        let socket = PathBuf::from(&path);
        let lock = lock(&socket).map_err(ConnectReason::io)?;
        // From here on dropping the guard cleans up on any failure.
        let mut guard = SocketFile { birth: Birth::here(), socket, bound: false, lock };
        remove_stale(&guard.socket).await.map_err(ConnectReason::io)?;
        let listener = UnixListener::bind(&guard.socket).map_err(ConnectReason::io)?;
        guard.bound = true;
        Ok((Self { listener, path }, guard))
    }

    pub(super) async fn accept(&self) -> io::Result<LocalStream> {
        let (stream, _) = self.listener.accept().await?;
        let ends = Ends { local: locator(&self.path), peer: locator("unnamed"), addresses: None };
        Ok(LocalStream { stream, ends })
    }
}

fn locator(path: &str) -> String {
    format!("{PROTOCOL}/{path}")
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(LOCK_SUFFIX);
    path.into()
}

/// Opens and locks the lock file of a socket.
fn lock(socket: &Path) -> io::Result<File> {
    let path = lock_path(socket);
    for _ in 0..LOCK_ATTEMPTS {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The lock must not be on a file that a listener removed when it ended.
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "others listen there in turns"))
}

/// Removes a socket without a listener. The lock is held, so it does not belong to another zenoh
/// listener; a server of another kind would answer.
async fn remove_stale(socket: &Path) -> io::Result<()> {
    match fs::symlink_metadata(socket) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path is there and is no socket"))
        }
        Ok(_) => match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(socket),
            _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "something listens there")),
        },
    }
}

/// Removes socket and lock file when it is dropped.
pub(crate) struct SocketFile {
    birth: Birth,
    socket: PathBuf,
    /// Whether the socket was bound by this process.
    bound: bool,
    lock: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // In a forked child the files belong to its parent.
        if !self.birth.is_here() {
            return;
        }
        if self.bound
            && let Err(error) = fs::remove_file(&self.socket)
        {
            tracing::warn!(path = %self.socket.display(), %error, "the socket file could not be removed");
        }
        if let Err(error) = fs::remove_file(lock_path(&self.socket)) {
            tracing::warn!(path = %self.socket.display(), %error, "the lock file could not be removed");
        }
        // Explicitly: a forked child may hold a copy of the descriptor. An error has no consequence.
        let _ = self.lock.unlock();
    }
}
