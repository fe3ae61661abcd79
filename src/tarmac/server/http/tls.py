"""The certificate of the server's address: one from files, or one of the lab's own authority.

Called by `__main__` before the server opens a socket, and by `daemon`, which loads it again.
"""

import ipaddress
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tarmac.model.errors import InvalidInput
from tarmac.model.home import Home
from tarmac.server.http.hosts import machine_names
from tarmac.server.http.listeners import split_address
from tarmac.server.settings import AddressSettings

RENEW_S = 86_400.0
"""The interval at which a running server loads its certificate again; SIGHUP makes it do so at once."""


class Tls:
    """The encryption of one listener. Connections that exist keep their certificate."""

    def __init__(self, settings: AddressSettings, home: Home) -> None:
        self._settings = settings
        self._directory = home.tls
        self.context = _context()
        self.load()

    def load(self) -> None:
        """Load the certificate; raises TarmacError, and keeps the previous one, if it cannot be used."""
        certificate, key = self._settings.tls_certificate, self._settings.tls_key
        if certificate is None or key is None:
            from tarmac.vault.authority import LabAuthority  # noqa: PLC0415 - few servers have one

            authority = LabAuthority(self._directory)
            made = authority.server_certificate(_names(self._settings), datetime.now(UTC))
            certificate = key = str(made)
        _load(_context(), certificate, key)
        self.context.load_cert_chain(certificate, key)


def tls_of(settings: AddressSettings, listen: str, home: Home) -> Tls | None:
    """The encryption of the server's address, None without; raises TarmacError if it must have one."""
    given = settings.tls_certificate, settings.tls_key
    if (given[0] is None) != (given[1] is None):
        raise InvalidInput("server.tls_certificate and server.tls_key are needed together")
    if given[0] is not None and settings.tls is not None:
        raise InvalidInput(
            f"server.tls_certificate and server.tls = {settings.tls.value!r} exclude each other"
        )
    reachable = reachable_by_others(listen)
    if given[0] is not None or settings.tls is not None:
        return Tls(settings, home)
    if reachable:
        raise InvalidInput(
            f"listen: {listen!r} can be reached by others, who could read tokens without TLS",
            hint='set tls_certificate and tls_key, or tls = "lab", in the table [server] of settings.toml; '
            "or listen on 127.0.0.1, and bring the port to other machines with ssh -L",
        )
    return None


def check_accounts(address: str, accounts_exist: Callable[[], bool]) -> None:
    """Refuse an address that others can reach on a server that does not know its users."""
    if reachable_by_others(address) and not accounts_exist():
        raise InvalidInput(
            f"listen: {address!r} can be reached by others, and needs an account first",
            hint="tarmac users add NAME --role admin",
        )


def reachable_by_others(address: str) -> bool:
    """Whether HOST:PORT is not a loopback address."""
    return not ipaddress.ip_address(split_address(address)[0]).is_loopback


def _names(settings: AddressSettings) -> list[str]:
    """The names and addresses of the lab's certificate."""
    host = split_address(settings.listen or "127.0.0.1:0")[0]
    own = [] if ipaddress.ip_address(host).is_unspecified else [host]
    return [*settings.tls_names, *own, *machine_names(), "localhost", "127.0.0.1", "::1"]


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load the two files; raises InvalidInput with the setting, the file and the reason."""
    from tarmac.vault.authority import certificate_end  # noqa: PLC0415 - few servers have one

    pem = _content("tls_certificate", certificate)
    try:
        ends_at = certificate_end(pem)
    except ValueError:
        raise _unusable("tls_certificate", certificate, "has no certificate in PEM form") from None
    if ends_at <= datetime.now(UTC):
        raise _unusable("tls_certificate", certificate, f"expired on {ends_at:%Y-%m-%d}")
    _content("tls_key", key)
    if Path(key).stat().st_mode & 0o007:
        raise _unusable("tls_key", key, "can be read by every user of this machine: chmod 600 it")
    try:
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except ssl.SSLError as problem:
        if problem.reason == "KEY_VALUES_MISMATCH":
            reason = f"is not the key of the certificate {certificate}"
        else:
            reason = "has no private key in PEM form without a password"
        raise _unusable("tls_key", key, reason) from None


def _content(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise _unusable(name, path, f"cannot be read: {problem.strerror}") from problem


def _unusable(name: str, path: str, reason: str) -> InvalidInput:
    return InvalidInput(f"server.{name}: {path} {reason}")
