"""The shell's completions for RUN, NODE and clusters. Called through `options` while the user types.

So it is quick, silent about errors, and never starts a server.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.cli.session import LAST, connect
from tarmac.cli.views.messages import state_of
from tarmac.model.errors import TarmacError

MOST = 200
"""Number of newest runs to consider."""


def run_candidates(incomplete: str) -> Iterator[tuple[str, str]]:
    """(value, explanation) of runs whose name or id begins with the text; a name once, for its newest run."""
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
    """(value, explanation) of nodes whose name begins with the text."""
    try:
        nodes = connect(start=False).nodes()
    except (TarmacError, OSError):
        return
    for node in nodes:
        if node.name.startswith(incomplete):
            yield node.name, f"{node.state}, {node.slots_used} of {node.slots} slots used"


def cluster_candidates(incomplete: str) -> Iterator[tuple[str, str]]:
    """(value, explanation) of clusters whose name begins with the text."""
    try:
        clusters = connect(start=False).clusters()
    except (TarmacError, OSError):
        return
    for cluster in clusters:
        if cluster.name.startswith(incomplete):
            yield cluster.name, f"{cluster.nodes} nodes, {cluster.slots_free} slots free"
