"""What hooks before the workers do when the attempt is asked to leave, or has failed elsewhere.

Called by the hooks `code`, `setup` and `workers`. The nodes wait for that of rank 0 here, too.
"""

from __future__ import annotations

import os

from tarmac.node.attempt import exit_outcome
from tarmac.node.files import untrusted
from tarmac.node.kernel import fifo
from tarmac.node.noderun import Leave, NodeRun


def leave_if_asked(run: NodeRun) -> None:
    """Raises Leave when there is no point in going on: nothing has run that could be asked."""
    run.failure_cause = run.failure_cause or run.peer_failure()
    ask = run.new_ask()
    if ask is not None:
        run.note_ask(ask)
    if run.asked or run.failure_cause or run.wake_channel.node_leaves:
        raise Leave(verdict(run))


def wait_for(run: NodeRun, path: str) -> None:
    """Until the node of rank 0 has said so; raises Leave as above."""
    while not os.path.exists(path):
        leave_if_asked(run)
        run.wake_channel.wait(run.limit_due)


def tell_others(run: NodeRun, path: str) -> None:
    """The node of rank 0 says so."""
    untrusted.touch(path)
    for name in run.document.node_names[1:]:
        fifo.ring(run.attempt.node(name).wake, fifo.RING)


def verdict(run: NodeRun) -> exit_outcome.ExitOutcome:
    """How this node's part ends, from all that is known of it."""
    limit_s = run.document.time_limit_s
    return exit_outcome.judge(
        run.exits,
        node=run.node_name,
        asked=run.asked,
        failure_cause=run.failure_cause,
        node_leaves=run.wake_channel.node_leaves,
        finished=run.finished,
        time_limit_s=None if limit_s is None else run.document.ran_s + limit_s,
    )
