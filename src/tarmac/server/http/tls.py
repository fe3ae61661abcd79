"""The certificate of the server's address: one from files, or one of the lab's own authority.

Called by `__main__` before the server opens a socket, and by `daemon`, which loads it again.
"""

import asyncio
import ipaddress
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tarmac.model.errors import InvalidInput, TarmacError
from tarmac.model.home import Home
from tarmac.server.http.hosts import machine_names
from tarmac.server.http.listeners import split_address
from tarmac.server.settings import AddressSettings

RENEW_S = 86_400.0
"""The interval at which a running server loads its certificate again; SIGHUP makes it do so at once."""

log = logging.getLogger(__name__)


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

            authority, now = LabAuthority(self._directory), datetime.now(UTC)
            certificate = key = str(authority.server_certificate(_names(self._settings), now))
        _load(_context(), certificate, key)
        self.context.load_cert_chain(certificate, key)

    def renew(self) -> None:
        """Load the certificate of a running server."""
        try:
            self.load()
        except TarmacError as problem:
            log.warning("the previous certificate stays in use: %s", problem)

    async def renew_daily(self) -> None:
        """Renew the certificate until the server ends."""
        while True:
            await asyncio.sleep(RENEW_S)
            self.renew()


def tls_of(settings: AddressSettings, listen: str, home: Home) -> Tls | None:
    """The encryption of the server's address, None without; raises TarmacError if it must have one."""
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise InvalidInput("server.tls_certificate and server.tls_key are needed together")
    if settings.tls_certificate is not None and settings.tls is not None:
        raise InvalidInput(
            f"server.tls_certificate and server.tls = {settings.tls.value!r} exclude each other"
        )
    reachable = reachable_by_others(listen)
    if settings.tls_certificate is not None or settings.tls is not None:
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
        sentence = f"listen: {address!r} can be reached by others, and needs an account first"
        raise InvalidInput(sentence, hint="tarmac users add NAME adds one")


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
    return context


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load the two files; raises InvalidInput with the setting, the file and the reason."""
    from tarmac.vault.authority import certificate_end  # noqa: PLC0415 - few servers have one

    setting, path = "tls_certificate", certificate
    try:
        ends_at = certificate_end(Path(certificate).read_bytes())
        reason = f"expired on {ends_at:%Y-%m-%d}" if ends_at <= datetime.now(UTC) else None
        if reason is None:
            setting, path = "tls_key", key
            if Path(key).stat().st_mode & 0o007:
                reason = "can be read by every user of this machine: chmod 600 it"
            context.load_cert_chain(certificate, key, password=lambda: b"")
    except ssl.SSLError as problem:
        reason = "has no private key in PEM form without a password"
        if problem.reason == "KEY_VALUES_MISMATCH":
            reason = f"is not the key of the certificate {certificate}"
    except OSError as problem:
        reason = f"cannot be read: {problem.strerror}"
    except ValueError:
        reason = "has no certificate in PEM form"
    if reason is not None:
        raise InvalidInput(f"server.{setting}: {path} {reason}")
