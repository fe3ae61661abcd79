"""Answers requests of scripts with a `tarmac.Client`: creates, stops and describes launches, as JSON.

Called in the script's own process by `asking`, and by the broker of `tarmac launch`; `dry` shares the form of
a launch. This is tarmac's side: never imported by a script on a Python without tarmac.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tarmac import api
from tarmac.cli.selecting import pages
from tarmac.client import Client
from tarmac.client.launching import json_text
from tarmac.model.errors import InvalidInput, NeverFits, NotFound, TarmacError, Unauthorized
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import CauseCode, WorkerStatus
from tarmac.systems.clusterfudge.identity import launch_number, launch_uuid, process_uuid
from tarmac.systems.clusterfudge.statuses import status
from tarmac.systems.listing import report_of

DIALECT = "clusterfudge"
FILENAME = "launch-request.json"
"""The name of a request in messages; `tarmac show --source` prints the request."""

DECISION_LIMIT_S = 20.0
"""How long to wait for the scheduler's decision on a launch that may not queue."""

_GLANCE_S = 0.02


def replied(
    answer: Callable[[Mapping[str, Any], list[str]], Any], question: Mapping[str, Any]
) -> dict[str, Any]:
    """The answer to a request, or the error for the script, and the notices that `answer` adds to a list."""
    notices: list[str] = []
    try:
        return {"answer": answer(question, notices), "notices": notices}
    except TarmacError as error:
        return {"error": error_form(error), "notices": notices}


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
        reply = replied(self._answer, question)
        reply["notices"][:0], self._notices[:] = list(self._notices), []
        return reply

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
    every = (run.id for run in pages(client, None, {"everything": True}))
    return next((each for each in every if launch in (launch_uuid(each), str(launch_number(each)))), launch)


LOG_LINES = 10_000
"""Maximum number of log lines per process in a launch's details."""


def launch_form(run: api.Run) -> dict[str, Any]:
    """A run as the launch that a script gets."""
    form = {
        **request_form(run.id, run.name, run.spec, run.source),
        "status": status(report_of(run)),
        "launched_by": run.user,
        "submitted_at": run.created_at,
    }
    return {**form, "git_commit": run.code_commit} if run.code_commit else form


def request_form(run_id: str, name: str, spec: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The part of a launch that its request and id determine."""
    facts = spec.get("conventions", {}).get("facts", {})
    names = facts.get("short_names", {})
    target = spec.get("target", {})
    code = spec.get("code") or {}
    try:
        script = str(json.loads(source).get("launch_script_body", ""))
    except (ValueError, AttributeError):
        script = ""
    return {
        "id": launch_uuid(run_id),
        "launch_id": launch_number(run_id),
        "run_id": run_id,
        "title": facts.get("title") or name,
        "description": facts.get("description") or "",
        "jobs": [
            {
                "short_name": names.get(_role_name(role), _role_name(role)),
                "replicas": role.get("replicas", 1) or 1,
                "commands": [
                    process["command"].get("argv") or [process["command"].get("script", "")]
                    for process in role["processes"]
                ],
            }
            for role in spec["roles"]
        ],
        "cluster": target.get("cluster") or "",
        "shard": target.get("shard") or "",
        "hostnames": list(target.get("hostnames", ())),
        "git_repo": code.get("url", ""),
        "git_branch": code.get("branch") or "",
        "git_commit": code.get("commit") or "",
        "launch_script_body": script,
    }


def _role_name(role: Mapping[str, Any]) -> str:
    return str(role.get("name", "main"))


def details_form(client: Client, run: api.Run) -> dict[str, Any]:
    launch = launch_form(run)
    attempt = next(iter(client.attempts(run.id)[-1:]), None)
    workers = {_key(worker): worker for worker in (attempt.workers if attempt is not None else ())}
    named = {_role_name(role): form for role, form in zip(run.spec["roles"], launch["jobs"], strict=True)}
    blamed = attempt.cause if attempt is not None else None
    failed = (blamed.role, blamed.replica, blamed.worker) if blamed is not None else None
    unseen = "stopped" if run.state == RunState.ENDED else "pending"
    states = {
        key: _state(workers[key], failed) if key in workers else unseen
        for role, form in named.items()
        for key in product([role], range(form["replicas"]), range(len(form["commands"])))
    }
    return {
        "launch": launch,
        "commands": [
            {
                "id": process_uuid(run.id, *key),
                "hostname": worker.node,
                "job_name": named[worker.role]["short_name"],
                "replica": worker.replica,
                "process": worker.index,
                "state": _STATES[states.get(key, "pending")],
                "exit_code": worker.exit_code,
                "pid": worker.pid,
                "cmd_line": named[worker.role]["commands"][worker.index],
                "execution_started_at": worker.started_at,
                "execution_completed_at": worker.ended_at,
            }
            for key, worker in workers.items()
            if worker.role in named
        ],
        "replicas": {form["short_name"]: _counts(_replicas(role, states)) for role, form in named.items()},
        "processes": _counts(list(states.values())),
        "logs": [
            {
                "hostname": chunk.node,
                "source": f"{_shown(chunk.role, named)}.{chunk.replica}.{chunk.worker}",
                "contents": chunk.text,
            }
            for chunk in client.logs(run.id, tail=LOG_LINES)
        ],
    }


_STATES = {
    "pending": "COMMAND_STATE_ACKNOWLEDGED",
    "running": "COMMAND_STATE_RUNNING",
    "succeeded": "COMMAND_STATE_SUCCEEDED",
    "failed": "COMMAND_STATE_FAILED",
    "stopped": "COMMAND_STATE_KILLED",
}


def _key(worker: WorkerStatus) -> tuple[str, int, int]:
    return worker.role, worker.replica, worker.index


def _shown(role: str, named: Mapping[str, Any]) -> str:
    return str(named[role]["short_name"]) if role in named else role


def _state(worker: WorkerStatus, failed: tuple[str | None, int | None, int | None] | None) -> str:
    """The state of a process; of those that a signal ended, only one that failed is the cause of the end."""
    if worker.exit_code is not None:
        return "succeeded" if worker.exit_code == 0 else "failed"
    if worker.signal is not None:
        return "failed" if failed == _key(worker) else "stopped"
    return "running" if worker.pid is not None else "pending"


def _replicas(role: str, states: Mapping[tuple[str, int, int], str]) -> list[str]:
    """The state of each replica of a role: the worst of its processes'."""
    replicas: dict[int, set[str]] = {}
    for (name, replica, _), state in states.items():
        if name == role:
            replicas.setdefault(replica, set()).add(state)
    worst_first = ("failed", "running", "pending", "stopped", "succeeded")
    return [next(state for state in worst_first if state in seen) for seen in replicas.values()]


def _counts(states: list[str]) -> dict[str, int]:
    return {**{state: states.count(state) for state in _STATES}, "total": len(states)}
