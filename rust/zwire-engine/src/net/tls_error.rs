//! Invalid TLS settings, and failures of TLS between two sides.

use core::time::Duration;
use std::{io, path::PathBuf, sync::Arc};
use thiserror::Error as ThisError;

/// Invalid settings of `transport/link/tls` or of an endpoint. `name` is the key without its branch.
#[derive(Clone, Debug, ThisError)]
pub enum TlsSettingsError {
    /// A key is not set that the role needs.
    #[error("transport/link/tls/{name} is not set")]
    Missing {
        /// The key.
        name: &'static str,
    },
    /// A file that cannot be read.
    #[error("transport/link/tls/{name}: {}: {source}", path.display())]
    File {
        /// The key.
        name: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause.
        source: Arc<io::Error>,
    },
    /// The content of a file or value cannot be used.
    #[error("transport/link/tls/{name}: {problem}")]
    Unusable {
        /// The key.
        name: &'static str,
        /// Reason; contains no part of a private key.
        problem: String,
    },
    /// The host of an endpoint is not allowed in a certificate.
    #[error("{host:?} is neither a name nor an address")]
    Host {
        /// The host.
        host: String,
    },
}

impl TlsSettingsError {
    /// Path of the key, for errors that concern one.
    #[must_use]
    pub fn path(&self) -> Option<String> {
        match self {
            Self::Missing { name } | Self::File { name, .. } | Self::Unusable { name, .. } => {
                Some(format!("transport/link/tls/{name}"))
            }
            Self::Host { .. } => None,
        }
    }
}

/// Reason why the TLS handshake failed.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum TlsFailure {
    /// The certificate of the other side has expired.
    #[error("the certificate of the other side has expired")]
    Expired,
    /// The certificate is not valid yet.
    #[error("the certificate of the other side is not valid yet: are both clocks right?")]
    NotYetValid,
    /// The certificate is not signed by an authority of `root_ca_certificate`.
    #[error("the certificate of the other side is signed by none of the authorities in root_ca_certificate")]
    UnknownAuthority,
    /// The certificate is for another name.
    #[error("the certificate of the other side is for {presented}, not for {expected}")]
    Name {
        /// The host of the endpoint.
        expected: String,
        /// The names in the certificate.
        presented: String,
    },
    /// Any other error of the certificate.
    #[error("the certificate of the other side is not acceptable: {0}")]
    Certificate(String),
    /// The other side presented no certificate, and `enable_mtls` requires one.
    #[error("the other side presents no certificate, and enable_mtls requires one")]
    NoCertificate,
    /// The other side refused, with its reason; concerns the local certificate or TLS versions.
    #[error("the other side refused: {0}")]
    Refused(String),
    /// The other side closed the connection within the handshake.
    #[error("the other side closed the connection in the handshake of TLS: does it speak TLS?")]
    Closed,
    /// The other side did not answer.
    #[error("no answer to the handshake of TLS within {0:?}: does the other side speak TLS?")]
    Silent(Duration),
    /// The other side answered with something other than TLS.
    #[error("the other side does not speak TLS here")]
    NotTls,
    /// The other side uses TLS at an endpoint without TLS.
    #[error("the other side speaks TLS, this endpoint does not")]
    OnlyTls,
    /// Any other failure.
    #[error("{0}")]
    Protocol(String),
}

impl TlsFailure {
    /// Short name of the failure, as used in statistics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NotYetValid => "not-yet-valid",
            Self::UnknownAuthority => "unknown-authority",
            Self::Name { .. } => "name",
            Self::Certificate(_) => "certificate",
            Self::NoCertificate => "no-certificate",
            Self::Refused(_) => "refused",
            Self::Closed => "closed-in-handshake",
            Self::Silent(_) => "timeout",
            Self::NotTls | Self::OnlyTls => "not-understood",
            Self::Protocol(_) => "protocol",
        }
    }

    /// Whether the failure concerns the identity of a side.
    #[must_use]
    pub const fn is_authentication(&self) -> bool {
        matches!(
            self,
            Self::Expired
                | Self::NotYetValid
                | Self::UnknownAuthority
                | Self::Name { .. }
                | Self::Certificate(_)
                | Self::NoCertificate
                | Self::Refused(_)
        )
    }

    /// Whether the first bytes at an endpoint of another protocol are TLS: a handshake record, or an
    /// alert. A Zenoh handshake never begins like that: it would be a first batch of 768 bytes or more.
    pub(crate) fn begins(bytes: &[u8]) -> bool {
        matches!(bytes, [0x15 | 0x16, 0x03, 0x00..=0x04, ..])
    }
}
