"""What has to be done about an attempt for its directory to come true: runners started, losses noticed.

Called by `LocalEngine` at every look, with the view's lock held. Everything here may be done again after a
crash at any point: claims, fences and the note of a failure are each created exclusively.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass

from tarmac.engines.attempts import writing
from tarmac.engines.attempts.aggregate_outcome import Phase
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.engines.local.starter import Starter
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.run import Cause, CauseCode, LeaveRequest
from tarmac.node.attempt import liveness
from tarmac.node.attempt.protocol import HEARTBEAT_LEASE_S
from tarmac.node.files import secretfiles
from tarmac.node.kernel import procfs, signals, workergroup
from tarmac.node.processes import orphans

END_TIMEOUT_S = 5.0
LAST_WORD_S = 0.05
"""How long the end of a runner that has said its last word is waited for, once: it takes a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerTimeouts:
    """How long to wait for runners. One that has not claimed its node after `start_again_s` is started once
    more, up to `starts` times; one whose heartbeat stands still for `silence_s` is given up.
    """

    start_again_s: float = 2.0
    starts: int = 5
    silence_s: float = HEARTBEAT_LEASE_S


DEFAULT_TIMEOUTS = RunnerTimeouts()


def start(view: AttemptView, starter: Starter) -> None:
    """Start the runner of every node that has none, unless the attempt was stopped before."""
    if view.leave_request() is LeaveRequest.STOP:
        writing.fence(view)
    for node in view.nodes:
        if node.facts.phase is Phase.UNCLAIMED:
            _start(view, node, starter)


def supervise(view: AttemptView, starter: Starter, patience: RunnerTimeouts) -> None:
    """See to nodes that nobody claimed and to runners that died; end what a lost runner left behind."""
    for node in view.nodes:
        if node.facts.phase is Phase.UNCLAIMED:
            _tend_unclaimed(view, node, starter, patience)
        elif not node.over:
            _tend_claimed(view, node, patience)
    if any(node.lost for node in view.nodes) and all(node.over for node in view.nodes) and not view.reaped:
        _end_orphans(view)


def reap(view: AttemptView) -> None:
    """End runners and all that carries the attempt's token."""
    writing.fence(view)
    for node in view.nodes:
        if not node.over:
            _end_runner(node)
    _end_orphans(view)


def runner_alive(node: NodeView) -> bool:
    """Whether the process that claimed this node still is that process."""
    return node.claim is not None and liveness.is_alive(node.claim)


def of_this_boot(node: NodeView) -> bool:
    """Whether it was claimed since this machine was started: if not, nothing of it can be left."""
    return node.claim is not None and node.claim.boot_id == procfs.boot_id()


def _start(view: AttemptView, node: NodeView, starter: Starter) -> None:
    node.supervision.starts += 1
    node.supervision.asked_for_at = time.monotonic()
    starter.start(view, node)


def _tend_unclaimed(view: AttemptView, node: NodeView, starter: Starter, patience: RunnerTimeouts) -> None:
    """Its runner is on its way, or died before it could claim, or the server did before it asked for one."""
    with contextlib.suppress(Unavailable):  # the next look tries again
        asked_for_at = node.supervision.asked_for_at
        if view.leave_request() is LeaveRequest.STOP:
            writing.fence(view)
        elif asked_for_at is None or time.monotonic() - asked_for_at >= patience.start_again_s:
            if node.supervision.starts < patience.starts:
                _start_or_refuse(view, node, starter)
            else:
                _give_up(view, node)


def _start_or_refuse(view: AttemptView, node: NodeView, starter: Starter) -> None:
    """Start its runner; where that can never be (a secret was removed), its part has failed."""
    try:
        _start(view, node, starter)
    except InvalidInput as error:
        writing.fence(view)
        if node.facts.phase is Phase.FENCED:
            node.fail(Cause(code=CauseCode.SETUP_FAILED, message=str(error), node=node.node))


def _give_up(view: AttemptView, node: NodeView) -> None:
    writing.fence(view)
    if node.facts.phase is Phase.FENCED:
        message = f"no runner could be started on {node.node}"
        writing.lose(view, node, Cause(code=CauseCode.PLATFORM_FAULT, message=message, node=node.node))


def _tend_claimed(view: AttemptView, node: NodeView, patience: RunnerTimeouts) -> None:
    """An end is believed once its runner is gone: until then a worker may have written it."""
    _await_leaving(node)
    code = CauseCode.PLATFORM_FAULT
    if runner_alive(node):
        if node.still_s() <= patience.silence_s:
            return
        why = f"the runner on {node.node} gave no sign of life for {patience.silence_s:g} s"
        _end_runner(node)
    elif of_this_boot(node):
        why = f"the runner on {node.node} died"
    else:
        code, why = CauseCode.NODE_LOST, f"{node.node} was restarted"
    node.take_last_word()
    if not node.over:
        writing.lose(view, node, Cause(code=code, message=why, node=node.node))


def _await_leaving(node: NodeView) -> None:
    """Where the runner has said that it is done, give it a moment to leave; once."""
    if node.done and not node.supervision.awaited and node.claim is not None:
        node.supervision.awaited = True
        liveness.wait_for_end(node.claim, LAST_WORD_S)


def _end_runner(node: NodeView) -> None:
    """End a runner that cannot be talked to, and wait until it is gone."""
    claim = node.claim
    if claim is None or claim.process is None or not liveness.is_alive(claim):
        return
    try:
        handle = os.pidfd_open(claim.process.pid)
    except OSError:
        return  # gone since
    try:
        if signals.send(claim.process, signal.SIGKILL):
            select.select([handle], [], [], END_TIMEOUT_S)
    finally:
        os.close(handle)


def _end_orphans(view: AttemptView) -> None:
    """Only now that no runner is left: the token is the same on all nodes of an attempt."""
    if not any(node.claim is None or of_this_boot(node) for node in view.nodes):
        _remove_secrets(view)
        view.reaped = True
        return
    with contextlib.suppress(TimeoutError):  # something does not end yet: looked at again next time
        orphans.end_orphans(view.token)
        workergroup.remove_left(view.attempt_id)
        _remove_secrets(view)
        view.reaped = True


def _remove_secrets(view: AttemptView) -> None:
    """What a lost runner left of the files of secrets: nobody reads them any more."""
    if view.secrets:
        for node in view.nodes:
            secretfiles.remove(view.token, node.node, node.paths.directory)
