"""What has to be done about an attempt for its directory to come true: runners started, losses noticed.

Called by `LocalEngine` at every look, with the view's lock held. Everything here may be done again after a
crash at any point: claims, fences and the note of a failure are each created exclusively.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

from tarmac.engines.local.verdict import Phase
from tarmac.engines.local.view import AttemptView, NodeView
from tarmac.engines.local.warm import WarmParent
from tarmac.model import codec
from tarmac.model.errors import Unavailable
from tarmac.model.run import Ask, Cause, CauseCode
from tarmac.node import claims, fifo, liveness, procfs, signals, strays
from tarmac.node.protocol import HEARTBEAT_LEASE_S

START_AGAIN_S = 2.0
"""A runner that has not claimed its node by then is started once more."""

MAX_STARTS = 5
END_TIMEOUT_S = 5.0


def start(view: AttemptView, warm: WarmParent) -> None:
    """Start the runner of every node that has none, unless the attempt was stopped before."""
    stopped = view.ask() is Ask.STOP
    for node in view.nodes:
        if node.facts.phase is Phase.UNCLAIMED:
            if stopped:
                claims.fence(node.paths)
            else:
                _start(view, node, warm)


def tend(view: AttemptView, warm: WarmParent) -> None:
    """See to nodes that nobody claimed and to runners that died; end what a lost runner left behind."""
    for node in view.nodes:
        if node.facts.phase is Phase.UNCLAIMED:
            _tend_unclaimed(view, node, warm)
        elif not node.over:
            _tend_claimed(view, node)
    if any(node.lost for node in view.nodes) and all(node.over for node in view.nodes) and not view.reaped:
        _end_strays(view)


def fence(view: AttemptView) -> None:
    """See to it that no node that nobody has claimed ever starts."""
    for node in view.nodes:
        if node.facts.phase is Phase.UNCLAIMED:
            claims.fence(node.paths)
    view.refresh()


def wake(view: AttemptView) -> None:
    """Make every runner look at what it was asked."""
    for node in view.nodes:
        fifo.ring(node.paths.wake)


def reap(view: AttemptView) -> None:
    """End runners and all that carries the attempt's token."""
    fence(view)
    for node in view.nodes:
        if not node.over:
            _end_runner(node)
    view.reaped = False
    _end_strays(view)


def _start(view: AttemptView, node: NodeView, warm: WarmParent) -> None:
    node.care.starts += 1
    node.care.asked_for_at = time.monotonic()
    warm.start_runner(view.directory, node.node)


def _tend_unclaimed(view: AttemptView, node: NodeView, warm: WarmParent) -> None:
    """Its runner is on its way, or died before it could claim, or the server did before it asked for one."""
    if view.ask() is Ask.STOP:
        claims.fence(node.paths)
        node.refresh()
        return
    asked_for_at = node.care.asked_for_at
    if asked_for_at is not None and time.monotonic() - asked_for_at < START_AGAIN_S:
        return
    if node.care.starts < MAX_STARTS:
        with contextlib.suppress(Unavailable):  # the next look tries again
            _start(view, node, warm)
        return
    claims.fence(node.paths)
    node.refresh()
    if node.facts.phase is Phase.FENCED:
        message = f"no runner could be started on {node.node}"
        _lose(view, node, Cause(code=CauseCode.PLATFORM_FAULT, message=message, node=node.node))


def _tend_claimed(view: AttemptView, node: NodeView) -> None:
    if node.runner_alive():
        if not _silent(node):
            return
        why = f"the runner on {node.node} gave no sign of life for {HEARTBEAT_LEASE_S:g} s"
        _end_runner(node)
    elif node.claim is not None and node.claim.boot_id != procfs.boot_id():
        why = f"{node.node} was restarted"
    else:
        why = f"the runner on {node.node} died"
    node.refresh()  # it may have written its last event before it went
    if not node.over:
        code = CauseCode.NODE_LOST if why.endswith("restarted") else CauseCode.PLATFORM_FAULT
        _lose(view, node, Cause(code=code, message=why, node=node.node))


def _silent(node: NodeView) -> bool:
    """Whether a runner's heartbeat stood still for the whole lease, while we were here to see it.

    By our own clock, which stops with the machine: waking from sleep is no loss.
    """
    heartbeat, now = node.heartbeat(), time.monotonic()
    if node.care.heartbeat_seen_at is None or heartbeat != node.care.heartbeat:
        node.care.heartbeat, node.care.heartbeat_seen_at = heartbeat, now
    return now - node.care.heartbeat_seen_at > HEARTBEAT_LEASE_S


def _lose(view: AttemptView, node: NodeView, cause: Cause) -> None:
    """Take a node's part as lost; the peers end their workers, as after any failure."""
    node.lose(cause)
    note = json.dumps({"node": node.node, "cause": codec.encode(cause)})
    draft = f"{view.paths.failed}.{node.node}"
    with contextlib.suppress(OSError):  # on a full disk the peers are left to find out by themselves
        with open(draft, "w", encoding="utf-8") as file:  # noqa: PTH123 - plain paths, as in `node`
            file.write(note)
        try:
            os.link(draft, view.paths.failed)
        finally:
            os.unlink(draft)  # noqa: PTH108
    wake(view)


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


def _end_strays(view: AttemptView) -> None:
    """Only now that no runner is left: the token is the same on all nodes of an attempt."""
    with contextlib.suppress(TimeoutError):  # something does not end yet: looked at again next time
        strays.end_strays(view.token)
        view.reaped = True
