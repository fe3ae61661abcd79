"""What users, projects and pools used in a range of time. Called by `service`."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.control.state.control_state import ControlState
from tarmac.model.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedSlots:
    """What attempts of a user, for a project and in a pool, used; `runs` and `attempts` count them."""

    user: str
    project: str
    cluster: str
    pool: str
    runs: int
    attempts: int
    slot_s: float


def used_slots(control: ControlState, since: float | None, until: float | None) -> list[UsedSlots]:
    """The usage from `since` until `until` (now, at the latest), by user, project, cluster and pool.

    From the attempts that are kept: a run that was removed counts no more. Raises InvalidInput where the
    range is empty.
    """
    now = control.clock.now()
    begin, end = since or 0.0, min(now, until) if until is not None else now
    if begin >= end:
        raise InvalidInput("the range of time is empty: `since` must lie before `until`, and before now")
    slot_s: dict[tuple[str, str, str, str], float] = {}
    attempts: dict[tuple[str, str, str, str], int] = {}
    runs: dict[tuple[str, str, str, str], set[str]] = {}
    for span in control.store.attempt_spans(begin, end):
        key = span.user, span.project, span.cluster, span.pool
        slot_s[key] = slot_s.get(key, 0.0) + span.slot_s(begin, end)
        attempts[key] = attempts.get(key, 0) + 1
        runs.setdefault(key, set()).add(span.run_id)
    return [
        UsedSlots(
            user=key[0],
            project=key[1],
            cluster=key[2],
            pool=key[3],
            runs=len(runs[key]),
            attempts=attempts[key],
            slot_s=slot_s[key],
        )
        for key in sorted(slot_s)
    ]
