"""Queries of runs, as the store in memory answers them."""

from __future__ import annotations

from math import inf

from tarmac.model.run import Run
from tarmac.model.summary import RunQuery


def matches(run: Run, query: RunQuery) -> bool:
    """Whether a query without a limit matches a run."""
    return (
        (not query.states or run.state in query.states)
        and query.user in (None, run.user)
        and (query.users is None or run.user in query.users)
        and query.project in (None, run.project)
        and query.name in (None, run.name)
        and query.array_id in (None, run.array_id)
        and query.array_index in (None, run.array_index)
        and (query.before_id is None or run.id < query.before_id)
        and (query.ended_before is None or (run.ended_at or inf) < query.ended_before)
        and (query.ended_after is None or run.ended_at is None or run.ended_at > query.ended_after)
        and query.labels.items() <= run.spec.labels.items()
    )
