//! WELCOME of PLAIN: accepts the password (`zmtp` 6.2).
//!
//! ```text
//! +----+-----------+
//! | 07 | "WELCOME" |
//! +----+-----------+
//! ```

use crate::{
    buf::{Reader, Sink},
    error::Result,
    zmtp::wire::Command,
};

/// WELCOME from the server, after HELLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainWelcome;

impl Command for PlainWelcome {
    const NAME: &'static str = "WELCOME";

    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        r.finish("WELCOME")?;
        Ok(Self)
    }

    fn encode_data(&self, _: &mut impl Sink) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::DecodeErrorKind,
        zmtp::wire::testing::{both_ways_whole, kind, unhex},
    };

    /// `zmtp` 15.8.
    #[test]
    fn the_command_of_the_example() {
        both_ways_whole("04 08 07 57 45 4C 43 4F 4D 45", &PlainWelcome);
        let longer = unhex("07 57 45 4C 43 4F 4D 45 00");
        assert_eq!(kind(PlainWelcome::decode(&longer)), DecodeErrorKind::TrailingBytes { left: 1 });
    }
}
