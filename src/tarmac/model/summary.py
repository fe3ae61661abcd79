"""Lists of runs: which are asked for, and the line that stands for each.

Asked of the port `Store`; the rims show the lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tarmac.model.lifecycle import RunState
from tarmac.model.run import Outcome, Run
from tarmac.model.spec import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list: newest first, at most `limit`, those before `before_id` when paging.

    Empty `states` means all; `user`, `project`, `name` None means any; every pair of `labels` must match.
    With `ended_after`, runs that ended before it are left out (those that have not ended stay).
    """

    states: frozenset[RunState] = frozenset()
    user: str | None = None
    project: str | None = None
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ended_after: float | None = None
    before_id: str | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One line of a list: read without decoding the spec, so that lists of 10,000 stay quick.

    `priority` is the one it has now, whoever set it; `cluster` and `pool` are where it runs or last ran,
    before that where it wants to (None: anywhere).
    """

    id: str
    name: str
    project: str
    user: str
    dialect: str
    state: RunState
    outcome: Outcome | None
    priority: int
    slots: int
    attempt: int
    cluster: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    message: str | None
    mode: Mode = Mode.BATCH
    pool: str | None = None


def summary_of(run: Run, cluster: str | None, pool: str | None = None) -> RunSummary:
    """The line of a list that stands for a run; `cluster` and `pool` are those of its newest attempt."""
    spec = run.spec
    return RunSummary(
        id=run.id,
        name=spec.name,
        project=spec.project,
        user=run.user,
        dialect=spec.dialect,
        state=run.state,
        outcome=run.outcome,
        priority=run.place.priority,
        slots=spec.slots,
        attempt=run.attempt,
        cluster=cluster,
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        message=run.cause.message if run.cause is not None else None,
        mode=spec.mode,
        pool=pool,
    )
