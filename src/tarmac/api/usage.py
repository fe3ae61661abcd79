"""Usage in a range of time, and present use. Made by `control.reports` and in `server.records.runs`."""

from __future__ import annotations

from msgspec import Struct
from typing_extensions import TypedDict


class UsedSlots(Struct, frozen=True, kw_only=True):
    """The usage of a user's attempts, for a project and in a pool, in the requested range of time.

    `runs` and `attempts` count them.
    """

    user: str
    project: str
    cluster: str
    pool: str
    runs: int
    attempts: int
    slot_s: float


class GpuUtilization(TypedDict):
    """A GPU of the run: the share of time in which it was busy, and its memory."""

    index: int
    busy_percent: int
    used_bytes: int
    total_bytes: int


class NodeUtilization(TypedDict):
    """The resource use of a run's workers on a node; `cpus` is the number of busy processors."""

    node: str
    at: float
    memory_bytes: int
    cpus: float
    gpus: list[GpuUtilization]


class RunUtilization(TypedDict):
    """The present resource use of a run's workers, on the nodes that have measured it."""

    run: str
    nodes: list[NodeUtilization]
