//! The two streams of a connection.

/// One of the two streams of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// What the client sent.
    ToServer,
    /// What the server sent.
    ToClient,
}

impl Direction {
    /// The other stream.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }

    /// 0 or 1, for state that is kept per direction.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}
