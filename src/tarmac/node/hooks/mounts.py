"""Hooks: write an attempt's small files, and make the documented literal paths valid. Called by `runner`.

If the node allows no mounts, the variables name the real directories, and a notice reports that. A missing
source fails the attempt, except in a rehearsal.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Iterator, Optional, Sequence

from tarmac.node.attempt import protocol, words
from tarmac.node.files import untrusted
from tarmac.node.kernel import mounts
from tarmac.node.kernel.mountplan import Bind, Disk, Plan, plan_mounts
from tarmac.node.kernel.system_users import SystemUser
from tarmac.node.noderun import NodeRun

_ARTIFACTS = {target: kind for kind, target in protocol.ARTIFACT_MOUNTS.items()}
"""The kinds of artifact directories, by the literal path that names one as a source."""


def mount(run: NodeRun) -> None:
    """Enter a private mount namespace; the variables name the literal paths in it.

    Raises Leave if a source is missing.
    """
    if run.spare is not None and run.spare.plan is not None:
        _name_targets(run, run.spare.plan)
        return
    wishes = list(_wishes(run))
    for wish in wishes:
        run.node_env.update(dict.fromkeys(wish.variables, wish.source))
    wishes = [wish for wish in wishes if _has_source(run, wish)]
    if not wishes:
        return
    if run.document.container is not None:  # its root has every named path
        run.shown += wishes
        for wish in wishes:
            run.node_env.update(dict.fromkeys(wish.variables, wish.target))
        return
    try:
        if run.view is not None:  # every process makes them for itself
            safe = [wish for wish in wishes if _has_safe_place(wish.target, run.view.user)]
            others = [wish for wish in wishes if wish not in safe]
            _note(run, others, "users can change a directory above it, or may not pass one")
            plan = plan_mounts(safe, Disk())
            run.view = run.view._replace(plan=plan)
        else:
            plan = mounts.make_true(wishes, own_view=run.own_disk_view)
            run.own_disk_view = run.own_disk_view or bool(plan.binds)
            run.mounted = plan
    except mounts.NotAllowed as error:
        _note(run, wishes, str(error))
        return
    for target, reason in plan.refused:
        _note(run, [wish for wish in wishes if wish.target == target], reason)
    if run.spare is not None:
        run.spare.plan = plan
    _name_targets(run, plan)


def _name_targets(run: NodeRun, plan: Plan) -> None:
    """Let variables and the sidecar name the literal paths that exist."""
    targets = {bind.target for bind in plan.binds}
    for kind, target in protocol.ARTIFACT_MOUNTS.items():
        if kind in run.part.artifacts and target in targets:
            run.sidecar.seen[kind] = target
    if any(protocol.BATCH_VARIABLES in worker.env for worker in run.part.workers):
        return  # the steps of a batch script are processes of other nodes too, which do not see the mounts
    for bind in plan.binds:
        run.node_env.update(dict.fromkeys(bind.variables, bind.target))


def bind_inside(run: NodeRun) -> None:
    """Make binds below the working directory, over the code. Raises Leave if a source is missing."""
    for wish in run.part.mounts:
        if os.path.isabs(wish.target) or not _has_source(run, wish):
            continue
        for directory in run.directories:
            bind = wish._replace(target=os.path.join(directory, os.path.normpath(wish.target)))
            if (reason := _bind_inside(bind, run, directory)) is not None:
                _note(run, [wish], reason)


def _bind_inside(bind: Bind, run: NodeRun, directory: str) -> Optional[str]:
    """The reason why the bind could not be made; None if it was made."""
    try:
        empty = _make_room(bind, directory)
        try:
            if run.view is not None:
                raise mounts.NotAllowed("in a run of a system user")
            plan = mounts.make_true([bind], own_view=run.own_disk_view)
            run.own_disk_view = run.own_disk_view or bool(plan.binds)
            return plan.refused[0][1] if plan.refused else None
        except mounts.NotAllowed as error:
            if not empty or bind.read_only:
                return str(error)
            os.rmdir(bind.target) if os.path.isdir(bind.target) else os.unlink(bind.target)
            os.symlink(bind.source, bind.target)
    except OSError as error:
        return str(error)
    return None


def _has_source(run: NodeRun, bind: Bind) -> bool:
    """Whether the source of a bind exists; if not, a rehearsal gets a notice, any other run raises Leave."""
    try:
        with run.view.outside(bind.source) if run.view is not None else nullcontext():
            os.stat(bind.source)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if run.document.rehearsal:
            _note(run, [bind], f"{bind.source}: {reason}")
            return False
        message = f"cannot bind {bind.source} to {bind.target} on {run.node_name}: {reason}"
        raise run.fail(run.cause(words.SETUP_FAILED, message)) from None
    return True


def _wishes(run: NodeRun) -> Iterator[Bind]:
    """Every bind to an absolute path."""
    for kind, target in protocol.ARTIFACT_MOUNTS.items():
        if kind in run.part.artifacts:
            yield Bind(run.part.artifacts[kind], target, variables=protocol.ARTIFACT_VARIABLES[kind])
    for part in run.part.mounts:
        if os.path.isabs(part.target):
            source = os.path.join(run.node.files, part.source)
            if part.source == protocol.WORKING_DIRECTORY:
                source = run.node.work
                os.makedirs(source, exist_ok=True)  # made before the code, which is copied into it in place
            elif part.source in _ARTIFACTS:
                source = run.part.artifacts.get(_ARTIFACTS[part.source], source)
            yield part._replace(source=source)
    yield from run.secret_mounts


def _make_room(bind: Bind, work: str) -> bool:
    """Make the target of the bind; False if the path exists already. Raises OSError."""
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


def _has_safe_place(target: str, user: SystemUser) -> bool:
    """Whether the user may pass the directories above a target, and only root can change them.

    Otherwise a link could lead root elsewhere meanwhile.
    """
    above = os.path.realpath(target)
    while above != "/":
        above = os.path.dirname(above)
        found = untrusted.lstat(above)
        if found is not None and (found.st_uid != 0 or found.st_mode & 0o022 or not user.may_pass(above)):
            return False
    return True


def _note(run: NodeRun, wishes: Sequence[Bind], reason: str) -> None:
    """Append a notice that these targets are missing, with the variables that name the real directories."""
    if not wishes:
        return
    targets = ", ".join(wish.target for wish in wishes)
    variables = ", ".join(variable for wish in wishes for variable in wish.variables)
    real = f"; {variables}: the real place" if variables else ""
    run.events.notice(f"not available here: {targets} ({reason}){real}")


def write_files(run: NodeRun) -> None:
    """Write the files below the node's own directory, readable only by the run's user."""
    for name, text in run.part.files.items():
        path, top = os.path.join(run.node.files, name), os.path.realpath(run.node.files)
        if os.path.commonpath([os.path.realpath(path), top]) != top:
            raise OSError(f"the file {name!r} would lie outside its directory")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        untrusted.write_new(path, text.encode(), mode=0o600)
