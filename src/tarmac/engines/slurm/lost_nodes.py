"""Which node a job lost, for the next job of its run to keep away from it. Called by `SlurmEngine`.

Slurm says that a job lost a node, and not which: it is the one that Slurm has down, of those that the job
had.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tarmac.engines.attempts.view import AttemptView
from tarmac.engines.slurm.commands import Commands
from tarmac.model.errors import Unavailable
from tarmac.model.ports import Observation
from tarmac.model.run import CauseCode

_STATE = re.compile(r"^NodeName=(\S+) .*?\bState=(\S+)", re.MULTILINE)
_GONE = re.compile(r"DOWN|FAIL|NOT_RESPONDING|\*")
"""In the states of a node that Slurm lost sight of: `DOWN`, `IDLE*`, `DOWN*+DRAIN`, `IDLE+NOT_RESPONDING`."""


def with_lost_node(seen: Observation, view: AttemptView, commands: Commands) -> Observation:
    """An end; where its job lost a node, the cause names that node, as far as it can be known."""
    if seen.cause is None or seen.cause.code is not CauseCode.NODE_LOST or seen.cause.node is not None:
        return seen
    names = [node.facts.name for node in view.nodes if node.facts.name is not None]
    lost = names if len(names) == 1 else _gone(names, commands)
    if not lost:
        return seen
    message = f"{seen.cause.message}: {', '.join(lost)}"
    return replace(seen, cause=replace(seen.cause, message=message, node=lost[0]))


def _gone(names: Sequence[str], commands: Commands) -> list[str]:
    """Those of the nodes that Slurm lost sight of; none where it does not say."""
    if not names:
        return []
    try:
        text = commands.query(["scontrol", "show", "node", "-o", ",".join(names)])
    except Unavailable:
        return []
    return [name for name, state in _STATE.findall(text) if name in names and _GONE.search(state)]
