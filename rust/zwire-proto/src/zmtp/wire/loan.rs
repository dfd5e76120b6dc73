//! LOAN: the next frame of a message is in memory of the sender (`lending`). Sent only between two nodes of zwire that
//! have agreed on it; that frame is empty.
//!
//! ```text
//! +----+--------+---------------------------------+
//! | 04 | "LOAN" | loan | segment | offset | length |   each a VLE integer
//! +----+--------+---------------------------------+
//! ```

use super::Command;
use crate::{
    buf::{Reader, Sink},
    error::Result,
    lending::LoanDescription,
};

/// Puts bytes on loan in place of those of the next frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loan {
    /// Where the bytes are.
    pub description: LoanDescription,
}

impl Command for Loan {
    const NAME: &'static str = "LOAN";

    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        LoanDescription::decode(r).map(|description| Self { description })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        self.description.encode(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::both_ways, *};

    #[test]
    fn a_description_follows_the_name() {
        let description = LoanDescription { loan: 7, segment: 1, offset: 4096, len: 100_000 };
        both_ways("04 0C 04 4C 4F 41 4E 07 01 80 20 A0 8D 06", &Loan { description });
    }
}
