"""Runs described in Python: `tarmac.Run(...)` is a run file in another form. Submitted by `Client.launch`.

The result is the native run file itself (as JSON, which YAML readers accept), so that the server checks it
like a file, and `tarmac show` prints it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Command = str | Sequence[str]
"""A bash script, or an argv that is executed without a shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources of one process on its node. `memory` as in a run file, such as "16GiB"."""

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
class Replicas:
    """The fields of a role that a run with a single one has itself."""

    command: Command | None = None
    replicas: int | None = None
    slots: int | None = None
    nodes: int | None = None
    uneven: bool | None = None
    resources: Resources | None = None
    on_failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Role(Replicas):
    """A group of same-command replicas: fixed `replicas`, or `slots` in all."""

    processes: Sequence[Process] | None = None


@dataclass(frozen=True, slots=True)
class LocalDir:
    """Code from a directory (or archive) of this machine, copied when the run is submitted.

    `exclude` are patterns of excluded files, `ignore_file` is a file with such patterns at its top level;
    `whole` disables all other exclusions. `limit` is a size such as "95MiB".
    """

    path: str = "."
    exclude: Sequence[str] = ()
    ignore_file: str | None = None
    whole: bool = False
    limit: str | None = None


@dataclass(frozen=True, slots=True)
class GitRepo:
    """Code from a git repository, over HTTPS or SSH; `commit` (long or short) overrides `branch`."""

    url: str
    branch: str | None = None
    commit: str | None = None
    submodules: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Replicas):
    """A run to launch: the fields of a run file. Give `command` for a single role, else `roles`."""

    name: str | None = None
    roles: Mapping[str, Role] | None = None
    code: LocalDir | GitRepo | str | None = None
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
    after: str | Sequence[str] | None = None
    array: str | None = None
    retries: int | None = None
    time_limit: str | None = None
    stop_on_nan: bool | None = None
    pause: Mapping[str, Any] | None = None
    setup: Sequence[Command] | None = None
    hooks: Mapping[str, Command | Sequence[Command]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    venv: str | None = None
    image: str | None = None
    modules: Sequence[str] | None = None
    binds: Sequence[Mapping[str, Any]] | None = None
    datasets: Sequence[str] | None = None
    input_artifacts: Sequence[str] | None = None
    artifacts: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] | None = None
    slurm: Mapping[str, str | bool | None] = field(default_factory=dict)
    unique_name: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def run_file(run: Run) -> str:
    """The text of the equivalent native run file."""
    content = _mapping(run)
    if run.code is not None:
        content["code"] = _code(run.code)
    environment = {name: content.pop(name) for name in ("venv", "image", "modules") if name in content}
    if environment:
        content["environment"] = environment
    return json_text(content)


def json_text(content: Any) -> str:
    """JSON that is also YAML: characters that YAML refuses, such as control characters, are escaped."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return _UNFIT.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


_UNFIT = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def _code(code: LocalDir | GitRepo | str) -> str | dict[str, Any]:
    """The value of the field `code`."""
    if isinstance(code, str):
        return code
    fields = {name: value for name, value in _mapping(code).items() if value not in ((), [], False)}
    if isinstance(code, GitRepo):
        return {"git": fields.pop("url"), **fields}
    return code.path if set(fields) == {"path"} else fields


def _mapping(record: Any) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    values = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return {name: _value(value) for name, value in values.items() if value is not None and value != {}}


def _value(value: Any) -> Any:
    if isinstance(value, (Role, Process, Resources, LocalDir)):
        return _mapping(value)
    if isinstance(value, Mapping):
        return {str(key): _value(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_value(item) for item in value]
    return value
