"""Hook: make the documented literal paths true for this attempt, where the node lets us. Called by `runner`.

Where it does not, the variables keep naming the real places, and the run is told.
"""

from __future__ import annotations

import os
from typing import Iterator, Optional, Sequence

from tarmac.node.attempt import protocol
from tarmac.node.kernel import mounts
from tarmac.node.kernel.mountplan import Bind
from tarmac.node.noderun import NodeRun

_ARTIFACTS = {target: kind for kind, target in protocol.ARTIFACT_MOUNTS.items()}
"""The kinds of artifact directories, by the literal path that stands for one as a source."""


def mount(run: NodeRun) -> None:
    """Enter a private view of the disk; the variables name the literal paths that hold in it."""
    wishes = list(_wishes(run))
    if not wishes:
        return
    for bind, variables in wishes:
        run.node_env.update(dict.fromkeys(variables, bind.source))
    if run.document.container is not None:
        _show(run, wishes)
        return
    try:
        plan = mounts.make_true([bind for bind, _ in wishes], own_view=run.own_disk_view)
        run.own_disk_view = run.own_disk_view or bool(plan.binds)
        run.mounted = plan
    except mounts.NotAllowed as error:
        run.events.append("notice", text=_sorry([bind.target for bind, _ in wishes], str(error)))
        return
    for target, reason in plan.refused:
        run.events.append("notice", text=_sorry([target], reason))
    targets = {bind.target for bind in plan.binds}
    for kind, target in protocol.ARTIFACT_MOUNTS.items():
        if kind in run.part.artifacts and target in targets:
            run.sidecar.seen[kind] = target
    for bind, variables in wishes:
        if bind.target in targets:
            run.node_env.update(dict.fromkeys(variables, bind.target))


def _show(run: NodeRun, wishes: Sequence[tuple[Bind, Sequence[str]]]) -> None:
    """Leave it to the container, whose root has every path that is named."""
    for bind, variables in wishes:
        if os.path.exists(bind.source):
            run.shown.append(bind)
            run.node_env.update(dict.fromkeys(variables, bind.target))
        else:
            run.events.append("notice", text=_sorry([bind.target], f"{bind.source} does not exist"))


def bind_inside(run: NodeRun) -> None:
    """What is bound below the working directory, once the code is there: it covers what the code has."""
    for part in run.part.mounts:
        if os.path.isabs(part.target):
            continue
        for directory in run.directories:
            bind = Bind(part.source, os.path.join(directory, os.path.normpath(part.target)), part.read_only)
            if (reason := _bind_inside(bind, run, directory)) is not None:
                run.events.append("notice", text=f"not available here: {part.target} ({reason})")


def _bind_inside(bind: Bind, run: NodeRun, directory: str) -> Optional[str]:
    """Why the bind could not be made; None: it was."""
    if not os.path.exists(bind.source):
        return f"{bind.source} does not exist"
    try:
        empty = _make_room(bind, directory)
        try:
            plan = mounts.make_true([bind], own_view=run.own_disk_view)
            run.own_disk_view = run.own_disk_view or bool(plan.binds)
            return plan.refused[0][1] if plan.refused else None
        except mounts.NotAllowed as error:
            if not empty or bind.read_only:
                return str(error)
            _link(bind)
    except OSError as error:
        return str(error)
    return None


def _wishes(run: NodeRun) -> Iterator[tuple[Bind, Sequence[str]]]:
    """What is to be seen where, with the variables that name it."""
    for kind, target in protocol.ARTIFACT_MOUNTS.items():
        if kind in run.part.artifacts:
            yield Bind(run.part.artifacts[kind], target), protocol.ARTIFACT_VARIABLES[kind]
    for part in run.part.mounts:
        if os.path.isabs(part.target):
            source = os.path.join(run.node.files, part.source)
            if part.source == protocol.WORKING_DIRECTORY:
                source = run.node.work
                os.makedirs(source, exist_ok=True)  # before the code is in it: it is filled in place
            elif part.source in _ARTIFACTS:
                source = run.part.artifacts.get(_ARTIFACTS[part.source], source)
            yield Bind(source, part.target, part.read_only), part.variables
    for source, target, variables in run.secret_mounts:
        yield Bind(source, target, read_only=True), variables


def _make_room(bind: Bind, work: str) -> bool:
    """Make what the bind is to cover; False where something is there already. Raises OSError."""
    parent = os.path.dirname(bind.target)
    real = os.path.realpath(work)
    if os.path.commonpath((real, os.path.realpath(parent))) != real:
        raise OSError(f"{bind.target} leads out of the working directory")
    if os.path.lexists(bind.target):
        return False
    os.makedirs(parent, exist_ok=True)
    if os.path.isdir(bind.source):
        os.mkdir(bind.target)
    else:
        os.close(os.open(bind.target, os.O_WRONLY | os.O_CREAT, 0o600))
    return True


def _link(bind: Bind) -> None:
    """The next best thing to a bind, where nothing else is there: a link."""
    os.rmdir(bind.target) if os.path.isdir(bind.target) else os.unlink(bind.target)
    os.symlink(bind.source, bind.target)


def _sorry(targets: list[str], reason: str) -> str:
    return f"not available here: {', '.join(targets)} ({reason}); the variables name the real places"
