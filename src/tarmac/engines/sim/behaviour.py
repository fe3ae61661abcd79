"""The knobs of the simulated engine: an attempt's behaviour, and interruptions of the control plane.

Tests and simulations give the engine a function from a launch to a `Behaviour`; the story of an attempt
(`story.py`) follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The behaviour of one attempt. The default works for a minute and exits 0.

    `duration_s` is the work of the whole run: with a `checkpoint_period_s`, an attempt continues from the
    last checkpoint of earlier ones, else it begins anew. `start_s` passes between submission and the first
    instruction; one that `hangs_at_start` never gets there. After a request to leave, it takes `leave_s`
    (never more than its grace), and all of its grace if it `ignores_requests`. Its first output comes
    `first_output_s` after the start. It exits with `exit_code` or by `exit_signal`; after `finished`, an exit
    0 is complete despite any request. Its node is lost `vanishes_after_s` after the start. From
    `unknown_from_s` after submission and for `unknown_for_s` the engine reports its state as unknown. A
    replica in `replicas_end_s`, by role and number, completes after that time, while the others continue. The
    attempt writes `output` to its first worker's log, its first node sends `notices` at once, and its first
    worker reports `reports` (whole lines of the SDK) once it has started.
    """

    duration_s: float = 60.0
    start_s: float = 0.0
    hangs_at_start: bool = False
    checkpoint_period_s: float | None = None
    first_output_s: float = 0.0
    leave_s: float = 0.0
    ignores_requests: bool = False
    exit_code: int = 0
    exit_signal: str | None = None
    finished: bool = False
    vanishes_after_s: float | None = None
    unknown_from_s: float = 0.0
    unknown_for_s: float = 0.0
    replicas_end_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    output: bytes = b""
    reports: bytes = b""
    notices: tuple[str, ...] = ()


class Moment(StrEnum):
    """Points at which a test may interrupt a call: before or after its effect in the world."""

    BEFORE_SUBMIT = "before_submit"
    AFTER_SUBMIT = "after_submit"
    BEFORE_REQUEST = "before_request"
    AFTER_REQUEST = "after_request"
    BEFORE_REAP = "before_reap"
    AFTER_REAP = "after_reap"
