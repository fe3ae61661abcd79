"""Hook: the setup steps, once per node, in order, before any worker. Called by `runner`.

Packages are installed into environments of the run's own (see `layers`), which come first on the PATH of
later steps and of the workers. git and its credentials are the node's, even if the run has a container. A
clone is complete, so that `git describe` and versions from tags work; `gitrules` makes the calls of git safe.
"""

from __future__ import annotations

import os
from typing import Optional

from tarmac.node.attempt import steps, words
from tarmac.node.files import gitrules, logroom
from tarmac.node.noderun import Leave, NodeRun
from tarmac.node.setup import packages
from tarmac.node.setup.layers import Layers, open_layers
from tarmac.node.setup.setupwork import SetupWork, StepFailed


def set_up(run: NodeRun) -> None:
    """Run every step; raises Leave if one fails, or if the attempt is asked to leave."""
    work = SetupWork(run)
    if not run.document.setup:
        open_layers(work)
        return
    run.events.flush()
    layers: Optional[Layers] = None
    for number, step in enumerate(run.document.setup):
        run.check_leave()
        try:
            if number == 0:
                layers = open_layers(work)
            _carry_out(work, layers, step)
        except StepFailed as failed:
            raise _failed(run, number, step, failed, log=work.log) from None


def _carry_out(work: SetupWork, layers: Optional[Layers], step: steps.Step) -> None:
    if isinstance(step, steps.CommandStep):
        for line in steps.script_lines(step):
            work.say(f"+ {line}")
        work.do(step.argv, env=work.env())
    elif isinstance(step, steps.CheckoutStep):
        commit = clone(work, step)
        if step.install:
            place = os.path.join(work.directory, step.path)
            source = (gitrules.shown(step.url), commit, step.submodules)
            packages.install(work, layers, steps.split(step.install), directory=place, source=source)
    elif isinstance(step, steps.PipStep):
        if step.imported is None:
            _install(work, layers, step)
        elif (file := packages.importer(work.directory, step.imported)) and packages.is_missing(
            work, step.imported
        ):
            work.say(f"({file} imports {step.imported}, which the run's Python does not have)")
            try:
                _install(work, layers, step)
            except StepFailed as failed:
                hint = f"{file} imports {step.imported}: install it in the run's Python or image beforehand"
                failed.hint = failed.hint or hint
                raise
    elif isinstance(step, steps.AptStep):
        packages.install_system_packages(work, step)


def _install(work: SetupWork, layers: Optional[Layers], step: steps.PipStep) -> None:
    packages.install(work, layers, steps.pip_arguments(step), directory=work.directory)


def _failed(run: NodeRun, number: int, step: steps.Step, failed: StepFailed, *, log: str) -> Leave:
    """The failure of an attempt with a failed setup step."""
    lines = list(map(gitrules.without_secrets, logroom.last_lines(log, run.events.mask)))
    run.events.append(
        "setup_failed", step=number, exit_code=failed.exit_code, signal=failed.ended_by, tail=lines
    )
    how = f"{failed.how} ({failed.hint})" if failed.hint else failed.how
    cause = run.cause(
        words.SETUP_FAILED,
        f"setup step {number + 1} ({steps.in_words(step)}) on {run.node_name} failed: {how}",
        exit_code=failed.exit_code,
        signal=failed.ended_by,
        tail=lines,
    )
    return run.fail(cause)


def clone(work: SetupWork, step: steps.CheckoutStep) -> str:
    """Clone and check out; returns the full commit. Raises StepFailed."""
    work.say(f"+ {steps.clone_words(step)}")
    rules = work.run.git
    try:
        url = gitrules.check_url(step.url, rules)
        branch = gitrules.check_reference(step.branch) if step.branch else None
        commit = gitrules.check_commit(step.commit) if step.commit else None
    except gitrules.Refused as problem:
        raise StepFailed(str(problem)) from None
    beside = SetupWork(work.run, outside=True)
    place = inside(work.directory, step.path)
    is_directory = os.path.isdir(place) and not os.path.islink(place)
    if os.path.lexists(place) and (not is_directory or os.listdir(place)):
        raise StepFailed(f"{step.path} is there already, and not empty")
    try:
        options = [f"--branch={branch}"] if branch is not None and commit is None else []
        _git(beside, "clone", "--quiet", "--no-hardlinks", "--template=", *options, "--", url, place)
        _check_out(beside, place, commit)
        if step.submodules:
            _git(beside, "submodule", "--quiet", "update", "--init", "--recursive", directory=place)
        head = _answer(beside, "rev-parse", "HEAD", directory=place)
    except StepFailed as failed:
        failed.hint = gitrules.hint_for(logroom.last_lines(work.log))
        if failed.exit_code == 127:
            raise StepFailed("git is not installed on this node", exit_code=127) from None
        raise
    resolved = (head or "").strip()
    work.say(f"(at commit {resolved})")
    return resolved


def inside(directory: str, path: str) -> str:
    """The absolute path below a directory; raises StepFailed if it would be outside."""
    place = os.path.join(directory, path)
    root = os.path.realpath(directory)
    real = os.path.realpath(place)
    if os.path.isabs(path) or real == root or os.path.commonpath([root, real]) != root:
        raise StepFailed(f"{path!r} is not below the working directory")
    return place


def _check_out(work: SetupWork, place: str, commit: Optional[str]) -> None:
    if commit is None:
        return
    answer = _answer(work, "rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}", directory=place)
    if answer is None and gitrules.is_whole(commit):
        # A commit may be on no branch and no tag: servers send it on request by its name.
        _git(work, "fetch", "--quiet", "--no-tags", "origin", commit, directory=place)
    elif answer is None:
        raise StepFailed(f"{commit} is no commit there, or the beginning of several")
    _git(work, "checkout", "--quiet", "--detach", commit, directory=place)


def _git(work: SetupWork, *arguments: str, directory: Optional[str] = None) -> None:
    work.do(gitrules.argv(*arguments), env=_env(work), directory=directory)


def _answer(work: SetupWork, *arguments: str, directory: str) -> Optional[str]:
    return work.ask(gitrules.argv(*arguments), env=_env(work), directory=directory)


def _env(work: SetupWork) -> dict[str, str]:
    around = work.env()
    env = gitrules.environment(work.run.git, around)
    env.update({name: value for name, value in around.items() if name.startswith("TARMAC_")})
    return env
