"""Hooks: the run's own commands before any worker of any node starts, and after all have ended (K6).

Called by `runner`. The commands run once per attempt, on the node of rank 0, which here replaces the login
node. The other nodes wait for the commands before the workers, and report the end of their workers.

A failed command before the workers ends the attempt like a failed setup step. The commands after the workers
run regardless of exit codes, unless the workers were asked to leave (the run resumes later, or was stopped);
their failure counts only if nothing failed before. A stop or the time limit ends them at once, a pause or
preemption only after the grace; the work is done by then, so the attempt keeps the outcome of its workers.
"""

from __future__ import annotations

import os
import time
from typing import Callable, Iterator, Optional

from tarmac.node import environment
from tarmac.node.attempt import exit_outcome, words
from tarmac.node.attempt.claims import has_ended
from tarmac.node.attempt.document import Argv
from tarmac.node.attempt.steps import CommandStep, script_lines
from tarmac.node.files import logroom, untrusted
from tarmac.node.kernel import fifo
from tarmac.node.noderun import Leave, NodeRun
from tarmac.node.processes.children import Child
from tarmac.node.processes.spawn import CannotStart, Command

BEFORE = ("before_login", "before")
AFTER = ("after", "after_login")


def run_before(run: NodeRun) -> None:
    """Run the commands before the workers; raises Leave if one fails, or on a request to leave."""
    if not any(run.document.hooks.get(name) for name in BEFORE):
        return
    if run.part.rank != 0:
        run.wait_for(run.attempt.prepared)
        return
    for name, what, argv in _commands(run, BEFORE):
        failed = _carry_out(run, name, argv, check=run.check_leave)
        if failed is not None:
            raise run.fail(_cause(run, what, failed, code=words.SETUP_FAILED))
    run.notify_nodes(run.attempt.prepared)


def run_after(run: NodeRun) -> None:
    """Run the commands after the workers of all nodes, unless the attempt was asked to leave."""
    if not any(run.document.hooks.get(name) for name in AFTER):
        return
    if run.part.rank != 0:
        untrusted.touch(run.node.left)
        fifo.ring(run.attempt.node(run.document.node_names[0]).wake, fifo.RING)
        return
    interrupted = _Interruption(run)
    if run.leave_request is not None or not _wait_for_others(run, interrupted):
        return
    for name, what, argv in _commands(run, AFTER):
        try:
            failed = _carry_out(run, name, argv, check=interrupted.check)
        except Leave:
            reason = f"the run was asked to {run.leave_kind or 'leave'}"
            run.events.notice(f"{what} was ended: {reason}")
            return
        if failed is not None:
            cause = _cause(run, what, failed, code=words.EXIT_CODE)
            if run.failure_cause is None and all(item.good for item in run.exits):
                run.note_failure(cause)
            else:  # the attempt had failed before
                run.events.notice(cause["message"])
            return


class _Interruption:
    """Whether a request to leave interrupts the commands after the workers."""

    def __init__(self, run: NodeRun) -> None:
        self._run = run
        self._patience_due: Optional[float] = None

    def check(self) -> None:
        """Note a request; raises Leave if it interrupts the commands."""
        run = self._run
        kind = run.new_leave_kind()
        if kind in (words.PAUSE, words.PREEMPT):
            now = time.monotonic()
            self._patience_due = self._patience_due or now + run.document.grace_s
            if now < self._patience_due and not run.wake_channel.node_leaves:
                return
        if kind is not None or run.wake_channel.node_leaves:
            if kind is not None:
                run.note_leave_request(kind)
            # `runner` computes the outcome again, from all exits.
            raise Leave(exit_outcome.ExitOutcome(words.STOPPED, None))


def _wait_for_others(run: NodeRun, interrupted: _Interruption) -> bool:
    """Wait until the workers of every node have ended; False if these commands must not run."""
    waiting = [run.attempt.node(name) for name in run.document.node_names[1:]]
    run.events.flush()
    while True:
        cause = run.failure_cause or run.peer_failure()
        if cause is not None and cause.get("code") in words.PLATFORM_FAULTS:
            return False  # the attempt is retried automatically
        waiting = [node for node in waiting if not (os.path.exists(node.left) or has_ended(node))]
        if not waiting:
            return True
        try:
            interrupted.check()
        except Leave:
            return False
        run.wake_channel.wait()


def _commands(run: NodeRun, names: tuple[str, ...]) -> Iterator[tuple[str, str, Argv]]:
    """The commands of these hooks: the name of each one's hook, its own for messages, and its argv."""
    for name in names:
        for number, argv in enumerate(run.document.hooks.get(name, ()), start=1):
            yield name, f"command {number} of the hook {name}", argv


def _carry_out(run: NodeRun, name: str, argv: Argv, *, check: Callable[[], None]) -> Optional[Child]:
    """Run one command; returns its process if it failed, else None. `check` raises Leave to end it."""
    lines = (f"+ {name}: {line}\n" for line in script_lines(CommandStep(argv)))
    untrusted.append_text(run.setup_log, "".join(lines))
    run.events.flush()
    try:
        check()
        env = environment.complete(run.document.setup_env, run)
        child = run.children.start(Command(argv, env, run.node.work, run.setup_log, place=run.place))
        run.attend(child, check=check)
    except CannotStart as problem:
        child = Child(0)
        child.exit_code = problem.exit_code
        untrusted.append_text(run.setup_log, f"{problem}\n")
    return None if child.exit_code == 0 else child


def _cause(run: NodeRun, what: str, child: Child, *, code: str) -> exit_outcome.Cause:
    return run.cause(
        code,
        f"{what} on {run.node_name} failed: {child.how}",
        exit_code=child.exit_code,
        signal=child.signal,
        tail=logroom.last_lines(run.setup_log, run.events.mask),
    )
