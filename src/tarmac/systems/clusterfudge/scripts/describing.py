"""Runs as launches of scripts: their parts, counts and logs, as JSON. Called by `gateway` and `dry`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tarmac import api
from tarmac.client import Client
from tarmac.dialects.dialect import Report
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import WorkerStatus
from tarmac.model.run import CauseCode, Outcome
from tarmac.systems.clusterfudge.identity import launch_number, launch_uuid, process_uuid
from tarmac.systems.clusterfudge.statuses import status

LOG_LINES = 10_000
"""Maximum number of log lines per process in a launch's details."""


def launch_form(run: api.Run) -> dict[str, Any]:
    """A run as the launch that a script gets."""
    spec = run.spec
    facts = spec.get("conventions", {}).get("facts", {})
    names = facts.get("short_names", {})
    target = spec.get("target", {})
    code = spec.get("code") or {}
    return {
        "id": launch_uuid(run.id),
        "launch_id": launch_number(run.id),
        "run_id": run.id,
        "status": _word(run),
        "title": facts.get("title") or run.name,
        "description": facts.get("description") or "",
        "launched_by": run.user,
        "submitted_at": run.created_at,
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
        "git_commit": run.code_commit or code.get("commit") or "",
        "launch_script_body": _script(run),
    }


def _role_name(role: Mapping[str, Any]) -> str:
    return str(role.get("name", "main"))


def _script(run: api.Run) -> str:
    """The text of the script that created the launch, from the request."""
    try:
        return str(json.loads(run.source).get("launch_script_body", ""))
    except (ValueError, AttributeError):
        return ""


def _word(run: api.Run) -> str:
    outcome, cause = run.outcome, run.cause
    return status(
        Report(
            state=RunState(run.state),
            outcome=Outcome(outcome) if outcome else None,
            cause=CauseCode(cause.code) if cause else None,
        )
    )


def details_form(client: Client, run: api.Run) -> dict[str, Any]:
    launch = launch_form(run)
    attempts = client.attempts(run.id)
    workers = attempts[-1].workers if attempts else []
    named = {_role_name(role): form for role, form in zip(run.spec["roles"], launch["jobs"], strict=True)}
    states = {(worker.role, worker.replica, worker.index): _state(worker, attempts[-1]) for worker in workers}
    expected = [
        (role, replica, index)
        for role, form in named.items()
        for replica in range(form["replicas"])
        for index in range(len(form["commands"]))
    ]
    over = run.state == RunState.ENDED
    known = {key: states.get(key, "stopped" if over else "pending") for key in expected}
    return {
        "launch": launch,
        "commands": [
            _command(run, worker, named[worker.role], known) for worker in workers if worker.role in named
        ],
        "replicas": {form["short_name"]: _counts(_replicas(role, known)) for role, form in named.items()},
        "processes": _counts(list(known.values())),
        "logs": list(_logs(client, run, named)),
    }


_STATES = {
    "pending": "COMMAND_STATE_ACKNOWLEDGED",
    "running": "COMMAND_STATE_RUNNING",
    "succeeded": "COMMAND_STATE_SUCCEEDED",
    "failed": "COMMAND_STATE_FAILED",
    "stopped": "COMMAND_STATE_KILLED",
}

_States = Mapping[tuple[str, int, int], str]


def _state(worker: WorkerStatus, attempt: api.Attempt) -> str:
    if worker.exit_code is not None:
        return "succeeded" if worker.exit_code == 0 else "failed"
    if worker.signal is not None:
        cause = attempt.cause
        blamed = cause is not None and (cause.role, cause.replica, cause.worker) == (
            worker.role,
            worker.replica,
            worker.index,
        )
        return "failed" if blamed else "stopped"
    return "running" if worker.pid is not None else "pending"


def _command(run: api.Run, worker: WorkerStatus, form: Mapping[str, Any], states: _States) -> dict[str, Any]:
    key = (worker.role, worker.replica, worker.index)
    return {
        "id": process_uuid(run.id, *key),
        "hostname": worker.node,
        "job_name": form["short_name"],
        "replica": worker.replica,
        "process": worker.index,
        "state": _STATES[states.get(key, "pending")],
        "exit_code": worker.exit_code,
        "pid": worker.pid,
        "cmd_line": form["commands"][worker.index],
        "execution_started_at": worker.started_at,
        "execution_completed_at": worker.ended_at,
    }


def _replicas(role: str, states: _States) -> list[str]:
    """The state of each replica of a role: the worst of its processes'."""
    replicas: dict[int, set[str]] = {}
    for (name, replica, _), state in states.items():
        if name == role:
            replicas.setdefault(replica, set()).add(state)
    worst_first = ("failed", "running", "pending", "stopped", "succeeded")
    return [next(state for state in worst_first if state in seen) for seen in replicas.values()]


def _counts(states: list[str]) -> dict[str, int]:
    return {**{state: states.count(state) for state in _STATES}, "total": len(states)}


def _logs(client: Client, run: api.Run, named: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for chunk in client.logs(run.id, tail=LOG_LINES):
        form = named.get(chunk.role)
        role = form["short_name"] if form else chunk.role
        yield {
            "hostname": chunk.node,
            "source": f"{role}.{chunk.replica}.{chunk.worker}",
            "contents": chunk.text,
        }
