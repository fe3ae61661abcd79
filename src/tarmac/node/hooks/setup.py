"""Hook: the setup steps, once per node, in order, before any worker. Called by `runner`.

Packages are installed into environments of the run's own (see `layers`), which come first on the PATH of
later steps and of the workers.
"""

from __future__ import annotations

import os
from typing import Optional, Sequence

from tarmac.node.attempt import exit_outcome, words
from tarmac.node.attempt.steps import (
    AptStep,
    CheckoutStep,
    CommandStep,
    PipStep,
    Step,
    in_words,
    pip_arguments,
    script_lines,
    split,
)
from tarmac.node.files import gitrules, tail
from tarmac.node.leave import check_leave, fail
from tarmac.node.noderun import Leave, NodeRun
from tarmac.node.setup import checkout, imports, packages, systempackages
from tarmac.node.setup.layers import Layers, open_layers
from tarmac.node.setup.setupwork import SetupWork, StepFailed


def set_up(run: NodeRun) -> None:
    """Run every step; raises Leave if one fails, or if the attempt is asked to leave."""
    if not run.document.setup:
        if run.document.own_packages:
            open_layers(SetupWork(run))
        return
    work = SetupWork(run)
    run.events.flush()
    layers: Optional[Layers] = None
    for number, step in enumerate(run.document.setup):
        check_leave(run)
        try:
            if number == 0:
                layers = open_layers(work)
            _carry_out(work, layers, step)
        except StepFailed as failed:
            raise _failed(run, number, step, failed, log=work.log) from None


def _carry_out(work: SetupWork, layers: Optional[Layers], step: Step) -> None:
    if isinstance(step, CommandStep):
        for line in script_lines(step):
            work.say(f"+ {line}")
        work.do(step.argv, env=work.env())
    elif isinstance(step, CheckoutStep):
        commit = checkout.clone(work, step)
        if step.install:
            place = os.path.join(work.directory, step.path)
            source = (gitrules.shown(step.url), commit, step.submodules)
            packages.install(work, layers, split(step.install), directory=place, source=source)
    elif isinstance(step, PipStep):
        if step.imported is None:
            _install(work, layers, step)
        elif (file := imports.importer(work.directory, step.imported)) and imports.is_missing(
            work, step.imported
        ):
            work.say(f"({file} imports {step.imported}, which the run's Python does not have)")
            try:
                _install(work, layers, step)
            except StepFailed as failed:
                hint = f"{file} imports {step.imported}: install it in the run's Python or image beforehand"
                raise StepFailed(
                    failed.how, exit_code=failed.exit_code, ended_by=failed.ended_by, hint=failed.hint or hint
                ) from None
    elif isinstance(step, AptStep):
        systempackages.install(work, step)


def _install(work: SetupWork, layers: Optional[Layers], step: PipStep) -> None:
    upgrade = ["--upgrade"] if step.upgrade else []
    arguments = [*upgrade, *pip_arguments(step.requirements)]
    packages.install(work, layers, arguments, directory=work.directory)


def _failed(run: NodeRun, number: int, step: Step, failed: StepFailed, *, log: str) -> Leave:
    """The failure of an attempt with a failed setup step."""
    lines: Sequence[str] = [gitrules.without_secrets(line) for line in tail.last_lines(log, run.mask)]
    run.events.append(
        "setup_failed", step=number, exit_code=failed.exit_code, signal=failed.ended_by, tail=lines
    )
    how = f"{failed.how} ({failed.hint})" if failed.hint else failed.how
    cause = exit_outcome.cause_of(
        words.SETUP_FAILED,
        f"setup step {number + 1} ({in_words(step)}) on {run.node_name} failed: {how}",
        node=run.node_name,
        exit_code=failed.exit_code,
        signal=failed.ended_by,
        tail=lines,
    )
    return fail(run, cause)
