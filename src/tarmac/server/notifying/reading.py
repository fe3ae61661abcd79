"""Checks `[notifications]` of the settings. Called by `server.settings`, for a file that has the table."""

from collections.abc import Sequence
from typing import Any

from tarmac.dialects.native.notify import from_address, read_occasions
from tarmac.model.errors import Problem, suggestion
from tarmac.model.notification import Channel, Subscription
from tarmac.model.secret import NAME, NAME_RULE
from tarmac.server.notifying.settings import PORTS, MailServer, NotificationSettings, NotificationTable


def read_notifications(
    values: NotificationTable, *, file: str
) -> tuple[NotificationSettings, Sequence[Problem]]:
    """The settings from the table, whose values have the right types, and the problems with them."""
    problems: list[Problem] = []

    def problem(key: str, message: str, hint: str | None = None) -> None:
        problems.append(Problem(message=f"notifications.{key}: {message}", file=file, hint=hint))

    mail = _mail(values.smtp, values, problem) if values.smtp is not None else None
    of_mail = {
        "smtp_user": values.smtp_user,
        "smtp_password_secret": values.smtp_password_secret,
        "from": values.sender,
    }
    for key, value in of_mail.items():
        if values.smtp is None and value is not None:
            problem(
                key, "without smtp no mail is sent", 'name the mail server: smtp = "mail.example.org:587"'
            )
    try:
        on = read_occasions(values.every_run_on)
    except ValueError as error:
        word = str(error).partition(" ")[0].strip("'")
        known = ("started", "waiting", "completed", "failed", "stopped", "ended")
        problem("every_run_on", f"{word!r} is none of {', '.join(known)}", suggestion(word, known, "ended"))
        on = ()
    every_run = []
    for address in values.every_run:
        receiver = from_address(address)
        if receiver is None:
            problem("every_run", f"an address of mail or an http(s) URL is expected, not {address!r:.80}")
        elif receiver.channel is Channel.EMAIL and mail is None:
            problem("every_run", f"{address}: no mail is sent without the setting notifications.smtp")
        else:
            every_run.append(Subscription(receiver=receiver, on=on))
    settings = NotificationSettings(
        mail=mail, every_run=tuple(every_run), private_addresses=values.private_addresses
    )
    return settings, problems


def _mail(smtp: str, values: NotificationTable, problem: Any) -> MailServer | None:
    security, sender = values.smtp_security, values.sender or "tarmac@localhost"
    receiver = from_address(sender)
    if receiver is None or receiver.channel is not Channel.EMAIL:
        problem("from", f"an address of mail is expected, not {sender!r:.80}")
    host, colon, port = smtp.rpartition(":")
    if not colon:
        host, port = smtp, str(PORTS[security])
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        problem("smtp", f"HOST or HOST:PORT is expected, not {smtp!r:.80}")
        return None
    secret = values.smtp_password_secret
    if secret is not None and not NAME.fullmatch(secret):
        problem("smtp_password_secret", f"{secret!r:.80} cannot be the name of a secret", NAME_RULE)
    if secret is not None and values.smtp_user is None:
        problem("smtp_password_secret", "a password needs a user", "set notifications.smtp_user")
    return MailServer(
        host=host.strip("[]"),
        port=int(port),
        security=security,
        user=values.smtp_user,
        password_secret=secret,
        sender=sender,
    )
