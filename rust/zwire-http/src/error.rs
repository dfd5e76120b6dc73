//! Errors of starting a server, and answers to requests that are refused.

use hyper::StatusCode;
use std::{io, sync::Arc};
use thiserror::Error as ThisError;
use zwire_engine::TlsSettingsError;

/// Any failure of starting a server.
#[derive(Debug, ThisError)]
pub enum Error {
    /// An address on which the server cannot listen.
    #[error("listen: {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Error of the operating system.
        source: Arc<io::Error>,
    },
    /// An option that is not accepted.
    #[error("{0}")]
    Usage(String),
    /// A certificate or key that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsSettingsError),
    /// The session is closed, or the runtime of this process cannot be started.
    #[error(transparent)]
    Engine(#[from] zwire_engine::Error),
}

/// Reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Status of the answer.
    pub(crate) status: StatusCode,
    /// Explanation, for the client.
    pub(crate) text: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }
}

impl From<zwire_engine::Error> for Problem {
    fn from(error: zwire_engine::Error) -> Self {
        let status = match error {
            zwire_engine::Error::Closed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
