//! Recognition of samples that two spoolers of one spool have received: in rows of the spool, and in a queue.

use crate::numbers::{Publisher, column};
use arrow_array::{Array, BinaryArray, Int64Array, RecordBatch, StringArray};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use zwire_proto::zenoh::{ZenohId, session::Sample};
use zwire_spool::Layout;

/// Recognisable part of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Identity {
    /// Publisher, and its sequence number.
    Number(Publisher, u32),
    /// Fingerprint of key, time and clock.
    Stamp(u128),
    /// Fingerprint of key and payload of a sample without number and time: several samples may have it.
    Content(u128),
}

/// Makes identities. Fingerprints are those of one process.
#[derive(Debug)]
pub(crate) struct Recognition {
    first: RandomState,
    second: RandomState,
    /// Columns with the numbers of publishers, if the spool has all of them.
    numbers: bool,
    stamps: bool,
}

/// Octets of an id as on the wire, and their number.
pub(crate) const fn id_octets(id: ZenohId) -> ([u8; 16], usize) {
    (id.to_le_bytes(), id.wire_len())
}

pub(crate) fn octets(id: &([u8; 16], usize)) -> &[u8] {
    &id.0[..id.1]
}

pub(crate) fn id_bytes(id: ZenohId) -> Vec<u8> {
    octets(&id_octets(id)).to_vec()
}

/// Value of a row; `None` if it has none.
macro_rules! value {
    ($array:expr, $row:expr) => {
        $array.filter(|array| !array.is_null($row)).map(|array| array.value($row))
    };
}

impl Recognition {
    pub(crate) fn new(layout: &Layout) -> Self {
        let has = |names: &[&str]| names.iter().all(|name| layout.position(name).is_some());
        Self {
            first: RandomState::new(),
            second: RandomState::new(),
            numbers: has(&["source_zid", "source_eid", "source_sn"]),
            stamps: has(&["hlc", "hlc_id"]),
        }
    }

    /// Columns of rows that [`Self::of_rows`] reads.
    pub(crate) fn columns(&self) -> Vec<&'static str> {
        let mut columns = vec!["offset", "key", "payload"];
        if self.numbers {
            columns.extend(["source_zid", "source_eid", "source_sn"]);
        }
        if self.stamps {
            columns.extend(["hlc", "hlc_id"]);
        }
        columns
    }

    /// Two independent hashes: of a million samples, two have the same one with a probability of 10^-27.
    fn print(&self, parts: [&[u8]; 3]) -> u128 {
        let hash = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            for part in parts {
                hasher.write_usize(part.len());
                hasher.write(part);
            }
            u128::from(hasher.finish())
        };
        hash(&self.first) << 64 | hash(&self.second)
    }

    fn stamp(&self, key: &str, hlc: i64, clock: &[u8]) -> Identity {
        Identity::Stamp(self.print([key.as_bytes(), &hlc.to_le_bytes(), clock]))
    }

    /// Identity of a sample.
    pub(crate) fn of_sample(&self, sample: &Sample) -> Identity {
        if let Some(info) = sample.source_info.as_ref().filter(|_| self.numbers) {
            return Identity::Number((info.zid, info.eid), info.sn);
        }
        let key = sample.key.as_str();
        match sample.timestamp.filter(|_| self.stamps) {
            Some(stamp) => self.stamp(key, stamp.time.0.cast_signed(), &id_bytes(stamp.id)),
            None => Identity::Content(self.print([key.as_bytes(), &sample.payload, &[]])),
        }
    }

    /// Identities of rows with [`Self::columns`].
    pub(crate) fn of_rows(&self, batch: &RecordBatch) -> Vec<Identity> {
        let binary = |name| column::<BinaryArray>(batch, name);
        let whole = |name| column::<Int64Array>(batch, name);
        let (zids, clocks, payloads) = (binary("source_zid"), binary("hlc_id"), binary("payload"));
        let (eids, sns, hlcs) = (whole("source_eid"), whole("source_sn"), whole("hlc"));
        let keys = column::<StringArray>(batch, "key");
        let number = |row| {
            let zid = ZenohId::from_wire(value!(zids, row)?)?;
            let eid = u32::try_from(value!(eids, row)?).ok()?;
            Some(Identity::Number((zid, eid), u32::try_from(value!(sns, row)?).ok()?))
        };
        let identity = |row| {
            let key = value!(keys, row).unwrap_or_default();
            let stamp = || Some(self.stamp(key, value!(hlcs, row)?, value!(clocks, row)?));
            let payload = || value!(payloads, row).unwrap_or_default();
            let content = || Identity::Content(self.print([key.as_bytes(), payload(), &[]]));
            number(row).or_else(stamp).unwrap_or_else(content)
        };
        (0..batch.num_rows()).map(identity).collect()
    }
}
