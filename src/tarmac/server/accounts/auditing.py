"""Announces every change to open pages, and writes the audit log: every change and refusal, once the server
has accounts. Called before each answer.
"""

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from tarmac.api.operation import BASE
from tarmac.control.state.event_bus import Listener
from tarmac.model.errors import TarmacError, Unavailable
from tarmac.model.people.account import AuditEntry
from tarmac.model.ports import Clock
from tarmac.server.accounts.account_service import AccountService
from tarmac.server.http.auth import CALLER, Caller
from tarmac.server.http.origins import ORIGIN

MOST_WAITING = 10_000
LONGEST_TARGET = 500

UNCHANGED = "tarmac.unchanged"
"""The key in the scope of a request that changed nothing, whatever its method."""

_OF_RUNS = ("POST", "runs")
"""Most of these changes are announced by the events of their runs."""

_QUIET = frozenset({"check", "code"})
"""Paths that change nothing that a page shows."""

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSED = frozenset({401, 403, 421, 429})


class Auditor:
    """The audit log of one server. In its event loop."""

    def __init__(self, accounts: AccountService, clock: Clock, tell: Listener) -> None:
        """`tell` gets the path of everything that a request has changed."""
        self._accounts, self._clock, self._tell = accounts, clock, tell
        self._entries: list[AuditEntry] = []
        self._turn = asyncio.Lock()

    async def note(self, scope: Scope, status: int) -> None:
        """Announce a change; record it durably, or a refusal. Raises Unavailable if that fails.

        Entries that arrive during a write are written together. Those of a failed write are tried again with
        the next one.
        """
        if scope["type"] != "http":
            return
        reading = scope["method"] in _READING or UNCHANGED in scope
        if not reading and status < 300 and (path := changed_path(scope["method"], scope["path"])):
            self._tell([path])
        if (reading and status not in _REFUSED) or not self._accounts.exist():
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
        self._entries.append(entry)
        async with self._turn:
            entries, self._entries = self._entries, []
            try:
                if entries:
                    await run_in_threadpool(self._accounts.records.add_audit, entries)
            except TarmacError as error:
                self._entries = [*entries, *self._entries][-MOST_WAITING:]
                raise Unavailable(
                    f"the audit log cannot be written: {error.message}",
                    hint="look whether the change was made before you repeat it",
                ) from None


def changed_path(method: str, path: str) -> str | None:
    """The first part of the path of a change; None where no page has to learn of it by this path."""
    thing, *rest = path.removeprefix(BASE).strip("/").split("/")
    has_events = (method, thing) == _OF_RUNS and rest[-1:] != ["notes"]
    return None if has_events or thing in _QUIET else f"/{thing}"
