"""N15: which addresses a server opens, and how it refuses a certificate before it opens any."""

from __future__ import annotations

from pathlib import Path

import pytest

from certificates import self_signed
from tarmac.model.errors import InvalidInput
from tarmac.model.home import Home
from tarmac.server.http.tls import Tls, check_accounts, tls_of
from tarmac.server.settings import AddressSettings, TlsAuthority

ANYWHERE = "0.0.0.0:8400"


def _refusal(home: Path, listen: str = ANYWHERE, **settings: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as refused:
        tls_of(AddressSettings(listen=listen, **settings), listen, Home(home))  # type: ignore[arg-type]
    assert refused.value.exit_code == 2
    return refused.value


def test_loopback_needs_no_tls_and_may_have_it(tmp_path: Path) -> None:
    for listen in ("127.0.0.1:8400", "localhost:8400", "[::1]:8400"):
        assert tls_of(AddressSettings(listen=listen), listen, Home(tmp_path)) is None
    given = AddressSettings(listen="127.0.0.1:1", tls=TlsAuthority.LAB)
    assert isinstance(tls_of(given, "127.0.0.1:1", Home(tmp_path)), Tls)
    assert (tmp_path / "tls" / "ca.pem").exists()


@pytest.mark.parametrize("listen", [ANYWHERE, "10.1.2.3:8400", "[::]:8400", "[2001:db8::1]:1"])
def test_any_other_address_needs_tls_and_an_account(listen: str, tmp_path: Path) -> None:
    assert "can be reached by others" in str(_refusal(tmp_path, listen))
    with pytest.raises(InvalidInput, match="needs an account first") as refused:
        check_accounts(listen, lambda: False)
    assert "tarmac users add NAME" in (refused.value.hint or "")
    check_accounts(listen, lambda: True)
    check_accounts("127.0.0.1:8400", lambda: False)


def test_the_settings_must_agree(tmp_path: Path) -> None:
    both = "server.tls_certificate and server.tls_key are needed together"
    assert str(_refusal(tmp_path, tls_certificate="/a")) == both
    assert str(_refusal(tmp_path, tls_key="/a")) == both
    every = _refusal(tmp_path, tls_certificate="/a", tls_key="/b", tls=TlsAuthority.LAB)
    assert "exclude each other" in str(every)


def test_a_certificate_that_cannot_be_used_is_refused_with_setting_file_and_reason(tmp_path: Path) -> None:
    good, other = self_signed(tmp_path / "good.pem"), self_signed(tmp_path / "other.pem")
    expired = self_signed(tmp_path / "old.pem", days=-1)
    sealed = self_signed(tmp_path / "sealed.pem", password=b"hush")
    public = self_signed(tmp_path / "public.pem")
    public.chmod(0o644)
    missing, text = tmp_path / "missing.pem", tmp_path / "text.pem"
    text.write_text("nothing\n")
    text.chmod(0o600)
    for certificate, key, setting, reason in (
        (missing, good, "tls_certificate", "cannot be read: No such file or directory"),
        (tmp_path, good, "tls_certificate", "cannot be read: Is a directory"),
        (text, good, "tls_certificate", "has no certificate in PEM form"),
        (expired, expired, "tls_certificate", "expired on "),
        (good, missing, "tls_key", "cannot be read: No such file or directory"),
        (good, other, "tls_key", f"is not the key of the certificate {good}"),
        (good, text, "tls_key", "has no private key in PEM form without a password"),
        (sealed, sealed, "tls_key", "has no private key in PEM form without a password"),
        (public, public, "tls_key", "can be read by every user of this machine"),
    ):
        refused = str(_refusal(tmp_path, tls_certificate=str(certificate), tls_key=str(key)))
        assert refused.startswith(f"server.{setting}: ")
        assert reason in refused


def test_a_renewed_certificate_is_loaded_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    path = self_signed(tmp_path / "server.pem")
    given = AddressSettings(listen=ANYWHERE, tls_certificate=str(path), tls_key=str(path))
    tls = tls_of(given, ANYWHERE, Home(tmp_path))
    assert tls is not None
    self_signed(path)
    tls.load()
    path.write_text("half a fi")
    with pytest.raises(InvalidInput, match="no certificate in PEM form"):
        tls.load()
