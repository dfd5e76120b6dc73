//! Classification of messages over ZMTP, and their senders.

use super::{
    record::{Cause, Message, Protocol},
    said::{Said, ZreMessage},
    search::fills,
};
use bytes::Bytes;
use zwire_proto::{
    error::{DecodeError, DecodeErrorKind},
    zmtp::wire::{Metadata, SocketType, Subscription, TrafficCommand},
    zre::{
        Generation, Uuid,
        wire::{self, Gossip, Hello, IdentityForm, Log},
    },
};

/// Properties of one side of a connection.
#[derive(Debug, Default)]
pub(super) struct Speaker {
    /// `None`: not in the capture, or of an unknown type.
    socket: Option<SocketType>,
    /// UUID of the sender, if its identity is one of ZRE.
    peer: Option<Uuid>,
    /// The side has an identity that is not one of ZRE.
    nobody: bool,
    generation: Option<Generation>,
}

impl Speaker {
    pub(super) fn learn(&mut self, metadata: &Metadata) {
        let socket = metadata.get(Metadata::SOCKET_TYPE).and_then(|name| SocketType::from_name(name));
        self.introduce(socket, metadata.get(Metadata::IDENTITY));
    }

    pub(super) fn introduce(&mut self, socket: Option<SocketType>, identity: Option<&Bytes>) {
        self.socket = socket;
        self.peer = identity.and_then(|identity| IdentityForm::decode(identity)).map(|(_, uuid)| uuid);
        self.nobody = identity.is_some() && self.peer.is_none();
    }

    /// The record of a message, or the error and the offset in the message.
    pub(super) fn tell(&mut self, frames: Vec<Bytes>) -> Result<Message, (Protocol, DecodeError)> {
        let (first, alone) = match &frames[..] {
            [first] => (first, true),
            [first, ..] => (first, false),
            [] => return Ok(Message::Zmtp(Box::new(Said::Message(frames)))),
        };
        let one_of = |sockets: &[SocketType]| self.socket.is_none_or(|socket| sockets.contains(&socket));
        match first.get(..2) {
            Some([0xaa, 0xa1]) if one_of(&[SocketType::Dealer]) && !self.nobody => return self.zre(&frames),
            Some([0xaa, 0xa2])
                if alone && first.get(2) == Some(&1) && one_of(&[SocketType::Pub, SocketType::XPub]) =>
            {
                let log = Log::decode(first).map_err(|error| (Protocol::ZreLog, error))?;
                return Ok(Message::Log(Box::new(log)));
            }
            Some([0xaa, 0xa0])
                if alone
                    && matches!(first.get(2..4), Some([1..=5, 1]))
                    && one_of(&[SocketType::Dealer, SocketType::Router]) =>
            {
                let gossip = Gossip::decode(first).map_err(|error| (Protocol::Zre, error))?;
                return Ok(Message::Gossip(Box::new(gossip)));
            }
            _ => {}
        }
        if alone
            && matches!(self.socket, Some(SocketType::Sub | SocketType::XSub))
            && let Some(subscription) = Subscription::decode(first)
        {
            use zwire_proto::zmtp::wire::{Cancel, Subscribe};
            let command = match subscription {
                Subscription::Subscribe(prefix) => TrafficCommand::Subscribe(Subscribe { prefix }),
                Subscription::Cancel(prefix) => TrafficCommand::Cancel(Cancel { prefix }),
            };
            return Ok(Message::Zmtp(Box::new(Said::Command(command))));
        }
        Ok(Message::Zmtp(Box::new(Said::Message(frames))))
    }

    fn zre(&mut self, frames: &[Bytes]) -> Result<Message, (Protocol, DecodeError)> {
        const HELLO: u8 = wire::MessageId::HELLO.0;
        let wrong = |error| (Protocol::Zre, error);
        let first = &frames[0];
        if first.get(2) == Some(&HELLO) {
            self.generation = Some(Hello::generation(first).map_err(wrong)?);
        }
        let (generation, reading) = match self.generation {
            Some(generation) => (Some(generation), generation),
            // The HELLO is not in the capture; two generations differ in HELLO alone.
            None => match told_generation(first) {
                Some(Generation::Rfc20 | Generation::Zyre1) => (None, Generation::Rfc20),
                Some(told) => (Some(told), told),
                None => return Err(wrong(unclear(first))),
            },
        };
        let message = wire::ZreMessage::decode(reading, frames).map_err(wrong)?;
        Ok(Message::Zre(Box::new(ZreMessage { generation, peer: self.peer, message })))
    }
}

/// The generation of a header frame that decodes in one form alone. 20/ZRE may also be zyre 1.0.0.
pub(super) fn told_generation(first: &Bytes) -> Option<Generation> {
    if let Ok(generation) = Hello::generation(first) {
        return Some(generation);
    }
    let decode =
        |generation, frame: &Bytes| wire::ZreMessage::decode(generation, core::slice::from_ref(frame)).ok();
    let fitting = |generation: &Generation| fills(first, |frame| decode(*generation, frame).is_some());
    let mut fitting = [Generation::Rfc20, Generation::Rfc36, Generation::Rfc43].into_iter().filter(fitting);
    match (fitting.next(), fitting.next()) {
        (one, None) => one,
        // JOIN number 5 of "CHAT" is number 517 of "\x04CHAT" before 36/ZRE: names are text.
        (Some(one), Some(other)) => {
            let is_text = |generation: &Generation| {
                let group = decode(*generation, first).and_then(|message| match message.body {
                    wire::Body::Join { group, .. }
                    | wire::Body::Leave { group, .. }
                    | wire::Body::Shout { group, .. } => Some(group),
                    _ => None,
                });
                group.is_some_and(|group| !group.is_empty() && !group.iter().any(u8::is_ascii_control))
            };
            match (is_text(&one), is_text(&other)) {
                (true, false) => Some(one),
                (false, true) => Some(other),
                _ => None,
            }
        }
        (None, Some(_)) => None,
    }
}

fn unclear(first: &Bytes) -> DecodeError {
    let versioned = wire::ZreMessage::decode(Generation::Rfc36, core::slice::from_ref(first));
    versioned.err().unwrap_or_else(|| {
        // The frame fits two generations, or one of them with trailing bytes.
        let value = u64::from(first.get(3).copied().unwrap_or_default());
        DecodeError { reading: "message version", offset: 3, kind: DecodeErrorKind::Illegal { value } }
    })
}

/// The cause of an error in a message, with its offset in the stream.
pub(super) fn fault(offset: u64, sealed: bool, error: DecodeError) -> (u64, Cause) {
    // Offsets inside a box are not offsets in the stream.
    let inside = if sealed { 0 } else { error.offset as u64 };
    (offset + inside, Cause::Decode(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(hex: &[u8]) -> Option<Generation> {
        told_generation(&Bytes::copy_from_slice(hex))
    }

    #[test]
    fn the_generation_is_told_by_what_fills_the_frame() {
        assert_eq!(told(b"\xaa\xa1\x06\x02\x00\x09"), Some(Generation::Rfc36));
        assert_eq!(told(b"\xaa\xa1\x06\x03\x00\x09"), Some(Generation::Rfc43));
        assert_eq!(told(b"\xaa\xa1\x06\x02\x09"), Some(Generation::Rfc20), "number 521");
        assert_eq!(told(b"\xaa\xa1\x04\x02\x00\x09\x01G\x03"), Some(Generation::Rfc36));
        assert_eq!(told(b"\xaa\xa1\x04\x00\x09\x01G\x03"), Some(Generation::Rfc20));
        assert_eq!(told(b"\xaa\xa1\x04\x02\x00\x05\x04CHAT\x01"), Some(Generation::Rfc36), "or number 517");
        // JOIN number 1 of "", or number 512 of "\0".
        assert_eq!(told(b"\xaa\xa1\x04\x02\x00\x01\x00\x00"), None);
        for none in [&b""[..], b"\xaa\xa1", b"\xaa\xa1\x06\x02", b"\xaa\xa1\x63\x02\x00\x09"] {
            assert_eq!(told(none), None, "{none:?}");
        }
    }

    #[test]
    fn only_a_dealer_with_an_identity_of_zre_speaks_it() {
        let ping = || vec![Bytes::from_static(b"\xaa\xa1\x06\x02\x00\x09")];
        let speak = |socket, identity: Option<&'static [u8]>| {
            let mut speaker = Speaker::default();
            speaker.introduce(socket, identity.map(Bytes::from_static).as_ref());
            speaker.tell(ping()).unwrap()
        };
        for (socket, identity) in [
            (None, None),
            (Some(SocketType::Dealer), None),
            (Some(SocketType::Dealer), Some(&b"\x010123456789abcdef"[..])),
            (Some(SocketType::Dealer), Some(b"0123456789abcdef")),
        ] {
            assert!(matches!(speak(socket, identity), Message::Zre(_)), "{socket:?} {identity:?}");
        }
        for (socket, identity) in [
            (Some(SocketType::Dealer), Some(&b"dealer-A"[..])),
            (Some(SocketType::Dealer), Some(b"")),
            (Some(SocketType::Push), None),
            (Some(SocketType::Router), Some(b"0123456789abcdef")),
        ] {
            assert!(matches!(speak(socket, identity), Message::Zmtp(_)), "{socket:?} {identity:?}");
        }
    }
}
