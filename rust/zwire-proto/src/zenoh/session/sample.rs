//! [`Sample`]: content of a subscriber's event and of a reply.

use bytes::Bytes;

use super::stamps::Stamps;
use crate::zenoh::{
    Encoding, KeyExpr, Payload, Qos, Reliability, Timestamp,
    wire::{PushBody, SourceInfo},
};

/// Kind of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleKind {
    /// A value.
    Put,
    /// A deletion: no payload, no encoding.
    Delete,
}

/// Value of a key at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Key; may contain wildcards.
    pub key: KeyExpr,
    /// Whether it is a put or a delete.
    pub kind: SampleKind,
    /// The value.
    pub payload: Payload,
    /// Encoding of the payload.
    pub encoding: Encoding,
    /// Time of the publication.
    pub timestamp: Option<Timestamp>,
    /// Priority, congestion control, express.
    pub qos: Qos,
    /// Channel over which it came.
    pub reliability: Reliability,
    /// Publisher and its sequence number, rarely present.
    pub source_info: Option<Box<SourceInfo>>,
    /// Attachment of the user; present and empty is not the same as absent.
    pub attachment: Option<Bytes>,
    /// Times at nodes on its way, if the sender requested them.
    pub stamps: Option<Box<Stamps>>,
    /// Number of the link that brought it, assigned by the driver; 0: none, or not known.
    pub link: u32,
}

impl Sample {
    /// Makes a sample of a message. A payload in shared memory cannot be delivered.
    #[must_use]
    #[inline]
    pub fn new(key: KeyExpr, mut body: PushBody, qos: Qos, reliability: Reliability) -> Self {
        Self::taking(key, &mut body, qos, reliability, None)
    }

    /// Like [`Self::new`], moving only what is needed: `body` is empty afterwards.
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
                payload: core::mem::take(&mut put.payload),
                encoding: core::mem::take(&mut put.encoding),
                timestamp: put.timestamp.take(),
                qos,
                reliability,
                source_info: put.source_info.take(),
                attachment: put.attachment.take(),
                stamps,
                ..Self::liveliness(key, SampleKind::Put)
            },
            PushBody::Del(del) => Self {
                timestamp: del.timestamp.take(),
                qos,
                reliability,
                source_info: del.source_info.take(),
                attachment: del.attachment.take(),
                stamps,
                ..Self::liveliness(key, SampleKind::Delete)
            },
        }
    }

    #[inline]
    pub(super) fn stamped(mut self, stamps: Option<Box<Stamps>>) -> Self {
        self.stamps = stamps;
        self
    }

    /// The sample for a token that appeared (`Put`) or vanished (`Delete`).
    #[inline]
    pub(super) const fn liveliness(key: KeyExpr, kind: SampleKind) -> Self {
        Self {
            key,
            kind,
            payload: Payload::new(),
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

    /// The sample in memory of its own, for long storage: it no longer keeps a receive buffer alive.
    pub(in crate::zenoh) fn kept(mut self) -> Self {
        self.key = self.key.unshared();
        unshare(&mut self);
        self
    }

    /// Approximate memory that it keeps alive.
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
        sample.payload = Bytes::copy_from_slice(&sample.payload).into();
    }
    if let Some(attachment) = &mut sample.attachment
        && attachment.len() < SMALL
    {
        *attachment = Bytes::copy_from_slice(attachment);
    }
}
