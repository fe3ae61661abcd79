"""Sends mail through the mail server in the settings. Called by `sending`."""

import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from tarmac.model.notification import Failure, Notification
from tarmac.model.secret import SERVER, SecretUse, SecretValues
from tarmac.server.notifying import messages
from tarmac.server.notifying.settings import MailServer, SmtpSecurity

PERMANENT = range(500, 600)


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
