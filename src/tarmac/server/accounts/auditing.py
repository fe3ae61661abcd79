"""Writes the audit log: every change and refusal, once the server has accounts. Called by `http.auth`."""

import logging
import queue
from threading import Thread

from starlette.types import Scope

from tarmac.api.operation import BASE
from tarmac.model.errors import TarmacError
from tarmac.model.people.account import AuditEntry
from tarmac.model.ports import Clock
from tarmac.server.accounts.account_service import AccountService
from tarmac.server.http.auth import CALLER, Caller
from tarmac.server.http.origins import ORIGIN

MOST_WAITING = 10_000
MOST_AT_ONCE = 500
LONGEST_TARGET = 500

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSED = frozenset({401, 403, 421, 429})

log = logging.getLogger(__name__)


class Auditor:
    """A background thread that appends entries in batches."""

    def __init__(self, accounts: AccountService, clock: Clock) -> None:
        self._accounts, self._clock = accounts, clock
        self._entries: queue.Queue[AuditEntry | None] = queue.Queue(MOST_WAITING)
        self._thread = Thread(target=self._write, name="audit", daemon=True)

    def note(self, scope: Scope, status: int) -> None:
        """Record an answered request, if it was a change or was refused. Does not wait for the database."""
        reading = scope.get("method") in _READING
        if scope["type"] != "http" or (reading and status not in _REFUSED) or not self._accounts.exist():
            return
        caller: Caller | None = scope.get(CALLER)
        entry = AuditEntry(
            at=self._clock.now(),
            user=caller.actor.user if caller is not None else "",
            token=caller.token if caller is not None else None,
            origin="local" if caller is not None and caller.local else scope.get(ORIGIN, ""),
            action=scope["method"],
            target=scope["path"].removeprefix(BASE)[:LONGEST_TARGET],
            status=status,
        )
        try:
            self._entries.put_nowait(entry)
        except queue.Full:
            log.warning("the audit log cannot keep up: %s %s of %r", entry.action, entry.target, entry.user)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write the rest, and end."""
        if self._thread.is_alive():
            self._entries.put(None)
            self._thread.join()

    def _write(self) -> None:
        ended = False
        while not ended:
            batch = [self._entries.get()]
            while len(batch) < MOST_AT_ONCE and not self._entries.empty():
                batch.append(self._entries.get())
            ended = None in batch
            entries = [entry for entry in batch if entry is not None]
            try:
                if entries:
                    self._accounts.records.add_audit(entries)
            except TarmacError as error:
                log.warning("%d entries of the audit log are lost: %s", len(entries), error)
