//! TLS without authentication: the handshake of links without security.

use super::{TlsSettingsError, name::AnyName, provider};
use core::time::Duration;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, date_time_ymd};
use rustls::{
    ClientConfig, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
    version::TLS13,
};
use std::sync::Arc;

/// Configuration of the connecting side: accepts any certificate.
pub(crate) fn anonymous_client() -> Result<ClientConfig, TlsSettingsError> {
    let provider = provider();
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| TlsSettingsError::unusable("tls", e))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName::new(None, provider)))
        .with_no_client_auth();
    Ok(config)
}

/// Configuration of the listening side: with a freshly made certificate.
pub(crate) fn anonymous_server() -> Result<ServerConfig, TlsSettingsError> {
    let unusable = |e: &dyn ToString| TlsSettingsError::unusable("tls", e.to_string());
    let (certificate, key) = certificate().map_err(|e| unusable(&e))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| unusable(&e))?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(|e| unusable(&e))?;
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// A certificate with empty names for a new key, signed with that key.
fn certificate() -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    // Valid to the last second of the largest date, so that a wrong clock has no effect.
    params.not_before = date_time_ymd(1975, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31) + Duration::from_secs(24 * 60 * 60 - 1);
    let certificate = params.self_signed(&key)?;
    Ok((certificate.into(), key.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tls::certificate::{common_name, end_of_validity};

    #[test]
    fn the_certificate_is_one_and_fits_its_key() {
        // The TLS library verifies both.
        anonymous_server().unwrap();
        let (certificate, _) = certificate().unwrap();
        assert_eq!(common_name(&certificate), None);
        let end = end_of_validity([certificate.as_ref()]).unwrap();
        assert_eq!(end.as_secs(), 253_402_300_799);
        assert_ne!(super::certificate().unwrap().0, certificate, "each has a key of its own");
    }
}
