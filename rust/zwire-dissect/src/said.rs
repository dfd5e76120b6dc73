//! Content of ZMTP connections, and the fields of its records.

use super::record::{Message, Record};
use bytes::Bytes;
use core::{fmt, time::Duration};
use std::borrow::Cow;
use zwire_proto::{
    zenoh::{Timestamp, rfc3339::Instant},
    zmtp::wire::{Greeting, Greeting2, Mechanism, Metadata, TrafficCommand},
    zre::{
        Generation, Uuid,
        wire::{self, Address, Body, Gossip, Hello, LogEvent, Tuple},
        z85,
    },
};

/// Unit sent by one side of a ZMTP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The greeting of ZMTP 3.
    Greeting(Greeting),
    /// The greeting of ZMTP 2.0.
    Greeting2(Greeting2),
    /// A command of the handshake.
    Handshake(Handshake),
    /// A command behind the handshake.
    Command(TrafficCommand),
    /// A message of an application.
    Message(Vec<Bytes>),
    /// A frame of so many bytes that cannot be opened without keys.
    Encrypted(usize),
}

/// A command of the handshake. Metadata in CURVE boxes is present if a key opened the box.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the document")]
pub enum Handshake {
    /// The user of PLAIN; the password is not kept.
    Hello(Option<Bytes>),
    Welcome,
    Initiate(Option<Metadata>),
    Ready(Option<Metadata>),
}

/// A message between nodes of ZRE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZreMessage {
    /// Generation; `None` where the HELLO is not in the capture and the message does not tell.
    pub generation: Option<Generation>,
    /// Sender, from the identity of the connection.
    pub peer: Option<Uuid>,
    /// The message.
    pub message: wire::ZreMessage,
}

impl Said {
    pub(super) const fn message(&self) -> &'static str {
        match self {
            Self::Greeting(_) | Self::Greeting2(_) => "greeting",
            Self::Handshake(_) | Self::Command(_) => "command",
            Self::Message(_) | Self::Encrypted(_) => "message",
        }
    }

    pub(super) const fn kind(&self) -> Option<&'static str> {
        Some(match self {
            Self::Greeting(greeting) => return mechanism(greeting.mechanism),
            Self::Greeting2(_) | Self::Message(_) => return None,
            Self::Encrypted(_) => "encrypted",
            Self::Handshake(command) => match command {
                Handshake::Hello(_) => "hello",
                Handshake::Welcome => "welcome",
                Handshake::Initiate(_) => "initiate",
                Handshake::Ready(_) => "ready",
            },
            Self::Command(command) => match command {
                TrafficCommand::Subscribe(_) => "subscribe",
                TrafficCommand::Cancel(_) => "cancel",
                TrafficCommand::Ping(_) => "ping",
                TrafficCommand::Pong(_) => "pong",
                TrafficCommand::Error(_) => "error",
                TrafficCommand::Unknown { .. } => "unknown",
            },
        })
    }

    pub(super) const fn payload(&self) -> Option<&Bytes> {
        let Self::Command(command) = self else { return None };
        match command {
            TrafficCommand::Subscribe(subscribe) => Some(&subscribe.prefix),
            TrafficCommand::Cancel(cancel) => Some(&cancel.prefix),
            TrafficCommand::Ping(ping) => Some(&ping.context),
            TrafficCommand::Pong(pong) => Some(&pong.context),
            TrafficCommand::Error(_) => None,
            TrafficCommand::Unknown { data, .. } => Some(data),
        }
    }

    fn headers(&self) -> Option<Headers> {
        let mut headers = Headers::default();
        match self {
            Self::Greeting(greeting) => {
                headers.put("version", format!("{}.{}", greeting.major, greeting.minor));
                headers.put("mechanism", greeting.mechanism.to_string());
            }
            Self::Greeting2(greeting) => {
                headers.put("version", "2.0");
                headers.put(Metadata::SOCKET_TYPE, greeting.socket_type.name());
                headers.put(Metadata::IDENTITY, greeting.identity.clone());
            }
            Self::Handshake(Handshake::Hello(Some(user))) => headers.put("username", user.clone()),
            Self::Handshake(Handshake::Initiate(Some(metadata)) | Handshake::Ready(Some(metadata))) => {
                // Of repeated properties the last one counts.
                for property in metadata.0.iter().rev() {
                    headers.put_new(&property.name, &property.value);
                }
                headers.0.reverse();
            }
            Self::Command(TrafficCommand::Ping(ping)) => headers.put("ttl", ping.ttl.to_string()),
            Self::Command(TrafficCommand::Error(error)) => headers.put("reason", error.reason.clone()),
            Self::Command(TrafficCommand::Unknown { name, .. }) => headers.put("name", name.clone()),
            _ => return None,
        }
        Some(headers)
    }
}

const fn mechanism(mechanism: Mechanism) -> Option<&'static str> {
    match mechanism {
        Mechanism::NULL => Some("null"),
        Mechanism::PLAIN => Some("plain"),
        Mechanism::CURVE => Some("curve"),
        _ => None,
    }
}

impl ZreMessage {
    pub(super) const fn message(&self) -> &'static str {
        match &self.message.body {
            Body::Hello(_) => "hello",
            Body::Whisper { .. } => "whisper",
            Body::Shout { .. } => "shout",
            Body::Join { .. } => "join",
            Body::Leave { .. } => "leave",
            Body::Ping => "ping",
            Body::PingOk => "ping_ok",
            Body::Elect { .. } => "elect",
            Body::Leader { .. } => "leader",
            Body::Goodbye => "goodbye",
        }
    }

    /// The generation, as in the written records.
    pub(super) const fn kind(&self) -> Option<&'static str> {
        match self.generation {
            Some(Generation::Rfc20) => Some("20"),
            Some(Generation::Zyre1) => Some("zyre1"),
            Some(Generation::Rfc36) => Some("36"),
            Some(Generation::Rfc43) => Some("43"),
            None => None,
        }
    }

    const fn group(&self) -> Option<&Bytes> {
        match &self.message.body {
            Body::Shout { group, .. }
            | Body::Join { group, .. }
            | Body::Leave { group, .. }
            | Body::Elect { group, .. }
            | Body::Leader { group, .. } => Some(group),
            _ => None,
        }
    }

    const fn hello(&self) -> Option<&Hello> {
        if let Body::Hello(hello) = &self.message.body { Some(hello) } else { None }
    }
}

pub(super) const fn log_event(event: LogEvent) -> Option<&'static str> {
    Some(match event {
        LogEvent::JOIN => "join",
        LogEvent::LEAVE => "leave",
        LogEvent::ENTER => "enter",
        LogEvent::EXIT => "exit",
        LogEvent::SEND => "send",
        LogEvent::RECV => "recv",
        _ => return None,
    })
}

pub(super) const fn gossip_kind(gossip: &Gossip) -> &'static str {
    match gossip {
        Gossip::Hello => "hello",
        Gossip::Publish { .. } => "publish",
        Gossip::Ping => "ping",
        Gossip::Pong => "pong",
        Gossip::Invalid => "invalid",
    }
}

/// Names and values, each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(Cow<'static, [u8]>, Bytes)>);

impl Headers {
    fn put(&mut self, name: &'static str, value: impl Into<Bytes>) {
        self.0.push((name.as_bytes().into(), value.into()));
    }

    fn put_new(&mut self, name: &Bytes, value: &Bytes) {
        if !self.0.iter().any(|(known, _)| **known == **name) {
            self.0.push((name.to_vec().into(), value.clone()));
        }
    }
}

/// The time that a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp<'a> {
    /// Of a value.
    Zenoh(&'a Timestamp),
    /// Of ZRE/LOG, since the UNIX epoch.
    Log(Duration),
}

impl fmt::Display for Stamp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zenoh(timestamp) => timestamp.fmt(f),
            Self::Log(time) => Instant(*time).fmt(f),
        }
    }
}

/// Fields of messages over ZMTP that messages of Zenoh do not have.
impl Record {
    /// Whether this record is of ZMTP or ZRE and has any of the fields below.
    #[must_use]
    pub const fn is_of_zmtp(&self) -> bool {
        matches!(
            self.message,
            Message::Zmtp(_) | Message::Beacon(_) | Message::Zre(_) | Message::Log(_) | Message::Gossip(_)
        )
    }

    fn zre(&self) -> Option<&ZreMessage> {
        if let Message::Zre(message) = &self.message { Some(message) } else { None }
    }

    /// UUID of the sender, or of the node that a gossip message is about.
    #[must_use]
    pub fn peer(&self) -> Option<Uuid> {
        match &self.message {
            Message::Zre(message) => message.peer,
            Message::Beacon(beacon) => Some(beacon.uuid),
            Message::Gossip(gossip) => tuple(gossip).map(|tuple| tuple.uuid),
            _ => None,
        }
    }

    /// The name of the sender; generations before 36/ZRE have none.
    #[must_use]
    pub fn name(&self) -> Option<&Bytes> {
        let hello = self.zre()?.hello()?;
        if matches!(hello.address, Address::Endpoint(_)) { Some(&hello.name) } else { None }
    }

    /// The endpoint on which the sender listens: `tcp://ip:port`.
    #[must_use]
    pub fn address(&self) -> Option<Bytes> {
        match &self.message {
            Message::Zre(message) => message.hello().map(|hello| hello.address.endpoint()),
            Message::Beacon(beacon) if beacon.port > 0 => {
                let mut src = self.src?;
                src.set_port(beacon.port);
                Some(format!("tcp://{src}").into())
            }
            Message::Gossip(gossip) => tuple(gossip).map(|tuple| tuple.endpoint),
            _ => None,
        }
    }

    /// The group that the message is for or about.
    #[must_use]
    pub fn group(&self) -> Option<&Bytes> {
        self.zre()?.group()
    }

    /// The number of a message of ZRE.
    #[must_use]
    pub fn sequence(&self) -> Option<u16> {
        self.zre().map(|message| message.message.sequence)
    }

    /// Status of the sender: how often it joined or left a group, modulo 256.
    #[must_use]
    pub fn status(&self) -> Option<u8> {
        match &self.zre()?.message.body {
            Body::Hello(hello) => Some(hello.status),
            Body::Join { status, .. } | Body::Leave { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The groups of a HELLO.
    #[must_use]
    pub fn groups(&self) -> Option<&[Bytes]> {
        self.zre()?.hello().map(|hello| &hello.groups[..])
    }

    /// Names and values: the headers of a HELLO, the properties of a handshake, and contents of a
    /// message that have no field of their own.
    #[must_use]
    pub fn headers(&self) -> Option<Headers> {
        let mut headers = Headers::default();
        match &self.message {
            Message::Zmtp(said) => return said.headers(),
            Message::Beacon(beacon) => {
                let key = beacon.public_key.as_ref()?;
                headers.put("X-PUBLICKEY", z85::encode_key(key).to_vec());
            }
            Message::Zre(message) => match &message.message.body {
                // Of repeated headers the first one counts.
                Body::Hello(hello) => {
                    hello.headers.iter().for_each(|(name, value)| headers.put_new(name, value));
                }
                Body::Elect { challenger, .. } => headers.put("challenger", challenger.clone()),
                Body::Leader { leader, .. } => headers.put("leader", leader.clone()),
                _ => return None,
            },
            Message::Log(log) => {
                let level = log.level.name().map_or_else(|| log.level.0.to_string(), str::to_owned);
                headers.put("level", level);
                headers.put("node", log.node.to_string());
                headers.put("peer", log.peer.to_string());
            }
            Message::Gossip(gossip) => {
                let Gossip::Publish { key, value, ttl } = &**gossip else { return None };
                headers.put("key", key.clone());
                headers.put("value", value.clone());
                headers.put("ttl", ttl.to_string());
            }
            _ => return None,
        }
        Some(headers)
    }

    /// The time that a message carries, as text.
    #[must_use]
    pub fn stamp(&self) -> Option<Stamp<'_>> {
        match &self.message {
            Message::Log(log) => Some(Stamp::Log(log.timestamp())),
            _ => self.timestamp().map(Stamp::Zenoh),
        }
    }

    /// The frames of a content: of WHISPER, SHOUT or a message of an application; the text of a log.
    #[must_use]
    pub fn content(&self) -> Option<&[Bytes]> {
        match &self.message {
            Message::Zmtp(said) => match &**said {
                Said::Message(frames) => Some(frames),
                _ => None,
            },
            Message::Zre(message) => match &message.message.body {
                Body::Whisper { content } | Body::Shout { content, .. } => Some(content),
                _ => None,
            },
            Message::Log(log) => Some(core::slice::from_ref(&log.data)),
            _ => None,
        }
    }
}

fn tuple(gossip: &Gossip) -> Option<Tuple> {
    match gossip {
        Gossip::Publish { key, value, .. } => Tuple::of(key, value),
        _ => None,
    }
}

/// Octets as text; if they are not UTF-8, bytes other than printable ASCII are written as `\xNN`.
#[must_use]
pub fn readable(octets: &[u8]) -> Cow<'_, str> {
    match core::str::from_utf8(octets) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(octets.escape_ascii().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_that_are_no_text_are_seen() {
        assert_eq!(readable(b"caf\xc3\xa9"), "café");
        assert_eq!(readable(b"\x01\xff\\A\xc3\xa9"), "\\x01\\xff\\\\A\\xc3\\xa9");
        assert_eq!(readable(b""), "");
    }

    #[test]
    fn a_repeated_property_counts_once() {
        let mut metadata = Metadata::default();
        for (name, value) in [("a", "1"), ("b", "2"), ("a", "3")] {
            metadata.push(name, value.into());
        }
        let headers = Said::Handshake(Handshake::Ready(Some(metadata))).headers().unwrap();
        let pairs: Vec<_> = headers.0.iter().map(|(name, value)| (&**name, &value[..])).collect();
        assert_eq!(pairs, [(&b"b"[..], &b"2"[..]), (b"a", b"3")]);
    }
}
