"""Certificates for TLS and QUIC on loopback, made when a test run needs them and gone with its folder."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = dt.timedelta(days=1)


class Authority:
    """A certificate authority of one test run; ``folder/NAME.pem`` and ``.key`` are what it wrote.

    Args:
        folder: where the files go.
        name: of the authority, and of its file.
    """

    def __init__(self, folder, name="authority"):
        self.folder = Path(folder)
        self.now = dt.datetime.now(dt.UTC)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"zwire test {name}")])
        self.certificate = (
            self._start(self.subject, self.key, self.now + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(self._usage(signs=True), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.file = self._write(name, self.certificate, self.key)

    def issue(self, name, *, hosts=("localhost", "127.0.0.1"), expired=False):
        """A certificate for both ends of a link, and its key, as paths of two files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        end = self.now - DAY / 24 if expired else self.now + DAY
        certificate = (
            self._start(subject, key, end)
            .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(self._usage(signs=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        path = self._write(name, certificate, key)
        return path, path.with_suffix(".key")

    def settings(self, *, both=False):
        """Configuration of a node that listens or connects; with ``both`` a caller shows a certificate."""
        if not (self.folder / "node.pem").exists():
            self.issue("node")
        node = {"certificate": str(self.folder / "node.pem"), "private_key": str(self.folder / "node.key")}
        tls = {"root_ca_certificate": str(self.file)}
        tls |= {f"listen_{name}": path for name, path in node.items()}
        if both:
            tls |= {f"connect_{name}": path for name, path in node.items()} | {"enable_mtls": True}
        return {f"transport/link/tls/{name}": value for name, value in tls.items()}

    def _start(self, subject, key, end):
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.now - DAY)
            .not_valid_after(end)
        )

    @staticmethod
    def _usage(*, signs):
        return x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=signs,
            crl_sign=signs,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )

    def _write(self, name, certificate, key):
        path = self.folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        path.with_suffix(".key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return path


def _host(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
