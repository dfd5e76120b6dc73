//! Reading at a position: of files, and of octets in memory for tests.

use crate::error::{Error, Result};
use std::{fs::File, io, path::Path, sync::Arc};

/// Something that is read at positions.
#[allow(clippy::len_without_is_empty, reason = "nobody asks")]
pub(crate) trait ReadAt {
    /// How long it is now.
    fn len(&self) -> io::Result<u64>;

    /// Reads up to a buffer full from a position on.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, at)
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

/// The number of 32 bits at a position, little-endian.
///
/// # Panics
///
/// If there are fewer octets: who calls it has looked.
pub(crate) fn u32_at(octets: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&octets[at..at + 4]);
    u32::from_le_bytes(value)
}

/// The same with 64 bits.
pub(crate) fn u64_at(octets: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&octets[at..at + 8]);
    u64::from_le_bytes(value)
}

/// Opens a file for reading. A pipe is refused: opening it would wait for somebody who writes.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_fifo(&std::fs::metadata(path)?.file_type()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe"));
    }
    File::open(path)
}

/// Fills a buffer from a position on; a file that ends earlier is an error.
pub(crate) fn fill(file: &dyn ReadAt, path: &Path, mut at: u64, mut buffer: &mut [u8]) -> Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, at) {
            Ok(0) => {
                let source = Arc::new(io::Error::from(io::ErrorKind::UnexpectedEof));
                return Err(Error::Io { doing: "read", path: path.to_owned(), source });
            }
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

/// So many octets from a position on.
pub(crate) fn read_exactly(file: &dyn ReadAt, path: &Path, at: u64, len: usize) -> Result<Vec<u8>> {
    let mut buffer = vec![0; len];
    fill(file, path, at, &mut buffer)?;
    Ok(buffer)
}
