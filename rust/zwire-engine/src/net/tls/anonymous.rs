//! TLS without authentication: the handshake of links without security.

use super::{TlsSettingsError, provider};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair},
};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    version::TLS13,
};
use std::sync::Arc;

/// Configuration of the connecting side: accepts any certificate.
///
/// # Errors
/// The TLS library refuses the configuration.
pub(crate) fn anonymous_client() -> Result<ClientConfig, TlsSettingsError> {
    let provider = provider();
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| TlsSettingsError::unusable("tls", e))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    Ok(config)
}

/// Configuration of the listening side: with a freshly made certificate.
///
/// # Errors
/// The TLS library refuses the configuration.
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

#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A certificate with empty names for a new key, signed with that key (RFC 5280, 4.1).
fn certificate() -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), ring::error::Unspecified> {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 0x03;
    const VERSION_3: &[u8] = &[0xa0, 0x03, 0x02, 0x01, 0x02];
    const SERIAL: &[u8] = &[0x02, 0x01, 0x01];
    /// `ecdsa-with-SHA256`, 1.2.840.10045.4.3.2.
    const ECDSA_SHA256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    /// `id-ecPublicKey`, 1.2.840.10045.2.1, and `prime256v1`, 1.2.840.10045.3.1.7.
    const P256: &[u8] = &[
        0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
        0x01, 0x07,
    ];
    // Valid from 1975 to the largest date, so that a wrong clock has no effect.
    const NOT_BEFORE: &[u8] = b"\x17\x0d750101000000Z";
    const NOT_AFTER: &[u8] = b"\x18\x0f99991231235959Z";

    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)?;
    let rejected = |_| ring::error::Unspecified;
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random);
    let key = key.map_err(rejected)?;
    let algorithm = element(SEQUENCE, &[ECDSA_SHA256]);
    let nobody = element(SEQUENCE, &[]);
    let validity = element(SEQUENCE, &[NOT_BEFORE, NOT_AFTER]);
    let bits = element(BIT_STRING, &[&[0], key.public_key().as_ref()]);
    let public = element(SEQUENCE, &[&element(SEQUENCE, &[P256]), &bits]);
    let parts = [VERSION_3, SERIAL, &algorithm, &nobody, &validity, &nobody, &public];
    let signed = element(SEQUENCE, &parts);
    let signature = key.sign(&random, &signed)?;
    let whole = element(SEQUENCE, &[&signed, &algorithm, &element(BIT_STRING, &[&[0], signature.as_ref()])]);
    let key = PrivateKeyDer::Pkcs8(pkcs8.as_ref().to_vec().into());
    Ok((whole.into(), key))
}

/// Encodes a DER element; less than 64 KiB, as all of these are.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let [high, low] = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
    let head: &[u8] = match (high, low) {
        (0, 0..=0x7f) => &[tag, low],
        (0, _) => &[tag, 0x81, low],
        _ => &[tag, 0x82, high, low],
    };
    [head, &content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tls::{common_name, end_of_validity};

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

    #[test]
    fn lengths_are_those_of_der() {
        for (len, head) in
            [(0, &[4, 0][..]), (127, &[4, 127]), (128, &[4, 0x81, 128]), (256, &[4, 0x82, 1, 0])]
        {
            assert_eq!(element(4, &[&vec![9; len]])[..head.len()], *head);
        }
    }
}
