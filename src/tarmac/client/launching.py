"""Runs described in Python: `tarmac.Run(...)` is a run file in another form. Submitted by `Client.launch`.

What is built is the native run file itself (as JSON, which YAML readers take), so that the server checks it
as it checks a file, and `tarmac show` gives it back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Command = str | Sequence[str]
"""A bash script, or an argv that is executed without a shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one process needs on its node. `memory` as in a run file, such as "16GiB"."""

    slots: int | None = None
    type: str | None = None
    cpus: float | None = None
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """One supervised process of a replica."""

    command: Command
    resources: Resources | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A group of same-command replicas: fixed `replicas`, or `slots` in all."""

    command: Command | None = None
    processes: Sequence[Process] | None = None
    replicas: int | None = None
    slots: int | None = None
    uneven: bool | None = None
    resources: Resources | None = None
    on_failure: str | None = None


@dataclass(frozen=True, slots=True)
class LocalDir:
    """Code from a directory of this machine, copied when the run is submitted."""

    path: str = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run to launch: the fields of a run file. Give `command` for a single role, else `roles`."""

    name: str | None = None
    command: Command | None = None
    slots: int | None = None
    uneven: bool | None = None
    replicas: int | None = None
    resources: Resources | None = None
    roles: Mapping[str, Role] | None = None
    code: LocalDir | str | None = None
    project: str | None = None
    cluster: str | None = None
    pool: str | None = None
    shard: str | None = None
    hostnames: Sequence[str] | None = None
    exclude_hostnames: Sequence[str] | None = None
    rehearse: str | None = None
    mode: str | None = None
    max_rapid_cycles: int | None = None
    priority: int | None = None
    weight: float | None = None
    queueing: str | None = None
    retries: int | None = None
    time_limit: str | None = None
    pause: Mapping[str, Any] | None = None
    setup: Sequence[Command] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    venv: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    on_failure: str | None = None


def run_file(run: Run) -> str:
    """The text of the native run file that says the same."""
    content = _mapping(run)
    if isinstance(run.code, LocalDir):
        content["code"] = run.code.path
    if run.venv is not None:
        content["environment"] = {"venv": content.pop("venv")}
    return json.dumps(content, indent=2)


def _mapping(record: Any) -> dict[str, Any]:
    """The fields that say something."""
    given = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return {name: _value(value) for name, value in given.items() if value is not None and value != {}}


def _value(value: Any) -> Any:
    if isinstance(value, (Role, Process, Resources, LocalDir)):
        return _mapping(value)
    if isinstance(value, Mapping):
        return {str(key): _value(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_value(item) for item in value]
    return value
