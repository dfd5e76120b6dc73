//! Properties of a connection (`zmtp` 8.1).
//!
//! ```text
//! +-----+------+-----------------+-------+
//! | len | name | length, 4 bytes | value |   for each property, to the end of the command
//! +-----+------+-----------------+-------+
//! ```

use super::{SocketType, command::put_short};
use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
    zmtp::limits::MAX_PROPERTIES,
};
use bytes::Bytes;

/// The largest length that a value may have.
const MAX_VALUE: u32 = i32::MAX as u32;

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Name, at most 255 bytes: letters, digits, `-` `_` `.` `+`; from a peer any bytes.
    pub name: Bytes,
    /// Below 2 GiB.
    pub value: Bytes,
}

/// Properties of one side's socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(pub Vec<Property>);

impl Metadata {
    /// Name of the property that holds the socket type. libzmq accepts only this spelling.
    pub const SOCKET_TYPE: &'static str = "Socket-Type";
    /// Name of the property by which routers know a peer.
    pub const IDENTITY: &'static str = "Identity";
    /// Name of the property that offers to lend payloads in shared memory (`lending`), to nodes of zwire.
    pub const LENDING: &'static str = "X-Zwire-Lending";

    /// Metadata of a socket of that type and identity. The identity is sent only where it has a
    /// meaning, there also if it is empty, as libzmq does.
    #[must_use]
    pub fn of_socket(socket_type: SocketType, identity: &Bytes) -> Self {
        let mut metadata = Self::default();
        metadata.push(Self::SOCKET_TYPE, Bytes::from_static(socket_type.name().as_bytes()));
        if socket_type.has_identity() {
            metadata.push(Self::IDENTITY, identity.clone());
        }
        metadata
    }

    /// Adds a property.
    pub fn push(&mut self, name: &'static str, value: Bytes) {
        self.0.push(Property { name: Bytes::from_static(name.as_bytes()), value });
    }

    /// The value of a property. Case is ignored, and of repeated properties the last one counts.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        let is_it = |p: &&Property| p.name.eq_ignore_ascii_case(name.as_bytes());
        self.0.iter().rev().find(is_it).map(|p| &p.value)
    }

    /// Removes a property, and returns its value as [`Self::get`] does.
    pub(crate) fn take(&mut self, name: &str) -> Option<Bytes> {
        let value = self.get(name).cloned();
        if value.is_some() {
            self.0.retain(|property| !property.name.eq_ignore_ascii_case(name.as_bytes()));
        }
        value
    }

    /// Reads properties to the end.
    ///
    /// # Errors
    /// A truncated property, or too many properties.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut properties = Vec::new();
        while !r.is_empty() {
            let offset = r.offset();
            if properties.len() == MAX_PROPERTIES {
                let (value, bound) = (MAX_PROPERTIES as u64 + 1, MAX_PROPERTIES as u64);
                return Err(r.error("metadata", offset, DecodeErrorKind::OutOfRange { value, bound }));
            }
            let len = r.u8("property name length")?;
            let name = r.bytes(len.into(), "property name")?;
            let offset = r.offset();
            let len = r.u32_be("property value length")?;
            if len > MAX_VALUE {
                let kind = DecodeErrorKind::OutOfRange { value: len.into(), bound: MAX_VALUE.into() };
                return Err(r.error("property value length", offset, kind));
            }
            let value = r.bytes(len as usize, "property value")?;
            properties.push(Property { name, value });
        }
        Ok(Self(properties))
    }

    /// Writes the properties. A name or value above its bound, which no socket has, is truncated.
    pub fn encode(&self, sink: &mut impl Sink) {
        for Property { name, value } in &self.0 {
            put_short(sink, name);
            let len = u32::try_from(value.len()).unwrap_or(u32::MAX).min(MAX_VALUE);
            sink.put(&len.to_be_bytes());
            sink.put_shared(&value.slice(..len as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{kind, unhex};
    use super::*;

    fn decode(hex: &str) -> Result<Metadata> {
        Metadata::decode(&mut Reader::new(&unhex(hex)))
    }

    /// `zmtp` 8.1: forms that libzmq was seen to accept.
    #[test]
    fn names_in_any_case_repeated_and_empty() {
        let list =
            decode("08 6964454e54495459 00000001 61  08 4964656e74697479 00000001 62  00 00000000").unwrap();
        assert_eq!(list.get("Identity").unwrap(), "b");
        assert_eq!(list.get("identity").unwrap(), "b");
        assert_eq!(list.get("").unwrap(), "");
        assert_eq!(list.get("Socket-Type"), None);
        assert_eq!(list.0.len(), 3);
        assert_eq!(decode(""), Ok(Metadata::default()));
    }

    #[test]
    fn a_cut_property_and_a_byte_left_over_are_errors() {
        let whole = "01 61 00000002 6263";
        assert!(decode(whole).is_ok());
        for cut in 1..unhex(whole).len() {
            let part = unhex(whole).slice(..cut);
            assert!(Metadata::decode(&mut Reader::new(&part)).is_err(), "{cut}");
        }
        assert!(decode(&format!("{whole} 00")).is_err());
        assert!(decode(&format!("{whole} 05")).is_err());
    }

    #[test]
    fn lengths_and_counts_are_bounded_before_memory_is_taken() {
        assert_eq!(
            kind(decode("01 61 80000000")),
            DecodeErrorKind::OutOfRange { value: 1 << 31, bound: (1 << 31) - 1 }
        );
        assert!(matches!(kind(decode("01 61 7fffffff")), DecodeErrorKind::Truncated { .. }));
        assert_eq!(decode(&"00 00000000".repeat(MAX_PROPERTIES)).unwrap().0.len(), MAX_PROPERTIES);
        assert_eq!(
            kind(decode(&"00 00000000".repeat(MAX_PROPERTIES + 1))),
            DecodeErrorKind::OutOfRange { value: 257, bound: 256 }
        );
    }

    #[test]
    fn only_sockets_with_an_identity_tell_one() {
        let id = Bytes::from_static(b"me");
        assert_eq!(Metadata::of_socket(SocketType::Router, &id).get("Identity"), Some(&id));
        assert_eq!(Metadata::of_socket(SocketType::Pub, &id).get("Identity"), None);
    }
}
