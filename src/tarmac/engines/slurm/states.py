"""The meaning of each state of a Slurm job: one row for each in its manual. Called by `observing`.

`squeue` prints one word for a job with several states (COMPLETING hides its end); an unknown word is a state
of a later version, and has no meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tarmac.model.run import CauseCode, Outcome


class Stage(StrEnum):
    """Whether a job waits, has nodes, or has ended. `unknown`: this word does not show that."""

    WAITS = "waits"
    ACTIVE = "active"
    OVER = "over"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a state. An end has the outcome of an attempt whose runners could not report it."""

    stage: Stage
    outcome: Outcome = Outcome.LOST
    code: CauseCode = CauseCode.PLATFORM_FAULT
    text: str = ""


_WAITS, _ACTIVE = Meaning(Stage.WAITS), Meaning(Stage.ACTIVE)
SILENT = Meaning(Stage.OVER, text="ended without a word from its runners")
UNKNOWN = Meaning(Stage.UNKNOWN)
GONE = Meaning(Stage.OVER, text="is gone from Slurm's queue, and nothing says how it ended")

MEANINGS = {
    "PENDING": _WAITS,
    "EXPEDITING": _WAITS,
    "REQUEUED": _WAITS,
    "REQUEUE_FED": _WAITS,
    "REQUEUE_HOLD": _WAITS,
    "SPECIAL_EXIT": _WAITS,
    "RESV_DEL_HOLD": _WAITS,
    "CONFIGURING": _ACTIVE,
    "POWER_UP_NODE": _ACTIVE,
    "RUNNING": _ACTIVE,
    "SUSPENDED": _ACTIVE,
    "STOPPED": _ACTIVE,
    "RESIZING": _ACTIVE,
    "SIGNALING": _ACTIVE,
    "COMPLETING": _ACTIVE,
    "STAGE_OUT": _ACTIVE,
    "UPDATE_DB": _ACTIVE,
    "COMPLETED": SILENT,
    "FAILED": SILENT,
    "TIMEOUT": Meaning(Stage.OVER, Outcome.PREEMPTED, CauseCode.WALL_TIME, "reached its wall time"),
    "DEADLINE": Meaning(
        Stage.OVER, Outcome.FAILED, CauseCode.TIME_LIMIT, "could not end before its deadline"
    ),
    "OUT_OF_MEMORY": Meaning(
        Stage.OVER, Outcome.FAILED, CauseCode.OUT_OF_MEMORY, "used more memory than its job has"
    ),
    "NODE_FAIL": Meaning(Stage.OVER, Outcome.LOST, CauseCode.NODE_LOST, "lost a node"),
    "BOOT_FAIL": Meaning(Stage.OVER, Outcome.LOST, CauseCode.NODE_LOST, "was given a node that did not boot"),
    "LAUNCH_FAILED": Meaning(Stage.OVER, text="could not be launched on its nodes"),
    "RECONFIG_FAIL": Meaning(Stage.OVER, text="was given a node that could not be configured"),
    "REVOKED": Meaning(Stage.OVER, text="was revoked: another cluster of the federation took it"),
    "PREEMPTED": Meaning(
        Stage.OVER, Outcome.PREEMPTED, CauseCode.PREEMPTION, "was preempted by Slurm for another job"
    ),
    "CANCELLED": Meaning(
        Stage.OVER, Outcome.STOPPED, CauseCode.USER_REQUEST, "was cancelled in Slurm, not through tarmac"
    ),
}


def meaning(state: str) -> Meaning:
    """The meaning of a state of `squeue` or `sacct`: `CANCELLED by 1000` and `CANCELLED+` are CANCELLED."""
    word = state.partition(" ")[0].rstrip("+")
    return MEANINGS.get(word, UNKNOWN)
