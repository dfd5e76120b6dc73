//! Vectored writes: many segments per system call.

use bytes::{Buf, Bytes};
use std::{
    collections::VecDeque,
    io::{self, IoSlice},
};

/// Most entries of one `iovec`: a quarter of the system's limit of 1024, and 16 full batches.
const MAX_IOVEC: usize = 64;

/// Writes until the socket is full: true when all is written. `progress` gets the bytes of each call of `write`.
pub(crate) fn write(
    write: impl Fn(&[IoSlice<'_>]) -> io::Result<usize>,
    out: &mut VecDeque<Bytes>,
    mut progress: impl FnMut(usize),
) -> io::Result<bool> {
    while !out.is_empty() {
        let mut slices = [IoSlice::new(&[]); MAX_IOVEC];
        let mut n = 0;
        for (slice, part) in slices.iter_mut().zip(out.iter()) {
            *slice = IoSlice::new(part);
            n += 1;
        }
        let written = match write(&slices[..n]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        progress(written);
        consume(out, written);
    }
    Ok(true)
}

/// Removes the first `len` bytes.
pub(crate) fn consume(out: &mut VecDeque<Bytes>, mut len: usize) {
    while let Some(part) = out.front_mut() {
        if len < part.len() {
            part.advance(len);
            return;
        }
        len -= part.len();
        out.pop_front();
    }
}
