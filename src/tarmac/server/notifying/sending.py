"""`Sender`: sends messages in parallel, so that a slow receiver does not delay others. Made by `wiring`."""

import logging
import smtplib
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from threading import Thread

from tarmac.model.errors import InvalidInput, TarmacError
from tarmac.model.notification import Channel, Failure, Notification, Receiver
from tarmac.model.secret import SERVER, SecretUse, SecretValues
from tarmac.server.notifying import messages
from tarmac.server.notifying.settings import MailServer, SmtpSecurity
from tarmac.server.notifying.webhooks import TIMEOUT_S, check_host, send_webhook

LIMIT_S = 20.0
"""Maximum total time for a message."""

PERMANENT = range(500, 600)

_SPARE_S = 1.0
"""Additional time after which unfinished work, such as a name look-up, is abandoned."""

_NO_MAIL = "this server has no mail server: set notifications.smtp"
_LATE = Failure(reason="the receiver took too long")

log = logging.getLogger(__name__)

Adapter = Callable[[Notification], Failure | None]
"""Sends a message to a program that has a protocol of its own."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Implements `model.notification.SendsNotifications` by SMTP and HTTP.

    `adapters` send messages to addresses with another scheme than HTTP's: by scheme.
    """

    mail: MailServer | None
    secrets: SecretValues
    private_addresses: bool
    limit_s: float = LIMIT_S
    adapters: Mapping[str, Adapter] = field(default_factory=dict)

    def check(self, receiver: Receiver) -> None:
        """Refuse mail without a mail server, and private addresses; those in secrets fail when it sends."""
        mail = receiver.channel is Channel.EMAIL
        if mail and self.mail is None:
            raise InvalidInput(f"{receiver}: {_NO_MAIL}", hint="the administrator can; a webhook needs none")
        if not (mail or receiver.secret or self.private_addresses):
            check_host(receiver.address)

    def send(self, batches: Sequence[Sequence[Notification]]) -> Sequence[Failure | None]:
        """Send each batch in its own thread; the server can exit without waiting for it."""
        sent: list[Future[Failure | None]] = [Future() for _ in batches]
        for batch, future in zip(batches, sent, strict=True):
            Thread(target=self._settle, args=(batch, future), name="tarmac-notify", daemon=True).start()
        wait(sent, timeout=self.limit_s + _SPARE_S)
        results = [future.result() if future.done() else _LATE for future in sent]
        for batch, failure in zip(batches, results, strict=True):
            if failure is not None:
                log.warning("a message to %s was not sent: %s", batch[0].receiver, failure.reason)
        return results

    def _settle(self, batch: Sequence[Notification], future: Future[Failure | None]) -> None:
        try:
            future.set_result(self._send(batch))
        except Exception as problem:  # noqa: BLE001 - its text may hold a secret
            future.set_result(Failure(reason=type(problem).__name__))

    def _send(self, batch: Sequence[Notification]) -> Failure | None:
        receiver = batch[0].receiver
        try:
            if receiver.channel is Channel.EMAIL:
                if self.mail is None:
                    return Failure(reason=_NO_MAIL)
                return send_mail(self.mail, batch, secrets=self.secrets, timeout_s=TIMEOUT_S)
            url = receiver.address
            adapter = self.adapters.get(url.partition(":")[0])
            if adapter is not None and not receiver.secret:
                return adapter(batch[0])
            if receiver.secret:
                url = self.secrets([SecretUse(name=url, scope=receiver.scope)])[url].strip()
            return send_webhook(url, batch, limit_s=self.limit_s, private_addresses=self.private_addresses)
        except TarmacError as problem:  # the secret is missing, or cannot be decrypted now
            return Failure(reason=str(problem))


def send_mail(
    server: MailServer, batch: Sequence[Notification], *, secrets: SecretValues, timeout_s: float
) -> Failure | None:
    """Send one mail for a batch through the mail server."""
    mail = EmailMessage()
    mail["From"] = server.sender
    mail["To"] = batch[0].receiver.address
    mail["Subject"] = f"[tarmac] {messages.subject(batch)}"
    mail["Date"] = formatdate()
    mail["Message-ID"] = make_msgid(domain=server.sender.rpartition("@")[2] or "tarmac")
    mail["Auto-Submitted"] = "auto-generated"  # suppresses automatic replies
    mail.set_content(messages.text(batch) + "\n")
    try:
        with _connected(server, timeout_s) as connection:
            if server.user is not None:
                named = server.password_secret
                use = [SecretUse(name=named, scope=SERVER)] if named is not None else []
                connection.login(server.user, secrets(use).get(named or "", ""))
            connection.send_message(mail)
    except smtplib.SMTPRecipientsRefused as refusal:
        code, words = next(iter(refusal.recipients.values()))
        return Failure(
            reason=f"the mail server refuses the receiver: {code} {_words(words)}", final=code in PERMANENT
        )
    except smtplib.SMTPResponseException as refusal:
        return Failure(reason=f"the mail server says {refusal.smtp_code} {_words(refusal.smtp_error)}")
    except (OSError, smtplib.SMTPException) as problem:
        return Failure(reason=f"mail server {server.host}:{server.port}: {problem}")
    return None


def _connected(server: MailServer, timeout_s: float) -> smtplib.SMTP:
    if server.security is SmtpSecurity.TLS:
        context = ssl.create_default_context()
        return smtplib.SMTP_SSL(server.host, server.port, timeout=timeout_s, context=context)
    connection = smtplib.SMTP(server.host, server.port, timeout=timeout_s)
    if server.security is SmtpSecurity.STARTTLS:
        try:
            connection.starttls(context=ssl.create_default_context())
        except BaseException:
            connection.close()
            raise
    return connection


def _words(text: bytes | str) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text
