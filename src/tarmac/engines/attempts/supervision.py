"""Supervises attempts: starts their runners, and notices losses.

Called by placed engines at every poll, with the view's lock held; an engine's `Runners` define how it reaches
a node. Every step may be repeated after a crash at any point: claims, fences and the note of a failure are
each created exclusively.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tarmac.engines.attempts import writing
from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.progress import Cause, CauseCode
from tarmac.node.attempt.protocol import HEARTBEAT_LEASE_S


class Life(StrEnum):
    """The state of a runner that claimed a node. `restarted`: the machine rebooted, ending everything.

    `silent`: the node is unreachable, and may come back; `lost`: it was unreachable for too long.
    """

    ALIVE = "alive"
    DEAD = "dead"
    RESTARTED = "restarted"
    SILENT = "silent"
    LOST = "lost"


class Runners(Protocol):
    """How an engine reaches its runners. Every method may be called again for the same node."""

    def reserve(self, view: AttemptView) -> None:
        """Take the nodes of an attempt from others. Raises Unavailable while others use one of them."""

    def start_all(self, view: AttemptView, nodes: Sequence[NodeView]) -> None:
        """Start the runners of these nodes, at once if that takes time. Raises as `start`."""

    def start(self, view: AttemptView, node: NodeView) -> None:
        """Start the runner of a node. Raises Unavailable if that fails now, InvalidInput if always."""

    def life(self, view: AttemptView, node: NodeView) -> Life:
        """The state of a node's runner; for an unclaimed node, whether it is reachable.

        A runner that has reported its end may get a moment to exit.
        """

    def end(self, view: AttemptView, node: NodeView) -> None:
        """End a runner that does not react to requests, and wait until it is gone."""

    def fence(self, view: AttemptView) -> None:
        """Ensure that an unclaimed node never starts. Raises Unavailable."""

    def end_orphans(self, view: AttemptView) -> bool:
        """End the processes left by lost runners, on all nodes; False while one has not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerTimeouts:
    """Timeouts for runners. One that has not claimed its node after `start_again_s` is started once more, up
    to `starts` times; one whose heartbeat does not change for `silence_s` is given up.
    """

    start_again_s: float = 2.0
    starts: int = 5
    silence_s: float = HEARTBEAT_LEASE_S


DEFAULT_TIMEOUTS = RunnerTimeouts()


def begin(view: AttemptView, runners: Runners) -> Sequence[NodeView]:
    """The unclaimed nodes, whose runners the caller starts: none if the attempt was fenced or stopped."""
    if not view.nodes or view.is_to_end:
        runners.fence(view)
        return ()
    runners.reserve(view)
    unclaimed = [node for node in view.nodes if node.facts.state is PartState.UNCLAIMED]
    for node in unclaimed:
        _note_start(node)
    return unclaimed


def supervise(view: AttemptView, runners: Runners, patience: RunnerTimeouts) -> None:
    """Handle unclaimed nodes and dead runners; end the processes left by a lost runner."""
    for node in view.nodes:
        if node.facts.state is PartState.UNCLAIMED:
            _tend_unclaimed(view, node, runners, patience)
        elif not node.over:
            _tend_claimed(view, node, runners, patience)
    if any(node.lost for node in view.nodes) and view.over and not view.reaped:
        view.reaped = runners.end_orphans(view)


def reap(view: AttemptView, runners: Runners) -> None:
    """End runners and all processes with the attempt's token."""
    runners.fence(view)
    for node in view.nodes:
        if not node.over:
            runners.end(view, node)
    view.reaped = runners.end_orphans(view)


def _note_start(node: NodeView) -> None:
    node.starts += 1
    node.requested_at = time.monotonic()


def _tend_unclaimed(view: AttemptView, node: NodeView, runners: Runners, patience: RunnerTimeouts) -> None:
    """Handle a node whose runner is starting, died before its claim, or was not requested due to a crash."""
    life = runners.life(view, node)
    if life is Life.LOST:
        cause = Cause(code=CauseCode.NODE_LOST, message=f"{node.node} cannot be reached", node=node.node)
        writing.lose(view, node, cause)
        return
    if life is Life.SILENT:
        return
    with contextlib.suppress(Unavailable):  # the next poll tries again
        requested_at = node.requested_at
        if view.is_to_end:
            runners.fence(view)
        elif requested_at is None or time.monotonic() - requested_at >= patience.start_again_s:
            if node.starts < patience.starts:
                _start_or_refuse(view, node, runners)
            else:
                _give_up(view, node, runners)


def _start_or_refuse(view: AttemptView, node: NodeView, runners: Runners) -> None:
    """Start its runner; if that can never work (a secret was removed), its part has failed."""
    try:
        _note_start(node)
        runners.start(view, node)
    except InvalidInput as error:
        runners.fence(view)
        if node.facts.state is PartState.FENCED:
            node.fail(Cause(code=CauseCode.SETUP_FAILED, message=str(error), node=node.node))


def _give_up(view: AttemptView, node: NodeView, runners: Runners) -> None:
    runners.fence(view)
    if node.facts.state is PartState.FENCED:
        message = f"no runner could be started on {node.node}"
        writing.lose(view, node, Cause(code=CauseCode.PLATFORM_FAULT, message=message, node=node.node))


def _tend_claimed(view: AttemptView, node: NodeView, runners: Runners, patience: RunnerTimeouts) -> None:
    """Accept a reported end only after its runner is gone: until then a worker may have forged it."""
    code = CauseCode.PLATFORM_FAULT
    match runners.life(view, node):
        case Life.SILENT:
            return
        case Life.LOST:
            code, why = CauseCode.NODE_LOST, f"{node.node} cannot be reached"
        case Life.ALIVE:
            node.alive_at = time.time()
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
        writing.lose(view, node, Cause(code=code, message=why, node=node.node))
