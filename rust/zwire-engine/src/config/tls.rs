//! Certificates and keys, and the requirements on those of the other side (`zenoh-behaviour` 7.1).

use core::time::Duration;
use std::path::PathBuf;

use super::{
    ConfigError, Endpoint, EndpointError, Secret,
    link_options::{config, within},
    reader::{Setting, TreeReader, key, sections},
};

/// Longest TLS handshake that a parameter may allow: an hour.
const MAX_HANDSHAKE_MS: u64 = 3_600_000;

/// Config parameters of an endpoint with TLS, over TCP or QUIC.
pub(super) const TLS_CONFIG: [&str; 19] = [
    "close_link_on_expiration",
    "connect_certificate_base64",
    "connect_certificate_file",
    "connect_certificate_raw",
    "connect_private_key_base64",
    "connect_private_key_file",
    "connect_private_key_raw",
    "enable_mtls",
    "listen_certificate_base64",
    "listen_certificate_file",
    "listen_certificate_raw",
    "listen_private_key_base64",
    "listen_private_key_file",
    "listen_private_key_raw",
    "root_ca_certificate_base64",
    "root_ca_certificate_file",
    "root_ca_certificate_raw",
    "tls_handshake_timeout_ms",
    "verify_name_on_connect",
];

/// Source of certificates or of a key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pem {
    /// A file. Listeners read it when they start, outgoing links at each attempt to connect.
    File(PathBuf),
    /// The PEM text itself.
    Raw(Secret),
    /// The PEM text as base64.
    Base64(Secret),
}

sections! {
    /// TLS settings from `transport/link/tls/*` or from an endpoint; `None` if not set there.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct TlsSettings {
        /// Trusted certification authorities; no others are trusted.
        pub root_ca_certificate: Option<Pem>,
        /// Certificate of a listener, with its chain up to the authority.
        pub listen_certificate: Option<Pem>,
        /// Private key of that certificate.
        pub listen_private_key: Option<Pem>,
        /// Certificate of an outgoing link, with `enable_mtls`.
        pub connect_certificate: Option<Pem>,
        /// Private key of that certificate.
        pub connect_private_key: Option<Pem>,
        /// Whether the connecting side has to present a certificate as well.
        pub enable_mtls: Option<bool>,
        /// Whether the name in a listener's certificate has to match that of the endpoint.
        pub verify_name_on_connect: Option<bool>,
        /// Whether a link ends when the certificate of the other side expires.
        pub close_link_on_expiration: Option<bool>,
        /// Time limit of the TLS handshake.
        pub handshake_timeout: Option<Duration> = None,
        /// `SO_SNDBUF` of TLS links, unless their endpoint has its own.
        pub so_sndbuf: Option<u32>,
        /// `SO_RCVBUF` of TLS links, unless their endpoint has its own.
        pub so_rcvbuf: Option<u32>,
    }
}

impl Setting for Pem {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self, ConfigError> {
        tree.get(path).map(Self::File)
    }

    /// Reads a file, or the key with the same as base64.
    fn optional(tree: &TreeReader<'_>, path: &str) -> Result<Option<Self>, ConfigError> {
        let base64 = format!("{path}_base64");
        match (tree.get::<Option<PathBuf>>(path)?, tree.get(&base64)?) {
            (file, None) => Ok(file.map(Self::File)),
            (None, Some(text)) => Ok(Some(Self::Base64(Secret::new(text)))),
            (Some(_), Some(_)) => Err(ConfigError::Conflict {
                first: key(path).path,
                second: key(&base64).path,
                rule: "only one of them can be set",
            }),
        }
    }
}

impl TlsSettings {
    /// Default time limit, as in eclipse-zenoh.
    const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

    /// Settings from the parameters of an endpoint.
    pub(super) fn of(endpoint: &Endpoint) -> Result<Self, EndpointError> {
        const BOOL: &str = "true or false";
        let flag = |text: &str| match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        };
        let limit = within(1..=MAX_HANDSHAKE_MS);
        let timeout = config(endpoint, "tls_handshake_timeout_ms", "milliseconds, 1 to 3600000", limit)?;
        Ok(Self {
            root_ca_certificate: pem(endpoint, "root_ca_certificate")?,
            listen_certificate: pem(endpoint, "listen_certificate")?,
            listen_private_key: pem(endpoint, "listen_private_key")?,
            connect_certificate: pem(endpoint, "connect_certificate")?,
            connect_private_key: pem(endpoint, "connect_private_key")?,
            enable_mtls: config(endpoint, "enable_mtls", BOOL, flag)?,
            verify_name_on_connect: config(endpoint, "verify_name_on_connect", BOOL, flag)?,
            close_link_on_expiration: config(endpoint, "close_link_on_expiration", BOOL, flag)?,
            handshake_timeout: timeout.map(Duration::from_millis),
            // Buffer sizes of the endpoint are in its `LinkOptions`.
            so_sndbuf: None,
            so_rcvbuf: None,
        })
    }

    /// These settings; unset ones are taken from `others`.
    #[must_use]
    pub fn or(&self, others: &Self) -> Self {
        let pem = |one: &Option<Pem>, other: &Option<Pem>| one.clone().or_else(|| other.clone());
        Self {
            root_ca_certificate: pem(&self.root_ca_certificate, &others.root_ca_certificate),
            listen_certificate: pem(&self.listen_certificate, &others.listen_certificate),
            listen_private_key: pem(&self.listen_private_key, &others.listen_private_key),
            connect_certificate: pem(&self.connect_certificate, &others.connect_certificate),
            connect_private_key: pem(&self.connect_private_key, &others.connect_private_key),
            enable_mtls: self.enable_mtls.or(others.enable_mtls),
            verify_name_on_connect: self.verify_name_on_connect.or(others.verify_name_on_connect),
            close_link_on_expiration: self.close_link_on_expiration.or(others.close_link_on_expiration),
            handshake_timeout: self.handshake_timeout.or(others.handshake_timeout),
            so_sndbuf: self.so_sndbuf.or(others.so_sndbuf),
            so_rcvbuf: self.so_rcvbuf.or(others.so_rcvbuf),
        }
    }

    /// Whether both sides present certificates.
    #[must_use]
    pub fn mutual(&self) -> bool {
        self.enable_mtls.unwrap_or(false)
    }

    /// Whether names in certificates are verified.
    #[must_use]
    pub fn verifies_names(&self) -> bool {
        self.verify_name_on_connect.unwrap_or(true)
    }

    /// Whether a link ends when the certificate expires.
    #[must_use]
    pub fn closes_on_expiration(&self) -> bool {
        self.close_link_on_expiration.unwrap_or(false)
    }

    /// Time limit of the handshake.
    #[must_use]
    pub fn handshake_limit(&self) -> Duration {
        self.handshake_timeout.unwrap_or(Self::HANDSHAKE_TIMEOUT)
    }
}

/// Reads `<name>_file`, `<name>_raw` or `<name>_base64`.
fn pem(endpoint: &Endpoint, name: &'static str) -> Result<Option<Pem>, EndpointError> {
    let mut found = None;
    for (key, make) in [
        ("file", (|text| Pem::File(text.into())) as fn(String) -> Pem),
        ("raw", |text| Pem::Raw(Secret::new(text))),
        ("base64", |text| Pem::Base64(Secret::new(text))),
    ] {
        let Some(value) = endpoint.config_value(&format!("{name}_{key}")) else { continue };
        if found.is_some() {
            return Err(EndpointError::Conflict { first: name, second: "the same in another form" });
        }
        found = Some(make(value.to_owned()));
    }
    Ok(found)
}
