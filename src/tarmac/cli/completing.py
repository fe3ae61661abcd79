"""What the shell offers for RUN and NODE. Called by click's completion, in the middle of someone's typing.

So: quick, silent whatever goes wrong, and never the reason a server starts.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.cli.session import LAST, connect
from tarmac.cli.views.messages import state_of
from tarmac.model.errors import TarmacError

MOST = 200
"""Newest runs that are looked at: more would not be read."""


def run_candidates(incomplete: str) -> Iterator[tuple[str, str]]:
    """(value, explanation) of runs whose name or id begins as typed; a name once, for its newest run."""
    if LAST.startswith(incomplete) and incomplete:
        yield LAST, "the newest run"
    try:
        runs = connect(start=False).runs(limit=MOST)["runs"]
    except (TarmacError, OSError):
        return
    names: set[str] = set()
    for run in runs:
        if run["name"] not in names and run["name"].startswith(incomplete):
            names.add(run["name"])
            yield run["name"], f"{state_of(run)} ({run['id']})"
    if incomplete:
        yield from (
            (run["id"], f"{run['name']}, {state_of(run)}") for run in runs if run["id"].startswith(incomplete)
        )


def node_candidates(incomplete: str) -> Iterator[tuple[str, str]]:
    """(value, explanation) of nodes whose name begins as typed."""
    try:
        nodes = connect(start=False).nodes()
    except (TarmacError, OSError):
        return
    for node in nodes:
        if node["name"].startswith(incomplete):
            yield node["name"], f"{node['state']}, {node['slots_used']} of {node['slots']} slots used"


def cluster_candidates(incomplete: str) -> Iterator[tuple[str, str]]:
    """(value, explanation) of clusters whose name begins as typed."""
    try:
        clusters = connect(start=False).clusters()
    except (TarmacError, OSError):
        return
    for cluster in clusters:
        if cluster["name"].startswith(incomplete):
            yield cluster["name"], f"{cluster['nodes']} nodes, {cluster['slots_free']} slots free"
