"""Hook: make the documented literal paths true for this attempt, where the node lets us. Called by `runner`.

Where it does not, the variables keep naming the real places, and the run is told.
"""

from __future__ import annotations

import os
from typing import Iterator, Sequence

from tarmac.node import mounts, protocol
from tarmac.node.mountplan import Bind
from tarmac.node.noderun import NodeRun


def mount(run: NodeRun) -> None:
    """Enter a private view of the disk; the variables name the literal paths that hold in it."""
    wishes = list(_wishes(run))
    if not wishes:
        return
    for bind, variables in wishes:
        run.node_env.update(dict.fromkeys(variables, bind.source))
    try:
        plan = mounts.make_true([bind for bind, _ in wishes])
    except mounts.NotAllowed as error:
        run.events.append("notice", text=_sorry([bind.target for bind, _ in wishes], str(error)))
        return
    for target, reason in plan.refused:
        run.events.append("notice", text=_sorry([target], reason))
    held = {bind.target for bind in plan.binds}
    for kind, target in protocol.ARTIFACT_MOUNTS.items():
        if kind in run.part.artifacts and target in held:
            run.keeper.seen[kind] = target
    for bind, variables in wishes:
        if bind.target in held:
            run.node_env.update(dict.fromkeys(variables, bind.target))


def _wishes(run: NodeRun) -> Iterator[tuple[Bind, Sequence[str]]]:
    """What is to be seen where, with the variables that name it."""
    for kind, target in protocol.ARTIFACT_MOUNTS.items():
        if kind in run.part.artifacts:
            yield Bind(run.part.artifacts[kind], target), protocol.ARTIFACT_VARIABLES[kind]
    for part in run.part.mounts:
        yield Bind(os.path.join(run.node.files, part.source), part.target), part.variables


def _sorry(targets: list[str], reason: str) -> str:
    return f"not available here: {', '.join(targets)} ({reason}); the variables name the real places"
