"""Answers to a launch script: a launch, and its details, with the field names of the Clusterfudge client.

Created by `Client` from JSON. Runs on Python 3.9: see the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class _Words:
    """An enumeration that maps numbers and names to one another; every name is also an attribute."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.__dict__.update(self.items())

    def __getattr__(self, name: str) -> int:  # for type checkers: the names are set above
        raise AttributeError(f"there is no status {name!r}; known: {', '.join(self._names)}")

    def Name(self, number: int) -> str:
        """The name of a number."""
        if number not in self.values():
            raise ValueError(f"there is no status {number!r}")
        return self._names[number]

    def Value(self, name: str) -> int:
        """The number of a name."""
        if name not in self._names:
            raise ValueError(f"there is no status {name!r}; known: {', '.join(self._names)}")
        return self._names.index(name)

    def keys(self) -> list[str]:
        """All names."""
        return list(self._names)

    def values(self) -> list[int]:
        """All numbers."""
        return list(range(len(self._names)))

    def items(self) -> list[tuple[str, int]]:
        """Names with their numbers."""
        return [(name, number) for number, name in enumerate(self._names)]


LaunchStatus = _Words(
    "LAUNCH_STATUS_UNKNOWN",
    "LAUNCH_STATUS_PENDING",
    "LAUNCH_STATUS_RUNNING",
    "LAUNCH_STATUS_COMPLETED",
    "LAUNCH_STATUS_FAILED",
    "LAUNCH_STATUS_UNMANAGED",
    "LAUNCH_STATUS_STOPPED",
    "LAUNCH_STATUS_QUEUED",
)
CommandState = _Words(
    "COMMAND_STATE_UNKNOWN",
    "COMMAND_STATE_UNACKNOWLEDGED",
    "COMMAND_STATE_ACKNOWLEDGED",
    "COMMAND_STATE_RUNNING",
    "COMMAND_STATE_SUCCEEDED",
    "COMMAND_STATE_FAILED",
    "COMMAND_STATE_KILLED",
)


@dataclass
class Launch:
    """A launch. `id` is a UUID, `launch_id` a number, `run_id` the id in tarmac."""

    id: str
    launch_id: int
    status: int
    run_id: str
    title: str = ""
    description: str = ""
    launched_by: str = ""
    submitted_at: float = 0.0
    jobs: list[Any] = field(default_factory=list)
    cluster: str = ""
    shard: str = ""
    hostnames: list[str] = field(default_factory=list)
    git_repo: str = ""
    git_branch: str = ""
    git_commit: str = ""
    launch_script_body: str = ""
    scheduling_log: list[str] = field(default_factory=list)


@dataclass
class LaunchedJob:
    """A job of a launch, as submitted."""

    short_name: str
    replicas: int
    processes: list[LaunchedProcess]


@dataclass
class LaunchedProcess:
    """A process of a job, as submitted."""

    command: list[str]


@dataclass
class Command:
    """One process of a launch on its node. `state` is a number of CommandState."""

    id: str
    hostname: str
    job_name: str
    replica: int
    process: int
    state: int
    exit_code: int | None = None
    pid: int | None = None
    cmd_line: list[str] = field(default_factory=list)
    execution_started_at: float | None = None
    execution_completed_at: float | None = None


@dataclass
class StatusCounts:
    """The number of replicas or processes in each state."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    stopped: int = 0
    total: int = 0


@dataclass
class JobStatusCounts:
    """The replicas of one job."""

    job_name: str
    replicas: StatusCounts


@dataclass
class LaunchStatusCounts:
    """All replicas by job, and all processes."""

    id: str
    jobs: list[JobStatusCounts]
    processes: StatusCounts


@dataclass
class Log:
    """A log line of a process. `source` is job.replica.process."""

    hostname: str
    source: str
    contents: str
    launch_id: str = ""


@dataclass
class LaunchDetails:
    """A launch with its processes, counts and logs. tarmac detects neither Xids nor important lines."""

    launch: Launch
    commands: list[Command]
    logs: list[Log]
    status_counts: LaunchStatusCounts
    xids: list[Any] = field(default_factory=list)
    important_logs: list[Any] = field(default_factory=list)


def launch_of(form: Mapping[str, Any]) -> Launch:
    """The launch in an answer."""
    parts = dict(form)
    parts["status"] = LaunchStatus.Value(parts["status"])
    parts["jobs"] = [
        LaunchedJob(
            short_name=job["short_name"],
            replicas=job["replicas"],
            processes=[LaunchedProcess(command) for command in job["commands"]],
        )
        for job in parts["jobs"]
    ]
    return Launch(**parts)


def details_of(form: Mapping[str, Any]) -> LaunchDetails:
    """The details in an answer."""
    launch = launch_of(form["launch"])
    commands = [Command(**{**item, "state": CommandState.Value(item["state"])}) for item in form["commands"]]
    jobs = [
        JobStatusCounts(job_name=name, replicas=StatusCounts(**counts))
        for name, counts in form["replicas"].items()
    ]
    return LaunchDetails(
        launch=launch,
        commands=commands,
        logs=[Log(**item, launch_id=launch.id) for item in form["logs"]],
        status_counts=LaunchStatusCounts(
            id=launch.id, jobs=jobs, processes=StatusCounts(**form["processes"])
        ),
    )
