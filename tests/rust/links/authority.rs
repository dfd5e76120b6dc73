//! Certificates for tests.

use super::Scratch;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use std::fs;

/// An authority and the certificates that it makes, in a directory of the test.
pub(crate) struct Authority {
    scratch: Scratch,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(scratch.0.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { scratch, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.scratch.0.join(file).display().to_string()
    }

    pub(crate) fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) {
        let mut params =
            CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.scratch.0.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.scratch.0.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// Settings of a listener with that certificate.
    pub(crate) fn listener(&self, name: &str, extra: &str) -> String {
        format!(
            "transport: {{link: {{tls: {{root_ca_certificate: '{}', listen_certificate: '{}', \
             listen_private_key: '{}', {extra}}}}}}}",
            self.path("ca.pem"),
            self.path(&format!("{name}.pem")),
            self.path(&format!("{name}.key")),
        )
    }

    /// Settings of a connecting session.
    pub(crate) fn connector(&self, extra: &str) -> String {
        format!("transport: {{link: {{tls: {{root_ca_certificate: '{}', {extra}}}}}}}", self.path("ca.pem"))
    }

    /// Settings that present that certificate when connecting.
    pub(crate) fn shows(&self, name: &str) -> String {
        let (certificate, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        format!("enable_mtls: true, connect_certificate: '{certificate}', connect_private_key: '{key}'")
    }
}
