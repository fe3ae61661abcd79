"""What hooks before the workers do when the attempt is asked to leave, or has failed elsewhere.

Called by the hooks `code`, `setup` and `workers`.
"""

from __future__ import annotations

from tarmac.node import judge
from tarmac.node.noderun import Leave, NodeRun


def leave_if_asked(run: NodeRun) -> None:
    """Raises Leave when there is no point in going on: nothing has run that could be asked."""
    run.failure_cause = run.failure_cause or run.peer_failure()
    ask = run.new_ask()
    if ask is not None:
        run.note_ask(ask)
    if run.asked or run.failure_cause or run.pulse.node_leaves:
        raise Leave(verdict(run))


def verdict(run: NodeRun) -> judge.Verdict:
    """How this node's part ends, from all that is known of it."""
    return judge.judge(
        run.exits,
        node=run.part.node,
        asked=run.asked,
        failure_cause=run.failure_cause,
        node_leaves=run.pulse.node_leaves,
        finished=run.finished,
        time_limit_s=None if run.part.time_limit_s is None else run.part.ran_s + run.part.time_limit_s,
    )
