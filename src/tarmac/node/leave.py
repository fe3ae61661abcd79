"""The reaction of hooks before the workers to a request to leave, or to a failure on another node.

Called by hooks, which also wait here for the node of rank 0.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Callable

from tarmac.node.attempt import exit_outcome, words
from tarmac.node.files import untrusted
from tarmac.node.kernel import fifo
from tarmac.node.noderun import Leave, NodeRun
from tarmac.node.processes.children import Child

_MOMENT_S = 0.3


def check_leave(run: NodeRun) -> None:
    """Raises Leave on a request to leave, a failure, or a node that ends its runner: no worker runs yet."""
    run.failure_cause = run.failure_cause or run.peer_failure()
    kind = run.new_leave_kind()
    if kind is not None:
        run.note_leave_request(kind)
    if run.leave_request or run.failure_cause or run.wake_channel.node_leaves:
        raise Leave(outcome_of(run))


def attend(
    run: NodeRun,
    child: Child,
    *,
    check: Callable[[NodeRun], None] = check_leave,
    news: Callable[[], object] = lambda: None,
    also: int = -1,
    at_once: bool = False,
) -> None:
    """Wait for a process of a hook, reading its `news`; `also` is another descriptor that wakes the runner.

    If `check` raises Leave, end the process and raise it: by SIGTERM, leaving what remains after a moment to
    the end of the node's part, or with `at_once` by SIGKILL.
    """
    while not child.left:
        run.wake_channel.wait(run.leave_due, also=also)
        run.log_room.look()
        news()
        run.children.reap()
        if not child.left:
            try:
                check(run)
            except Leave:
                _end(run, child, at_once=at_once)
                raise
    news()


def _end(run: NodeRun, child: Child, *, at_once: bool) -> None:
    if at_once:
        os.kill(child.pid, signal.SIGKILL)
        child.send(signal.SIGKILL)
        while not child.left:
            run.wake_channel.wait()
            run.children.reap()
        return
    child.send(signal.SIGTERM)
    deadline = time.monotonic() + _MOMENT_S
    while not run.children.none_left and time.monotonic() < deadline:
        run.wake_channel.wait(deadline)
        run.children.reap()


def fail(run: NodeRun, cause: exit_outcome.Cause) -> Leave:
    """Fail the attempt before its workers start, on all nodes. The caller raises the result."""
    run.note_failure(cause)
    return Leave(exit_outcome.ExitOutcome(words.FAILED, run.failure_cause))


def fault(run: NodeRun, message: str) -> exit_outcome.ExitOutcome:
    """The outcome of a platform fault, which the other nodes learn of: the attempt is retried."""
    run.note_failure(run.cause(words.PLATFORM_FAULT, message))
    return outcome_of(run)


def wait_for(run: NodeRun, path: str) -> None:
    """Wait until the node of rank 0 has made `path`; raises Leave like `check_leave`."""
    while not os.path.exists(path):
        check_leave(run)
        run.wake_channel.wait(run.leave_due)


def notify_nodes(run: NodeRun, path: str) -> None:
    """Make `path`, which the other nodes wait for, and wake their runners."""
    untrusted.touch(path)
    for name in run.document.node_names[1:]:
        fifo.ring(run.attempt.node(name).wake, fifo.RING)


def outcome_of(run: NodeRun) -> exit_outcome.ExitOutcome:
    """The outcome of this node's part, from all known facts."""
    limit_s = run.document.time_limit_s
    return exit_outcome.node_outcome(
        run.exits,
        node=run.node_name,
        request=run.leave_request,
        failure_cause=run.failure_cause,
        node_leaves=run.wake_channel.node_leaves,
        finished=run.finished,
        time_limit_s=None if limit_s is None else run.document.ran_s + limit_s,
    )
