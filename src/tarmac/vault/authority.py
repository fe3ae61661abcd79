"""A certificate authority for one lab, made at first use: its clients trust `ca.pem` and so the server.

Used by `server/http/tls`. The authority lasts ten years, the server's certificate a year; it is renewed a
month before its end, and when the names of the server change.
"""

import ipaddress
import os
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tarmac.model.errors import Refused
from tarmac.node.files import untrusted

AUTHORITY_LASTS = timedelta(days=3652)
CERTIFICATE_LASTS = timedelta(days=397)
RENEWED_BEFORE = timedelta(days=30)
_BEFORE_NOW = timedelta(hours=1)
"""Certificates are valid from a little before now, for clients whose clocks are late."""

_Names = x509.SubjectAlternativeName
_PEM = serialization.Encoding.PEM
_SIGNS_CERTIFICATES = x509.KeyUsage(False, False, False, False, False, True, True, False, False)


class LabAuthority:
    """The authority whose files are in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.certificate = directory / "ca.pem"
        self._key = directory / "ca.key"
        self._server = directory / "server.pem"

    def server_certificate(self, names: Collection[str], now: datetime) -> Path:
        """The file with the server's key and a certificate for these host names and addresses.

        Raises Refused if the files of the authority cannot be used.
        """
        alternatives = _Names([_general_name(name) for name in sorted(set(names))])
        try:
            if not self.certificate.exists():
                self._make(now)
            authority = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            if not self._is_current(authority, alternatives, now):
                self._renew(authority, alternatives, now)
        except (OSError, ValueError, TypeError) as problem:
            raise Refused(
                f"the authority for TLS in {self._directory} cannot be used: {problem}",
                hint="restore its files; or remove the directory, and give the new ca.pem to every client",
            ) from problem
        return self._server

    def _make(self, now: datetime) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"lab authority of {os.uname().nodename}"[:64])
        extensions = [x509.BasicConstraints(ca=True, path_length=0), _SIGNS_CERTIFICATES]
        made = _signed(key, now, now + AUTHORITY_LASTS, subject=name, by=(name, key), extensions=extensions)
        untrusted.replace(str(self._key), _private(key), mode=0o600)
        untrusted.replace(str(self.certificate), made, mode=0o644)

    def _is_current(self, authority: x509.Certificate, names: _Names, now: datetime) -> bool:
        """Whether the server's certificate is this authority's, for these names, and lasts long enough."""
        try:
            found = x509.load_pem_x509_certificate(self._server.read_bytes())
            found.verify_directly_issued_by(authority)
            given = found.extensions.get_extension_for_class(_Names).value
        except (FileNotFoundError, ValueError, InvalidSignature, x509.ExtensionNotFound):
            return False
        return given == names and found.not_valid_after_utc - RENEWED_BEFORE > now

    def _renew(self, authority: x509.Certificate, names: _Names, now: datetime) -> None:
        signer = serialization.load_pem_private_key(self._key.read_bytes(), password=None)
        ends_at = min(now + CERTIFICATE_LASTS, authority.not_valid_after_utc)
        if (
            not isinstance(signer, ec.EllipticCurvePrivateKey)
            or signer.public_key() != authority.public_key()
        ):
            raise ValueError("ca.key is not the key of ca.pem")
        if ends_at <= now:
            raise ValueError("the certificate ca.pem has expired")
        key, issuer = ec.generate_private_key(ec.SECP256R1()), (authority.subject, signer)
        extensions = [x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), names]
        made = _signed(key, now, ends_at, subject=_name("tarmac server"), by=issuer, extensions=extensions)
        untrusted.replace(str(self._server), made + _private(key), mode=0o600)


def certificate_end(pem: bytes) -> datetime:
    """The end of the first certificate in a PEM file; raises ValueError if there is none."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


def _signed(
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    ends_at: datetime,
    *,
    subject: x509.Name,
    by: tuple[x509.Name, ec.EllipticCurvePrivateKey],
    extensions: Sequence[x509.ExtensionType],
) -> bytes:
    issuer, signer = by
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - _BEFORE_NOW).not_valid_after(ends_at)
    identifiers = (
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
    )
    for extension in (*identifiers, *extensions):
        critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA256()).public_bytes(_PEM)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain)
