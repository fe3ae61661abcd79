"""The usage of users, projects and pools in a range of time, and the current usage of runs. Made by
`service`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tarmac.api.usage import UsedSlots
from tarmac.control.permissions import Action, check
from tarmac.control.state.control_state import ControlState
from tarmac.model.abilities import ReadsReports
from tarmac.model.actor import Actor
from tarmac.model.errors import InvalidInput
from tarmac.model.ports import Engine
from tarmac.model.utilization import NodeUtilization


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUtilization:
    """The current usage of a live run's workers, on each of its nodes with a measurement."""

    run: str
    nodes: tuple[NodeUtilization, ...]


class UsageReport:
    """The questions about usage."""

    def __init__(self, control: ControlState) -> None:
        self._control = control

    def used_slots(self, actor: Actor, since: float | None, until: float | None) -> list[UsedSlots]:
        """The usage from `since` until `until` (now, at the latest), by user, project, cluster and pool.

        A run counts after its removal too. Raises InvalidInput where the range is empty.
        """
        check(actor, Action.READ)
        now = self._control.clock.now()
        begin, end = since or 0.0, min(now, until) if until is not None else now
        if begin >= end:
            raise InvalidInput("the range of time is empty: `since` must lie before `until`, and before now")
        slot_s: dict[tuple[str, str, str, str], float] = {}
        attempts: dict[tuple[str, str, str, str], int] = {}
        runs: dict[tuple[str, str, str, str], set[str]] = {}
        for span in self._control.store.attempt_spans(begin, end):
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

    def attempt_utilization(self, actor: Actor, attempt_id: str) -> Sequence[NodeUtilization]:
        """The current usage of an attempt's workers; nothing if it is over, or without measurements."""
        check(actor, Action.READ)
        with self._control.engine_of(attempt_id).question() as engine:
            return _measured(engine, [attempt_id]).get(attempt_id, ())

    def utilization(self, actor: Actor) -> list[RunUtilization]:
        """The current usage of every measured live run of this server, by id."""
        check(actor, Action.READ)
        found: list[RunUtilization] = []
        for attached in self._control.engines:
            runs = {attempt.id: run.id for run, attempt in self._control.live_on(attached)}
            if not runs:
                continue
            with attached.question() as engine:
                measured = _measured(engine, list(runs))
            found += [RunUtilization(run=runs[each], nodes=tuple(nodes)) for each, nodes in measured.items()]
        return sorted(found, key=lambda each: each.run)


def _measured(engine: Engine[Any], attempt_ids: Sequence[str]) -> Mapping[str, Sequence[NodeUtilization]]:
    return engine.utilization(attempt_ids) if isinstance(engine, ReadsReports) else {}
