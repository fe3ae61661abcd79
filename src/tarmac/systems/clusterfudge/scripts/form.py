"""Converts a valid request to JSON; raises the Clusterfudge client's documented errors, word for word.

Also finds the project of LocalDir, and checks its size. Called by `Client.create_launch`. The server checks
everything else. Runs on Python 3.9: see the package.
"""

from __future__ import annotations

import operator
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from .errors import RequestError
from .request import (
    CreateLaunchRequest,
    Deployment,
    GitRepo,
    Job,
    LocalDir,
    OnReplicaFailureOtherReplicasAreStopped,
    OnReplicaFailureOtherReplicasContinue,
    Process,
    Resources,
)

KIND = "CreateLaunchRequest"
"""The value by which the server recognises the form: see `systems.clusterfudge`."""

LONGEST_SCRIPT = 100_000
"""Maximum length of a recorded launch script; for a longer one only the name is recorded."""

_BEGUN_IN = os.getcwd()

_BEHAVIOURS = {
    OnReplicaFailureOtherReplicasContinue: "continue",
    OnReplicaFailureOtherReplicasAreStopped: "stop",
}


def request_form(request: CreateLaunchRequest, *, script: str) -> dict[str, Any]:
    """The JSON of a request made by the file `script`; raises ValueError if it is invalid."""
    refuse_incomplete(request)
    form: dict[str, Any] = {"clusterfudge": KIND}
    plain = {
        "name": request.name,
        "description": request.description,
        "cluster": request.cluster,
        "shard": request.shard,
        "hostnames": _texts(request.hostnames, "hostnames"),
    }
    form.update({name: value for name, value in plain.items() if value not in (None, "", [])})
    form["jobs"] = [_job(job) for job in request.jobs]
    deployment = _deployment(request)
    if isinstance(deployment, LocalDir):
        root = project_root()
        refuse_if_too_large(root)
        form["deployment"] = {"local_dir": root}
    elif isinstance(deployment, GitRepo):
        named = {"repo": deployment.repo, "branch": deployment.branch, "commit": deployment.commit}
        form["deployment"] = {"git_repo": {key: value for key, value in named.items() if value is not None}}
    if request.queueing_behaviour is not None:
        enqueue = bool(request.queueing_behaviour.enqueue_if_cluster_busy)
        form["queueing_behaviour"] = {"enqueue_if_cluster_busy": enqueue}
    form.update(_script(script))
    return form


def refuse_incomplete(request: CreateLaunchRequest) -> None:
    """Raise the errors of the Clusterfudge client, in its words and order."""
    if request.deployment is not None and not isinstance(request.deployment, (LocalDir, GitRepo)):
        raise RequestError("deployment must be a LocalDir or GitRepo")
    if not request.jobs:
        raise RequestError("jobs must be non-empty")
    for index, job in enumerate(request.jobs):
        if not job.short_name:
            raise RequestError(f"short_name must be non-empty for job {index}")
        if not job.replicas:
            raise RequestError(f"replicas must be non-empty for job {job.short_name}")
        if not job.processes:
            raise RequestError(f"processes must be non-empty for job {job.short_name}")
        for process in job.processes:
            if not process.command:
                raise RequestError(f"command must be non-empty for job {job.short_name}")


def _deployment(request: CreateLaunchRequest) -> Deployment | None:
    """The request's deployment, else the one that its jobs agree on."""
    if request.deployment is not None:
        return request.deployment
    named = [job.deployment for job in request.jobs if job.deployment is not None]
    if any(not isinstance(deployment, (LocalDir, GitRepo)) for deployment in named):
        raise RequestError("deployment must be a LocalDir or GitRepo")
    if any(deployment != named[0] for deployment in named[1:]):
        raise RequestError("the jobs of a launch have one deployment", "give it to the CreateLaunchRequest")
    return named[0] if named else None


def _job(job: Job) -> dict[str, Any]:
    form: dict[str, Any] = {
        "short_name": job.short_name,
        "replicas": _count(job.replicas, f"replicas of job {job.short_name}"),
        "processes": [_process(process, job) for process in job.processes],
    }
    if job.replica_failure_behaviour is not None:
        behaviour = _BEHAVIOURS.get(type(job.replica_failure_behaviour))
        if behaviour is None:
            raise RequestError(f"Unknown replica failure behaviour: {job.replica_failure_behaviour}")
        form["replica_failure_behaviour"] = behaviour
    return form


def _process(process: Process, job: Job) -> dict[str, Any]:
    form: dict[str, Any] = {"command": _texts(process.command, f"command of job {job.short_name}")}
    if process.resource_requirements is not None:
        form["resource_requirements"] = dict(_amounts(process.resource_requirements, job))
    return form


def _amounts(resources: Resources, job: Job) -> Iterator[tuple[str, int]]:
    if not isinstance(resources, Resources):
        raise RequestError(
            f"resource_requirements of job {job.short_name} must be Resources, not {resources!r}",
            "such as Resources(h100=2)",
        )
    for field in fields(resources):
        amount = getattr(resources, field.name)
        if amount is not None and (number := _count(amount, f"{field.name} of job {job.short_name}")):
            yield field.name, number


def _count(value: Any, what: str) -> int:
    """A whole number, of any integer type of Python or numpy."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise RequestError(f"{what} must be a whole number, not {value!r}") from None


def _texts(value: Sequence[str] | None, what: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, (str, bytes)):
        raise RequestError(
            f"{what} must be a list, not the text {value!r}", 'such as ["python3", "train.py", "--lr", "0.1"]'
        )
    return [_text(item, what) for item in value]


def _text(item: Any, what: str) -> str:
    if isinstance(item, os.PathLike):
        item = os.fspath(item)
    if not isinstance(item, str):
        raise RequestError(f"every member of {what} must be a text, not {item!r}", f"write {str(item)!r}")
    return item


def _script(script: str) -> dict[str, str]:
    """The script that made the request, for the record; the process may have changed its directory."""
    script = os.path.join(_BEGUN_IN, script)
    if not os.path.isfile(script):
        return {}
    form = {"launch_script": os.path.basename(script)}
    try:
        body = Path(script).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return form
    return {**form, "launch_script_body": body} if len(body) <= LONGEST_SCRIPT else form


MARKS = (".git", "pyproject.toml", "requirements.txt")
"""Names at the top of a project."""

LIMIT_BYTES = 50 * 1024 * 1024
"""Maximum size of a packed project."""

_PIECE_BYTES = 1 << 20


def project_root() -> str:
    """The nearest directory, from the current one upwards, that is the top of a project; prints its path."""
    here = Path.cwd()
    for directory in (here, *here.parents):
        if directory == directory.parent:  # the root of the disk is no project
            break
        for mark in MARKS:
            if (directory / mark).exists():
                sys.stdout.write(f"Found {directory / mark}\n")
                return str(directory)
    raise RequestError("Could not find a project root", f"its top has one of {', '.join(MARKS)}")


def refuse_if_too_large(root: str, *, limit_bytes: int = LIMIT_BYTES) -> None:
    """Raise an error if the project exceeds the limit, packed as Clusterfudge packed it."""
    if sum(size_bytes for _, size_bytes in _files(root)) <= limit_bytes:
        return
    packed_bytes = sum(_packed_bytes(path) for path, _ in _files(root))
    if packed_bytes > limit_bytes:
        raise RequestError(
            f"Launch specifies LocalDir deployment but project directory {root} is too large "
            f"({packed_bytes / (1024 * 1024):.1f}MB). Maximum size is 50MB. "
            "Ensure you have no large files (e.g. .venv, model weights, etc.) in your working directory. "
            "You can also use a Git repository instead of a local directory.",
            f"the largest: {_largest(root)}",
        )


def _files(root: str) -> Iterator[tuple[str, int]]:
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            try:
                yield path, os.stat(path).st_size
            except OSError:  # a dangling link, or a removed file
                continue


def _packed_bytes(path: str) -> int:
    packer = zlib.compressobj()
    size_bytes = 0
    try:
        with Path(path).open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                size_bytes += len(packer.compress(piece))
    except OSError:
        return size_bytes
    return size_bytes + len(packer.flush())


def _largest(root: str) -> str:
    largest = sorted(_files(root), key=lambda file: -file[1])[:3]
    sizes = (f"{os.path.relpath(path, root)} ({size / (1024 * 1024):.1f}MB)" for path, size in largest)
    return ", ".join(sizes)
