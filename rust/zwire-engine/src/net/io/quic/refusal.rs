//! Reasons for the end of a QUIC connection.

use crate::{error::ConnectReason, net::tls_error::TlsFailure};
use quinn::{Connection, ConnectionError, VarInt};
use rustls::AlertDescription;
use std::io;

/// Application close code: the two sides agreed on a name but want different shapes.
const MISFIT: VarInt = VarInt::from_u32(1);

/// Closes a connection because its sides want different shapes: the other side is told `to_them`.
pub(super) fn misfit(connection: &Connection, here: &str, to_them: &str) -> ConnectReason {
    connection.close(MISFIT, to_them.as_bytes());
    TlsFailure::Refused(here.to_owned()).into()
}

/// Reason for the end of a connection; the peer may reject a certificate after this side is connected.
pub(super) fn lost(error: ConnectionError) -> io::Error {
    match refused(&error, "") {
        ConnectReason::Tls(failure) => io::Error::other(failure),
        _ => io::Error::other(error),
    }
}

pub(super) fn unusable(error: impl ToString) -> ConnectReason {
    ConnectReason::Tls(TlsFailure::Protocol(error.to_string()))
}

/// Reason why a connection was not established: the TLS alert in its error code, with text for a local failure.
pub(super) fn refused(error: &ConnectionError, expected: &str) -> ConnectReason {
    const ALERTS: core::ops::RangeInclusive<u64> = 0x100..=0x1ff;
    let alert = |code: u64| {
        #[allow(clippy::cast_possible_truncation, reason = "the alert is the low byte")]
        ALERTS.contains(&code).then(|| AlertDescription::from(code as u8))
    };
    let failure = match error {
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code.into()) {
            Some(alert) => TlsFailure::from(&rustls::Error::AlertReceived(alert)),
            None => TlsFailure::Refused(close.to_string()),
        },
        ConnectionError::TransportError(ours) => match alert(ours.code.into()) {
            Some(alert) => complaint(alert, &ours.reason, expected),
            None => TlsFailure::Protocol(ours.to_string()),
        },
        // zwire sends a reason in this close; eclipse-zenoh sends a zero byte.
        ConnectionError::ApplicationClosed(close) if close.error_code == MISFIT => {
            TlsFailure::Refused(String::from_utf8_lossy(&close.reason).into_owned())
        }
        ConnectionError::ApplicationClosed(_) | ConnectionError::Reset => TlsFailure::Closed,
        other => return ConnectReason::io(io::Error::other(other.clone())),
    };
    ConnectReason::Tls(failure)
}

/// Reason for which this side refused the other.
fn complaint(alert: AlertDescription, reason: &str, expected: &str) -> TlsFailure {
    match alert {
        AlertDescription::CertificateExpired if reason.contains("not valid yet") => TlsFailure::NotYetValid,
        AlertDescription::CertificateExpired => TlsFailure::Expired,
        AlertDescription::UnknownCA => TlsFailure::UnknownAuthority,
        AlertDescription::CertificateRequired => TlsFailure::NoCertificate,
        _ if reason.contains("not valid for name") => {
            let presented = reason.split_once("only valid for ").map_or("no name", |(_, names)| names);
            TlsFailure::Name { expected: expected.to_owned(), presented: presented.to_owned() }
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked => TlsFailure::Certificate(reason.to_owned()),
        _ => TlsFailure::Protocol(reason.to_owned()),
    }
}
