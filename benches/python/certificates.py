"""An authority and a certificate for localhost, made for one run."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_certificates(folder: Path) -> dict[str, Path]:
    """Write them to `folder`; return them by the keys of `transport/link/tls`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("authority", "localhost")}
    names = {name: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in keys}
    alternatives = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    extensions = {
        "authority": x509.BasicConstraints(ca=True, path_length=None),
        "localhost": x509.SubjectAlternativeName(alternatives),
    }
    for name, key in keys.items():
        certificate = (
            x509.CertificateBuilder()
            .subject_name(names[name])
            .issuer_name(names["authority"])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(extensions[name], critical=name == "authority")
            .sign(keys["authority"], hashes.SHA256())
        )
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "localhost.key").write_bytes(
        keys["localhost"].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return {
        "root_ca_certificate": folder / "authority.pem",
        "listen_certificate": folder / "localhost.pem",
        "listen_private_key": folder / "localhost.key",
    }
