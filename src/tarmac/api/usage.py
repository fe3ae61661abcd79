"""What was used in a range of time, and what runs use now. Made in `server.routes.usage`, and of attempts."""

from __future__ import annotations

from typing_extensions import TypedDict


class UsedSlots(TypedDict):
    """What attempts of a user, for a project and in a pool, used in the range of time that was asked for."""

    user: str
    project: str
    cluster: str
    pool: str
    runs: int
    attempts: int
    slot_s: float


class GpuUtilization(TypedDict):
    """A GPU of the run: the share of time in which something ran on it, and its memory."""

    index: int
    busy_percent: int
    used_bytes: int
    total_bytes: int


class NodeUtilization(TypedDict):
    """What the workers of a run use on a node; `cpus`: so many processors are busy with them."""

    node: str
    at: float
    memory_bytes: int
    cpus: float
    gpus: list[GpuUtilization]


class RunUtilization(TypedDict):
    """What the workers of a run use now, on the nodes that have measured that."""

    run: str
    nodes: list[NodeUtilization]
