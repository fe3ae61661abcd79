"""Certificates for tests, signed by themselves, with any names and any end."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM


def self_signed(
    path: Path, *, names: Sequence[str] = ("localhost",), days: float = 1, password: bytes | None = None
) -> Path:
    """Write a key and a certificate for it into one file, valid from ten days ago until `days` from now."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    made = (
        x509.CertificateBuilder(issuer_name=subject, subject_name=subject, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    sealing = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, sealing)
    path.write_bytes(private + made.public_bytes(PEM))
    path.chmod(0o600)
    return path


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
