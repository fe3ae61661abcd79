"""attempt.json as records. Called by the runner, which must trust no more of it than it checks here."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from tarmac.node.attempt import protocol, steps
from tarmac.node.attempt.steps import Step
from tarmac.node.files import untrusted
from tarmac.node.files.gitrules import GitRules


class Unreadable(Exception):
    """attempt.json is missing, broken, of another protocol, or says nothing of this node."""


class WorkerPart(NamedTuple):
    """One worker as it is to be started."""

    role: str
    replica: int
    worker: int
    argv: tuple[str, ...]
    env: dict[str, str]
    stop_on_failure: bool
    cpus: float = 0.0
    memory_bytes: int = 0

    @property
    def name(self) -> str:
        """ROLE.REPLICA.WORKER: the name of its log."""
        return f"{self.role}.{self.replica}.{self.worker}"


class MountPart(NamedTuple):
    """A literal path to make true; `source` is absolute, or below the node's files."""

    source: str
    target: str
    read_only: bool
    variables: tuple[str, ...]


class SecretPart(NamedTuple):
    """A secret that the attempt is given, without its value: the variables, the file, where it is seen."""

    name: str
    variables: dict[str, str]
    file: Optional[str]
    target: Optional[str]


class SyncPart(NamedTuple):
    """How artifacts are kept: by which command, how often, and what is placed into them at first."""

    command: tuple[str, ...]
    every_s: dict[str, float]
    inputs: tuple[str, ...]


class AttemptPart(NamedTuple):
    """What one node needs to know of its attempt."""

    attempt_id: str
    number: int
    token: str
    node: str
    rank: int
    nodes: tuple[str, ...]
    workers: tuple[WorkerPart, ...]
    notify: Optional[str]
    code: Optional[str]
    setup: tuple[Step, ...]
    own_packages: bool
    own_directories: bool
    environments: Optional[str]
    git: GitRules
    setup_env: dict[str, str]
    hooks: dict[str, tuple[tuple[str, ...], ...]]
    time_limit_s: Optional[float]
    ran_s: float
    log_limit_bytes: Optional[int]
    allotted_s: Optional[float]
    allots_setup: bool
    pause_signal: Optional[str]
    grace_s: float
    artifacts: dict[str, str]
    sdk: Optional[str]
    files: dict[str, str]
    mounts: tuple[MountPart, ...]
    sync: Optional[SyncPart]
    own_disk: bool
    artifact_state: Optional[str]
    secrets: tuple[SecretPart, ...]

    @classmethod
    def unreadable(cls, node: str) -> AttemptPart:
        """The part of a node whose attempt.json says nothing: there is only a failure to report."""
        return cls(
            attempt_id="",
            number=0,
            token="",
            node=node,
            rank=0,
            nodes=(node,),
            workers=(),
            notify=None,
            code=None,
            setup=(),
            own_packages=False,
            own_directories=False,
            environments=None,
            git=GitRules(),
            setup_env={},
            hooks={},
            time_limit_s=None,
            ran_s=0.0,
            log_limit_bytes=None,
            allotted_s=None,
            allots_setup=False,
            pause_signal=None,
            grace_s=0.0,
            artifacts={},
            sdk=None,
            files={},
            mounts=(),
            sync=None,
            own_disk=False,
            artifact_state=None,
            secrets=(),
        )


def read_attempt(path: str, node: str) -> AttemptPart:
    """This node's part of the attempt described at `path`; raises Unreadable."""
    try:
        told = untrusted.read_object(path, untrusted.DOCUMENT_BYTES)
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from error
    if not isinstance(told, dict) or told.get("protocol") != protocol.PROTOCOL:
        raise Unreadable(f"{path} is not of protocol {protocol.PROTOCOL}, the one this runner speaks")
    try:
        return _part(told, node)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"{path} lacks something: {type(error).__name__}: {error}") from error


def _part(told: dict[str, Any], node: str) -> AttemptPart:
    mine = next((item for item in told["nodes"] if item["node"] == node), None)
    if mine is None:
        raise ValueError(f"there is no node {node!r} in it")
    return AttemptPart(
        attempt_id=told["attempt_id"],
        number=int(told["number"]),
        token=told["token"],
        node=node,
        rank=int(mine["rank"]),
        nodes=tuple(item["node"] for item in told["nodes"]),
        workers=tuple(_worker(item) for item in mine["workers"]),
        notify=told.get("notify"),
        code=told.get("code"),
        setup=tuple(steps.read_step(step) for step in told.get("setup") or ()),
        own_packages=bool(told.get("own_packages")),
        own_directories=bool(told.get("own_directories")),
        environments=told.get("environments"),
        git=steps.read_rules(told.get("git")),
        setup_env=dict(told.get("setup_env") or {}),
        hooks={
            name: tuple(tuple(argv) for argv in commands)
            for name, commands in (told.get("hooks") or {}).items()
        },
        time_limit_s=told.get("time_limit_s"),
        ran_s=float(told.get("ran_s") or 0.0),
        log_limit_bytes=told.get("log_limit_bytes"),
        allotted_s=told.get("allotted_s"),
        allots_setup=bool(told.get("allots_setup")),
        pause_signal=told.get("pause_signal"),
        grace_s=float(told["grace_s"]),
        artifacts={**(told.get("artifacts") or {}), **(mine.get("artifacts") or {})},
        sdk=told.get("sdk"),
        files=dict(mine.get("files") or {}),
        mounts=tuple(_mount(item) for item in mine.get("mounts") or ()),
        sync=_sync(told["sync"]) if told.get("sync") else None,
        own_disk=bool(mine.get("own_disk")),
        artifact_state=mine.get("artifact_state"),
        secrets=tuple(_secret(item) for item in told.get("secrets") or ()),
    )


def _sync(told: dict[str, Any]) -> SyncPart:
    return SyncPart(
        command=tuple(told["command"]),
        every_s={kind: float(every) for kind, every in told["every_s"].items()},
        inputs=tuple(told.get("inputs") or ()),
    )


def _secret(told: dict[str, Any]) -> SecretPart:
    return SecretPart(
        name=told["name"],
        variables=dict(told["variables"]),
        file=told.get("file"),
        target=told.get("target"),
    )


def _mount(told: dict[str, Any]) -> MountPart:
    return MountPart(
        source=told["source"],
        target=told["target"],
        read_only=bool(told.get("read_only")),
        variables=tuple(told.get("variables") or ()),
    )


def _worker(told: dict[str, Any]) -> WorkerPart:
    return WorkerPart(
        role=told["role"],
        replica=int(told["replica"]),
        worker=int(told["index"]),
        argv=tuple(told["argv"]),
        env=dict(told["env"]),
        stop_on_failure=bool(told["stop_on_failure"]),
        cpus=float(told.get("cpus") or 0),
        memory_bytes=int(told.get("memory_bytes") or 0),
    )
