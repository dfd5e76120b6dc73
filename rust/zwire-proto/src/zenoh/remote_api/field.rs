//! Fields of messages.

use crate::{
    Text,
    buf::{Reader, Sink, put_zbytes},
    error::{DecodeErrorKind, Result},
    limits::MAX_KEYEXPR_LEN,
    zenoh::{
        CongestionControl, Encoding, KeyExpr, Payload, Priority, Qos, Reliability, Timestamp, ZenohId,
        session::{Locality, SampleKind},
        timestamp::Ntp64,
        wire::{Consolidation, QueryTarget},
    },
};
use bytes::Bytes;

/// Most elements of a list. Lists are of nodes and links of a router, and only servers send them.
pub const MAX_LIST: usize = 65_536;

/// Value that messages contain.
pub(super) trait Field: Sized {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self>;
    fn write(&self, sink: &mut impl Sink);
}

/// Makes the error for a byte without a meaning.
fn illegal<T>(r: &Reader<'_>, reading: &'static str, offset: usize, value: u8) -> Result<T> {
    Err(r.error(reading, offset, DecodeErrorKind::Illegal { value: value.into() }))
}

impl Field for u8 {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        r.u8(reading)
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.put_u8(*self);
    }
}

macro_rules! integers {
    ($($integer:ty),+) => {
        $(impl Field for $integer {
            fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
                r.array(reading).map(Self::from_le_bytes)
            }
            fn write(&self, sink: &mut impl Sink) {
                sink.put(&self.to_le_bytes());
            }
        })+
    };
}

integers!(u16, u32, u64);

impl Field for bool {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        let offset = r.offset();
        match r.u8(reading)? {
            0 => Ok(false),
            1 => Ok(true),
            other => illegal(r, reading, offset, other),
        }
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.put_u8(u8::from(*self));
    }
}

impl Field for Text {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        r.text(u64::MAX, reading)
    }
    fn write(&self, sink: &mut impl Sink) {
        put_zbytes(sink, self.as_bytes());
    }
}

impl Field for Bytes {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        r.zbytes(u64::MAX, reading)
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.put_vle(self.len() as u64);
        sink.put_shared(self);
    }
}

impl Field for Payload {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        Bytes::read(r, reading).map(Self::from)
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.put_vle(self.len() as u64);
        self.parts().iter().for_each(|part| sink.put_shared(part));
    }
}

impl Field for KeyExpr {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        let offset = r.offset();
        let text = r.text(MAX_KEYEXPR_LEN as u64, reading)?;
        Self::from_text(text).map_err(|_| r.error(reading, offset, DecodeErrorKind::KeyExpr))
    }
    fn write(&self, sink: &mut impl Sink) {
        put_zbytes(sink, self.as_str().as_bytes());
    }
}

impl<T: Field> Field for Option<T> {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        if bool::read(r, reading)? { T::read(r, reading).map(Some) } else { Ok(None) }
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.put_u8(u8::from(self.is_some()));
        if let Some(value) = self {
            value.write(sink);
        }
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        let count = r.count(MAX_LIST, reading)?;
        (0..count).map(|_| T::read(r, reading)).collect()
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.put_vle(self.len() as u64);
        self.iter().for_each(|one| one.write(sink));
    }
}

impl Field for ZenohId {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        let offset = r.offset();
        let len = r.u8(reading)?;
        if len != 16 {
            return illegal(r, reading, offset, len);
        }
        let number = u128::from_le_bytes(r.array(reading)?);
        Self::new(number).ok_or_else(|| r.error(reading, offset, DecodeErrorKind::Illegal { value: 0 }))
    }
    fn write(&self, sink: &mut impl Sink) {
        put_zbytes(sink, &self.to_le_bytes());
    }
}

impl Field for Timestamp {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        Ok(Self { time: Ntp64(u64::read(r, reading)?), id: ZenohId::read(r, reading)? })
    }
    fn write(&self, sink: &mut impl Sink) {
        self.time.0.write(sink);
        self.id.write(sink);
    }
}

impl Field for Encoding {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        let id = u16::read(r, reading)?;
        let schema = r.text(Self::MAX_SCHEMA_LEN as u64, reading)?;
        Ok(Self { id, schema: (!schema.is_empty()).then(|| Box::new(schema.into_bytes())) })
    }
    fn write(&self, sink: &mut impl Sink) {
        self.id.write(sink);
        // A schema of another peer may be any bytes; here it is a string.
        let schema = self.schema.as_deref().map_or(&b""[..], |schema| &schema[..]);
        put_zbytes(sink, if core::str::from_utf8(schema).is_ok() { schema } else { b"" });
    }
}

/// Bytes with a meaning each: reading fails for others.
macro_rules! bytes {
    ($($what:ty: $($value:path = $byte:literal),+;)+) => {
        $(impl Field for $what {
            fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
                let offset = r.offset();
                match r.u8(reading)? {
                    $($byte => Ok($value),)+
                    other => illegal(r, reading, offset, other),
                }
            }
            fn write(&self, sink: &mut impl Sink) {
                sink.put_u8(match self { $($value => $byte),+ });
            }
        })+
    };
}

bytes! {
    Locality: Locality::SessionLocal = 0, Locality::Remote = 1, Locality::Any = 2;
    SampleKind: SampleKind::Put = 0, SampleKind::Delete = 1;
}

/// Quality of service: bits 0 to 2 priority, 3 block, 4 express, 5 reliable, 6 and 7 the sessions that get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteQos {
    /// Priority, congestion control, express.
    pub qos: Qos,
    /// Channel of the transport.
    pub reliability: Reliability,
    /// Sessions that are the counterpart.
    pub locality: Locality,
}

impl RemoteQos {
    const BLOCK: u8 = 0x08;
    const EXPRESS: u8 = 0x10;
    const RELIABLE: u8 = 0x20;

    /// QoS of a sample that was received. There is no bit for the first of several messages to wait: it is sent as
    /// one that is dropped.
    #[must_use]
    pub const fn received(qos: Qos, reliability: Reliability) -> Self {
        Self { qos, reliability, locality: Locality::Any }
    }
}

impl Field for RemoteQos {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        let offset = r.offset();
        let bits = r.u8(reading)?;
        let locality = match bits >> 6 {
            0 => Locality::SessionLocal,
            1 => Locality::Remote,
            2 => Locality::Any,
            _ => return illegal(r, reading, offset, bits),
        };
        let priority = Priority::from_bits(bits);
        if priority == Priority::Control {
            return illegal(r, reading, offset, bits);
        }
        let congestion =
            if bits & Self::BLOCK == 0 { CongestionControl::Drop } else { CongestionControl::Block };
        let reliability =
            if bits & Self::RELIABLE == 0 { Reliability::BestEffort } else { Reliability::Reliable };
        Ok(Self { qos: Qos::new(priority, congestion, bits & Self::EXPRESS != 0), reliability, locality })
    }
    fn write(&self, sink: &mut impl Sink) {
        let flag = |set, bit| if set { bit } else { 0 };
        let locality = match self.locality {
            Locality::SessionLocal => 0,
            Locality::Remote => 1,
            Locality::Any => 2,
        };
        sink.put_u8(
            self.qos.priority() as u8
                | flag(self.qos.congestion() == CongestionControl::Block, Self::BLOCK)
                | flag(self.qos.express(), Self::EXPRESS)
                | flag(self.reliability == Reliability::Reliable, Self::RELIABLE)
                | locality << 6,
        );
    }
}

/// Settings of a query: bits 0 and 1 target, 2 and 3 consolidation, 4 whether only replies on matching keys are
/// accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSettings {
    /// Queryables to query.
    pub target: QueryTarget,
    /// Consolidation of replies.
    pub consolidation: Consolidation,
    /// Whether replies on other keys are accepted.
    pub accept_any_key: bool,
}

impl Field for RemoteSettings {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        let offset = r.offset();
        let bits = r.u8(reading)?;
        let target = match bits & 3 {
            0 => QueryTarget::BestMatching,
            1 => QueryTarget::All,
            2 => QueryTarget::AllComplete,
            _ => return illegal(r, reading, offset, bits),
        };
        let consolidation = match bits >> 2 & 3 {
            0 => Consolidation::Auto,
            1 => Consolidation::None,
            2 => Consolidation::Monotonic,
            _ => Consolidation::Latest,
        };
        Ok(Self { target, consolidation, accept_any_key: bits & 0x10 == 0 })
    }
    fn write(&self, sink: &mut impl Sink) {
        let target = match self.target {
            QueryTarget::BestMatching => 0,
            QueryTarget::All => 1,
            QueryTarget::AllComplete => 2,
        };
        let consolidation = match self.consolidation {
            Consolidation::Auto => 0,
            Consolidation::None => 1,
            Consolidation::Monotonic => 2,
            Consolidation::Latest => 3,
        };
        sink.put_u8(target | consolidation << 2 | if self.accept_any_key { 0 } else { 0x10 });
    }
}

/// Declares a struct of fields.
macro_rules! composed {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind),+ }

        impl Field for $name {
            fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self> {
                Ok(Self { $($field: Field::read(r, concat!(stringify!($name), " ", stringify!($field)))?),+ })
            }
            fn write(&self, sink: &mut impl Sink) {
                $(self.$field.write(sink);)+
            }
        }
    };
}

composed! {
    /// Node that the router is connected to.
    RemoteTransport {
        /// Id of the node.
        zid: ZenohId,
        /// Its role: 1 router, 2 peer, 4 client.
        whatami: u8,
        /// Whether each priority is a channel of its own.
        qos: bool,
        /// Whether it is the transport of a multicast group.
        multicast: bool,
    }
}

composed! {
    /// Link of the router.
    RemoteLink {
        /// The node at the other end.
        zid: ZenohId,
        /// Local end, as a locator.
        src: Text,
        /// Remote end, as a locator.
        dst: Text,
        /// Multicast group, as a locator.
        group: Option<Text>,
        /// Largest batch, in bytes.
        mtu: u16,
        /// Whether the link is a byte stream.
        streamed: bool,
        /// Names of the interfaces that have the local address.
        interfaces: Vec<Text>,
        /// Name with which the peer has authenticated itself.
        auth_identifier: Option<Text>,
        /// First and last priority that the link carries.
        priorities: Option<RemotePriorities>,
        /// 0 best effort, 1 reliable.
        reliability: Option<u8>,
    }
}

/// First and last priority.
pub type RemotePriorities = (u8, u8);

impl Field for RemotePriorities {
    fn read(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        Ok((u8::read(r, reading)?, u8::read(r, reading)?))
    }
    fn write(&self, sink: &mut impl Sink) {
        self.0.write(sink);
        self.1.write(sink);
    }
}
