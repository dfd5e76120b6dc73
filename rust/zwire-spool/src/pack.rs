//! Compression of blocks, as Arrow defines it for the buffers of a record batch: each buffer alone, behind its length.
//!
//! ```text
//! length as i64, little endian | octets, one frame of LZ4 or Zstandard
//! -1                           | octets as they are, where compression gains nothing
//! ```

use crate::column::Rope;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::CompressionType;
use std::io::{self, Read as _, Write as _};

/// Compression of the blocks that a writer writes. Readers find it in each block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// LZ4: little processor time.
    Lz4,
    /// Zstandard: fewer octets.
    Zstd,
}

impl Compression {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("none", Self::None), ("lz4", Self::Lz4), ("zstd", Self::Zstd)];

    /// Type of the codec in the head of a block.
    pub(crate) const fn codec(self) -> Option<CompressionType> {
        match self {
            Self::None => None,
            Self::Lz4 => Some(CompressionType::LZ4_FRAME),
            Self::Zstd => Some(CompressionType::ZSTD),
        }
    }
}

/// Level of Zstandard: the next ones take a quarter longer and more for 1 % fewer octets of telemetry.
const LEVEL: i32 = 1;

/// Buffers shorter than this stay as they are: the frame around them is as long as what it saves.
const LEAST: usize = 64;

/// Length in front of a buffer that is not compressed.
const AS_IT_IS: i64 = -1;

/// Most octets of a block, unpacked, of which `packed` are read. A longer one is written without compression, so that a
/// few octets from a network cannot take any amount of memory.
pub(crate) const fn bound(packed: usize) -> usize {
    /// Many times the size at which blocks are written.
    const LEAST_BOUND: usize = 64 << 20;
    const RATIO: usize = 64;
    let most = packed.saturating_mul(RATIO);
    if most > LEAST_BOUND { most } else { LEAST_BOUND }
}

/// Compresses the buffers of blocks, one after another.
#[derive(Default)]
pub(crate) struct Packer {
    /// The body, with large pieces of payloads by reference.
    pub(crate) body: Rope,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    scratch: Vec<u8>,
}

impl Packer {
    /// Appends a buffer; returns its length in the body without padding.
    pub(crate) fn push(&mut self, codec: CompressionType, octets: &[u8]) -> usize {
        if octets.is_empty() {
            return 0;
        }
        if octets.len() >= LEAST && self.compress(codec, octets).is_ok() && self.scratch.len() < octets.len()
        {
            self.body.push(&(octets.len() as i64).to_le_bytes());
            let scratch = core::mem::take(&mut self.scratch);
            self.body.push(&scratch);
            let len = 8 + scratch.len();
            self.scratch = scratch;
            return len;
        }
        self.body.push(&AS_IT_IS.to_le_bytes());
        self.body.push(octets);
        8 + octets.len()
    }

    /// Appends a buffer with pieces by reference. They stay references if the first octets gain little: images and
    /// other compressed payloads are neither copied nor tried as a whole.
    pub(crate) fn push_rope(&mut self, codec: CompressionType, rope: &Rope) -> usize {
        /// Octets that are tried.
        const SAMPLE: usize = 64 << 10;
        if let Some(octets) = rope.whole() {
            return self.push(codec, octets);
        }
        let sample = rope.copy(SAMPLE);
        if self.compress(codec, &sample).is_ok() && self.scratch.len() < sample.len() / 10 * 9 {
            return self.push(codec, &rope.copy(usize::MAX));
        }
        self.body.push(&AS_IT_IS.to_le_bytes());
        self.body.append(rope);
        8 + rope.len()
    }

    fn compress(&mut self, codec: CompressionType, octets: &[u8]) -> io::Result<()> {
        self.scratch.clear();
        if codec == CompressionType::LZ4_FRAME {
            let mut frame = lz4_flex::frame::FrameEncoder::new(&mut self.scratch);
            frame.write_all(octets)?;
            frame.finish().map_err(io::Error::other)?;
            return Ok(());
        }
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            None => self.zstd.insert(zstd::bulk::Compressor::new(LEVEL)?),
        };
        self.scratch.reserve(zstd::zstd_safe::compress_bound(octets.len()));
        zstd.compress_to_buffer(octets, &mut self.scratch).map(drop)
    }
}

/// Unpacks a buffer, which may have `left` octets at most; these are lowered by its length.
pub(crate) fn unpack(codec: CompressionType, packed: &Buffer, left: &mut usize) -> Result<Buffer, String> {
    if packed.is_empty() {
        return Ok(packed.clone());
    }
    let Some(length) = packed.first_chunk() else {
        return Err(format!("a compressed buffer of {} octets without its length", packed.len()));
    };
    let length = i64::from_le_bytes(*length);
    let octets = packed.slice(8);
    if length == AS_IT_IS {
        return Ok(octets);
    }
    let len = usize::try_from(length).ok().filter(|len| len <= left);
    let len = len.ok_or_else(|| format!("a buffer of {length} octets, of which {left} are allowed"))?;
    *left -= len;
    let mut whole = MutableBuffer::from_len_zeroed(len);
    let wrong = |error: io::Error| format!("a buffer does not unpack: {error}");
    let unpacked = match codec {
        CompressionType::LZ4_FRAME => {
            let mut frame = lz4_flex::frame::FrameDecoder::new(&octets[..]);
            frame.read_exact(whole.as_slice_mut()).map_err(wrong)?;
            // There is nothing behind it.
            len + frame.read(&mut [0]).map_err(wrong)?
        }
        CompressionType::ZSTD => {
            zstd::bulk::decompress_to_buffer(&octets[..], whole.as_slice_mut()).map_err(wrong)?
        }
        other => return Err(format!("a compression that this program does not know: {other:?}")),
    };
    if unpacked != len {
        return Err(format!("a buffer of {unpacked} octets that says it has {len}"));
    }
    Ok(whole.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODECS: [CompressionType; 2] = [CompressionType::LZ4_FRAME, CompressionType::ZSTD];

    fn packed(codec: CompressionType, octets: &[u8]) -> Buffer {
        let mut packer = Packer::default();
        let len = packer.push(codec, octets);
        let whole = packer.body.whole().unwrap_or_default();
        assert_eq!(whole.len(), len);
        Buffer::from(whole)
    }

    proptest! {
        #[test]
        fn buffers_come_back(octets: Vec<u8>, repeat in 1..100_usize) {
            let octets = octets.repeat(repeat);
            for codec in CODECS {
                let mut left = octets.len();
                let packed = packed(codec, &octets);
                prop_assert!(packed.len() <= octets.len() + 8);
                let unpacked = unpack(codec, &packed, &mut left).unwrap();
                prop_assert_eq!(&unpacked[..], &octets[..]);
            }
        }

        #[test]
        fn any_octets_are_a_buffer_within_its_bound_or_an_error(octets: Vec<u8>, length in 0..1000_i64) {
            let octets = Buffer::from([&length.to_le_bytes()[..], &octets].concat());
            for codec in CODECS {
                let mut left = 500;
                if let Ok(found) = unpack(codec, &octets, &mut left) {
                    prop_assert!(found.len() <= 500 && left == 500 - found.len());
                }
            }
        }
    }

    #[test]
    fn wrong_lengths_are_named() {
        for codec in CODECS {
            let good = packed(codec, &[7; 1000]);
            assert!(good.len() < 100);
            let says = |length: i64| Buffer::from([&length.to_le_bytes()[..], &good[8..]].concat());
            let problem = |octets: Buffer| unpack(codec, &octets, &mut 2000).unwrap_err();
            assert_eq!(problem(says(3000)), "a buffer of 3000 octets, of which 2000 are allowed");
            assert_eq!(problem(says(-2)), "a buffer of -2 octets, of which 2000 are allowed");
            for length in [0, 999, 1001] {
                let text = problem(says(length));
                assert!(text.contains("does not unpack") || text.contains("says it has"), "{text}");
            }
            assert!(problem(good.slice_with_length(0, 5)).contains("without its length"));
            assert!(unpack(codec, &good.slice_with_length(0, 20), &mut 2000).is_err());
        }
    }
}
