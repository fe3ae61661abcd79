"""Sends changes of the queue to the server, and prints the changed queues.

Used by the commands `queue` and `experiment`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.queuechanges import Change
from tarmac.cli.session import connect
from tarmac.cli.views.queueview import LISTED, queue_text
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.model.errors import InvalidInput, NotFound, Problem

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client

_DETERMINED = "determined"
_ITS_SCALE = "tarmac.dialects.determined.statuses"
"""Imported only for runs of Determined: it imports all readers."""


def change_queue(changes: Sequence[Change], *, as_json: bool, dialect: str | None = None) -> None:
    """Make all of these changes or none, and print the changed queues.

    A priority is on the scale of `dialect`, by default that of the run's file.
    """
    client = connect()
    sent = _on_our_scale(client, changes, dialect=dialect)
    pools = client.change_queue(sent, limit=shown_runs(as_json=as_json))
    if pools or as_json:
        print_queue(pools, as_json=as_json)
    else:
        names = ", ".join(dict.fromkeys(change["run"] for change in sent))
        remark(f"{names}: changed, and in no queue now; the change counts once it is resumed")


def shown_runs(*, as_json: bool) -> int | None:
    """The default number of runs shown for each pool: on a terminal only the first ones."""
    return None if as_json or stdout_terminal().width is None else LISTED


def print_queue(pools: Sequence[api.QueuePool], *, as_json: bool) -> None:
    """The queues as tables, or as JSON."""
    if as_json:
        print_json({"pools": pools})
    else:
        print_text(queue_text(pools, now=time.time(), terminal=stdout_terminal()))


def _on_our_scale(client: Client, changes: Sequence[Change], *, dialect: str | None) -> list[Change]:
    """The changes with tarmac's priorities; raises InvalidInput with all that exceed Determined's scale."""
    problems: list[Problem] = []
    found: list[Change] = []
    for change in changes:
        own = "priority" in change and (dialect or _dialect(client, change["run"])) == _DETERMINED
        found.append(_of_determined(change, problems) if own else change)
    if problems:
        raise InvalidInput(problems)
    return found


def _of_determined(change: Change, problems: list[Problem]) -> Change:
    scale, native = import_module(_ITS_SCALE), change["priority"]
    if not scale.FIRST <= native <= scale.LAST:
        message = (
            f"a priority of Determined is from {scale.FIRST} (first) to {scale.LAST} (last), not {native}"
        )
        problems.append(
            Problem(message=f"{change['run']}: {message}", hint=f"{scale.USUAL} is the usual one")
        )
        return change
    priority: int = scale.to_tarmac(native)
    remark(
        f"{change['run']}: priority {native} of Determined, where {scale.FIRST} is first, is {priority} here"
    )
    return {**change, "priority": priority}


def _dialect(client: Client, reference: str) -> str | None:
    """The dialect of a run's file; None for an unknown run, which the server reports better."""
    try:
        return str(client.run(reference)["dialect"])
    except NotFound:
        return None
