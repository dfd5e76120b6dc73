//! Subject and validity of certificates. rustls verifies them but does not expose these fields.

use crate::config::TlsSettings;
use core::time::Duration;
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

/// Common name of a peer's certificate, and the end of validity of its chain if links end with it.
pub(crate) fn identity<'a>(
    mut chain: impl Iterator<Item = &'a [u8]> + Clone,
    settings: &TlsSettings,
) -> (Option<String>, Option<Duration>) {
    let expires = settings.closes_on_expiration().then(|| end_of_validity(chain.clone())).flatten();
    (chain.next().and_then(common_name), expires)
}

/// Earliest readable end of validity in a chain, in wall-clock time since 1970.
pub(super) fn end_of_validity<'a>(chain: impl IntoIterator<Item = &'a [u8]>) -> Option<Duration> {
    chain.into_iter().filter_map(not_after).min()
}

/// Common name of the certificate's subject, if it is a string of a usual type.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    certificate.subject().iter_common_name().next()?.as_str().ok().map(str::to_owned)
}

/// Whether the issuer of a certificate is the subject of another, byte for byte, as those that verify compare them.
pub(super) fn is_issued_by(certificate: &[u8], authority: &[u8]) -> bool {
    let parse = |der| X509Certificate::from_der(der).map(|(_, certificate)| certificate);
    match (parse(certificate), parse(authority)) {
        (Ok(certificate), Ok(authority)) => certificate.issuer().as_raw() == authority.subject().as_raw(),
        _ => false,
    }
}

fn not_after(certificate: &[u8]) -> Option<Duration> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    u64::try_from(certificate.validity().not_after.timestamp()).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate that is valid to the beginning of `year`.
    fn valid_to(year: i32) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    /// End of validity of a certificate with another text in the place of `2026-01-01` or `2051-01-01`.
    fn end_of(text: &str) -> Option<Duration> {
        let (year, own) = if text.len() == 13 { (2026, "260101000000Z") } else { (2051, "20510101000000Z") };
        let mut der = valid_to(year);
        let at = der.windows(own.len()).position(|window| window == own.as_bytes()).unwrap();
        der[at..at + own.len()].copy_from_slice(text.as_bytes());
        not_after(&der)
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("700101000000Z", 0),
            ("000229235959Z", 951_868_799),
            ("000301000000Z", 951_868_800),
            ("261122120000Z", 1_795_348_800),
            ("21000301000000Z", 4_107_542_400),
        ] {
            assert_eq!(end_of(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["2601010000000", "261301000000Z", "2601010000x0Z", "             ", "690101000000Z"] {
            assert_eq!(end_of(text), None, "{text}");
        }
    }

    #[test]
    fn the_end_is_read_from_certificates() {
        for (year, expected) in [(2033, 1_988_150_400), (2051, 2_556_144_000)] {
            let der = valid_to(year);
            assert_eq!(not_after(&der), Some(Duration::from_secs(expected)));
            for end in 0..der.len() {
                // Any result will do; it must end without a panic.
                let _ = (not_after(&der[..end]), common_name(&der[..end]));
            }
        }
        assert_eq!(end_of_validity([]), None);
    }

    #[test]
    fn the_name_is_read_from_certificates() {
        for (name, expected) in
            [(Some("fleet/robot 7"), Some("fleet/robot 7")), (Some("Äpfel"), Some("Äpfel")), (None, None)]
        {
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(rcgen::DnType::OrganizationName, "a fleet");
            if let Some(name) = name {
                params.distinguished_name.push(rcgen::DnType::CommonName, name);
            }
            let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
            assert_eq!(common_name(certificate.der()).as_deref(), expected);
        }
    }
}
