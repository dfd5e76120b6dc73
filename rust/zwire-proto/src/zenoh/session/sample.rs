//! [`Sample`]: what a subscriber gets and a reply holds.

use bytes::Bytes;

use super::stamps::Stamps;
use crate::zenoh::{
    Encoding, KeyExpr, Qos, Reliability, Timestamp,
    wire::{PushBody, SourceInfo},
};

/// Whether a value came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleKind {
    /// A value.
    Put,
    /// A deletion: no payload, no encoding.
    Delete,
}

/// A value of a key at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its key; may hold wildcards.
    pub key: KeyExpr,
    /// Whether a value came or went.
    pub kind: SampleKind,
    /// The value.
    pub payload: Bytes,
    /// What the payload holds.
    pub encoding: Encoding,
    /// When it was made.
    pub timestamp: Option<Timestamp>,
    /// Priority, congestion control, express.
    pub qos: Qos,
    /// The channel that it came by.
    pub reliability: Reliability,
    /// Who made it, which few say.
    pub source_info: Option<Box<SourceInfo>>,
    /// Bytes of the user; present and empty is not the same as absent.
    pub attachment: Option<Bytes>,
    /// When it passed where, if its sender wants to know.
    pub stamps: Option<Box<Stamps>>,
    /// Which link has brought it, by a number of whoever drives the session; 0: none, or not known.
    pub link: u32,
}

impl Sample {
    /// From a message. A payload that describes shared memory is none that we could deliver.
    #[must_use]
    #[inline]
    pub fn new(key: KeyExpr, mut body: PushBody, qos: Qos, reliability: Reliability) -> Self {
        Self::taking(key, &mut body, qos, reliability, None)
    }

    /// As [`Self::new`], without moving more than what is needed: `body` is empty afterwards.
    #[inline]
    pub(super) fn taking(
        key: KeyExpr,
        body: &mut PushBody,
        qos: Qos,
        reliability: Reliability,
        stamps: Option<Box<Stamps>>,
    ) -> Self {
        match body {
            PushBody::Put(put) => Self {
                key,
                kind: SampleKind::Put,
                payload: core::mem::take(&mut put.payload),
                encoding: core::mem::take(&mut put.encoding),
                timestamp: put.timestamp.take(),
                qos,
                reliability,
                source_info: put.source_info.take(),
                attachment: put.attachment.take(),
                stamps,
                link: 0,
            },
            PushBody::Del(del) => Self {
                key,
                kind: SampleKind::Delete,
                payload: Bytes::new(),
                encoding: Encoding::DEFAULT,
                timestamp: del.timestamp.take(),
                qos,
                reliability,
                source_info: del.source_info.take(),
                attachment: del.attachment.take(),
                stamps,
                link: 0,
            },
        }
    }

    /// The same with stamps.
    #[inline]
    pub(super) fn stamped(mut self, stamps: Option<Box<Stamps>>) -> Self {
        self.stamps = stamps;
        self
    }

    /// The sample that says that a token appeared (`Put`) or vanished (`Delete`).
    pub(super) const fn liveliness(key: KeyExpr, kind: SampleKind) -> Self {
        Self {
            key,
            kind,
            payload: Bytes::new(),
            encoding: Encoding::DEFAULT,
            timestamp: None,
            qos: Qos::DEFAULT,
            reliability: Reliability::Reliable,
            source_info: None,
            attachment: None,
            stamps: None,
            link: 0,
        }
    }

    /// The same, for somebody who keeps it for a while: not within the buffer that it came in.
    pub(in crate::zenoh) fn kept(mut self) -> Self {
        self.key = self.key.unshared();
        unshare(&mut self);
        self
    }

    /// How much memory it keeps alive, roughly.
    pub(in crate::zenoh) fn cost(&self) -> usize {
        size_of::<Self>()
            + self.key.len()
            + self.payload.len()
            + self.attachment.as_ref().map_or(0, Bytes::len)
    }
}

/// Small payloads are copied, because each would keep the whole buffer alive that it came in.
pub(super) fn unshare(sample: &mut Sample) {
    const SMALL: usize = 4096;
    if sample.payload.len() < SMALL {
        sample.payload = Bytes::copy_from_slice(&sample.payload);
    }
    if let Some(attachment) = &mut sample.attachment
        && attachment.len() < SMALL
    {
        *attachment = Bytes::copy_from_slice(attachment);
    }
}
