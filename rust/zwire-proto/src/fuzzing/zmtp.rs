//! The fuzz body of ZMTP.

use crate::{
    Now,
    buf::Reader,
    error::Result,
    lending::LoanDescription,
    zmtp::{
        link::{
            Handshake, HandshakeStep, Inbound, Security, ZmtpHandshakeConfig, ZmtpRx, ZmtpRxConfig, ZmtpTx,
            ZmtpTxConfig,
        },
        wire::{
            Command, Error, FrameHead, Greeting, Greeting1, Greeting2, Loan, Metadata, Ready, SocketType,
            Subscription, TrafficCommand, ZmtpGeneration, curve, plain,
        },
    },
};
use bytes::{Bytes, BytesMut};
use core::fmt::Debug;
#[cfg(feature = "curve")]
use std::sync::LazyLock;

/// Server of the worked example, which the seeds talk to. Its keys are made once: that takes longer
/// than most inputs.
#[cfg(feature = "curve")]
static CURVE_SERVER: LazyLock<ZmtpHandshakeConfig> = LazyLock::new(|| {
    use crate::zmtp::{
        crypto::{KeyPair, SecretKey},
        link::CurveServer,
    };
    let keys = KeyPair::of(SecretKey::new(core::array::from_fn(|i| 0x20 + i as u8)));
    let given = CurveServer::new(keys, true, &core::array::from_fn(|i| 0x80 + i as u8));
    let server = ZmtpHandshakeConfig::new(SocketType::Router);
    ZmtpHandshakeConfig { security: Security::CurveServer(Box::new(given)), ..server }
});

/// Fuzzes one side of a connection, from its greeting or from its first frame on. Each body is also
/// decoded as every known command.
pub fn zmtp(data: &[u8]) {
    let raw = Bytes::copy_from_slice(data);
    if !data.is_empty() && ZmtpGeneration::detect(data).is_none() {
        assert!(data.len() < Greeting::PREFIX_LEN);
    }
    let behind = greeting(&raw, Greeting::decode, Greeting::encode);
    greeting(&raw, Greeting1::decode, Greeting1::encode);
    greeting(&raw, Greeting2::decode, Greeting2::encode);
    frames(raw.slice(behind.unwrap_or(0)..));
    body(&raw);
    connection(data, ZmtpHandshakeConfig::new(SocketType::Router));
    connection(data, ZmtpHandshakeConfig::new(SocketType::Pub));
    #[cfg(feature = "curve")]
    connection(data, CURVE_SERVER.clone());
    let server = ZmtpHandshakeConfig::new(SocketType::Dealer);
    connection(data, ZmtpHandshakeConfig { security: Security::PlainServer, ..server });
}

/// Checks that bytes in one piece and byte by byte lead to the same state, and that every message read
/// can be encoded and read again.
fn connection(data: &[u8], config: ZmtpHandshakeConfig) {
    let whole = hear(data, data.len().max(1), config.clone());
    // Short inputs only: the check is about frames, which short inputs cover too.
    if data.len() < 512 {
        assert_eq!(whole, hear(data, 1, config));
    }
}

/// Bytes on loan, fewer than the LOAN of them takes.
fn borrow(loan: &LoanDescription) -> Option<Bytes> {
    Some(Bytes::from_static(b"borrowed").slice(..usize::try_from(loan.len).ok().filter(|len| *len <= 8)?))
}

fn hear(data: &[u8], chunk: usize, config: ZmtpHandshakeConfig) -> (Vec<Inbound>, Option<String>) {
    let now = Now::default();
    let socket = config.socket_type;
    let sealed = matches!(config.security, Security::CurveServer(_));
    let mut handshake = Handshake::new(config);
    let (mut buf, mut out) = (BytesMut::new(), Vec::new());
    let mut link: Option<(ZmtpRx, ZmtpTx, ZmtpRx)> = None;
    for part in data.chunks(chunk) {
        buf.extend_from_slice(part);
        while link.is_none() {
            let mut step = handshake.handle_bytes(&mut buf);
            let asked = matches!(step, Ok(HandshakeStep::Authenticate(_)));
            if asked {
                step = handshake.allow(Bytes::new(), Metadata::default());
            }
            match step {
                Ok(HandshakeStep::Continue) if asked => {}
                Ok(HandshakeStep::Continue) => break,
                Ok(HandshakeStep::Authenticate(_)) => panic!("asked twice"),
                Ok(HandshakeStep::Done(params)) => {
                    let rx = || ZmtpRx::new(&params, ZmtpRxConfig::default(), now);
                    let mut first = rx();
                    if socket == SocketType::Router {
                        first.set_borrow(Box::new(borrow));
                    }
                    link = Some((first, ZmtpTx::new(&params, ZmtpTxConfig::default(), now), rx()));
                }
                Err(error) => return (out, Some(error.to_string())),
            }
        }
        let Some((rx, tx, again)) = &mut link else { continue };
        let before = out.len();
        let result = rx.read(now, &mut buf, &mut out, usize::MAX);
        assert!(rx.collecting() <= data.len() * (1 + size_of::<Bytes>()));
        // Under CURVE the output is encrypted for the peer and cannot be read here.
        if socket != SocketType::Pub && !sealed {
            repeat(&out[before..], tx, again);
        }
        if let Err(error) = result {
            return (out, Some(error.to_string()));
        }
    }
    (out, None)
}

/// Encodes the messages that were read, and reads them again.
fn repeat(inbound: &[Inbound], tx: &mut ZmtpTx, rx: &mut ZmtpRx) {
    for item in inbound {
        let Inbound::Message(message) = item else { continue };
        tx.push(message.clone()).expect("the queue is empty");
        let mut parts = Vec::new();
        while tx.poll_transmit(&mut parts, 0) > 0 {}
        let mut said = Vec::new();
        let mut buf = BytesMut::from(&parts.concat()[..]);
        rx.read(Now::default(), &mut buf, &mut said, usize::MAX).expect("we send what may be sent");
        assert_eq!(said[..], *core::slice::from_ref(item));
    }
}

fn frames(mut rest: Bytes) {
    while let Ok(Some((head, start))) = FrameHead::decode(&rest) {
        let mut again = Vec::new();
        head.encode(&mut again);
        assert!(again.len() <= start && (start - again.len()).is_multiple_of(7), "{head:?}");
        assert_eq!(FrameHead::decode(&again), Ok(Some((head, again.len()))));
        let Some(end) = usize::try_from(head.len).ok().and_then(|len| start.checked_add(len)) else { return };
        if end > rest.len() {
            return;
        }
        body(&rest.slice(start..end));
        rest = rest.slice(end..);
    }
}

/// Decodes a greeting and checks it against its canonical form.
fn greeting<G: PartialEq + Debug>(
    raw: &Bytes,
    decode: impl Fn(&mut Reader<'_>) -> Result<G>,
    encode: impl Fn(&G, &mut Vec<u8>),
) -> Option<usize> {
    let mut r = Reader::new(raw);
    let greeting = match decode(&mut r) {
        Ok(greeting) => greeting,
        Err(error) => {
            assert!(error.offset <= raw.len(), "{error}");
            return None;
        }
    };
    let mut canonical = Vec::new();
    encode(&greeting, &mut canonical);
    assert!(canonical.len() <= r.offset(), "{greeting:?}");
    let again = decode(&mut Reader::new(&canonical.into()));
    assert_eq!(again, Ok(greeting));
    Some(r.offset())
}

fn body(body: &Bytes) {
    if let Ok(command) = TrafficCommand::decode(body) {
        let mut canonical = Vec::new();
        command.encode(&mut canonical);
        // Only the context of a PING may be cut.
        assert!(body.starts_with(&canonical), "{command:?}");
        assert_eq!(TrafficCommand::decode(&canonical.into()), Ok(command));
    }
    if let Some(subscription) = Subscription::decode(body) {
        assert_eq!(subscription.to_bytes(), body);
    }
    if let Some(Ok(error)) = Error::decode_of_plain_server(body) {
        command::<Error>(&error.to_frame().slice(2..));
    }
    command::<Ready>(body);
    command::<Error>(body);
    command::<plain::PlainHello>(body);
    command::<plain::PlainWelcome>(body);
    command::<plain::PlainInitiate>(body);
    command::<curve::CurveHello>(body);
    command::<curve::CurveWelcome>(body);
    command::<curve::CurveInitiate>(body);
    command::<curve::CurveReady>(body);
    command::<curve::CurveMessage>(body);
    if let Ok(loan) = Loan::decode(body) {
        // Integers may be longer on the wire than they have to be.
        assert_eq!(Loan::decode(&loan.to_frame().slice(2..)), Ok(loan));
    }
}

/// Checks that a command has a single encoding, except for the padding of CURVE's HELLO, the length of which
/// is fixed.
fn command<C: Command + PartialEq + Debug>(body: &Bytes) {
    let command = match C::decode(body) {
        Ok(command) => command,
        Err(error) => {
            assert!(error.offset <= body.len(), "{error}");
            return;
        }
    };
    let canonical = super::AnySink::write(|sink: &mut super::AnySink| command.encode(sink));
    assert_eq!(canonical.len(), body.len(), "{command:?}");
    assert_eq!(C::decode(&canonical).as_ref(), Ok(&command));
    let mut frame = Vec::new();
    command.encode_frame(&mut frame);
    assert!(frame.ends_with(&canonical), "{command:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmtp::wire::Mechanism;

    #[test]
    fn the_body_accepts_what_is_right_and_what_is_wrong() {
        let mut stream = Greeting::new(Mechanism::NULL).to_bytes().to_vec();
        Ready::default().encode_frame(&mut stream);
        for cut in 0..stream.len() {
            zmtp(&stream[..cut]);
        }
        for data in [&b"GET / HTTP/1.1"[..], &[0xff; 80], &[0x02, 0xff], &[0x04, 0x01, 0x00], &[5; 40]] {
            zmtp(data);
        }
    }
}
