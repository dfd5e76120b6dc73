//! PING, id 6, PING-OK, id 7, and GOODBYE, id 10: a header and nothing else (`zre` 9.3).
//!
//! ```text
//! +--------+
//! | header |   PING-OK does not tell which PING it answers
//! +--------+
//! ```
//!
//! GOODBYE came with zyre 2.0.1; peers that do not know it lose count and drop the sender.

#[cfg(test)]
mod tests {
    use super::super::testing::{both_ways, unhex};
    use super::super::{Body, EncodeError, ZreMessage};
    use crate::error::DecodeErrorKind;
    use crate::zre::Generation;

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
}
