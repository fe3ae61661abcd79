"""Reads `[notifications]` of the settings. Called by `server.settings`, for a file that has the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tarmac.dialects.native.notify import from_address, read_occasions
from tarmac.model.errors import Problem
from tarmac.model.notification import Channel, Subscription
from tarmac.model.secret import NAME, NAME_RULE
from tarmac.model.text import suggestion


class SmtpSecurity(StrEnum):
    """The protection of the connection to the mail server."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


PORTS = {SmtpSecurity.STARTTLS: 587, SmtpSecurity.TLS: 465, SmtpSecurity.NONE: 25}
"""The usual ports of mail servers."""


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


def read_notifications(
    values: Mapping[str, Any], *, file: str
) -> tuple[NotificationSettings, Sequence[Problem]]:
    """The settings from the table, whose values have the right types, and the problems with them."""
    problems: list[Problem] = []

    def problem(key: str, message: str, hint: str | None = None) -> None:
        problems.append(Problem(message=f"notifications.{key}: {message}", file=file, hint=hint))

    mail = _mail(values, problem) if values["smtp"] is not None else None
    for key in ("smtp_user", "smtp_password_secret", "from"):
        if values["smtp"] is None and values[key] is not None:
            problem(
                key, "without smtp no mail is sent", 'name the mail server: smtp = "mail.example.org:587"'
            )
    try:
        on = read_occasions(values["every_run_on"])
    except ValueError as error:
        word = str(error).partition(" ")[0].strip("'")
        known = ("started", "waiting", "completed", "failed", "stopped", "ended")
        problem("every_run_on", f"{word!r} is none of {', '.join(known)}", suggestion(word, known, "ended"))
        on = ()
    every_run = []
    for address in values["every_run"]:
        receiver = from_address(address)
        if receiver is None:
            problem("every_run", f"an address of mail or an http(s) URL is expected, not {address!r:.80}")
        elif receiver.channel is Channel.EMAIL and mail is None:
            problem("every_run", f"{address}: no mail is sent without the setting notifications.smtp")
        else:
            every_run.append(Subscription(receiver=receiver, on=on))
    settings = NotificationSettings(
        mail=mail, every_run=tuple(every_run), private_addresses=values["private_addresses"]
    )
    return settings, problems


def _mail(values: Mapping[str, Any], problem: Any) -> MailServer | None:
    security, sender = values["smtp_security"], values["from"] or "tarmac@localhost"
    if security not in list(SmtpSecurity):
        problem("smtp_security", f"{security!r} is none of {', '.join(SmtpSecurity)}")
        return None
    receiver = from_address(sender)
    if receiver is None or receiver.channel is not Channel.EMAIL:
        problem("from", f"an address of mail is expected, not {sender!r:.80}")
    host, colon, port = values["smtp"].rpartition(":")
    if not colon:
        host, port = values["smtp"], str(PORTS[SmtpSecurity(security)])
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        problem("smtp", f"HOST or HOST:PORT is expected, not {values['smtp']!r:.80}")
        return None
    secret = values["smtp_password_secret"]
    if secret is not None and not NAME.fullmatch(secret):
        problem("smtp_password_secret", f"{secret!r:.80} cannot be the name of a secret", NAME_RULE)
    if secret is not None and values["smtp_user"] is None:
        problem("smtp_password_secret", "a password needs a user", "set notifications.smtp_user")
    return MailServer(
        host=host.strip("[]"),
        port=int(port),
        security=SmtpSecurity(security),
        user=values["smtp_user"],
        password_secret=secret,
        sender=sender,
    )
