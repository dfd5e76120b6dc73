//! Payloads on loan: the offers of both sides, LOAN, and what a peer may get wrong.

use super::*;
use crate::{
    lending::{ChannelSecret, LendingOffer, LendingTerms, LoanDescription},
    zmtp::{
        link::ZmtpLinkError,
        wire::{Command, FrameHead, Loan, put_frame},
    },
};

const OURS: ChannelSecret = ChannelSecret([1; 16]);
const THEIRS: ChannelSecret = ChannelSecret([2; 16]);
const DOOR: ChannelSecret = ChannelSecret([3; 16]);
const LOAN_7: LoanDescription = LoanDescription { loan: 7, segment: 0, offset: 0, len: LEN as u64 };
const LEN: usize = 5000;

fn opener(config: ZmtpHandshakeConfig) -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig { lending: Some(LendingOffer { secret: OURS, door: None }), ..config }
}

fn acceptor(config: ZmtpHandshakeConfig) -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig { lending: Some(LendingOffer { secret: THEIRS, door: Some(DOOR) }), ..config }
}

fn dealer() -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig::new(SocketType::Dealer)
}

fn router() -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig::new(SocketType::Router)
}

/// Both ends of a connection: frames of [`LEN`] bytes are lent under the number 7, from memory that both have.
fn ends(from: ZmtpHandshakeConfig, to: ZmtpHandshakeConfig) -> (ZmtpTx, ZmtpRx, Bytes) {
    let (mut tx, mut rx) = link(from, to);
    let memory = Bytes::from(vec![7; LEN]);
    tx.set_lend(Some(Box::new(|frame| (frame.len() == LEN).then_some(LOAN_7))));
    let lent = memory.clone();
    rx.set_borrow(Box::new(move |loan| (*loan == LOAN_7).then(|| lent.clone())));
    (tx, rx, memory)
}

#[test]
fn both_sides_have_to_offer_it_and_the_property_is_no_metadata() {
    let pairs = [
        (opener(dealer()), acceptor(router()), true),
        (opener(plain_client(dealer())), acceptor(plain_server(router())), true),
        (dealer(), acceptor(router()), false),
        (opener(dealer()), router(), false),
        (opener(dealer()), opener(router()), false),
    ];
    for (one, other, agreed) in pairs {
        let [here, there] = [params(one.clone(), other.clone()), params(other, one)];
        let terms = |ours, theirs, door| agreed.then_some(LendingTerms { ours, theirs, door });
        assert_eq!(here.lending, terms(OURS, THEIRS, Some(DOOR)));
        assert_eq!(there.lending, terms(THEIRS, OURS, None));
        for side in [here, there] {
            assert_eq!(side.peer.metadata.get(Metadata::LENDING), None);
        }
    }
}

/// The offer is a property that other implementations ignore, behind those that they know.
#[test]
fn an_offer_is_a_property_of_ready() {
    let metadata = opener(dealer()).metadata();
    let names: Vec<_> = metadata.0.iter().map(|property| property.name.clone()).collect();
    assert_eq!(names, ["Socket-Type", "Identity", "X-Zwire-Lending"]);
    assert_eq!(metadata.get(Metadata::LENDING).unwrap()[..], [&[1][..], &OURS.0].concat());
    assert_eq!(dealer().metadata().get(Metadata::LENDING), None);
}

#[test]
fn a_loan_stands_for_the_empty_frame_behind_it() {
    let (mut tx, mut rx, memory) = ends(opener(dealer()), acceptor(router()));
    let frames = vec![bytes("head"), memory.clone(), Bytes::new(), memory.clone()];
    tx.push(Message::of(frames.clone()).unwrap()).unwrap();
    tx.push(Message::single(memory.clone())).unwrap();
    let said = drain(&mut tx);
    let mut expected = Vec::new();
    let loan = Loan { description: LOAN_7 }.to_frame();
    put_frame(&mut expected, &bytes("head"), true);
    expected.extend_from_slice(&loan);
    put_frame(&mut expected, &Bytes::new(), true);
    put_frame(&mut expected, &Bytes::new(), true);
    expected.extend_from_slice(&loan);
    put_frame(&mut expected, &Bytes::new(), false);
    expected.extend_from_slice(&loan);
    put_frame(&mut expected, &Bytes::new(), false);
    assert_eq!(said, expected);
    let got = receive(&mut rx, &said);
    assert_eq!(
        got,
        [Inbound::Message(Message::of(frames).unwrap()), Inbound::Message(memory.clone().into())]
    );
    let Inbound::Message(last) = &got[1] else { unreachable!("it was compared") };
    assert_eq!(last.frames()[0].as_ptr(), memory.as_ptr(), "it is not copied");
    assert_eq!((tx.stats().lent, rx.stats().borrowed), (3, 3));
}

/// The description travels in a box; the bytes stay in memory.
#[cfg(feature = "curve")]
#[test]
fn loans_under_curve() {
    let (mut tx, mut rx, memory) = ends(opener(curve::client()), acceptor(curve::server()));
    tx.push(Message::of(vec![bytes("head"), memory.clone()]).unwrap()).unwrap();
    let said = drain(&mut tx);
    assert!(said.len() < LEN);
    let got = receive(&mut rx, &said);
    assert_eq!(got, [Inbound::Message(Message::of(vec![bytes("head"), memory]).unwrap())]);
}

/// Error of a receiver that reads these frames.
fn refused(frames: &[Bytes]) -> ZmtpLinkError {
    let (_, mut rx, _) = ends(opener(dealer()), acceptor(router()));
    let stream = frames.concat();
    rx.read(START, &mut BytesMut::from(&stream[..]), &mut Vec::new(), usize::MAX).unwrap_err()
}

fn frame(body: &'static str, more: bool) -> Bytes {
    let mut out = Vec::new();
    put_frame(&mut out, &bytes(body), more);
    out.into()
}

#[test]
fn a_loan_that_is_none_ends_the_connection() {
    let loan = |description| Loan { description }.to_frame();
    let problem = |error| match error {
        ZmtpLinkError::Loan { problem, .. } => problem,
        other => panic!("{other}"),
    };
    let other = LoanDescription { loan: 8, ..LOAN_7 };
    assert_eq!(problem(refused(&[loan(other)])), "the bytes are not on loan");
    assert_eq!(problem(refused(&[loan(LOAN_7), loan(LOAN_7)])), "another LOAN is before it");
    assert_eq!(problem(refused(&[loan(LOAN_7), frame("a", false)])), "the frame behind it is not empty");
    let large = LoanDescription { len: u64::MAX, ..LOAN_7 };
    assert!(matches!(refused(&[loan(large)]), ZmtpLinkError::TooLarge { len: u64::MAX, .. }));
    let cut = loan(LOAN_7);
    let mut cut = cut[..cut.len() - 1].to_vec();
    cut[1] -= 1;
    assert!(matches!(refused(&[cut.into()]), ZmtpLinkError::Decode(_)));
    let text = refused(&[loan(other)]).to_string();
    assert_eq!(text, "LOAN of 5000 bytes: the bytes are not on loan");
}

/// The bound of a message counts what is borrowed, so that a peer cannot have us map more than it may send.
#[test]
fn what_is_borrowed_counts_as_if_it_had_been_sent() {
    let (_, mut rx, _) = ends(opener(dealer()), acceptor(router()));
    rx.set_borrow(Box::new(|loan| Some(vec![0; usize::try_from(loan.len).unwrap()].into())));
    let loan = Loan { description: LoanDescription { len: 1 << 20, ..LOAN_7 } }.to_frame();
    let mut one = loan.to_vec();
    put_frame(&mut one, &Bytes::new(), true);
    let mut read = || rx.read(START, &mut BytesMut::from(&one[..]), &mut Vec::new(), usize::MAX);
    let ended = (0..5000).find_map(|_| read().err());
    assert!(matches!(ended, Some(ZmtpLinkError::TooLarge { .. })), "{ended:?}");
}

/// A peer of another implementation may have a command of that name.
#[test]
fn loan_means_nothing_where_it_is_not_agreed_on() {
    let (_, mut rx) = link(dealer(), router());
    let mut stream = Vec::new();
    FrameHead::command(6).encode(&mut stream);
    stream.extend_from_slice(b"\x04LOAN?");
    put_frame(&mut stream, &bytes("a"), false);
    assert_eq!(receive(&mut rx, &stream), [Inbound::Message(Message::single("a"))]);
    assert_eq!(rx.stats().ignored, 1);
}

/// Messages that were not written go to the next connection as they are.
#[test]
fn nothing_is_lent_before_it_is_written() {
    let (mut tx, _, memory) = ends(opener(dealer()), acceptor(router()));
    tx.set_lend(Some(Box::new(|_| panic!("nothing is written"))));
    tx.push(Message::single(memory.clone())).unwrap();
    assert_eq!(tx.take_messages(), [Message::single(memory)]);
}
