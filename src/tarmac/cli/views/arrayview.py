"""Arrays for people: one line for all members, with their progress. Used by `ls` and others."""

from collections.abc import Iterable, Iterator, Mapping

from tarmac import api
from tarmac.cli.views.amounts import age
from tarmac.cli.views.runview import ListedRun
from tarmac.cli.views.table import facts_text
from tarmac.cli.views.terminal import Terminal, one_line
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import RUN_OUTCOMES, Outcome
from tarmac.model.summary import RunSummary

_ORDER = (
    *("running", "starting", "pausing", "preempting", "stopping", "submitted", "queued", "pending", "paused"),
    *("completed", "failed", "stopped"),
)


def written(array: api.Array) -> str:
    """Its name and indices, as `sweep[0-99%8]`."""
    limit = f"%{array.at_most}" if array.at_most is not None else ""
    return f"{array.name}[{array.indices}{limit}]"


def counts_text(counts: Mapping[str, int]) -> str:
    """The number of members in each state: `8 running, 90 queued, 2 completed`."""
    words = sorted(counts, key=lambda word: _ORDER.index(word) if word in _ORDER else len(_ORDER))
    return ", ".join(f"{counts[word]} {word}" for word in words)


def array_text(array: api.Array, *, now: float, terminal: Terminal) -> str:
    """The page of an array."""
    fields = {
        "array": array.id,
        "name": terminal.paint(one_line(written(array)), "bold"),
        "members": str(array.total),
        "state": counts_text(array.counts),
        "project": array.project if array.project != "default" else "",
        "user": array.user,
        "created": age(array.created_at, now),
        "one": f"tarmac show '{array.name}[INDEX]'; all: tarmac ls --expand --name {array.name}",
    }
    return facts_text(fields, terminal)


def first_members(runs: Iterable[RunSummary]) -> Iterator[RunSummary]:
    """Single runs unchanged, and of each array the member that comes first."""
    seen: set[str] = set()
    for run in runs:
        array_id = run.array_id
        if array_id is None or array_id not in seen:
            seen |= {array_id} if array_id is not None else set()
            yield run


def as_array(run: ListedRun, array: api.Array) -> ListedRun:
    """The line of a member as the line of the whole array."""
    counts = array.counts
    only = next(iter(counts)) if len(counts) == 1 else None
    outcome = Outcome(only) if only in RUN_OUTCOMES else None
    return replace(
        run,
        id=array.id,
        name=written(array),
        array_index=None,
        state=RunState.ENDED if outcome else RunState(only) if only else run.state,
        outcome=outcome,
        message=None,
        counts="" if only else counts_text(counts),
    )
