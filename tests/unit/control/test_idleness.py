"""When an attempt uses its slots, and what the rules of a pool require if it does not."""

from __future__ import annotations

import pytest

from tarmac.control.decisions.idleness import OLD_S, IdleAction, Idleness, action, uses_slots
from tarmac.model.cluster import PoolRules
from tarmac.model.resources import GpuUtilization, NodeUtilization

NOW = 10_000.0


def node(*busy: int, cpus: float = 0.0, memory_bytes: int = 1 << 30, at: float = NOW) -> NodeUtilization:
    gpus = tuple(
        GpuUtilization(index=index, busy_percent=percent, used_bytes=0, total_bytes=1 << 36)
        for index, percent in enumerate(busy)
    )
    return NodeUtilization(node="n1", at=at, memory_bytes=memory_bytes, cpus=cpus, gpus=gpus)


@pytest.mark.parametrize(
    ("measured", "used"),
    [
        ([], True),  # no meter: nothing is known
        ([node(0, 0, cpus=4.0)], False),  # its processors prepare data, its GPUs do nothing
        ([node(0, 1)], True),
        ([node(0), node(0)], False),
        ([node(0), node(90)], True),
        ([node(cpus=0.0)], False),  # slots without a measured GPU
        ([node(cpus=0.5)], True),
        ([node(90, memory_bytes=0)], False),  # no process of its own: another one uses the GPU
        ([node(0, at=NOW - OLD_S - 1)], True),  # a silent node proves nothing
    ],
)
def test_slots_are_used_if_any_node_uses_them(measured: list[NodeUtilization], used: bool) -> None:
    assert uses_slots(measured, NOW) is used


@pytest.mark.parametrize(
    ("idle_s", "is_reported", "required"),
    [
        (0.0, False, None),
        (1799.0, False, None),
        (1800.0, False, IdleAction.REPORT),
        (1900.0, True, None),
        (7200.0, True, IdleAction.PAUSE),
        (7200.0, False, IdleAction.PAUSE),
    ],
)
def test_a_run_is_reported_once_and_paused_later(
    idle_s: float, is_reported: bool, required: IdleAction | None
) -> None:
    rules = PoolRules(idle_report_s=1800.0, idle_pause_s=7200.0)
    assert action(Idleness(since=NOW - idle_s, is_reported=is_reported), rules, NOW) is required


def test_without_rules_nothing_follows() -> None:
    assert action(Idleness(since=0.0), PoolRules(), NOW) is None
    assert action(Idleness(since=0.0, is_reported=True), PoolRules(idle_report_s=60.0), NOW) is None
