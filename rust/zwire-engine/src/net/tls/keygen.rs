//! Certificates for links of one's own: an authority, and what it signs.

use super::certificate::{common_name, is_issued_by};
use crate::rt::clock;
use core::time::Duration;
use data_encoding::BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use thiserror::Error;

/// A certificate and its private key, as PEM.
#[derive(Clone, Debug)]
pub struct CertificatePair {
    /// The certificate.
    pub certificate: String,
    /// The private key; must stay secret.
    pub key: String,
}

/// Failure to make a certificate.
#[derive(Debug, Error)]
pub enum KeygenError {
    /// The certificate or the key of the authority cannot be read.
    #[error("the {what} of the authority is no PEM file of that kind")]
    Authority {
        /// `certificate` or `key`.
        what: &'static str,
    },
    /// The subject of the authority is not one that this module writes.
    #[error(
        "the subject of the authority has more than a common name, or not in UTF-8: what it signed here would be \
         accepted nowhere; sign with the program that made it"
    )]
    Subject,
    /// A name or a host cannot stand in a certificate, or the key cannot be used.
    #[error("no certificate can be made: {0}")]
    Unusable(String),
}

impl From<rcgen::Error> for KeygenError {
    fn from(error: rcgen::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Parameters that all certificates share. They are valid from a day ago, for clocks that are slow.
fn params(name: &str, hosts: &[String], days: u32) -> Result<CertificateParams, KeygenError> {
    let mut params = CertificateParams::new(hosts.to_vec())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = date_time_ymd(1970, 1, 1) + Duration::from_secs(clock::now().wall.as_secs());
    (params.not_before, params.not_after) = (now - DAY, now + DAY * days);
    Ok(params)
}

fn authority(name: &str, days: u32) -> Result<CertificateParams, KeygenError> {
    let mut params = params(name, &[], days)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Makes an authority, which signs certificates for that many days.
///
/// # Errors
/// The name cannot stand in a certificate.
pub fn make_authority(name: &str, days: u32) -> Result<CertificatePair, KeygenError> {
    let key = KeyPair::generate()?;
    let certificate = authority(name, days)?.self_signed(&key)?;
    Ok(pair(certificate.der(), &key))
}

/// Makes a certificate for both ends of a link, signed by an authority. `hosts`: names and addresses that a
/// connecting node knows this one by.
///
/// # Errors
/// The authority cannot be read, or a name cannot stand in a certificate.
pub fn make_certificate(
    by: &CertificatePair,
    name: &str,
    hosts: &[String],
    days: u32,
) -> Result<CertificatePair, KeygenError> {
    let wrong = |what| KeygenError::Authority { what };
    let signer = der(&by.certificate, "CERTIFICATE").ok_or_else(|| wrong("certificate"))?;
    let issuer_name = common_name(&signer).ok_or_else(|| wrong("certificate"))?;
    let issuer_key = der(&by.key, "PRIVATE KEY").ok_or_else(|| wrong("key"))?;
    let issuer_key = KeyPair::try_from(issuer_key.as_slice()).map_err(|_| wrong("key"))?;
    let issuer = Issuer::new(authority(&issuer_name, 1)?, issuer_key);
    let key = KeyPair::generate()?;
    let mut params = params(name, hosts, days)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, &issuer)?;
    if !is_issued_by(certificate.der(), &signer) {
        return Err(KeygenError::Subject);
    }
    Ok(pair(certificate.der(), &key))
}

fn pair(certificate: &[u8], key: &KeyPair) -> CertificatePair {
    CertificatePair {
        certificate: pem("CERTIFICATE", certificate),
        key: pem("PRIVATE KEY", key.serialized_der()),
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let encoded = BASE64.encode(der);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = more;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

fn der(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let packed: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    BASE64.decode(packed.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_names_its_holder_and_an_authority_of_files_signs() {
        let by = make_authority("fleet", 30).unwrap();
        let made =
            make_certificate(&by, "hub", &["localhost".to_owned(), "127.0.0.1".to_owned()], 2).unwrap();
        let der = der(&made.certificate, "CERTIFICATE").unwrap();
        assert_eq!(common_name(&der).as_deref(), Some("hub"));
        assert!(
            made.key.starts_with("-----BEGIN PRIVATE KEY-----\n") && made.key.lines().all(|l| l.len() <= 64)
        );
        let mut other = authority("authority", 2).unwrap();
        other.distinguished_name.push(DnType::OrganizationName, "fleet");
        let key = KeyPair::generate().unwrap();
        let other = pair(other.self_signed(&key).unwrap().der(), &key);
        let error = make_certificate(&other, "x", &[], 1).unwrap_err();
        assert!(matches!(error, KeygenError::Subject), "{error}");
        let no_key = CertificatePair { key: String::new(), ..by.clone() };
        let error = make_certificate(&no_key, "x", &[], 1).unwrap_err().to_string();
        assert!(error.contains("key of the authority"), "{error}");
    }
}
