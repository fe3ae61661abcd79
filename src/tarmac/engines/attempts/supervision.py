"""What has to be done about an attempt for its directory to come true: runners started, losses noticed.

Called by placed engines at every look, with the view's lock held; an engine says by its `Runners` how a node
is reached. Everything here may be done again after a crash at any point: claims, fences and the note of a
failure are each created exclusively.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.run import Cause, CauseCode
from tarmac.node.attempt.protocol import HEARTBEAT_LEASE_S


class Life(StrEnum):
    """What became of the runner that claimed a node. `restarted`: the machine was, and nothing of it is left.

    `silent`: the node cannot be reached, and may come back; `lost`: it has not been reached for too long.
    """

    ALIVE = "alive"
    DEAD = "dead"
    RESTARTED = "restarted"
    SILENT = "silent"
    LOST = "lost"


class Runners(Protocol):
    """How the runners of an engine are reached. Every method may be called again for the same node."""

    def start(self, view: AttemptView, node: NodeView) -> None:
        """Start the runner of a node. Raises Unavailable if it cannot be now, InvalidInput if never."""
        ...

    def life(self, view: AttemptView, node: NodeView) -> Life:
        """What became of a node's runner; where nobody has claimed the node: whether it can be reached."""
        ...

    def await_leaving(self, node: NodeView) -> None:
        """Give a runner that has said its last word a moment to leave."""
        ...

    def end(self, view: AttemptView, node: NodeView) -> None:
        """End a runner that cannot be talked to, and wait until it is gone."""
        ...

    def fence(self, view: AttemptView) -> None:
        """See to it that a node that nobody has claimed never starts. Raises Unavailable."""
        ...

    def lose(self, view: AttemptView, node: NodeView, cause: Cause) -> None:
        """Take a node's part as lost, and let its peers know."""
        ...

    def end_orphans(self, view: AttemptView) -> bool:
        """End what lost runners left behind, of all nodes; False while something of that has not ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerTimeouts:
    """How long to wait for runners. One that has not claimed its node after `start_again_s` is started once
    more, up to `starts` times; one whose heartbeat stands still for `silence_s` is given up.
    """

    start_again_s: float = 2.0
    starts: int = 5
    silence_s: float = HEARTBEAT_LEASE_S


DEFAULT_TIMEOUTS = RunnerTimeouts()


def start(view: AttemptView, runners: Runners) -> None:
    """Start the runner of every node that has none, unless the attempt was stopped before."""
    if view.is_to_end:
        runners.fence(view)
    for node in view.nodes:
        if node.facts.state is PartState.UNCLAIMED:
            _start(view, node, runners)


def supervise(view: AttemptView, runners: Runners, patience: RunnerTimeouts) -> None:
    """See to nodes that nobody claimed and to runners that died; end what a lost runner left behind."""
    for node in view.nodes:
        if node.facts.state is PartState.UNCLAIMED:
            _tend_unclaimed(view, node, runners, patience)
        elif not node.over:
            _tend_claimed(view, node, runners, patience)
    if any(node.lost for node in view.nodes) and all(node.over for node in view.nodes) and not view.reaped:
        view.reaped = runners.end_orphans(view)


def reap(view: AttemptView, runners: Runners) -> None:
    """End runners and all that carries the attempt's token."""
    runners.fence(view)
    for node in view.nodes:
        if not node.over:
            runners.end(view, node)
    view.reaped = runners.end_orphans(view)


def _start(view: AttemptView, node: NodeView, runners: Runners) -> None:
    node.supervision.starts += 1
    node.supervision.requested_at = time.monotonic()
    runners.start(view, node)


def _tend_unclaimed(view: AttemptView, node: NodeView, runners: Runners, patience: RunnerTimeouts) -> None:
    """Its runner is on its way, or died before it could claim, or the server did before it asked for one."""
    life = runners.life(view, node)
    if life is Life.LOST:
        cause = Cause(code=CauseCode.NODE_LOST, message=f"{node.node} cannot be reached", node=node.node)
        runners.lose(view, node, cause)
        return
    if life is Life.SILENT:
        return
    with contextlib.suppress(Unavailable):  # the next look tries again
        requested_at = node.supervision.requested_at
        if view.is_to_end:
            runners.fence(view)
        elif requested_at is None or time.monotonic() - requested_at >= patience.start_again_s:
            if node.supervision.starts < patience.starts:
                _start_or_refuse(view, node, runners)
            else:
                _give_up(view, node, runners)


def _start_or_refuse(view: AttemptView, node: NodeView, runners: Runners) -> None:
    """Start its runner; where that can never be (a secret was removed), its part has failed."""
    try:
        _start(view, node, runners)
    except InvalidInput as error:
        runners.fence(view)
        if node.facts.state is PartState.FENCED:
            node.fail(Cause(code=CauseCode.SETUP_FAILED, message=str(error), node=node.node))


def _give_up(view: AttemptView, node: NodeView, runners: Runners) -> None:
    runners.fence(view)
    if node.facts.state is PartState.FENCED:
        message = f"no runner could be started on {node.node}"
        runners.lose(view, node, Cause(code=CauseCode.PLATFORM_FAULT, message=message, node=node.node))


def _tend_claimed(view: AttemptView, node: NodeView, runners: Runners, patience: RunnerTimeouts) -> None:
    """An end is believed once its runner is gone: until then a worker may have written it."""
    if node.done and not node.supervision.awaited and node.claim is not None:
        node.supervision.awaited = True
        runners.await_leaving(node)
    code = CauseCode.PLATFORM_FAULT
    match runners.life(view, node):
        case Life.SILENT:
            return
        case Life.LOST:
            code, why = CauseCode.NODE_LOST, f"{node.node} cannot be reached"
        case Life.ALIVE:
            if node.still_s() <= patience.silence_s:
                return
            why = f"the runner on {node.node} gave no sign of life for {patience.silence_s:g} s"
            runners.end(view, node)
        case Life.DEAD:
            why = f"the runner on {node.node} died"
        case Life.RESTARTED:
            code, why = CauseCode.NODE_LOST, f"{node.node} was restarted"
    node.take_last_word()
    if not node.over:
        runners.lose(view, node, Cause(code=code, message=why, node=node.node))
