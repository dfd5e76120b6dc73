//! Bare Zenoh bytes, between ends that the caller names.

use super::records::{Batches, End, Limits};
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use bytes::Bytes;
use core::{
    net::{Ipv6Addr, SocketAddr},
    time::Duration,
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use zwire_dissect::{Frame, FrameDissector, Framing};

/// Number of names from which on those without a session are forgotten.
const MANY_NAMES: usize = 1 << 16;

/// Placeholder for an end without a name.
const NOBODY: SocketAddr = SocketAddr::new(core::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// Names of the ends of sessions, and the addresses that stand for them internally.
struct Names {
    addresses: HashMap<Arc<str>, SocketAddr>,
    names: HashMap<SocketAddr, Arc<str>>,
    /// Number of names that are not addresses, so far.
    count: u64,
    /// Number of names at which unused ones are next looked for.
    many: usize,
}

impl Names {
    fn new() -> Self {
        Self { addresses: HashMap::new(), names: HashMap::new(), count: 0, many: MANY_NAMES }
    }

    fn address(&mut self, name: &str) -> SocketAddr {
        if let Some(address) = self.addresses.get(name) {
            return *address;
        }
        let address = name.parse().unwrap_or_else(|_| {
            self.count += 1;
            // The discard prefix (RFC 6666), from which no host has an address.
            let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (self.count >> shift) as u16);
            SocketAddr::from((Ipv6Addr::new(0x100, 0, 0, 0, a, b, c, d), 0))
        });
        let name: Arc<str> = name.into();
        self.names.insert(address, name.clone());
        self.addresses.insert(name, address);
        address
    }

    fn end(&self, address: Option<SocketAddr>) -> Option<End> {
        let address = address.filter(|address| *address != NOBODY)?;
        Some(self.names.get(&address).map_or(End::Address(address), |name| End::Name(name.clone())))
    }

    /// Forgets names that are not needed, if there are many.
    fn clean(&mut self, needed: impl Iterator<Item = SocketAddr>) {
        if self.addresses.len() < self.many {
            return;
        }
        let needed: HashSet<_> = needed.collect();
        self.addresses.retain(|_, address| needed.contains(address));
        self.names.retain(|address, _| needed.contains(address));
        self.many = MANY_NAMES.max(2 * self.addresses.len());
    }
}

/// Frames as batches of records.
pub struct FrameRows {
    dissector: FrameDissector,
    batches: Batches,
    names: Names,
    ended: bool,
}

impl FrameRows {
    /// Reader of frames: batches, or pieces of streams.
    pub fn new(framing: Framing, limits: Limits) -> Self {
        let (dissector, batches) = (FrameDissector::new(framing), Batches::new(limits));
        Self { dissector, batches, names: Names::new(), ended: false }
    }

    /// Adds a frame with the names of its ends, and its time since 1970.
    pub fn push(&mut self, data: Bytes, src: Option<&str>, dst: Option<&str>, time: Option<Duration>) {
        let [src, dst] = [src, dst].map(|name| name.map_or(NOBODY, |name| self.names.address(name)));
        self.dissector.push(Frame { time, src, dst, data });
    }

    /// Tells that no more frames follow.
    pub fn finish(&mut self) {
        self.ended = true;
        self.dissector.finish();
    }

    /// Whether all frames were added.
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Decodes the frames added so far. Returns a full batch, or the last one at the end.
    pub fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            if let Some(batch) = self.batches.pop() {
                return Ok(Some(batch));
            }
            let records = self.dissector.poll_records();
            if records.is_empty() {
                self.names.clean(self.dissector.ends());
                if self.ended {
                    self.batches.finish()?;
                }
                return Ok(self.batches.pop());
            }
            for record in records {
                let (src, dst) = (self.names.end(record.src), self.names.end(record.dst));
                self.batches.push(record, src.as_ref(), dst.as_ref())?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_addresses_until_they_are_cleaned() {
        let mut names = Names::new();
        let address = names.address("robot");
        assert_eq!(
            (names.address("robot"), names.address("10.0.0.1:7447").to_string()),
            (address, "10.0.0.1:7447".to_owned())
        );
        assert!(names.address("other") != address);
        assert_eq!(names.end(Some(address)), Some(End::Name("robot".into())));
        assert_eq!((names.end(Some(NOBODY)), names.end(None)), (None, None));
        names.clean(core::iter::empty());
        assert_eq!(names.end(Some(address)), Some(End::Name("robot".into())));
        names.many = 0;
        names.clean(core::iter::once(address));
        assert_eq!((names.addresses.len(), names.names.len()), (1, 1));
    }

    #[test]
    fn bytes_that_are_no_messages_become_a_row_with_an_error() {
        let mut rows = FrameRows::new(Framing::Batch, Limits::new(8, 1 << 20).unwrap());
        rows.push(Bytes::from_static(&[0xff; 9]), Some("a"), Some("b"), None);
        assert!(rows.batch().unwrap().is_none() && !rows.is_ended());
        rows.finish();
        let batch = rows.batch().unwrap().unwrap();
        assert_eq!(batch.schema(), super::super::schema());
        assert!(batch.num_rows() > 0);
        assert!(rows.batch().unwrap().is_none());
    }
}
