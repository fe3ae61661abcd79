"""Hook: make the documented literal paths true for this attempt, where the node lets us. Called by `runner`.

Where it does not, the variables keep naming the real places, and the run is told.
"""

from __future__ import annotations

from tarmac.node import mounts, protocol
from tarmac.node.mountplan import Bind
from tarmac.node.noderun import NodeRun


def mount(run: NodeRun) -> None:
    """Enter a private view of the disk; the variables name the literal paths that hold in it."""
    wishes = [
        Bind(run.part.artifacts[kind], target)
        for kind, target in protocol.ARTIFACT_MOUNTS.items()
        if kind in run.part.artifacts
    ]
    wishes += [Bind(source, target) for source, target in run.part.mounts]
    if not wishes:
        return
    try:
        plan = mounts.make_true(wishes)
    except mounts.NotAllowed as error:
        run.events.append("notice", text=_sorry([wish.target for wish in wishes], str(error)))
        return
    for target, reason in plan.refused:
        run.events.append("notice", text=_sorry([target], reason))
    held = {bind.target for bind in plan.binds}
    for kind, target in protocol.ARTIFACT_MOUNTS.items():
        if kind in run.part.artifacts and target in held:
            run.node_env.update(dict.fromkeys(protocol.ARTIFACT_VARIABLES[kind], target))


def _sorry(targets: list[str], reason: str) -> str:
    return f"not available here: {', '.join(targets)} ({reason}); the variables name the real places"
