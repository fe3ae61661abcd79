"""Answers requests of scripts with a `tarmac.Client`: creates, stops and describes launches.

Called in the script's own process by `asking`, and by the broker of `tarmac launch`. This is tarmac's side:
never imported by a script on a Python without tarmac.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarmac import api
from tarmac.client import Client
from tarmac.client.launching import json_text
from tarmac.model.errors import InvalidInput, NeverFits, NotFound, TarmacError, Unauthorized
from tarmac.model.lifecycle import RunState
from tarmac.model.run import CauseCode
from tarmac.systems.clusterfudge.identity import launch_number, launch_uuid
from tarmac.systems.clusterfudge.scripts.describing import details_form, launch_form

DIALECT = "clusterfudge"
FILENAME = "launch-request.json"
"""The name of a request in messages; `tarmac show --source` prints the request."""

DECISION_LIMIT_S = 20.0
"""How long to wait for the scheduler's decision on a launch that may not queue."""

_GLANCE_S = 0.02
_PAGE = 500


@dataclass(slots=True)
class Gateway:
    """Clients by address, and changes for every launch (`overrides` of docs/using/api.md)."""

    overrides: Mapping[str, Any] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    _notices: list[str] = field(default_factory=list)
    _clients: dict[tuple[str | None, str | None], Client] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request, or the error for the script."""
        notices: list[str] = []
        try:
            form = {"answer": self._answer(question, notices)}
        except TarmacError as error:
            form = {"error": error_form(error)}
        earlier, self._notices[:] = list(self._notices), []
        return {**form, "notices": earlier + notices}

    def close(self) -> None:
        """Close the connections. The launches continue."""
        for client in self._clients.values():
            client.close()

    def _answer(self, question: Mapping[str, Any], notices: list[str]) -> Any:
        client = self._client(question)
        if question["ask"] == "create":
            return self._create(client, question, notices)
        run = client.run(_reference(client, question["launch"]))
        if question["ask"] == "stop":
            client.stop(run.id)
            return None
        return details_form(client, run)

    def _create(self, client: Client, question: Mapping[str, Any], notices: list[str]) -> Any:
        request = question["request"]
        run = client.submit(
            json_text(request),
            filename=FILENAME,
            directory=question["directory"],
            dialect=DIALECT,
            overrides=self.overrides,
        )
        notices += [f"warning: {warning}" for warning in run.warnings]
        if run.spec.get("queueing") == "fail_if_busy":
            run = _decided(client, run)
        cause = run.cause
        if cause is not None and cause.code in (CauseCode.BUSY, CauseCode.NEVER_FITS):
            raise _NoRoom(f"failed to schedule launch: {run.name} ({run.id})", cause.reasons)
        self.created.append(run.id)
        notices.append(f"launched {run.name} as run {run.id}: tarmac logs -f {run.id}")
        return launch_form(run)

    def _client(self, question: Mapping[str, Any]) -> Client:
        address = (question.get("url"), question.get("token"))
        with self._lock:
            if address not in self._clients:
                self._clients[address] = Client(address[0], token=address[1], on_notice=self._notices.append)
            return self._clients[address]


_OWN = Gateway()


def in_process(question: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to a script without `tarmac launch`; the first launch adds a notice about its server."""
    first = not _OWN.created and question["ask"] == "create"
    reply = _OWN.reply(question)
    if first and question.get("url") is None:
        reply["notices"].insert(0, "launches go to your tarmac, not to api.clusterfudge.com")
    return reply


class _NoRoom(TarmacError):
    """A launch that may not queue found no capacity; `log` has the reason of each node, one per line."""

    def __init__(self, message: str, reasons: Sequence[str]) -> None:
        super().__init__(f"{message}: no capacity")
        self.log = "\n".join(reasons)


def error_form(error: TarmacError) -> dict[str, Any]:
    form: dict[str, Any] = {"kind": "tarmac", "message": error.message, "hint": error.hint}
    if isinstance(error, _NoRoom):
        return {**form, "kind": "scheduling", "log": error.log}
    if isinstance(error, InvalidInput):
        lines = [f"{item.message} ({item.hint})" if item.hint else item.message for item in error.problems]
        return {**form, "kind": "request", "message": "\n".join(lines)}
    if isinstance(error, Unauthorized):
        return {**form, "kind": "authentication", "message": str(error)}
    if isinstance(error, NeverFits):
        head = error.message.removesuffix(f": {'; '.join(error.reasons)}")
        log = "\n".join([*error.reasons, *([error.hint] if error.hint else [])])
        return {"kind": "scheduling", "message": f"failed to schedule launch: {head}", "log": log}
    return {**form, "kind": "request" if isinstance(error, NotFound) else "tarmac"}


def _decided(client: Client, run: api.Run) -> api.Run:
    """The run after the scheduler has placed or refused it, or unchanged after `DECISION_LIMIT_S`."""
    deadline = time.monotonic() + DECISION_LIMIT_S
    while run.state in (RunState.PENDING, RunState.QUEUED) and time.monotonic() < deadline:
        time.sleep(_GLANCE_S)
        run = client.run(run.id)
    return run


def _reference(client: Client, launch: str) -> str:
    """The id of a launch named by its UUID or number; any other text unchanged."""
    if not (launch.isdecimal() or launch.count("-") == 4):
        return launch
    launch = launch.lower()
    before: str | None = None
    while True:
        page = client.runs(limit=_PAGE, before=before, everything=True)
        for run in page.runs:
            if launch in (launch_uuid(run.id), str(launch_number(run.id))):
                return run.id
        before = page.next
        if before is None:
            return launch
