//! WHISPER, SHOUT, JOIN, LEAVE, PING, ELECT, LEADER and GOODBYE.

use super::*;
use crate::zre::limits::MAX_CONTENT_FRAMES;

fn whisper(content: Vec<Bytes>) -> ZreMessage {
    ZreMessage { sequence: 2, body: Body::Whisper { content } }
}

#[test]
fn one_frame_in_each_generation_and_several_where_they_are_allowed() {
    let one = vec![Bytes::from_static(b"temp=21.5")];
    let two = vec![Bytes::new(), Bytes::from_static(b"part")];
    both_ways(Generation::Rfc20, "aaa102 0002", &whisper(one.clone()));
    for (generation, hex) in [
        (Generation::Zyre1, "aaa102 0002"),
        (Generation::Rfc36, "aaa10202 0002"),
        (Generation::Rfc43, "aaa10203 0002"),
    ] {
        both_ways(generation, hex, &whisper(one.clone()));
        both_ways(generation, hex, &whisper(two.clone()));
    }
    let generation = Generation::Rfc20;
    let error = whisper(two).encode(generation).unwrap_err();
    assert_eq!(error, EncodeError::MultiFrame { generation, frames: 2 });
    assert_eq!(error.to_string(), "20/ZRE has one content frame per message, not 2");
}

#[test]
fn none_at_all_is_read_and_never_sent() {
    let frames = [unhex("aaa10202 0002")];
    assert_eq!(ZreMessage::decode(Generation::Rfc36, &frames), Ok(whisper(vec![])));
    for generation in Generation::ALL {
        let error = EncodeError::NoContent { message: "WHISPER" };
        assert_eq!(whisper(vec![]).encode(generation), Err(error));
    }
}

#[test]
fn the_number_of_frames_is_bounded() {
    let frames = |content: usize| {
        let mut frames = vec![Bytes::new(); 1 + content];
        frames[0] = unhex("aaa10202 0002");
        frames
    };
    let most = ZreMessage::decode(Generation::Rfc36, &frames(MAX_CONTENT_FRAMES)).unwrap();
    assert_eq!(most.encode(Generation::Rfc36).unwrap(), frames(MAX_CONTENT_FRAMES));
    assert!(ZreMessage::decode(Generation::Rfc36, &frames(MAX_CONTENT_FRAMES + 1)).is_err());
    assert!(whisper(vec![Bytes::new(); MAX_CONTENT_FRAMES + 1]).encode(Generation::Rfc36).is_err());
}

fn shout(group: Vec<u8>, content: Vec<Bytes>) -> ZreMessage {
    ZreMessage { sequence: 3, body: Body::Shout { group: group.into(), content } }
}

#[test]
fn shortest_and_longest_group() {
    for content in [vec![Bytes::new()], vec![Bytes::from_static(b"a"), Bytes::from(vec![0; 70_000])]] {
        both_ways(Generation::Rfc36, "aaa10302 0003 01 47", &shout(b"G".to_vec(), content.clone()));
        let hex = format!("aaa103 0003 ff {}", "67".repeat(255));
        both_ways(Generation::Zyre1, &hex, &shout(vec![b'g'; 255], content));
    }
}

#[test]
fn what_does_not_leave() {
    let one = vec![Bytes::new()];
    let field = "SHOUT group";
    for (group, content, error) in [
        (b"G".to_vec(), vec![], EncodeError::NoContent { message: "SHOUT" }),
        (vec![], one.clone(), EncodeError::Empty { field }),
        (vec![b'g'; 256], one.clone(), EncodeError::TooLong { field, len: 256, bound: 255 }),
        (b"caf\xc3".to_vec(), one.clone(), EncodeError::NotText { field }),
        (b"a\0b".to_vec(), one, EncodeError::NotText { field }),
    ] {
        assert_eq!(shout(group, content).encode(Generation::Rfc36), Err(error));
    }
}

fn join(group: &'static [u8], status: u8) -> ZreMessage {
    ZreMessage { sequence: 4, body: Body::Join { group: Bytes::from_static(group), status } }
}

#[test]
fn both_in_each_generation() {
    let leave = |status| ZreMessage {
        sequence: 5,
        body: Body::Leave { group: Bytes::from_static(b"ALERTS"), status },
    };
    both_ways(Generation::Rfc20, "aaa104 0004 06 414c45525453 03", &join(b"ALERTS", 3));
    both_ways(Generation::Zyre1, "aaa105 0005 06 414c45525453 00", &leave(0));
    both_ways(Generation::Rfc36, "aaa10402 0004 06 414c45525453 ff", &join(b"ALERTS", 255));
    both_ways(Generation::Rfc43, "aaa10503 0005 06 414c45525453 04", &leave(4));
}

#[test]
fn octets_and_frames_behind_the_end_are_ignored() {
    let frames = [unhex("aaa10402 0004 01 47 03 ffff"), Bytes::from_static(b"content")];
    assert_eq!(ZreMessage::decode(Generation::Rfc36, &frames), Ok(join(b"G", 3)));
}

#[test]
fn a_group_without_name_or_with_odd_octets_is_read_and_never_sent() {
    for (hex, group) in [("aaa10402 0004 00 03", &b""[..]), ("aaa10402 0004 03 ff0061 03", b"\xff\0a")] {
        assert_eq!(ZreMessage::decode(Generation::Rfc36, &[unhex(hex)]), Ok(join(group, 3)));
        assert!(join(group, 3).encode(Generation::Rfc36).is_err());
    }
}

#[test]
fn a_header_and_nothing_else() {
    for (id, body) in [("06", Body::Ping), ("07", Body::PingOk)] {
        let message = ZreMessage { sequence: 65535, body };
        both_ways(Generation::Rfc20, &format!("aaa1{id}ffff"), &message);
        both_ways(Generation::Zyre1, &format!("aaa1{id}ffff"), &message);
        both_ways(Generation::Rfc36, &format!("aaa1{id}02ffff"), &message);
        both_ways(Generation::Rfc43, &format!("aaa1{id}03ffff"), &message);
    }
}

#[test]
fn goodbye_is_younger_than_the_first_generations() {
    let goodbye = ZreMessage { sequence: 11, body: Body::Goodbye };
    both_ways(Generation::Rfc36, "aaa10a02000b", &goodbye);
    for generation in [Generation::Rfc20, Generation::Zyre1] {
        let error = EncodeError::NotInGeneration { id: 10, generation };
        assert_eq!(goodbye.encode(generation), Err(error));
        let error = ZreMessage::decode(generation, &[unhex("aaa10a000b")]).unwrap_err();
        assert_eq!((error.reading, error.offset), ("message id", 2));
        assert_eq!(error.kind, DecodeErrorKind::UnknownId { id: 10 });
    }
}

#[test]
fn both_and_not_for_the_first_generations() {
    let (group, id) = (Bytes::from_static(b"G"), Bytes::from_static(b"AB"));
    let elect = Body::Elect { group: group.clone(), challenger: id.clone() };
    let leader = Body::Leader { group, leader: id };
    for (hex, body) in [("08", elect), ("09", leader)] {
        let message = ZreMessage { sequence: 9, body };
        both_ways(Generation::Rfc36, &format!("aaa1{hex}02 0009 01 47 02 4142"), &message);
        for generation in [Generation::Rfc20, Generation::Zyre1] {
            assert!(matches!(message.encode(generation), Err(EncodeError::NotInGeneration { .. })));
        }
    }
}
