//! Packets of MQTT 3.1.1 and 5 as the bridge sees them: one set of types for both versions.
//!
//! The bytes are those of `mqtt-protocol-core`. Frames are cut here, because a packet above the limit is passed over, of which
//! only the head is read.

use crate::attachment::{CORRELATION, EXPIRY, MAX_PAIRS, Pairs, RESPONSE_TOPIC, of_hex, to_hex, value};
use bytes::{Buf as _, Bytes, BytesMut};
use mqtt_protocol_core::mqtt::{
    ArcPayload,
    packet::{
        ContentType, CorrelationData, MaximumPacketSize, MessageExpiryInterval, PacketType, Properties,
        Property, Qos, ReceiveMaximum, ResponseTopic, RetainHandling, SessionExpiryInterval, SubEntry,
        SubOpts, UserProperty, v3_1_1, v5_0,
    },
    result_code::MqttError,
};
use serde::Deserialize;
use std::sync::Arc;
use thiserror::Error as ThisError;

/// Version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Version {
    /// MQTT 3.1.1.
    #[serde(rename = "3.1.1")]
    V3,
    /// MQTT 5.
    #[default]
    #[serde(rename = "5")]
    V5,
}

/// Octets that are no packet which this version has at this place.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum PacketError {
    /// The head of the packet at the begin of a frame.
    #[error("octet {offset} of a packet's head is wrong: {problem}")]
    Head {
        /// Place in the packet.
        offset: usize,
        /// Explanation.
        problem: &'static str,
    },
    /// The content of a packet.
    #[error("a packet of type {kind} is malformed: {problem}")]
    Body {
        /// Type of the packet, 1 to 15.
        kind: u8,
        /// Word of the codec.
        problem: String,
    },
    /// A message that the broker would not take.
    #[error("the {field} cannot be sent: {problem}")]
    Unsendable {
        /// Part of the packet.
        field: &'static str,
        /// Word of the codec.
        problem: String,
    },
}

/// Published message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Topic.
    pub topic: String,
    /// Payload.
    pub payload: Bytes,
    /// Quality of service, 0 to 2.
    pub qos: u8,
    /// Whether it is a retained message, or becomes one.
    pub retain: bool,
    /// Whether it may have been sent before.
    pub dup: bool,
    /// Packet identifier; 0 with QoS 0.
    pub id: u16,
    /// Content type of MQTT 5.
    pub content_type: Option<String>,
    /// User properties of MQTT 5, and those that have names of their own in an attachment.
    pub pairs: Pairs,
}

impl Message {
    /// Octets in memory of what the sender of the message decides.
    #[must_use]
    pub fn octets(&self) -> usize {
        /// Memory of a pair beside its octets.
        const PAIR: usize = 48;
        let pairs: usize = self.pairs.iter().map(|(name, value)| name.len() + value.len() + PAIR).sum();
        self.topic.len() + self.payload.len() + self.content_type.as_ref().map_or(0, String::len) + pairs
    }
}

/// Answer of the broker to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Whether the broker has the session of before.
    pub present: bool,
    /// Reason; 0: accepted.
    pub code: u8,
    /// Messages with QoS 1 and 2 that may wait for their acknowledgement.
    pub window: u16,
    /// Octets of the largest packet that the broker takes.
    pub largest: u32,
    /// Keep-alive time that the broker prescribes, in seconds.
    pub keep_alive: Option<u16>,
    /// Highest quality of service that the broker takes.
    pub qos: u8,
    /// Whether the broker retains messages.
    pub retains: bool,
}

impl Connected {
    /// The answer of a broker that names no limits.
    const fn new(present: bool, code: u8) -> Self {
        Self { present, code, window: u16::MAX, largest: u32::MAX, keep_alive: None, qos: 2, retains: true }
    }
}

/// Packet of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// CONNACK.
    Connected(Connected),
    /// PUBLISH.
    Publish(Message),
    /// PUBLISH above the limit, of which only this is known.
    TooLarge {
        /// Topic, as far as it is UTF-8.
        topic: String,
        /// Quality of service.
        qos: u8,
        /// Packet identifier.
        id: u16,
        /// Octets of the packet.
        octets: u64,
    },
    /// PUBACK, with its reason.
    Acked(u16, u8),
    /// PUBREC, with its reason.
    Received(u16, u8),
    /// PUBREL.
    Release(u16),
    /// PUBCOMP.
    Completed(u16),
    /// SUBACK, with a reason for each filter.
    Subscribed(u16, Vec<u8>),
    /// UNSUBACK, PINGRESP.
    Other,
    /// DISCONNECT of MQTT 5, with its reason.
    Disconnect(u8),
}

/// Last message of a bridge, which the broker publishes when its connection breaks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Will {
    /// Topic.
    pub topic: String,
    /// Payload, as text.
    pub payload: String,
    /// Quality of service.
    #[serde(default)]
    pub qos: u8,
    /// Whether the broker retains it.
    #[serde(default)]
    pub retain: bool,
}

/// Content of a CONNECT.
#[derive(Clone, Debug)]
pub struct Connect<'a> {
    /// Client identifier.
    pub client_id: &'a str,
    /// User and password.
    pub user: Option<(&'a str, &'a str)>,
    /// Keep-alive time in seconds.
    pub keep_alive: u16,
    /// Seconds for which the broker keeps the session without a connection.
    pub expiry: u32,
    /// Messages that may wait for an acknowledgement of the bridge.
    pub window: u16,
    /// Octets of the largest packet that the bridge takes.
    pub largest: u32,
    /// Last message.
    pub will: Option<&'a Will>,
}

/// Payload of a packet, as octets that share its memory.
struct Shared(ArcPayload);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

fn quality(qos: u8) -> Qos {
    match qos {
        0 => Qos::AtMostOnce,
        1 => Qos::AtLeastOnce,
        _ => Qos::ExactlyOnce,
    }
}

fn unsendable(field: &'static str) -> impl Fn(MqttError) -> PacketError {
    move |error| PacketError::Unsendable { field, problem: error.to_string() }
}

/// Packets in the octets of a connection.
#[derive(Debug)]
pub struct Framer {
    version: Version,
    largest: usize,
    /// Octets of a packet above the limit that are still to come.
    skip: u64,
}

/// Octets of the largest head of a PUBLISH: its topic and its identifier.
const MAX_HEAD: usize = 2 + 65_535 + 2;

impl Framer {
    /// A framer that takes packets of at most `largest` octets.
    #[must_use]
    pub const fn new(version: Version, largest: u32) -> Self {
        Self { version, largest: largest as usize, skip: 0 }
    }

    /// The next packet; `None` if more octets are needed.
    ///
    /// # Errors
    /// The octets are no packet.
    pub fn next(&mut self, octets: &mut BytesMut) -> Result<Option<Packet>, PacketError> {
        if self.skip > 0 {
            let skipped = octets.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            octets.advance(skipped);
            self.skip -= skipped as u64;
        }
        if self.skip > 0 || octets.len() < 2 {
            return Ok(None);
        }
        let (mut len, mut head) = (0_usize, 1);
        loop {
            let Some(octet) = octets.get(head) else { return Ok(None) };
            len |= usize::from(octet & 0x7f) << (7 * (head - 1));
            head += 1;
            if octet & 0x80 == 0 {
                break;
            }
            if head == 5 {
                return Err(PacketError::Head { offset: 4, problem: "a length has at most four octets" });
            }
        }
        let (kind, flags) = (octets[0] >> 4, octets[0] & 15);
        if head + len > self.largest {
            if kind != PacketType::Publish as u8 {
                let problem = "the packet is larger than the limit, and no message";
                return Err(PacketError::Head { offset: 1, problem });
            }
            return self.pass_over(octets, (head, len), flags);
        }
        if octets.len() < head + len {
            octets.reserve(head + len - octets.len());
            return Ok(None);
        }
        octets.advance(head);
        let body = octets.split_to(len);
        let packet = match self.version {
            Version::V5 => decode_v5(kind, flags, &body),
            Version::V3 => decode_v3(kind, flags, &body),
        };
        packet.map(Some).map_err(|error| PacketError::Body { kind, problem: error.to_string() })
    }

    /// Reads the head of a message above the limit, and leaves out the rest.
    fn pass_over(
        &mut self,
        octets: &mut BytesMut,
        (head, len): (usize, usize),
        flags: u8,
    ) -> Result<Option<Packet>, PacketError> {
        if octets.len() < head + len.min(MAX_HEAD) {
            return Ok(None);
        }
        let body = &octets[head..];
        let short = PacketError::Head { offset: head, problem: "the topic is longer than the packet" };
        let topic = usize::from(u16::from_be_bytes([body[0], body[1]]));
        let qos = flags >> 1 & 3;
        if qos == 3 {
            return Err(PacketError::Head { offset: 0, problem: "no message has the QoS 3" });
        }
        let read = 2 + topic + if qos > 0 { 2 } else { 0 };
        if read > len {
            return Err(short);
        }
        let id = if qos > 0 { u16::from_be_bytes([body[2 + topic], body[3 + topic]]) } else { 0 };
        let topic = String::from_utf8_lossy(&body[2..2 + topic]).into_owned();
        octets.advance(head + read);
        self.skip = (len - read) as u64;
        let octets = (head + len) as u64;
        Ok(Some(Packet::TooLarge { topic, qos, id, octets }))
    }
}

fn properties(props: &[Property], message: &mut Message) {
    for property in props {
        match property {
            Property::UserProperty(pair) if message.pairs.len() < MAX_PAIRS => {
                message.pairs.push((pair.key().to_owned(), pair.val().to_owned()));
            }
            Property::ContentType(text) => message.content_type = Some(text.val().to_owned()),
            Property::ResponseTopic(topic) => {
                message.pairs.push((RESPONSE_TOPIC.to_owned(), topic.val().to_owned()));
            }
            Property::CorrelationData(data) => {
                message.pairs.push((CORRELATION.to_owned(), to_hex(data.val())));
            }
            Property::MessageExpiryInterval(seconds) => {
                message.pairs.push((EXPIRY.to_owned(), seconds.val().to_string()));
            }
            _ => {}
        }
    }
}

macro_rules! message {
    ($packet:expr) => {{
        let packet = $packet;
        Message {
            topic: packet.topic_name().to_owned(),
            payload: Bytes::from_owner(Shared(packet.payload().clone())),
            qos: packet.qos() as u8,
            retain: packet.retain(),
            dup: packet.dup(),
            id: packet.packet_id().unwrap_or(0),
            ..Message::default()
        }
    }};
}

fn decode_v5(kind: u8, flags: u8, body: &[u8]) -> Result<Packet, MqttError> {
    let of = |kind: PacketType| kind as u8;
    Ok(if kind == of(PacketType::Publish) {
        let (packet, _) = v5_0::Publish::parse(flags, Arc::from(body))?;
        let mut message = message!(&packet);
        properties(packet.props(), &mut message);
        Packet::Publish(message)
    } else if kind == of(PacketType::Puback) {
        let (packet, _) = v5_0::Puback::parse(body)?;
        Packet::Acked(packet.packet_id(), packet.reason_code().map_or(0, |code| code as u8))
    } else if kind == of(PacketType::Pubrec) {
        let (packet, _) = v5_0::Pubrec::parse(body)?;
        Packet::Received(packet.packet_id(), packet.reason_code().map_or(0, |code| code as u8))
    } else if kind == of(PacketType::Pubrel) {
        Packet::Release(v5_0::Pubrel::parse(body)?.0.packet_id())
    } else if kind == of(PacketType::Pubcomp) {
        Packet::Completed(v5_0::Pubcomp::parse(body)?.0.packet_id())
    } else if kind == of(PacketType::Suback) {
        let (packet, _) = v5_0::Suback::parse(body)?;
        Packet::Subscribed(packet.packet_id(), packet.reason_codes().iter().map(|code| *code as u8).collect())
    } else if kind == of(PacketType::Connack) {
        let (packet, _) = v5_0::Connack::parse(body)?;
        let mut connected = Connected::new(packet.session_present(), packet.reason_code() as u8);
        for property in packet.props() {
            match property {
                Property::ReceiveMaximum(most) => connected.window = most.val().max(1),
                Property::MaximumPacketSize(most) => connected.largest = most.val(),
                Property::ServerKeepAlive(seconds) => connected.keep_alive = Some(seconds.val()),
                Property::MaximumQos(most) => connected.qos = most.val(),
                Property::RetainAvailable(can) => connected.retains = can.val() == 1,
                _ => {}
            }
        }
        Packet::Connected(connected)
    } else if kind == of(PacketType::Disconnect) {
        let (packet, _) = v5_0::Disconnect::parse(body)?;
        Packet::Disconnect(packet.reason_code().map_or(0, |code| code as u8))
    } else if kind == of(PacketType::Pingresp) || kind == of(PacketType::Unsuback) {
        Packet::Other
    } else {
        return Err(MqttError::ProtocolError);
    })
}

fn decode_v3(kind: u8, flags: u8, body: &[u8]) -> Result<Packet, MqttError> {
    let of = |kind: PacketType| kind as u8;
    Ok(if kind == of(PacketType::Publish) {
        let (packet, _) = v3_1_1::Publish::parse(flags, Arc::from(body))?;
        Packet::Publish(message!(&packet))
    } else if kind == of(PacketType::Puback) {
        Packet::Acked(v3_1_1::Puback::parse(body)?.0.packet_id(), 0)
    } else if kind == of(PacketType::Pubrec) {
        Packet::Received(v3_1_1::Pubrec::parse(body)?.0.packet_id(), 0)
    } else if kind == of(PacketType::Pubrel) {
        Packet::Release(v3_1_1::Pubrel::parse(body)?.0.packet_id())
    } else if kind == of(PacketType::Pubcomp) {
        Packet::Completed(v3_1_1::Pubcomp::parse(body)?.0.packet_id())
    } else if kind == of(PacketType::Suback) {
        let (packet, _) = v3_1_1::Suback::parse(body)?;
        Packet::Subscribed(packet.packet_id(), packet.return_codes().iter().map(|code| *code as u8).collect())
    } else if kind == of(PacketType::Connack) {
        let (packet, _) = v3_1_1::Connack::parse(body)?;
        Packet::Connected(Connected::new(packet.session_present(), packet.return_code() as u8))
    } else if kind == of(PacketType::Pingresp) || kind == of(PacketType::Unsuback) {
        Packet::Other
    } else {
        return Err(MqttError::ProtocolError);
    })
}

/// Octets of a CONNECT, for the session that the broker may have.
///
/// # Errors
/// A text is too long, or the version has no place for it.
pub fn connect(version: Version, with: &Connect<'_>) -> Result<Vec<u8>, PacketError> {
    macro_rules! fill {
        ($builder:expr) => {{
            let mut builder = $builder
                .client_id(with.client_id)
                .map_err(unsendable("client id"))?
                .clean_start(false)
                .keep_alive(with.keep_alive);
            if let Some((user, password)) = with.user {
                builder = builder.user_name(user).map_err(unsendable("user"))?;
                builder = builder.password(password).map_err(unsendable("password"))?;
            }
            if let Some(will) = with.will {
                let payload = will.payload.as_str();
                let (topic, qos) = (will.topic.as_str(), quality(will.qos));
                builder =
                    builder.will_message(topic, payload, qos, will.retain).map_err(unsendable("will"))?;
            }
            builder
        }};
    }
    let octets = match version {
        Version::V3 => fill!(v3_1_1::Connect::builder()).build().map(|packet| packet.to_continuous_buffer()),
        Version::V5 => {
            let fields = (|| -> Result<Properties, MqttError> {
                Ok(vec![
                    Property::SessionExpiryInterval(SessionExpiryInterval::new(with.expiry)?),
                    Property::ReceiveMaximum(ReceiveMaximum::new(with.window)?),
                    Property::MaximumPacketSize(MaximumPacketSize::new(with.largest)?),
                ])
            })();
            let builder = fill!(v5_0::Connect::builder()).props(fields.map_err(unsendable("limits"))?);
            builder.build().map(|packet| packet.to_continuous_buffer())
        }
    };
    octets.map_err(unsendable("CONNECT"))
}

/// Octets of a SUBSCRIBE with filters and their QoS. With MQTT 5 the broker does not send back what the bridge publishes, and
/// leaves the retain flag of messages as it was.
///
/// # Errors
/// A filter is too long.
pub fn subscribe(version: Version, id: u16, filters: &[(&str, u8)]) -> Result<Vec<u8>, PacketError> {
    let v5 = version == Version::V5;
    let entry = |&(filter, qos): &(&str, u8)| {
        let shared = filter.starts_with("$share/");
        let options = SubOpts::new()
            .set_qos(quality(qos))
            // The standard forbids it for shared subscriptions.
            .set_nl(v5 && !shared)
            .set_rap(v5)
            .set_rh(RetainHandling::SendRetained);
        SubEntry::new(filter, options)
    };
    let entries: Result<Vec<_>, _> = filters.iter().map(entry).collect();
    let entries = entries.map_err(unsendable("filter"))?;
    let octets = match version {
        Version::V3 => v3_1_1::Subscribe::builder()
            .packet_id(id)
            .entries(entries)
            .build()
            .map(|packet| packet.to_continuous_buffer()),
        Version::V5 => v5_0::Subscribe::builder()
            .packet_id(id)
            .entries(entries)
            .build()
            .map(|packet| packet.to_continuous_buffer()),
    };
    octets.map_err(unsendable("SUBSCRIBE"))
}

fn to_properties(message: &Message) -> Result<Properties, MqttError> {
    let mut props = Properties::new();
    if let Some(text) = &message.content_type {
        props.push(Property::ContentType(ContentType::new(text.as_str())?));
    }
    if let Some(topic) = value(&message.pairs, RESPONSE_TOPIC) {
        props.push(Property::ResponseTopic(ResponseTopic::new(topic)?));
    }
    if let Some(data) = value(&message.pairs, CORRELATION).and_then(of_hex) {
        props.push(Property::CorrelationData(CorrelationData::new(data)?));
    }
    if let Some(seconds) = value(&message.pairs, EXPIRY).and_then(|text| text.parse().ok()) {
        props.push(Property::MessageExpiryInterval(MessageExpiryInterval::new(seconds)?));
    }
    let own = |name: &str| [RESPONSE_TOPIC, CORRELATION, EXPIRY].contains(&name);
    for (name, value) in message.pairs.iter().filter(|(name, _)| !own(name)) {
        props.push(Property::UserProperty(UserProperty::new(name.as_str(), value.as_str())?));
    }
    Ok(props)
}

/// Appends the octets of a PUBLISH.
///
/// # Errors
/// A text is too long, or the topic is none.
pub fn publish(version: Version, message: &Message, out: &mut Vec<u8>) -> Result<(), PacketError> {
    macro_rules! fill {
        ($builder:expr) => {{
            let mut builder = $builder
                .topic_name(message.topic.as_str())
                .map_err(unsendable("topic"))?
                .qos(quality(message.qos))
                .retain(message.retain)
                .dup(message.dup && message.qos > 0)
                .payload(&message.payload[..]);
            if message.qos > 0 {
                builder = builder.packet_id(message.id);
            }
            builder
        }};
    }
    match version {
        Version::V3 => {
            let packet = fill!(v3_1_1::Publish::builder()).build().map_err(unsendable("message"))?;
            packet.to_buffers().iter().for_each(|part| out.extend_from_slice(part));
        }
        Version::V5 => {
            let props = to_properties(message).map_err(unsendable("properties"))?;
            let packet =
                fill!(v5_0::Publish::builder()).props(props).build().map_err(unsendable("message"))?;
            packet.to_buffers().iter().for_each(|part| out.extend_from_slice(part));
        }
    }
    Ok(())
}

/// Acknowledgements that are a type and an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// PUBACK.
    Acked = 0x40,
    /// PUBREC.
    Received = 0x50,
    /// PUBREL.
    Release = 0x62,
    /// PUBCOMP.
    Completed = 0x70,
}

/// Octets of an acknowledgement, the same in both versions: reason 0 and properties are left out.
#[must_use]
pub const fn ack(kind: Ack, id: u16) -> [u8; 4] {
    let id = id.to_be_bytes();
    [kind as u8, 2, id[0], id[1]]
}

/// PINGREQ.
pub const PING: [u8; 2] = [0xc0, 0];
/// DISCONNECT without a reason: the broker forgets the last message, and keeps the session.
pub const DISCONNECT: [u8; 2] = [0xe0, 0];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(version: Version, largest: u32, octets: &[u8]) -> Result<Vec<Packet>, PacketError> {
        let (mut framer, mut packets) = (Framer::new(version, largest), Vec::new());
        let mut buffer = BytesMut::new();
        for octet in octets {
            buffer.extend_from_slice(&[*octet]);
            packets.extend(framer.next(&mut buffer)?);
        }
        Ok(packets)
    }

    /// The packets of the figures of MQTT 3.1.1 and 5, and of captures of mosquitto 2.0.11.
    #[test]
    fn packets_of_a_broker_are_read() {
        let five = b"\x20\x09\x00\x00\x06\x22\x00\x0a\x21\x00\x14";
        let expected = Connected {
            present: false,
            code: 0,
            window: 20,
            largest: u32::MAX,
            keep_alive: None,
            qos: 2,
            retains: true,
        };
        assert_eq!(all(Version::V5, 99, five).unwrap(), [Packet::Connected(expected)]);
        let least = b"\x20\x07\x00\x00\x04\x24\x01\x25\x00";
        let less = Connected { window: u16::MAX, qos: 1, retains: false, ..expected };
        assert_eq!(all(Version::V5, 99, least).unwrap(), [Packet::Connected(less)]);
        let expected = Connected { present: true, code: 0, window: u16::MAX, ..expected };
        assert_eq!(all(Version::V3, 99, b"\x20\x02\x01\x00").unwrap(), [Packet::Connected(expected)]);
        assert_eq!(
            all(Version::V3, 99, b"\x40\x02\x00\x01\x50\x02\x00\x02\x62\x02\x00\x03\x70\x02\x01\x04\xd0\x00")
                .unwrap(),
            [
                Packet::Acked(1, 0),
                Packet::Received(2, 0),
                Packet::Release(3),
                Packet::Completed(260),
                Packet::Other
            ]
        );
        // PUBACK "no matching subscribers", and "quota exceeded" without properties.
        assert_eq!(
            all(Version::V5, 99, b"\x40\x03\x00\x01\x10\x40\x04\x00\x02\x97\x00").unwrap(),
            [Packet::Acked(1, 0x10), Packet::Acked(2, 0x97)]
        );
        assert_eq!(all(Version::V5, 99, b"\xe0\x01\x8e").unwrap(), [Packet::Disconnect(0x8e)]);
        let published = b"\x32\x0a\x00\x03a/b\x00\x0acba";
        let message =
            Message { topic: "a/b".into(), payload: "cba".into(), qos: 1, id: 10, ..Message::default() };
        assert_eq!(all(Version::V3, 99, published).unwrap(), [Packet::Publish(message)]);
    }

    #[test]
    fn a_message_has_the_octets_of_the_standard() {
        let message =
            Message { topic: "a/b".into(), payload: "cba".into(), qos: 1, id: 10, ..Message::default() };
        let mut out = Vec::new();
        publish(Version::V3, &message, &mut out).unwrap();
        assert_eq!(out, b"\x32\x0a\x00\x03a/b\x00\x0acba");
        out.clear();
        let pairs = vec![("k".to_owned(), "v".to_owned())];
        publish(Version::V5, &Message { pairs, content_type: Some("t".into()), ..message }, &mut out)
            .unwrap();
        assert_eq!(out, b"\x32\x16\x00\x03a/b\x00\x0a\x0b\x03\x00\x01t\x26\x00\x01k\x00\x01vcba");
    }

    #[test]
    fn properties_count_as_memory() {
        let pairs = vec![("k".to_owned(), "v".repeat(1000))];
        let message =
            Message { topic: "a".into(), pairs, content_type: Some("t".into()), ..Message::default() };
        assert!((1003..1100).contains(&message.octets()));
    }

    #[test]
    fn a_packet_above_the_limit_is_passed_over() {
        let message = Message {
            topic: "a/b".into(),
            payload: vec![7; 300].into(),
            qos: 2,
            id: 5,
            ..Message::default()
        };
        let mut octets = Vec::new();
        publish(Version::V3, &message, &mut octets).unwrap();
        let len = octets.len() as u64;
        octets.extend(ack(Ack::Acked, 1));
        let passed = Packet::TooLarge { topic: "a/b".into(), qos: 2, id: 5, octets: len };
        assert_eq!(all(Version::V3, 100, &octets).unwrap(), [passed, Packet::Acked(1, 0)]);
        assert_eq!(all(Version::V3, 1000, &octets).unwrap()[0], Packet::Publish(message));
    }

    #[test]
    fn what_is_no_packet_is_an_error() {
        for octets in [
            &b"\x30\xff\xff\xff\xff\x01"[..],
            b"\x00\x00",
            b"\x36\x05\x00\x01a\x00\x01",
            b"\x30\x04\x00\x02\xff\xfe",
            b"\x30\x03\x00\x05a",
            b"\x20\x01\x00",
            &[b"\x36\x7f\x00\x01a\x00\x01".as_slice(), &[0; 122]].concat(),
        ] {
            assert!(all(Version::V3, 99, octets).is_err(), "{octets:02x?}");
            assert!(all(Version::V5, 99, octets).is_err(), "{octets:02x?}");
        }
        assert!(all(Version::V3, 9, b"\x40\x7f").is_err());
        assert!(all(Version::V3, 9, b"\x30\x7f\xff\xff\x00").is_ok());
    }

    #[test]
    fn a_topic_that_no_broker_takes_is_refused() {
        let long = "a".repeat(70_000);
        for topic in ["a/+", "#", long.as_str()] {
            let message = Message { topic: topic.to_owned(), ..Message::default() };
            let refused = publish(Version::V5, &message, &mut Vec::new());
            assert!(matches!(refused, Err(PacketError::Unsendable { field: "topic", .. })));
        }
    }

    proptest! {
        #[test]
        fn messages_come_back(
            topic in "[a-z/]{1,40}", payload in proptest::collection::vec(any::<u8>(), 0..300), qos in 0_u8..3,
            retain in any::<bool>(), dup in any::<bool>(), id in 1_u16.., content in proptest::option::of("[ -~]{0,20}"),
            pairs in proptest::collection::vec(("[a-z]{0,9}", "[ -~]{0,9}"), 0..4), five in any::<bool>()
        ) {
            let version = if five { Version::V5 } else { Version::V3 };
            let message = Message {
                topic, payload: payload.into(), qos, retain, dup: dup && qos > 0, id: if qos > 0 { id } else { 0 },
                content_type: content.filter(|_| five), pairs: if five { pairs } else { Vec::new() },
            };
            let mut octets = Vec::new();
            publish(version, &message, &mut octets).unwrap();
            prop_assert_eq!(all(version, u32::MAX, &octets).unwrap(), vec![Packet::Publish(message)]);
        }

        #[test]
        fn octets_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..64), five in any::<bool>(), kind in 0_u8..16) {
            let version = if five { Version::V5 } else { Version::V3 };
            let _ = all(version, 60, &octets);
            let mut framed = vec![kind << 4 | octets.first().copied().unwrap_or(0) & 15, octets.len() as u8];
            framed.extend(octets);
            let _ = all(version, 99, &framed);
        }
    }
}
