"""What an estimate says, as data: when a queued run is likely to start, and what that is based on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EstimateBasis(StrEnum):
    """How the ends that an estimate depends on are known."""

    TIME_LIMITS = "time limits"  # everything it waits for ends by a time limit or a turn
    HISTORY = "history"  # some of it by how long runs like it took before
    UNKNOWN = "unknown"  # something that it waits for has neither a limit nor a history
    CLUSTER = "cluster"  # the cluster has a queue of its own, and says so
    TOO_FAR = "too far"  # too much happens before: it was not looked so far ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """When a queued run starts, if nothing else is submitted.

    `start_at` is the likely moment; `latest_at` the one by which it starts if every time limit is used up
    (None: something that it waits for has no limit). Both are None where `basis` says that nothing is known.
    """

    run_id: str
    start_at: float | None
    latest_at: float | None
    basis: EstimateBasis
