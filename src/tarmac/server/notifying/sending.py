"""`Sender`: the ways out side by side, so that a receiver that hangs delays no other. Made by `wiring`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tarmac.model.errors import TarmacError
from tarmac.model.notification import Channel, Failure, Notification
from tarmac.model.secret import SecretValues
from tarmac.server.notifying.mail import send_mail
from tarmac.server.notifying.settings import MailServer
from tarmac.server.notifying.webhooks import send_webhook

TIMEOUT_S = 10.0
"""How long one step of a conversation with a receiver may take."""

_AT_ONCE = 16

log = logging.getLogger(__name__)


class Sender:
    """Implements `model.notification.SendsNotifications` by SMTP and HTTP."""

    def __init__(self, *, mail: MailServer | None, secrets: SecretValues, private_addresses: bool) -> None:
        self._mail = mail
        self._secrets = secrets
        self._private_addresses = private_addresses

    def send(self, batches: Sequence[Sequence[Notification]]) -> Sequence[Failure | None]:
        with ThreadPoolExecutor(min(_AT_ONCE, max(len(batches), 1)), "tarmac-notify") as pool:
            results = list(pool.map(self._send, batches))
        for batch, failure in zip(batches, results, strict=True):
            if failure is not None:
                log.warning("a message to %s was not sent: %s", batch[0].receiver, failure.reason)
        return results

    def _send(self, batch: Sequence[Notification]) -> Failure | None:
        receiver = batch[0].receiver
        try:
            if receiver.channel is Channel.EMAIL:
                if self._mail is None:
                    return Failure(reason="this server has no mail server: set notifications.smtp")
                return send_mail(self._mail, batch, secrets=self._secrets, timeout_s=TIMEOUT_S)
            url = receiver.address
            if receiver.secret:
                url = self._secrets([url])[url].strip()
            return send_webhook(url, batch, timeout_s=TIMEOUT_S, private_addresses=self._private_addresses)
        except TarmacError as problem:  # the secret is not there, or cannot be opened now
            return Failure(reason=str(problem))
