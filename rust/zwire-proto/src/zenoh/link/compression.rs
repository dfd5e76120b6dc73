//! The batch header and its LZ4 block (`zenoh-wire` 3.13).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |X|X|X|X|X|X|X|C|   C: the rest is one LZ4 block without frame and size, else it is raw
//! +-+-+-+-+-+-+-+-+
//! ~     batch     ~
//! +---------------+
//! ```

use crate::error::{DecodeError, DecodeErrorKind, Result};
#[cfg(not(feature = "lz4"))]
use absent::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use bytes::{Buf, Bytes};
#[cfg(feature = "lz4")]
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

/// Whether this build compresses. If not, a handshake never agrees on compression.
pub(super) const AVAILABLE: bool = cfg!(feature = "lz4");

/// LZ4 in a build without the feature `lz4`: no block is made and none is read.
#[cfg(not(feature = "lz4"))]
mod absent {
    #[derive(Default)]
    pub(super) struct CompressTable;

    pub(super) fn compress_into_with_table(
        _: &[u8],
        _: &mut [u8],
        _: &mut CompressTable,
    ) -> Result<usize, ()> {
        Err(())
    }

    pub(super) fn decompress_into(_: &[u8], _: &mut [u8]) -> Result<usize, ()> {
        Err(())
    }

    pub(super) const fn get_maximum_output_size(_: usize) -> usize {
        0
    }
}

const COMPRESSED: u8 = 0x01;

/// Compresses batches, with its tables kept between them.
#[derive(Default)]
pub(super) struct Compressor {
    table: CompressTable,
    scratch: Vec<u8>,
}

impl Compressor {
    /// Compresses the bytes behind the batch header at `header`, unless the result would not be
    /// smaller.
    pub(super) fn compress(&mut self, batch: &mut Vec<u8>, header: usize) {
        let raw = &batch[header + 1..];
        let most = get_maximum_output_size(raw.len());
        if self.scratch.len() < most {
            self.scratch.resize(most, 0);
        }
        match compress_into_with_table(raw, &mut self.scratch, &mut self.table) {
            Ok(len) if len < raw.len() => {
                batch[header] = COMPRESSED;
                batch.truncate(header + 1);
                batch.extend_from_slice(&self.scratch[..len]);
            }
            // Larger, or it did not fit: sent uncompressed.
            _ => batch[header] = 0,
        }
    }
}

/// Inverse of the compressor of the sender; the scratch buffer is kept between calls.
#[derive(Debug)]
pub struct Decompressor {
    scratch: Vec<u8>,
    max: usize,
}

impl Decompressor {
    /// For batches that decompress to at most `max` bytes.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self { scratch: Vec::new(), max }
    }

    /// The batch behind the batch header. Reserved bits are ignored; an empty batch has no header.
    ///
    /// # Errors
    /// The LZ4 block is damaged, or longer than the largest batch.
    pub fn decompress(&mut self, mut batch: Bytes) -> Result<Bytes> {
        if !batch.has_remaining() {
            return Ok(batch);
        }
        if batch.get_u8() & COMPRESSED == 0 {
            return Ok(batch);
        }
        // Allocated lazily: most links never receive a compressed batch.
        self.scratch.resize(self.max, 0);
        match decompress_into(&batch, &mut self.scratch) {
            Ok(len) => Ok(Bytes::copy_from_slice(&self.scratch[..len])),
            Err(_) => {
                let kind = DecodeErrorKind::Compression;
                Err(DecodeError { reading: "batch", offset: 1, kind })
            }
        }
    }
}

#[cfg(all(test, feature = "lz4"))]
mod tests {
    use super::*;

    /// `zenoh-wire` E56 without prefix: PUT of 100 × `a` on `f/x`.
    const E56: &[u8] = b"\x01\xef\x25\xc5\xef\xfd\x1a\x7d\x00\x03f/x\x01\x64\x61\x01\x00\x4a\x60aaaaaa";

    fn e56_raw() -> Vec<u8> {
        let mut raw = b"\x25\xc5\xef\xfd\x1a\x7d\x00\x03f/x\x01\x64".to_vec();
        raw.extend([b'a'; 100]);
        raw
    }

    #[test]
    fn example_decompresses() {
        let mut machine = Decompressor::new(65_533);
        assert_eq!(machine.decompress(Bytes::from_static(E56)).unwrap(), e56_raw());
    }

    #[test]
    fn example_compresses_to_the_same_bytes() {
        let mut batch = vec![0];
        batch.extend(e56_raw());
        Compressor::default().compress(&mut batch, 0);
        assert_eq!(batch, E56);
    }

    /// `zenoh-wire` E57: a batch that does not shrink is sent uncompressed.
    #[test]
    fn raw_when_not_smaller() {
        let raw = b"\x25\xc6\xef\xfd\x1a\x7d\x00\x03f/y\x01\x01z";
        let mut batch = vec![0xaa];
        batch.extend(raw);
        Compressor::default().compress(&mut batch, 0);
        assert_eq!(batch[0], 0);
        assert_eq!(&batch[1..], raw);
        assert_eq!(Decompressor::new(100).decompress(batch.into()).unwrap(), &raw[..]);
    }

    #[test]
    fn a_block_above_the_bound_is_refused() {
        let mut batch = vec![0];
        batch.extend([0; 60_000]);
        Compressor::default().compress(&mut batch, 0);
        assert!(batch.len() < 1000);
        let batch = Bytes::from(batch);
        assert_eq!(Decompressor::new(60_000).decompress(batch.clone()).unwrap().len(), 60_000);
        assert!(Decompressor::new(59_999).decompress(batch).is_err());
    }

    #[test]
    fn truncated_blocks_do_not_panic() {
        for cut in 0..E56.len() {
            let result = Decompressor::new(65_533).decompress(Bytes::from_static(&E56[..cut]));
            assert!(cut <= 1 || result.is_err() || result.is_ok_and(|b| b.len() < 113), "{cut}");
        }
    }
}

#[cfg(all(test, not(feature = "lz4")))]
mod tests_without_lz4 {
    use super::*;

    #[test]
    fn batches_leave_raw_and_a_block_is_an_error() {
        let mut batch = vec![0xaa];
        batch.extend([b'a'; 100]);
        Compressor::default().compress(&mut batch, 0);
        assert_eq!((batch.len(), batch[0]), (101, 0));
        let mut machine = Decompressor::new(100);
        assert_eq!(machine.decompress(batch.into()).unwrap(), [b'a'; 100][..]);
        let error = machine.decompress(Bytes::from_static(b"\x01\x10a")).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Compression);
    }
}
