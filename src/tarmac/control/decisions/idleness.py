"""Decides whether an attempt uses its slots, and what follows if not. Pure; called by `reconcilers.idle`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tarmac.model.cluster import PoolRules
from tarmac.model.resources import NodeUtilization

IDLE = "idle"
"""The reason of a pause, in the history of a run."""

OLD_S = 120.0
"""The age from which a measurement proves nothing; nodes measure every 5 s."""

LEAST_CPUS = 0.02
"""The busy processors from which slots without a measured GPU are in use."""


@dataclass(slots=True, kw_only=True)
class Idleness:
    """The time since which an attempt uses none of its slots, and whether its owner was notified."""

    since: float
    is_reported: bool = False


class IdleAction(Enum):
    """A consequence of idle slots."""

    REPORT = "report"
    PAUSE = "pause"


def uses_slots(measured: Sequence[NodeUtilization], now: float) -> bool:
    """Whether an attempt uses slots on any of its nodes; without a recent measurement it counts as such."""
    return not measured or any(_is_busy(each, now) for each in measured)


def _is_busy(node: NodeUtilization, now: float) -> bool:
    """A node without a process of the attempt is idle, whatever else uses its GPUs."""
    if now - node.at > OLD_S:
        return True
    used = any(each.busy_percent for each in node.gpus) if node.gpus else node.cpus >= LEAST_CPUS
    return used and node.memory_bytes > 0


def action(idle: Idleness, rules: PoolRules, now: float) -> IdleAction | None:
    """The consequence that the pool's rules require now."""
    idle_s = now - idle.since
    if rules.idle_pause_s is not None and idle_s >= rules.idle_pause_s:
        return IdleAction.PAUSE
    is_due = rules.idle_report_s is not None and idle_s >= rules.idle_report_s
    return IdleAction.REPORT if is_due and not idle.is_reported else None
