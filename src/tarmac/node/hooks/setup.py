"""Hook: the setup steps, once per node, in order, before any worker. Called by `runner`."""

from __future__ import annotations

import os
import signal
import time
from typing import Optional, Sequence

from tarmac.node import environment, judge, tail, words
from tarmac.node.children import Child
from tarmac.node.hooks.asks import leave_if_asked, verdict
from tarmac.node.noderun import Leave, NodeRun
from tarmac.node.spawn import CannotStart

_STEP_GRACE_S = 0.3


def set_up(run: NodeRun) -> None:
    """Run every step; raises Leave when one fails, or when the attempt is asked to leave."""
    if not run.part.setup:
        return
    log = os.path.join(run.attempt.logs, f"setup.{run.part.node}.log")
    env = environment.complete(run.part.setup_env, run)
    run.events.flush()
    for number, step in enumerate(run.part.setup):
        leave_if_asked(run)
        try:
            child = run.children.start(step, env=env, directory=run.node.work, log=log)
        except CannotStart as problem:
            raise _failed(run, number, log=log, exit_code=problem.exit_code, why=str(problem)) from None
        _attend(run, child)
        if child.exit_code != 0:
            raise _failed(run, number, log=log, exit_code=child.exit_code, ended_by=child.signal)


def _attend(run: NodeRun, child: Child) -> None:
    """Wait for a step; when the attempt is asked to leave, end it and everything it started."""
    while not child.left:
        run.pulse.wait(run.limit_due)
        run.children.reap()
        if not child.left:
            try:
                leave_if_asked(run)
            except Leave:
                _end(run, child)
                raise Leave(verdict(run)) from None


def _end(run: NodeRun, child: Child) -> None:
    """Let a step leave by SIGTERM; what does not is ended like everything else of the node's part."""
    child.send(signal.SIGTERM)
    deadline = time.monotonic() + _STEP_GRACE_S
    while not run.children.none_left and time.monotonic() < deadline:
        run.pulse.wait(deadline)
        run.children.reap()


def _failed(
    run: NodeRun,
    number: int,
    *,
    log: str,
    exit_code: Optional[int],
    ended_by: Optional[str] = None,
    why: Optional[str] = None,
) -> Leave:
    """The end of an attempt whose setup failed: the other nodes are told too."""
    lines: Sequence[str] = tail.last_lines(log)
    run.events.append("setup_failed", step=number, exit_code=exit_code, signal=ended_by, tail=lines)
    how = why or (f"was ended by {ended_by}" if ended_by else f"exited with {exit_code}")
    told = {
        "code": words.SETUP_FAILED,
        "message": f"setup step {number + 1} on {run.part.node} failed: {how}",
        "node": run.part.node,
        "exit_code": exit_code,
        "signal": ended_by,
        "tail": lines,
    }
    run.note_failure({key: value for key, value in told.items() if value not in (None, [])})
    return Leave(judge.Verdict(words.FAILED, run.failure_cause))
