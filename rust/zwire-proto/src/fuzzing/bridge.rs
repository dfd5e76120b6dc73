//! Fuzz body of a bridge to ZRE: names, keys, attachments, contents and signs of life.

use crate::{
    bridge::{Attachment, Beat, GroupRule, Network, Place, Rules, encoding, escape, join, split, unescape},
    zenoh::{KeyExpr, Payload},
};
use bytes::{Bytes, BytesMut};

/// A name, a key, an attachment, a content and a sign of life of the same bytes.
pub fn bridge(data: &[u8]) {
    let chunk = escape(data);
    assert_eq!(unescape(&chunk).as_deref(), Ok(data));
    let raw = Bytes::copy_from_slice(data);
    match Attachment::decode(&raw) {
        Ok(attachment) => {
            let mut canonical = BytesMut::new();
            attachment.encode(&mut canonical);
            assert!(canonical.len() <= raw.len(), "{attachment:?}");
            assert_eq!(Attachment::decode(&canonical.freeze()), Ok(attachment));
        }
        Err(error) => assert!(error.offset <= raw.len(), "{error}"),
    }
    match Beat::decode(&raw) {
        Ok(beat) => assert_eq!(Beat::decode(&beat.encode()), Ok(beat)),
        Err(error) => assert!(error.offset <= raw.len(), "{error}"),
    }
    match split(Payload::from(raw.clone()), &encoding()) {
        Ok(content) => {
            assert!(content.iter().map(Bytes::len).sum::<usize>() <= raw.len());
            let (payload, encoding) = join(content.clone(), &encoding());
            assert_eq!(split(payload, &encoding), Ok(content));
        }
        Err(error) => assert!(error.offset <= raw.len(), "{error}"),
    }
    let Ok(text) = core::str::from_utf8(data) else { return };
    if let Ok(name) = unescape(text) {
        assert_eq!(escape(&name), text);
    }
    if let Ok(rule) = GroupRule::new(text) {
        assert!(KeyExpr::new(rule.chunk()).is_ok());
        let _ = Rules::new(vec![rule], None).find(text);
    }
    let (name, key) = text.split_once(' ').unwrap_or(("zre", text));
    let Ok(network) = Network::new(name) else { return };
    let again = match network.parse(key) {
        Some(Place::Shout { group, sender }) => sender.uuid().and_then(|uuid| network.shout(&group, &uuid)),
        Some(Place::Member { group, uuid }) => network.member(&group, &uuid),
        Some(Place::Whisper { to, sender }) => sender.uuid().and_then(|uuid| network.whisper(&to, &uuid)),
        Some(Place::Peer { uuid, bridge }) => network.peer(&uuid, bridge),
        _ => None,
    };
    if let Some(again) = again {
        assert_eq!(again.as_str(), key);
    }
}
