//! Positioned reads: of files, and of octets in memory for tests.

use crate::error::{Error, Result};
use arrow_buffer::Buffer;
use std::{fs::File, io, path::Path, sync::Arc};

/// Alignment recommended for Arrow buffers; the buffers in a block are at multiples of it.
const ALIGNMENT: usize = 64;

/// Source with positioned reads.
#[allow(clippy::len_without_is_empty, reason = "not needed")]
pub(crate) trait ReadAt {
    /// Current length.
    fn len(&self) -> io::Result<u64>;

    /// Reads from a position up to the length of the buffer.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// Appends from a position up to the capacity of the buffer; an implementation need not fill it with
    /// zeros first.
    fn append_at(&self, buffer: &mut Vec<u8>, at: u64) -> io::Result<usize> {
        let there = buffer.len();
        buffer.resize(buffer.capacity(), 0);
        let read = self.read_at(&mut buffer[there..], at);
        buffer.truncate(there + read.as_ref().map_or(0, |read| *read));
        read
    }
}

impl ReadAt for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, at)
    }

    #[cfg(unix)]
    fn append_at(&self, buffer: &mut Vec<u8>, at: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(self, rustix::buffer::spare_capacity(buffer), at)?)
    }

    #[cfg(windows)]
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, buffer, at)
    }
}

impl ReadAt for &[u8] {
    fn len(&self) -> io::Result<u64> {
        Ok((**self).len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// The little-endian 32-bit number at a position.
///
/// # Panics
///
/// If there are fewer octets: the caller must check the length.
pub(crate) fn u32_at(octets: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&octets[at..at + 4]);
    u32::from_le_bytes(value)
}

/// The little-endian 64-bit number at a position.
pub(crate) fn u64_at(octets: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&octets[at..at + 8]);
    u64::from_le_bytes(value)
}

/// Opens a file for reading. A pipe is refused: opening it would block until another process writes to
/// it.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_fifo(&std::fs::metadata(path)?.file_type()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe"));
    }
    File::open(path)
}

fn ends(path: &Path) -> Error {
    let source = Arc::new(io::Error::from(io::ErrorKind::UnexpectedEof));
    Error::Io { doing: "read", path: path.to_owned(), source }
}

/// Fills a buffer from a position; a file that ends earlier is an error.
pub(crate) fn fill(file: &dyn ReadAt, path: &Path, mut at: u64, mut buffer: &mut [u8]) -> Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, at) {
            Ok(0) => return Err(ends(path)),
            Ok(read) => {
                buffer = &mut buffer[read..];
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", path)(error)),
        }
    }
    Ok(())
}

/// Reads `len` octets from a position.
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
            Ok(0) => return Err(ends(path)),
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

        fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
            if self.1.replace(!self.1.get()) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let len = buffer.len().min(7);
            self.0.read_at(&mut buffer[..len], at)
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
