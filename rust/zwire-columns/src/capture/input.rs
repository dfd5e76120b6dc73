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

impl Input {
    /// Opens a file, a pipe or a terminal. `position` counts the bytes read.
    pub(crate) fn file(path: &Path, position: Arc<AtomicU64>) -> io::Result<Self> {
        let file = File::open(path)?;
        let live = !file.metadata()?.is_file();
        let mut file = Counted { inner: file, position };
        let mut start = Vec::with_capacity(GZIP.len());
        file.by_ref().take(GZIP.len() as u64).read_to_end(&mut start)?;
        let packed = start == GZIP;
        let whole = Cursor::new(start).chain(file);
        let stream: Box<dyn Read + Send> =
            if packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        Ok(Self { kind: Kind::Stream(stream), at_end: false, live })
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
