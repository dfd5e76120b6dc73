//! ERROR: refuses a connection and gives the reason (`zmtp` 11).
//!
//! ```text
//! +----+---------+-----+--------+
//! | 05 | "ERROR" | len | reason |
//! +----+---------+-----+--------+
//! ```

use super::{Command, command::put_short};
use crate::{
    buf::{Reader, Sink},
    error::Result,
};
use bytes::Bytes;

/// The end of a handshake. The receiver must not try again with the same credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// At most 255 bytes, printable; an authenticator's status code, like `400`.
    pub reason: Bytes,
}

impl Error {
    /// Start of the body of libzmq's ERROR under PLAIN since 4.3.0: a bug there drops the letter E
    /// together with the length of the name (`zmtp` 6.2).
    const MISSPELT: &'static [u8] = b"\x5eRROR";

    /// Reads the body of a command that a PLAIN server may have misspelt; `None` when it is another
    /// command.
    ///
    /// # Errors
    /// The reason does not decode.
    pub fn decode_of_plain_server(body: &Bytes) -> Option<Result<Self>> {
        let correct = body.get(1..).is_some_and(|rest| rest.starts_with(Self::NAME.as_bytes()));
        if body.first() == Some(&5) && correct {
            return Some(Self::decode(body));
        }
        body.starts_with(Self::MISSPELT)
            .then(|| Self::decode_data(&mut Reader::starting_at(body, Self::MISSPELT.len())))
    }
}

impl Command for Error {
    const NAME: &'static str = "ERROR";

    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        let len = r.u8("ERROR reason length")?;
        let reason = r.bytes(len.into(), "ERROR reason")?;
        r.finish("ERROR")?;
        Ok(Self { reason })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        put_short(sink, &self.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{both_ways, unhex};
    use super::*;

    fn error(reason: &'static str) -> Error {
        Error { reason: Bytes::from_static(reason.as_bytes()) }
    }

    /// `zmtp` 15.7.
    #[test]
    fn the_command_of_the_example() {
        both_ways("04 0A 05 45 52 52 4F 52 03 34 30 30", &error("400"));
        both_ways("04 07 05 45 52 52 4F 52 00", &error(""));
        assert!(Error::decode(&unhex("05 45 52 52 4F 52 03 34 30 30 00")).is_err());
    }

    /// `zmtp` 15.8, last row.
    #[test]
    fn the_misspelt_command_of_a_plain_server_is_understood() {
        let read = |hex| Error::decode_of_plain_server(&unhex(hex));
        assert_eq!(read("5E 52 52 4F 52 03 34 30 30"), Some(Ok(error("400"))));
        assert_eq!(read("05 45 52 52 4F 52 03 34 30 30"), Some(Ok(error("400"))));
        assert!(read("5E 52 52 4F 52 04 34 30 30").unwrap().is_err());
        assert!(read("05 45 52 52 4F 52 04 34 30 30").unwrap().is_err());
        assert_eq!(read("07 57 45 4C 43 4F 4D 45"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn a_reason_that_is_too_long_is_cut() {
        let out = Error { reason: vec![b'x'; 300].into() }.to_frame();
        assert_eq!(Error::decode(&out.slice(9..)).unwrap().reason.len(), 255);
    }
}
