"""Whether and when a failed or lost run is retried. Pure; called by `apply_observation`.

The pauses between tries grow from seconds to minutes. A variation keeps runs that failed together from
returning together; it follows from the attempt's id, so that a repeated decision is the same. A long attempt
resets the pauses.

An identical end is not retried: the same exit with the same last lines, twice in a row within seconds of the
start.
"""

from __future__ import annotations

import hashlib
import re

from tarmac.model.log_policy import LogAction, LogMatch
from tarmac.model.mode import Mode
from tarmac.model.run import Attempt, CauseCode, Outcome, Retry, Run

FIRST_S = 2.0
LONGEST_S = 300.0
JITTER = 0.25
"""The relative variation of a pause, in both directions."""

LONG_S = 600.0
"""An attempt of this duration was no failed start: the next pause is the first again."""

QUICK_S = 10.0
"""An end within this time of the start is compared with the previous one."""

MAX_FAULTS = 3
"""The number of attempts that the platform may lose before the run is given up."""

_CHANGING = re.compile(r"0x[0-9a-fA-F]+|\d+")
"""Text that varies between otherwise equal lines: addresses, times, process ids."""

_NO_RETRY = frozenset({CauseCode.TIME_LIMIT, CauseCode.UNSUPPORTED})
"""Causes that every retry would meet again."""


def may_retry(run: Run, attempt: Attempt) -> bool:
    """Whether a run whose attempt failed has a retry left, and a retry may end differently."""
    cause = attempt.cause
    if run.failures >= run.spec.retries or run.spec.mode is Mode.CYCLE or _final_match(attempt) is not None:
        return False
    return (cause is None or cause.code not in _NO_RETRY) and not repeats(run, attempt)


def repeats(run: Run, attempt: Attempt) -> bool:
    """Whether an attempt failed as the previous one did, both within seconds of their start."""
    end = _end(attempt)
    return end is not None and run.retry is not None and run.retry.end == end


def next_try(run: Run, attempt: Attempt, now: float) -> Retry:
    """The time at which the run may start again after this failed or lost attempt."""
    tries = 1 if run.retry is None or _ran_s(attempt) >= LONG_S else run.retry.tries + 1
    end = _end(attempt) if attempt.outcome is Outcome.FAILED else None
    return Retry(at=now + pause_s(tries, attempt.id), tries=tries, end=end)


def pause_s(tries: int, attempt_id: str) -> float:
    """The pause after this number of ends in a row, the last one of this attempt."""
    usual_s = min(LONGEST_S, FIRST_S * 2.0 ** min(tries - 1, 30))
    number = int.from_bytes(hashlib.sha256(attempt_id.encode()).digest()[:4], "big")
    return usual_s * (1.0 - JITTER + 2.0 * JITTER * number / 2**32)


def excluded_after(run: Run, attempt: Attempt) -> tuple[str, ...]:
    """The nodes that the next attempts avoid, after this failed one."""
    matches = attempt.cause.log_matches if attempt.cause is not None else ()
    nodes = (match.node for match in matches if match.action is LogAction.EXCLUDE_NODE)
    return tuple(dict.fromkeys((*run.excluded_nodes, *nodes)))


def matched_text(attempt: Attempt) -> str:
    """The addition to the cause of an attempt whose logs match a policy."""
    matches = attempt.cause.log_matches if attempt.cause is not None else ()
    return "".join(
        f"; log policy {match.policy!r} found on {match.node}: {match.line.strip()}{_ACTS[match.action]}"
        for match in matches
    )


_ACTS = {
    None: "",
    LogAction.LAST_TRY: " (no retry)",
    LogAction.EXCLUDE_NODE: " (the run keeps away from this node)",
}


def last_try_text(run: Run, attempt: Attempt) -> str:
    """The addition to the cause of a run that is not retried although it has retries left."""
    left = run.spec.retries - run.failures
    if left <= 0 or run.spec.mode is Mode.CYCLE:
        return ""
    retries = "1 retry is" if left == 1 else f"{left} retries are"
    if (match := _final_match(attempt)) is not None:
        return f"; not tried again, by log policy {match.policy!r} ({retries} left)"
    if not repeats(run, attempt):
        return ""
    return (
        f"; it ended alike twice in a row, within {QUICK_S:g} s of starting: not tried again ({retries} left)"
    )


def _final_match(attempt: Attempt) -> LogMatch | None:
    """The match of a log policy that forbids a retry."""
    matches = attempt.cause.log_matches if attempt.cause is not None else ()
    return next((match for match in matches if match.action is LogAction.LAST_TRY), None)


def _end(attempt: Attempt) -> str | None:
    """A short description of an end soon after the start; None for a later end."""
    cause = attempt.cause
    if cause is None or _ran_s(attempt) >= QUICK_S:
        return None
    lines = [_CHANGING.sub("#", line) for line in cause.tail]
    text = repr((cause.code.value, cause.exit_code, cause.signal, cause.role, lines))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _ran_s(attempt: Attempt) -> float:
    """The duration of an ended attempt, from its start or, if it never started, from its grant."""
    assert attempt.ended_at is not None, "it has ended"
    began_at = attempt.created_at if attempt.started_at is None else attempt.started_at
    return max(0.0, attempt.ended_at - began_at)
