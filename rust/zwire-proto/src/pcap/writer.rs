//! The pcap file format (draft-ietf-opsawg-pcap), writing.

use core::time::Duration;

/// Magic number of files with nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
const MAJOR: u16 = 2;
const MINOR: u16 = 4;
/// The longest packet of a file: the bound that other readers put on Ethernet.
const SNAPLEN: u32 = 262_144;
/// Link type of Ethernet frames.
const ETHERNET: u32 = 1;

/// Writes a capture of Ethernet frames: little endian, nanoseconds.
///
/// The output grows in memory until it is [taken](Self::take); the file header is its first part.
#[derive(Debug)]
pub struct PcapWriter {
    out: Vec<u8>,
}

impl Default for PcapWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl PcapWriter {
    /// A writer; its output begins with the file header.
    #[must_use]
    pub fn new() -> Self {
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&MAJOR.to_le_bytes());
        out.extend_from_slice(&MINOR.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&SNAPLEN.to_le_bytes());
        out.extend_from_slice(&ETHERNET.to_le_bytes());
        Self { out }
    }

    /// Appends a packet that is given in two parts, `head` (headers) and `body`. A packet above
    /// 256 KiB is cut, as a capturing program would; its record tells the original length.
    pub fn write(&mut self, timestamp: Duration, head: &[u8], body: &[u8]) {
        let len = head.len() + body.len();
        let captured = len.min(SNAPLEN as usize);
        // Seconds wrap in 2106, as in all files of this format.
        let seconds = timestamp.as_secs() as u32;
        let original = u32::try_from(len).unwrap_or(u32::MAX);
        for field in [seconds, timestamp.subsec_nanos(), captured as u32, original] {
            self.out.extend_from_slice(&field.to_le_bytes());
        }
        let head = &head[..head.len().min(captured)];
        self.out.extend_from_slice(head);
        self.out.extend_from_slice(&body[..captured - head.len()]);
    }

    /// The number of bytes that wait to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing waits to be taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes what was written since the last call. The caller appends it to the file.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }
}
