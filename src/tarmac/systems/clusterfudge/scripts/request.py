"""The request types of a launch script: positional order and defaults of the Clusterfudge client.

`Client` turns them into JSON, which the server reads (`systems.clusterfudge`). Runs on Python 3.9: see the
package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union


@dataclass
class ClusterfudgeConfig:
    """The file of `fudge login`, with the methods to read and write it. tarmac does not use it."""

    token: str

    def to_dict(self, encode_json: bool = False) -> dict[str, str]:  # noqa: ARG002 as there
        """The fields by name."""
        return {"token": self.token}

    def to_json(self, **options: Any) -> str:
        """The fields as JSON; `options` are those of `json.dumps`."""
        return json.dumps(self.to_dict(), **options)

    @classmethod
    def from_dict(cls, kvs: Mapping[str, Any], *, infer_missing: bool = False) -> ClusterfudgeConfig:
        """Create it from the fields by name; raises KeyError for a missing one, unless `infer_missing`."""
        token = kvs.get("token") if infer_missing else kvs["token"]
        return cls(token=token)  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, s: str | bytes, *, infer_missing: bool = False, **options: Any) -> ClusterfudgeConfig:
        """Create it from JSON; `options` are those of `json.loads`."""
        return cls.from_dict(json.loads(s, **options), infer_missing=infer_missing)


@dataclass
class Resources:
    """The resources of one process on its node: accelerators by kind, processors, memory in MB."""

    cpus: int = 0
    memory_mb: int = 0
    a100_40gb: int = 0
    a100_80gb: int = 0
    h100: int = 0
    rtx3080: int = 0
    rtx3090: int = 0
    rtx6000: int = 0
    t4: int = 0
    l4: int = 0
    v100: int = 0
    p100: int = 0
    p4: int = 0
    rtx4090: int = 0
    rtx4080: int = 0
    rtx3070: int = 0
    rtx3060: int = 0
    rtx4070: int = 0
    rtx4060: int = 0
    rtx3050: int = 0
    gtx1050: int = 0
    h200: int = 0


@dataclass
class LocalDir:
    """The code is the whole project around the current directory."""


@dataclass
class GitRepo:
    """The code is cloned from a repository; a commit, long or short, overrides the branch."""

    repo: str
    branch: str
    commit: str | None = None


@dataclass
class OnReplicaFailureOtherReplicasContinue:
    """A failing replica does not affect the others."""


@dataclass
class OnReplicaFailureOtherReplicasAreStopped:
    """A failing replica ends the others."""


Deployment = Union[LocalDir, GitRepo]
FailureBehaviour = Union[OnReplicaFailureOtherReplicasContinue, OnReplicaFailureOtherReplicasAreStopped]


@dataclass
class Process:
    """One process on a node: a program and its arguments, without a shell."""

    command: Sequence[str]
    resource_requirements: Resources | None = None


@dataclass
class Job:
    """Processes that belong together on one node, with a number of copies.

    `deployment` was here in the first versions; now the request has it.
    """

    short_name: str
    replicas: int
    processes: Sequence[Process]
    replica_failure_behaviour: FailureBehaviour | None = None
    deployment: Deployment | None = None


@dataclass
class QueueingBehaviour:
    """Whether a launch waits for capacity; otherwise it fails at once."""

    enqueue_if_cluster_busy: bool | None = True


@dataclass
class CreateLaunchRequest:
    """A launch: its jobs, the code they need and the nodes they may use."""

    jobs: Sequence[Job]
    name: str | None = None
    description: str | None = None
    deployment: Deployment | None = None
    cluster: str | None = None
    shard: str | None = None
    hostnames: Sequence[str] | None = None
    queueing_behaviour: QueueingBehaviour | None = None


@dataclass
class ProxiedPath:
    """Part of a sandbox, which tarmac does not have."""

    incoming_path: str
    sandbox_port: int


@dataclass
class SandboxletConfig:
    """Part of a sandbox, which tarmac does not have."""

    proxied_paths: list[ProxiedPath] | None = None
    screen_width_height: tuple[int, int] | None = None


@dataclass
class SandboxParams:
    """The parameters of a sandbox, which tarmac does not have."""

    sidecar_file_paths: list[str] | None = None
    image_tag: str | None = None
    display_name: str | None = None
    sandboxlet_config: SandboxletConfig | None = None
