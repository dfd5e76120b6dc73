//! [`Input`]: chunks of a file or a buffer, decompressed if it is gzip.

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use std::{
    fs::File,
    io::{self, Cursor, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Bytes of a file that are read at once.
const CHUNK: usize = 1 << 20;

const GZIP: [u8; 2] = [0x1f, 0x8b];

pub(crate) struct Input {
    kind: Kind,
    /// Whether [`Self::read`] has reached the end.
    pub(super) at_end: bool,
    /// Whether the next read may block.
    pub(super) live: bool,
}

enum Kind {
    /// Passed on as it is.
    Memory {
        left: Bytes,
        position: Arc<AtomicU64>,
    },
    Stream(Box<dyn Read + Send>),
}

struct Counted<R> {
    inner: R,
    position: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buf)?;
        self.position.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A file that is decompressed if it begins as gzip does. A signal while it waits for its first bytes is an error of
/// that kind, and loses none of them.
struct Unpacked {
    file: Option<Counted<File>>,
    start: Vec<u8>,
    stream: Box<dyn Read + Send>,
}

impl Read for Unpacked {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(file) = &mut self.file {
            let mut bytes = [0; GZIP.len()];
            while let left @ 1.. = GZIP.len() - self.start.len() {
                match file.read(&mut bytes[..left])? {
                    0 => break,
                    count => self.start.extend_from_slice(&bytes[..count]),
                }
            }
        }
        if let Some(file) = self.file.take() {
            let packed = self.start == GZIP;
            let whole = Cursor::new(core::mem::take(&mut self.start)).chain(file);
            self.stream = if packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        }
        self.stream.read(buf)
    }
}

impl Input {
    /// Opens a file, a pipe or a terminal. `position` counts the bytes read.
    pub(crate) fn file(path: &Path, position: Arc<AtomicU64>) -> io::Result<Self> {
        let file = File::open(path)?;
        let live = !file.metadata()?.is_file();
        let file = Some(Counted { inner: file, position });
        let stream = Unpacked { file, start: Vec::new(), stream: Box::new(io::empty()) };
        Ok(Self { kind: Kind::Stream(Box::new(stream)), at_end: false, live })
    }

    /// A file in memory.
    pub(crate) fn memory(bytes: Bytes, position: Arc<AtomicU64>) -> Self {
        let kind = if bytes.starts_with(&GZIP) {
            let counted = Counted { inner: Cursor::new(bytes), position };
            Kind::Stream(Box::new(MultiGzDecoder::new(counted)))
        } else {
            Kind::Memory { left: bytes, position }
        };
        Self { kind, at_end: false, live: false }
    }

    /// The next chunk of whatever size is available; `None` at the end.
    pub(crate) fn read(&mut self) -> io::Result<Option<Bytes>> {
        let chunk = match &mut self.kind {
            Kind::Memory { left, position } => {
                let chunk = left.split_to(left.len().min(CHUNK));
                position.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                chunk
            }
            Kind::Stream(stream) => {
                let mut bytes = vec![0; CHUNK];
                let count = stream.read(&mut bytes)?;
                bytes.truncate(count);
                // A pipe returns little at a time; its records must not hold a megabyte each.
                if count < CHUNK / 2 {
                    bytes.shrink_to_fit();
                }
                bytes.into()
            }
        };
        self.at_end = chunk.is_empty();
        Ok(if self.at_end { None } else { Some(chunk) })
    }
}
