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
    from tarmac.dialects.priorities import Scale

_DIALECTS = "tarmac.systems.registry"
"""Imported only for changes of priorities: it imports all readers."""


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
    """The changes with tarmac's priorities; raises InvalidInput with all that exceed their system's scale."""
    problems: list[Problem] = []
    found: list[Change] = []
    for change in changes:
        scale = _scale(dialect or _dialect(client, change["run"])) if "priority" in change else None
        found.append(change if scale is None else _rescaled(change, scale, problems))
    if problems:
        raise InvalidInput(problems)
    return found


def _scale(dialect: str | None) -> Scale | None:
    """The scale of a dialect's priorities; None is tarmac's."""
    found: Scale | None = import_module(_DIALECTS).dialect_of(dialect).scale
    return found


def _rescaled(change: Change, scale: Scale, problems: list[Problem]) -> Change:
    native = change["priority"]
    if not scale.first <= native <= scale.last:
        allowed = f"from {scale.first} (first) to {scale.last} (last)"
        message = f"{change['run']}: a priority of {scale.system} is {allowed}, not {native}"
        problems.append(Problem(message=message, hint=f"{scale.usual} is the usual one"))
        return change
    priority = scale.to_tarmac(native)
    of_system = f"of {scale.system}, where {scale.first} is first"
    remark(f"{change['run']}: priority {native} {of_system}, is {priority} here")
    return {**change, "priority": priority}


def _dialect(client: Client, reference: str) -> str | None:
    """The dialect of a run's file; None for an unknown run, which the server reports better."""
    try:
        return str(client.run(reference)["dialect"])
    except NotFound:
        return None
