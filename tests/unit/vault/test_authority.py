"""N15: the authority of a lab: its files, and when the server's certificate is renewed."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from tarmac.model.errors import Refused
from tarmac.vault.authority import (
    AUTHORITY_LASTS,
    CERTIFICATE_LASTS,
    RENEWED_BEFORE,
    LabAuthority,
    certificate_end,
)

NOW = datetime(2026, 11, 28, tzinfo=UTC)
NAMES = ["lab.example.org", "10.0.0.1", "::1"]


@pytest.fixture
def authority(tmp_path: Path) -> LabAuthority:
    return LabAuthority(tmp_path / "tls")


def test_the_authority_is_public_and_the_keys_are_not(authority: LabAuthority, tmp_path: Path) -> None:
    server = authority.server_certificate(NAMES, NOW)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").iterdir()}
    assert modes == {"ca.pem": 0o644, "ca.key": 0o600, "server.pem": 0o600}
    assert server == tmp_path / "tls" / "server.pem"
    assert b"PRIVATE" not in authority.certificate.read_bytes()
    assert certificate_end(authority.certificate.read_bytes()) == NOW + AUTHORITY_LASTS


def test_the_certificate_is_for_the_names_and_signed_by_the_authority(authority: LabAuthority) -> None:
    found = x509.load_pem_x509_certificate(authority.server_certificate(NAMES, NOW).read_bytes())
    found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.read_bytes()))
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["lab.example.org"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "::1"]
    assert found.not_valid_after_utc == NOW + CERTIFICATE_LASTS


def test_the_certificate_is_renewed_before_its_end_and_for_other_names(authority: LabAuthority) -> None:
    first = authority.server_certificate(NAMES, NOW).read_bytes()
    late = NOW + CERTIFICATE_LASTS - RENEWED_BEFORE
    assert authority.server_certificate([*reversed(NAMES), NAMES[0]], NOW).read_bytes() == first
    assert authority.server_certificate(NAMES, late - timedelta(days=1)).read_bytes() == first
    root = authority.certificate.read_bytes()
    renewed = authority.server_certificate(NAMES, late).read_bytes()
    assert renewed != first
    assert authority.server_certificate(NAMES[:1], late).read_bytes() not in (first, renewed)
    assert authority.certificate.read_bytes() == root, "clients keep their file"


def test_a_lost_certificate_is_made_again(authority: LabAuthority) -> None:
    path = authority.server_certificate(NAMES, NOW)
    path.write_bytes(b"half a fi")
    assert certificate_end(authority.server_certificate(NAMES, NOW).read_bytes()) == NOW + CERTIFICATE_LASTS


def test_no_certificate_outlasts_its_authority(authority: LabAuthority) -> None:
    authority.server_certificate(NAMES, NOW)
    end = NOW + AUTHORITY_LASTS
    made = authority.server_certificate(NAMES, end - timedelta(days=40)).read_bytes()
    assert certificate_end(made) == end
    with pytest.raises(Refused, match=r"ca\.pem has expired"):
        authority.server_certificate(NAMES, end + timedelta(days=1))


@pytest.mark.parametrize("damage", ["no key", "a key of another", "no certificate"])
def test_a_damaged_authority_is_refused_by_name(authority: LabAuthority, tmp_path: Path, damage: str) -> None:
    authority.server_certificate(NAMES, NOW)
    directory = authority.certificate.parent
    if damage == "no key":
        (directory / "ca.key").unlink()
    elif damage == "a key of another":
        other = LabAuthority(tmp_path / "other")
        other.server_certificate(NAMES, NOW)
        (directory / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    else:
        authority.certificate.write_text("nothing\n")
    with pytest.raises(Refused, match="cannot be used") as refused:
        authority.server_certificate([*NAMES, "new.example.org"], NOW)
    assert str(directory) in refused.value.message
    assert "give the new ca.pem to every client" in (refused.value.hint or "")
