"""The modes of runs. Apart from `spec`, because a client shows a mode without knowing what a spec is."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """How a run shares its pool over time."""

    BATCH = "batch"
    CYCLE = "cycle"
    INTERRUPTIBLE = "interruptible"
    BURST = "burst"
