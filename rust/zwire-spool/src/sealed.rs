//! Descriptions of sealed segments: in a list beside the files of a shard, and in pages of a store.
//!
//! ```text
//!  0  length of all    4  first offset   12  offset after the last   20  rows   28  octets of the segment
//! 36  least recv_ts   44  greatest recv_ts                           52  crc32c of the segment
//! 56  octets of its keys, ffff: unknown      58  octets of its problem, ffff: none     60  keys | problem
//!     crc32c of all before
//! ```
//!
//! A list of them is a sequence without anything between. A page is a list compressed with Zstandard.

use crate::keys::{KeyCollector, Keys, MAX_KEYS};
use bytes::{Buf as _, Bytes};

/// Octets before the keys.
const HEAD: usize = 60;
/// Length that says that there is none.
const NONE: u16 = u16::MAX;
/// Most octets of the description of damage.
const MAX_PROBLEM: usize = 300;
/// Most octets of a description.
pub(crate) const MAX_SEALED: usize = HEAD + MAX_KEYS + MAX_PROBLEM + 4;
/// Segments of a page. A reader has a few pages in memory, and each whole state of a store names all of them.
pub const PAGE: usize = 2048;

/// Description of a sealed segment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sealed {
    /// Offset of its first row.
    pub base: u64,
    /// Offset after its last row.
    pub end: u64,
    /// Number of rows.
    pub rows: u64,
    /// Its size in octets.
    pub bytes: u64,
    /// CRC32C of all its octets; 0 in the list of a folder.
    pub crc: u32,
    /// Least and greatest receive time of its rows, in microseconds since 1970.
    pub times: (i64, i64),
    /// Keys of its rows; `None` if they are unknown, or rows have none.
    pub keys: Option<Keys>,
    /// Damage that was there when it was described; its octets are kept as they are.
    pub problem: Option<String>,
}

impl Sealed {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let keys = self.keys.as_ref().map(Keys::octets).filter(|keys| keys.len() <= MAX_KEYS);
        let problem = self.problem.as_ref().map(|text| &text.as_bytes()[..text.len().min(MAX_PROBLEM)]);
        let parts = [keys, problem];
        let len = HEAD + parts.iter().flatten().map(|part| part.len()).sum::<usize>() + 4;
        out.extend_from_slice(&(len as u32).to_le_bytes());
        for number in [self.base, self.end, self.rows, self.bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.times.0.to_le_bytes());
        out.extend_from_slice(&self.times.1.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
        for part in parts {
            out.extend_from_slice(&part.map_or(NONE, |part| part.len() as u16).to_le_bytes());
        }
        parts.iter().flatten().for_each(|part| out.extend_from_slice(part));
        let crc = crc32c::crc32c(&out[begin..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// Takes a description off the octets; `None` if they do not begin with a valid one.
    pub(crate) fn decode(octets: &mut Bytes) -> Option<Self> {
        let len = u32::from_le_bytes(*octets.first_chunk()?) as usize;
        if !(HEAD + 4..=MAX_SEALED).contains(&len) || len > octets.len() {
            return None;
        }
        let mut own = octets.split_to(len);
        let crc = own.split_off(len - 4);
        if crc32c::crc32c(&own).to_le_bytes() != crc[..] {
            return None;
        }
        own.advance(4);
        let (base, end, rows, bytes) =
            (own.get_u64_le(), own.get_u64_le(), own.get_u64_le(), own.get_u64_le());
        let times = (own.get_i64_le(), own.get_i64_le());
        let crc = own.get_u32_le();
        let (keys, problem) = (own.get_u16_le(), own.get_u16_le());
        let mut part = |len: u16| {
            let part = (len != NONE).then(|| own.split_to(own.len().min(usize::from(len))));
            part.filter(|part| part.len() == usize::from(len))
        };
        let (keys, problem) = (part(keys).map(Keys::stored), part(problem));
        let problem = problem.map(|text| String::from_utf8_lossy(&text).into_owned());
        (base <= end).then_some(Self { base, end, rows, bytes, crc, times, keys, problem })
    }
}

/// Part of a number, rounded down.
pub(crate) fn share(whole: u64, part: u64, total: u64) -> u64 {
    let wide = u128::from(whole) * u128::from(part) / u128::from(total.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// Reads descriptions up to the first that is not valid; also returns the number of octets before that.
pub(crate) fn decode_all(octets: &Bytes, most: usize) -> (Vec<Sealed>, usize) {
    let (mut rest, mut found, mut valid) = (octets.clone(), Vec::new(), 0);
    while found.len() < most
        && let Some(sealed) = Sealed::decode(&mut rest)
    {
        found.push(sealed);
        valid = octets.len() - rest.len();
    }
    (found, valid)
}

/// Consecutive segments of a shard, described together in an object of a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// Offset of the first row.
    pub base: u64,
    /// Offset after the last row.
    pub end: u64,
    /// Number of segments.
    pub segments: u64,
    /// Size of the segments in octets.
    pub bytes: u64,
    /// CRC32C of the octets of the page.
    pub crc: u32,
    /// Least and greatest receive time of the rows; all times if those of a segment are unknown.
    pub times: (i64, i64),
    /// Keys of the rows; `None` if those of a segment are unknown or not named.
    pub keys: Option<Keys>,
}

impl Page {
    /// A page of segments, and its octets. Fails with a description of the problem.
    pub fn pack(segments: &[Sealed]) -> Result<(Self, Vec<u8>), String> {
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
            return Err("a page without segments".to_owned());
        };
        let (mut octets, mut keys) = (Vec::new(), Some(KeyCollector::new()));
        segments.iter().for_each(|segment| segment.encode(&mut octets));
        // Nothing is known of a damaged segment, and none of those between others that are missing.
        let whole = segments.iter().all(|segment| segment.problem.is_none())
            && segments.windows(2).all(|pair| pair[0].end == pair[1].base);
        for segment in segments {
            let merged = keys.as_mut().zip(segment.keys.as_ref().filter(|_| whole));
            if !merged.is_some_and(|(all, own)| all.merge(own)) {
                keys = None;
                break;
            }
        }
        let times = (
            segments.iter().map(|segment| segment.times.0).min().filter(|_| whole).unwrap_or(i64::MIN),
            segments.iter().map(|segment| segment.times.1).max().filter(|_| whole).unwrap_or(i64::MAX),
        );
        let octets = zstd::bulk::compress(&octets, 1).map_err(|error| error.to_string())?;
        let page = Self {
            base: first.base,
            end: last.end,
            segments: segments.len() as u64,
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            crc: crc32c::crc32c(&octets),
            times,
            keys: keys.map(|keys| keys.finish()),
        };
        Ok((page, octets))
    }

    /// Segments of a page with these octets. Fails with a description of the problem.
    pub fn unpack(&self, octets: &[u8]) -> Result<Vec<Sealed>, String> {
        let crc = crc32c::crc32c(octets);
        if crc != self.crc {
            return Err(format!("the checksum of a page is {crc:08x} and should be {:08x}", self.crc));
        }
        let count = usize::try_from(self.segments).ok().filter(|count| (1..=PAGE).contains(count));
        let count = count.ok_or_else(|| format!("a page of {} segments", self.segments))?;
        let octets = zstd::bulk::decompress(octets, count * MAX_SEALED).map_err(|error| error.to_string())?;
        let octets = Bytes::from(octets);
        let (segments, valid) = decode_all(&octets, count);
        let ordered = segments.windows(2).all(|pair| pair[0].end <= pair[1].base);
        let ends = (segments.first().map(|first| first.base), segments.last().map(|last| last.end));
        if segments.len() == count
            && valid == octets.len()
            && ordered
            && ends == (Some(self.base), Some(self.end))
        {
            return Ok(segments);
        }
        Err(format!("is no page of {count} segments, offsets {} to {}", self.base, self.end))
    }
}
