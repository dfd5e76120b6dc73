//! TLS over TCP and QUIC: certificates, trust, and the meaning of failures (`zenoh-behaviour` 7.1).
//!
//! The provider of cryptography is passed explicitly: the host process may have a default of its own.

#[cfg(feature = "quic")]
mod anonymous;
mod certificate;
mod failure;
pub(crate) mod keygen;
mod name;

#[cfg(feature = "quic")]
pub(crate) use anonymous::{anonymous_client, anonymous_server};
pub use certificate::common_name;
pub(crate) use certificate::identity;

use crate::{
    config::{Pem, TlsSettings},
    net::tls_error::TlsSettingsError,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::WebPkiServerVerifier,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use std::{fs::File, io::Read, sync::Arc};

/// Largest file of certificates; the full set of system authorities is a quarter of it.
const MAX_PEM: u64 = 1 << 20;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Configuration of an outgoing link. QUIC adds its ALPN names.
///
/// # Errors
/// A certificate or key is missing, or cannot be used.
pub fn client_config(settings: &TlsSettings) -> Result<ClientConfig, TlsSettingsError> {
    let roots = Arc::new(roots(settings)?);
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|e| TlsSettingsError::unusable("tls", e))?;
    let builder = if settings.verifies_names() {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|e| TlsSettingsError::unusable(ROOTS, e))?;
        builder.with_webpki_verifier(verifier)
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(name::AnyName::new(Some(roots), provider)))
    };
    if !settings.mutual() {
        return Ok(builder.with_no_client_auth());
    }
    let (chain, key) = own_identity(
        ("connect_certificate", settings.connect_certificate.as_ref()),
        ("connect_private_key", settings.connect_private_key.as_ref()),
    )?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|e| TlsSettingsError::unusable("connect_private_key", e))
}

/// Configuration of a listener. QUIC adds its ALPN names.
///
/// # Errors
/// A certificate or key is missing, or cannot be used.
pub fn server_config(settings: &TlsSettings) -> Result<ServerConfig, TlsSettingsError> {
    let (chain, key) = own_identity(
        ("listen_certificate", settings.listen_certificate.as_ref()),
        ("listen_private_key", settings.listen_private_key.as_ref()),
    )?;
    let provider = provider();
    // Client certificates must be sent encrypted, which requires TLS 1.3.
    let versions = if settings.mutual() { &[&TLS13][..] } else { &[&TLS13, &TLS12][..] };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|e| TlsSettingsError::unusable("tls", e))?;
    let builder = if settings.mutual() {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(settings)?), provider)
            .build()
            .map_err(|e| TlsSettingsError::unusable(ROOTS, e))?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|e| TlsSettingsError::unusable("listen_private_key", e))?;
    // Each connection verifies anew: a certificate that has expired since then must not be resumed.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(config)
}

/// Name that the certificate of `address`, `host:port`, has to contain.
pub(crate) fn server_name(address: &str) -> Result<ServerName<'static>, TlsSettingsError> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned()).map_err(|_| TlsSettingsError::Host { host: host.to_owned() })
}

const ROOTS: &str = "root_ca_certificate";

fn roots(settings: &TlsSettings) -> Result<RootCertStore, TlsSettingsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ROOTS, settings.root_ca_certificate.as_ref())? {
        roots.add(certificate).map_err(|e| TlsSettingsError::unusable(ROOTS, e))?;
    }
    Ok(roots)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn own_identity(
    chain: (&'static str, Option<&Pem>),
    key: (&'static str, Option<&Pem>),
) -> Result<Identity, TlsSettingsError> {
    let chain = certificates(chain.0, chain.1)?;
    let pem = read(key.0, key.1)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|e| TlsSettingsError::unusable(key.0, e))?;
    Ok((chain, key))
}

fn certificates(
    name: &'static str,
    pem: Option<&Pem>,
) -> Result<Vec<CertificateDer<'static>>, TlsSettingsError> {
    let pem = read(name, pem)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| TlsSettingsError::unusable(name, e))?;
    if found.is_empty() {
        return Err(TlsSettingsError::unusable(name, "there is no certificate in it"));
    }
    Ok(found)
}

fn read(name: &'static str, pem: Option<&Pem>) -> Result<Vec<u8>, TlsSettingsError> {
    match pem {
        None => Err(TlsSettingsError::Missing { name }),
        Some(Pem::Raw(text)) => Ok(text.reveal().as_bytes().to_vec()),
        Some(Pem::Base64(text)) => data_encoding::BASE64
            .decode(text.reveal().as_bytes())
            .map_err(|e| TlsSettingsError::unusable(name, e)),
        Some(Pem::File(path)) => {
            let file = |source| TlsSettingsError::File { name, path: path.clone(), source: Arc::new(source) };
            let mut bytes = Vec::new();
            File::open(path)
                .and_then(|opened| opened.take(MAX_PEM + 1).read_to_end(&mut bytes))
                .map_err(file)?;
            if bytes.len() as u64 > MAX_PEM {
                return Err(TlsSettingsError::unusable(name, "it is longer than 1 MiB"));
            }
            Ok(bytes)
        }
    }
}
