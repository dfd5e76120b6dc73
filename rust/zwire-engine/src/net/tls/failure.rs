//! What is wrong with our settings, and what has gone wrong between two sides.

use core::time::Duration;
use rustls::{AlertDescription, CertificateError, Error};
use std::{io, path::PathBuf, sync::Arc};
use thiserror::Error as ThisError;

/// Settings of `transport/link/tls`, or of an endpoint, that are of no use. `name` is the key without
/// its branch.
#[derive(Clone, Debug, ThisError)]
pub enum TlsSettingsError {
    /// A key that the role needs.
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
        /// Why not.
        source: Arc<io::Error>,
    },
    /// What it holds does not work.
    #[error("transport/link/tls/{name}: {problem}")]
    Unusable {
        /// The key.
        name: &'static str,
        /// Why not; no part of a key.
        problem: String,
    },
    /// The host of an endpoint can stand in no certificate.
    #[error("{host:?} is neither a name nor an address")]
    Host {
        /// The host.
        host: String,
    },
}

impl TlsSettingsError {
    pub(super) fn unusable(name: &'static str, problem: impl ToString) -> Self {
        Self::Unusable { name, problem: problem.to_string() }
    }

    /// The path of the key, for errors that are about one.
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

/// Why TLS did not come about.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum TlsFailure {
    /// The time of their certificate is over.
    #[error("the certificate of the other side has expired")]
    Expired,
    /// It has not begun yet.
    #[error("the certificate of the other side is not valid yet: are both clocks right?")]
    NotYetValid,
    /// No authority of `root_ca_certificate` has signed it.
    #[error("the certificate of the other side is signed by none of the authorities in root_ca_certificate")]
    UnknownAuthority,
    /// It is somebody else's.
    #[error("the certificate of the other side is for {presented}, not for {expected}")]
    Name {
        /// The host of the endpoint.
        expected: String,
        /// The names in the certificate.
        presented: String,
    },
    /// Something else is wrong with it.
    #[error("the certificate of the other side is no good: {0}")]
    Certificate(String),
    /// There is none, and `enable_mtls` demands one.
    #[error("the other side shows no certificate, and enable_mtls demands one")]
    NoCertificate,
    /// They say what they do not like; about our certificate or our versions.
    #[error("the other side refused: {0}")]
    Refused(String),
    /// They closed the connection within the handshake.
    #[error("the other side closed the connection in the handshake of TLS: does it speak TLS?")]
    Closed,
    /// They say nothing.
    #[error("no answer to the handshake of TLS within {0:?}: does the other side speak TLS?")]
    Silent(Duration),
    /// What came is not TLS.
    #[error("the other side does not speak TLS here")]
    NotTls,
    /// The other side begins with TLS at an endpoint that is none of TLS.
    #[error("the other side speaks TLS, this endpoint does not")]
    OnlyTls,
    /// Anything else.
    #[error("{0}")]
    Protocol(String),
}

impl TlsFailure {
    /// In one word.
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

    /// Whether it is about who somebody is.
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

    /// Whether a connection of another kind begins with these bytes as TLS does: a record of the
    /// handshake, or an alert. No Zenoh handshake does: it would be a first batch of 768 bytes or more.
    pub(crate) fn begins(bytes: &[u8]) -> bool {
        matches!(bytes, [0x15 | 0x16, 0x03, 0x00..=0x04, ..])
    }
}

impl From<&Error> for TlsFailure {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(problem) => certificate(problem),
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::AlertReceived(alert) => Self::Refused(said(*alert)),
            Error::InvalidMessage(_) => Self::NotTls,
            other => Self::Protocol(other.to_string()),
        }
    }
}

fn certificate(problem: &CertificateError) -> TlsFailure {
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFailure::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            TlsFailure::NotYetValid
        }
        CertificateError::UnknownIssuer => TlsFailure::UnknownAuthority,
        CertificateError::NotValidForNameContext { expected, presented } => TlsFailure::Name {
            expected: expected.to_str().into_owned(),
            presented: if presented.is_empty() { "nobody".to_owned() } else { presented.join(", ") },
        },
        other => TlsFailure::Certificate(other.to_string()),
    }
}

/// An alert in words.
fn said(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateExpired => "our certificate has expired".to_owned(),
        AlertDescription::UnknownCA => "it does not know the authority of our certificate".to_owned(),
        AlertDescription::CertificateRequired => "it demands a certificate (enable_mtls)".to_owned(),
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::AccessDenied => format!("our certificate is no good to it ({alert:?})"),
        AlertDescription::NoApplicationProtocol => {
            "it wants other links over QUIC there (multistream, mixed_rel, rel), or is another service"
                .to_owned()
        }
        AlertDescription::ProtocolVersion => "it speaks no version of TLS that we do".to_owned(),
        other => format!("{other:?}"),
    }
}
