//! Failures of rustls as [`TlsFailure`], and problems of settings.

use crate::net::tls_error::{TlsFailure, TlsSettingsError};
use rustls::{AlertDescription, CertificateError, Error};

impl TlsSettingsError {
    pub(super) fn unusable(name: &'static str, problem: impl ToString) -> Self {
        Self::Unusable { name, problem: problem.to_string() }
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
            presented: if presented.is_empty() { "no name".to_owned() } else { presented.join(", ") },
        },
        other => TlsFailure::Certificate(other.to_string()),
    }
}

/// Text of an alert from the other side.
fn said(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateExpired => "our certificate has expired".to_owned(),
        AlertDescription::UnknownCA => "it does not know the authority of our certificate".to_owned(),
        AlertDescription::CertificateRequired => "it requires a certificate (enable_mtls)".to_owned(),
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::AccessDenied => format!("it does not accept our certificate ({alert:?})"),
        AlertDescription::NoApplicationProtocol => {
            "it expects other parameters of QUIC links (multistream, mixed_rel, rel), or is another service"
                .to_owned()
        }
        AlertDescription::ProtocolVersion => "it supports none of our TLS versions".to_owned(),
        other => format!("{other:?}"),
    }
}
