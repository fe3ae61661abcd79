"""The present resource use of an attempt's workers, as its nodes measure it. Made by `engines.attempts`."""

from __future__ import annotations

from msgspec import Struct


class GpuUtilization(Struct, frozen=True, kw_only=True):
    """One GPU: the share of time in which it was busy, and its memory."""

    index: int
    busy_percent: int
    used_bytes: int
    total_bytes: int


class NodeUtilization(Struct, frozen=True, kw_only=True):
    """The workers of an attempt on one node, measured at `at`.

    `memory_bytes` counts pages that processes share once; `cpus` is the average number of busy processors
    since the previous measurement; `gpus` are those of its slots that report their use.
    """

    node: str
    at: float
    memory_bytes: int
    cpus: float
    gpus: tuple[GpuUtilization, ...] = ()
