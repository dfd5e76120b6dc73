//! Messages of MQTT as publications of Zenoh, and samples as messages.

use crate::{
    attachment::{ATTACHMENT, DELETED, MAX_PAIRS, Pairs, RETAINED, VIA, decode, encode, to_hex},
    options::Options,
    packet::{Message, Version},
    topic::{Unmapped, key_of_topic, topic_of_key},
};
use bytes::Bytes;
use zwire_proto::zenoh::{
    Encoding, KeyExpr, Payload,
    wire::{Del, PushBody, Put},
};

/// Most bridges that a message passes.
const MAX_HOPS: usize = 8;

/// Reason why a message does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It has passed this bridge, or too many.
    Looped,
    /// It has no key or topic.
    Unmapped(Unmapped),
    /// No rule lets it pass, or a rule of another quality of service does.
    NoRule,
}

impl From<Unmapped> for Refused {
    fn from(reason: Unmapped) -> Self {
        Self::Unmapped(reason)
    }
}

/// Notes in the pairs that the message passes this bridge. Returns whether it has passed others.
fn pass(pairs: &mut Pairs, name: &str) -> Result<bool, Refused> {
    let via = pairs.iter().position(|(known, _)| known == VIA);
    let mut via = via.map(|at| pairs.remove(at).1).unwrap_or_default();
    let hops = via.split(' ').filter(|hop| !hop.is_empty()).count();
    if hops >= MAX_HOPS || via.split(' ').any(|hop| hop == name) {
        return Err(Refused::Looped);
    }
    if hops > 0 {
        via.push(' ');
    }
    via.push_str(name);
    pairs.push((VIA.to_owned(), via));
    Ok(hops > 0)
}

/// Key and body of the publication that a message becomes.
pub(crate) fn publication(options: &Options, message: &mut Message) -> Result<(KeyExpr, PushBody), Refused> {
    if options.rule_in(&message.topic).is_none() {
        return Err(Refused::NoRule);
    }
    let key = key_of_topic(&options.prefix, &message.topic)?;
    let mut pairs = core::mem::take(&mut message.pairs);
    pass(&mut pairs, &options.client_id)?;
    let deleted = pairs.iter().position(|(name, _)| name == DELETED).map(|at| pairs.remove(at)).is_some();
    if deleted || (message.retain && message.payload.is_empty()) {
        let attachment = Some(encode(&pairs).into());
        return Ok((key, PushBody::Del(Del { attachment, ..Del::default() })));
    }
    if message.retain {
        pairs.push((RETAINED.to_owned(), "1".to_owned()));
    }
    let encoding = message.content_type.take().map_or(Encoding::DEFAULT, Encoding::from_text);
    let payload = Payload::from(core::mem::take(&mut message.payload));
    let attachment = Some(encode(&pairs).into());
    Ok((key, PushBody::Put(Put { payload, encoding, attachment, ..Put::default() })))
}

/// Sample that may become a message.
pub(crate) struct Outgoing<'a> {
    pub(crate) key: &'a str,
    /// Payload; `None` of a deletion.
    pub(crate) payload: Option<Bytes>,
    /// Encoding as text; `None`: the default one.
    pub(crate) encoding: Option<String>,
    pub(crate) attachment: Option<&'a [u8]>,
}

/// The message that a sample becomes, and whether it came from another bridge. `stored`: whether it is of a rule with QoS 1
/// or 2.
pub(crate) fn message(
    options: &Options,
    sample: Outgoing<'_>,
    stored: bool,
) -> Result<(Message, bool), Refused> {
    let topic = topic_of_key(&options.prefix, sample.key)?;
    let rule = options.rule_out(&topic).filter(|rule| (rule.qos > 0) == stored).ok_or(Refused::NoRule)?;
    let mut pairs = Pairs::new();
    if let Some(octets) = sample.attachment {
        match decode(octets) {
            Some(known) => pairs = known,
            // A text of MQTT has no more octets.
            None if octets.len() <= 32_000 => pairs.push((ATTACHMENT.to_owned(), to_hex(octets))),
            None => {}
        }
    }
    let foreign = pass(&mut pairs, &options.client_id)?;
    pairs.retain(|(name, _)| name != RETAINED);
    pairs.truncate(MAX_PAIRS);
    if sample.payload.is_none() {
        pairs.push((DELETED.to_owned(), "1".to_owned()));
    }
    if options.version == Version::V3 {
        pairs.clear();
    }
    let content_type = sample.encoding.filter(|_| options.version == Version::V5);
    let payload = sample.payload.unwrap_or_default();
    let (qos, retain) = (rule.qos, rule.retain);
    Ok((Message { topic, payload, qos, retain, content_type, pairs, dup: false, id: 0 }, foreign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::value;

    fn options(more: &str) -> Options {
        Options::from_json(&format!(
            r##"{{"broker": "h", "client_id": "own", "spool": "/s", "prefix": "p",
                "rules": [{{"topic": "a/#", "retain": true}}, {{"topic": "b", "qos": 0}}]{more}}}"##
        ))
        .unwrap()
    }

    fn sample<'a>(key: &'a str, payload: Option<&'static str>, attachment: Option<&'a [u8]>) -> Outgoing<'a> {
        Outgoing { key, payload: payload.map(Bytes::from), encoding: Some("text/plain".into()), attachment }
    }

    #[test]
    fn properties_and_content_types_pass_both_ways() {
        let options = options("");
        let pairs = vec![("unit".to_owned(), "C".to_owned()), ("unit".to_owned(), "K".to_owned())];
        let mut came = Message {
            topic: "a//b".into(),
            payload: "21".into(),
            content_type: Some("text/plain".into()),
            pairs: pairs.clone(),
            ..Message::default()
        };
        let (key, body) = publication(&options, &mut came).unwrap();
        assert_eq!(key.as_str(), "p/a/%/b");
        let PushBody::Put(put) = body else { panic!("{body:?}") };
        assert_eq!((&put.payload[..], put.encoding.to_string()), (&b"21"[..], "text/plain".to_owned()));
        let mut expected = pairs.clone();
        expected.push((VIA.to_owned(), "own".to_owned()));
        assert_eq!(decode(put.attachment.as_ref().unwrap()), Some(expected));

        let attachment = encode(&pairs);
        let (went, foreign) =
            message(&options, sample("p/a/%/b", Some("21"), Some(&attachment)), true).unwrap();
        assert_eq!((went.topic.as_str(), went.qos, went.retain, foreign), ("a//b", 1, true, false));
        assert_eq!(went.content_type.as_deref(), Some("text/plain"));
        assert_eq!(went.pairs[..2], pairs[..]);
        let binary = message(&options, sample("p/a", Some(""), Some(b"\xff\x00")), true).unwrap().0;
        assert_eq!(value(&binary.pairs, ATTACHMENT), Some("ff00"));
    }

    #[test]
    fn what_has_passed_does_not_pass_again() {
        let options = options("");
        let mut came = Message { topic: "a".into(), ..Message::default() };
        let (_, body) = publication(&options, &mut came).unwrap();
        let PushBody::Put(put) = body else { panic!("{body:?}") };
        let attachment = put.attachment.unwrap();
        let back = message(&options, sample("p/a", Some(""), Some(&attachment)), true);
        assert_eq!(back.unwrap_err(), Refused::Looped);

        let (went, _) = message(&options, sample("p/a", Some(""), None), true).unwrap();
        let back = publication(&options, &mut went.clone());
        assert_eq!(back.unwrap_err(), Refused::Looped);

        let other = encode(&[(VIA.to_owned(), "other".to_owned())]);
        let (went, foreign) = message(&options, sample("p/a", Some(""), Some(&other)), true).unwrap();
        assert_eq!((value(&went.pairs, VIA), foreign), (Some("other own"), true));
        let long = encode(&[(VIA.to_owned(), "1 2 3 4 5 6 7 8".to_owned())]);
        assert!(message(&options, sample("p/a", Some(""), Some(&long)), true).is_err());
    }

    #[test]
    fn a_deletion_clears_what_is_retained() {
        let options = options("");
        let (went, _) = message(&options, sample("p/a", None, None), true).unwrap();
        assert!(went.payload.is_empty() && went.retain && value(&went.pairs, DELETED) == Some("1"));
        for mut came in [
            Message { topic: "a".into(), retain: true, ..Message::default() },
            Message { topic: "a".into(), pairs: vec![(DELETED.into(), "1".into())], ..Message::default() },
        ] {
            assert!(matches!(publication(&options, &mut came), Ok((_, PushBody::Del(_)))));
        }
    }

    #[test]
    fn rules_decide() {
        let options = options("");
        let mut came = Message { topic: "c".into(), ..Message::default() };
        assert_eq!(publication(&options, &mut came).unwrap_err(), Refused::NoRule);
        assert_eq!(message(&options, sample("p/b", Some(""), None), true).unwrap_err(), Refused::NoRule);
        assert_eq!(message(&options, sample("p/b", Some(""), None), false).unwrap().0.qos, 0);
        let outside = message(&options, sample("q/b", Some(""), None), false).unwrap_err();
        assert_eq!(outside, Refused::Unmapped(Unmapped::Outside));
    }
}
