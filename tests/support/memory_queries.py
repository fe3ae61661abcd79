"""Queries of runs, as the store in memory answers them."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from tarmac.model.run import Run
from tarmac.model.summary import RunQuery


def newest_of(runs: Mapping[str, Run], query: RunQuery) -> list[Run]:
    """The runs that a query without a limit matches, newest first."""
    return [run for _, run in sorted(runs.items(), reverse=True) if matches(run, query)]


def matches(run: Run, query: RunQuery) -> bool:
    """Whether a query without a limit matches a run."""
    return (
        (not query.states or run.state in query.states)
        and query.user in (None, run.user)
        and (query.sight is None or query.sight.covers(run.user, run.project))
        and query.project in (None, run.project)
        and query.name in (None, run.name)
        and query.array_id in (None, run.array_id)
        and query.array_index in (None, run.array_index)
        and run.array_id not in query.without
        and (query.before_id is None or run.id < query.before_id)
        and (query.ended_before is None or (run.ended_at or inf) < query.ended_before)
        and (query.ended_after is None or run.ended_at is None or run.ended_at > query.ended_after)
        and query.labels.items() <= run.spec.labels.items()
    )
