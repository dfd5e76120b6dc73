//! Positioned reads: of files, and of octets in memory for tests.

use crate::error::{Error, Result};
use arrow_buffer::Buffer;
use std::{
    fs::{DirEntry, File},
    io,
    path::Path,
};

/// Alignment recommended for Arrow buffers; the buffers in a block are at multiples of it.
const ALIGNMENT: usize = 64;

/// Octets that are read from positions: a file, or an object of a store. An error of the spool may be wrapped in the
/// error of a call, and is returned as such by readers.
#[allow(clippy::len_without_is_empty, reason = "not needed")]
pub trait ReadAt {
    /// Number of octets.
    fn len(&self) -> io::Result<u64>;

    /// Appends from a position up to the capacity of the buffer; returns the number of octets.
    fn append_at(&self, buffer: &mut Vec<u8>, at: u64) -> io::Result<usize>;

    /// Announces that octets up to a position will be read next, so that they can be fetched ahead.
    fn expect(&self, _until: u64) {}
}

/// Content of a segment: a file, or an object of a store.
pub(crate) enum Source {
    File(File),
    Object(Box<dyn ReadAt + Send + Sync>),
}

impl ReadAt for Source {
    fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => ReadAt::len(file),
            Self::Object(object) => object.len(),
        }
    }

    fn append_at(&self, buffer: &mut Vec<u8>, at: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => file.append_at(buffer, at),
            Self::Object(object) => object.append_at(buffer, at),
        }
    }

    fn expect(&self, until: u64) {
        if let Self::Object(object) = self {
            object.expect(until);
        }
    }
}

impl ReadAt for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn append_at(&self, buffer: &mut Vec<u8>, at: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(self, rustix::buffer::spare_capacity(buffer), at)?)
    }

    #[cfg(windows)]
    fn append_at(&self, buffer: &mut Vec<u8>, at: u64) -> io::Result<usize> {
        let there = buffer.len();
        buffer.resize(buffer.capacity(), 0);
        let read = std::os::windows::fs::FileExt::seek_read(self, &mut buffer[there..], at);
        buffer.truncate(there + read.as_ref().map_or(0, |read| *read));
        read
    }
}

impl ReadAt for &[u8] {
    fn len(&self) -> io::Result<u64> {
        Ok((**self).len() as u64)
    }

    fn append_at(&self, buffer: &mut Vec<u8>, at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let len = rest.len().min(buffer.capacity() - buffer.len());
        buffer.extend_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// Names in a folder; none if it does not exist.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => {
            let name = |entry: io::Result<DirEntry>| entry.map(|entry| entry.file_name().into_string().ok());
            entries.filter_map(|entry| name(entry).transpose()).collect::<io::Result<_>>()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
    .map_err(Error::io("list", folder))
}

/// Opens a file for reading. A pipe is refused: opening it would block until something is written.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_fifo(&std::fs::metadata(path)?.file_type()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe"));
    }
    File::open(path)
}

/// Reads `len` octets from a position; a file that ends earlier is an error.
pub(crate) fn read_exactly(file: &dyn ReadAt, path: &Path, at: u64, len: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(len);
    append(file, path, at, len, &mut buffer)?;
    Ok(buffer)
}

/// As [`read_exactly`], with the alignment that Arrow columns need.
pub(crate) fn read_aligned(file: &dyn ReadAt, path: &Path, at: u64, len: usize) -> Result<Buffer> {
    let mut buffer: Vec<u8> = Vec::with_capacity(len + ALIGNMENT);
    let before = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    buffer.resize(before, 0);
    append(file, path, at, len, &mut buffer)?;
    Ok(Buffer::from_vec(buffer).slice_with_length(before, len))
}

/// Appends `len` octets, for which the buffer has room; a file that ends earlier is an error.
fn append(file: &dyn ReadAt, path: &Path, at: u64, len: usize, buffer: &mut Vec<u8>) -> Result<()> {
    let (begin, end) = (buffer.len(), buffer.len() + len);
    while buffer.len() < end {
        match file.append_at(buffer, at + (buffer.len() - begin) as u64) {
            Ok(0) => return Err(Error::io("read", path)(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", path)(error)),
        }
    }
    // The buffer may have more capacity than requested.
    buffer.truncate(end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source that returns a few octets at a time, and is interrupted.
    struct Slow<'a>(&'a [u8], core::cell::Cell<bool>);

    impl ReadAt for Slow<'_> {
        fn len(&self) -> io::Result<u64> {
            ReadAt::len(&self.0)
        }

        fn append_at(&self, buffer: &mut Vec<u8>, at: u64) -> io::Result<usize> {
            if self.1.replace(!self.1.get()) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let mut few = Vec::with_capacity((buffer.capacity() - buffer.len()).min(7));
            let read = self.0.append_at(&mut few, at)?;
            buffer.append(&mut few);
            Ok(read)
        }
    }

    #[test]
    fn what_is_read_is_exact_and_aligned() {
        let octets: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let path = std::env::temp_dir().join(format!("zwire-read-at-{}", std::process::id()));
        std::fs::write(&path, &octets).unwrap();
        let (file, slow) = (File::open(&path).unwrap(), Slow(&octets, true.into()));
        let files: [&dyn ReadAt; 3] = [&file, &&*octets, &slow];
        for file in files {
            for (at, len) in [(0, 1000), (1, 999), (64, 1), (500, 100), (1000, 0)] {
                let wanted = &octets[at..at + len];
                assert_eq!(read_exactly(file, &path, at as u64, len).unwrap(), wanted);
                let read = read_aligned(file, &path, at as u64, len).unwrap();
                assert_eq!(&*read, wanted);
                assert_eq!(read.as_ptr().align_offset(ALIGNMENT), 0);
            }
            let error = read_aligned(file, &path, 1, 1000).unwrap_err();
            assert!(
                matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof)
            );
        }
        std::fs::remove_file(&path).unwrap();
    }
}
