//! User properties of MQTT as attachments of Zenoh: a sequence of pairs of texts, serialized as zenoh-ext does it, so
//! that a program may also read it as a dictionary.

/// Most pairs of an attachment. A broker bounds the size of a packet, and not the number of its properties.
pub const MAX_PAIRS: usize = 1024;

/// Pairs of texts, in their order; a name may occur more than once.
pub type Pairs = Vec<(String, String)>;

/// Names of bridges that a message has passed, separated by spaces: the user property and the pair that end loops.
pub const VIA: &str = "zwire-mqtt-via";
/// Present with the value `1` if the message is one that the broker retained, or retains from now on (MQTT 5).
pub const RETAINED: &str = "mqtt-retained";
/// Topic for the response to a message.
pub const RESPONSE_TOPIC: &str = "mqtt-response-topic";
/// Correlation data of a request, as hexadecimal digits.
pub const CORRELATION: &str = "mqtt-correlation-data";
/// Seconds for which a message is of use.
pub const EXPIRY: &str = "mqtt-message-expiry";
/// User property with an attachment that has no pairs, as hexadecimal digits.
pub const ATTACHMENT: &str = "zenoh-attachment";
/// User property of a message that stands for a deletion.
pub const DELETED: &str = "zenoh-deleted";

fn push_len(mut len: usize, out: &mut Vec<u8>) {
    while len >= 0x80 {
        out.push((len & 0x7f) as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
}

/// Octets of an attachment.
#[must_use]
pub fn encode(pairs: &[(String, String)]) -> Vec<u8> {
    let mut out =
        Vec::with_capacity(2 + pairs.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>());
    push_len(pairs.len(), &mut out);
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        push_len(text.len(), &mut out);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// A length, and the octets behind it.
fn take_len(octets: &[u8]) -> Option<(usize, &[u8])> {
    let mut len = 0_usize;
    for (index, octet) in octets.iter().enumerate().take(5) {
        len |= usize::from(octet & 0x7f) << (7 * index);
        if octet & 0x80 == 0 {
            return Some((len, &octets[index + 1..]));
        }
    }
    None
}

/// Pairs of an attachment; `None` if it is of another form.
#[must_use]
pub fn decode(octets: &[u8]) -> Option<Pairs> {
    let (count, mut rest) = take_len(octets)?;
    if count > MAX_PAIRS {
        return None;
    }
    let mut text = || {
        let (len, behind) = take_len(rest)?;
        let (text, behind) = behind.split_at_checked(len)?;
        rest = behind;
        core::str::from_utf8(text).ok().map(str::to_owned)
    };
    let mut pairs = Pairs::new();
    for _ in 0..count {
        pairs.push((text()?, text()?));
    }
    rest.is_empty().then_some(pairs)
}

/// Hexadecimal digits of octets.
#[must_use]
pub fn to_hex(octets: &[u8]) -> String {
    zwire_spool::hex(octets)
}

/// Octets of hexadecimal digits; `None` if there are others among them.
#[must_use]
pub fn of_hex(text: &str) -> Option<Vec<u8>> {
    zwire_spool::unhex(text)
}

/// Value of the first pair of a name.
#[must_use]
pub fn value<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_attachment_is_that_of_zenoh_ext() {
        // `z_serialize({"k": "v", "größe": ""})` of eclipse-zenoh 1.9.
        let octets = b"\x02\x01k\x01v\x07gr\xc3\xb6\xc3\x9fe\x00";
        assert_eq!(encode(&pairs(&[("k", "v"), ("größe", "")])), octets);
        assert_eq!(decode(octets).unwrap(), pairs(&[("k", "v"), ("größe", "")]));
        assert_eq!(encode(&[]), [0]);
    }

    #[test]
    fn other_attachments_have_no_pairs() {
        for octets in [
            &b""[..],
            b"\x01",
            b"\x01\x01k",
            b"\x01\x01k\x01vx",
            b"\x01\x01\xff\x00",
            b"\x01\xff\xff\xff\xff\xff\x01",
            b"\xff\xff\xff\xff\x0f",
            b"free text",
        ] {
            assert_eq!(decode(octets), None, "{octets:?}");
        }
    }

    proptest! {
        #[test]
        fn pairs_come_back(pairs in proptest::collection::vec((".{0,200}", ".{0,20}"), 0..5)) {
            prop_assert_eq!(decode(&encode(&pairs)), Some(pairs));
        }

        #[test]
        fn octets_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(pairs) = decode(&octets) {
                prop_assert_eq!(decode(&encode(&pairs)), Some(pairs));
            }
        }
    }
}
