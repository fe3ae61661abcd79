"""The settings of notifications. Read by `server.settings`, checked by `reading`, used by `sending`."""

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from tarmac.model.notification import Subscription


class SmtpSecurity(StrEnum):
    """The protection of the connection to the mail server."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


PORTS = {SmtpSecurity.STARTTLS: 587, SmtpSecurity.TLS: 465, SmtpSecurity.NONE: 25}
"""The usual ports of mail servers."""


class NotificationTable(Struct, frozen=True, kw_only=True, rename={"sender": "from"}):
    """`[notifications]`, before `reading` checks it."""

    smtp: str | None = None
    smtp_security: SmtpSecurity = SmtpSecurity.STARTTLS
    smtp_user: str | None = None
    smtp_password_secret: str | None = None
    sender: str | None = None
    every_run: tuple[str, ...] = ()
    every_run_on: tuple[str, ...] = ("failed",)
    private_addresses: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The address and user of the mail server; `password_secret` is the name of a secret."""

    host: str
    port: int
    security: SmtpSecurity = SmtpSecurity.STARTTLS
    user: str | None = None
    password_secret: str | None = None
    sender: str = "tarmac@localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSettings:
    """The mail server and the receivers for every run. `private_addresses` None: allowed unless shared."""

    mail: MailServer | None = None
    every_run: tuple[Subscription, ...] = ()
    private_addresses: bool | None = None
