"""What engines write into an attempt directory that stands: what is asked of it, fences, the note of a loss.

Called by engines, with the view's lock held. Everything here may be done again after a crash at any point:
fences and the note of a failure are each created exclusively.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.model import codec
from tarmac.model.errors import Unavailable
from tarmac.model.leaving import LeaveRequest
from tarmac.model.run import Cause
from tarmac.node.attempt import claims, protocol, words
from tarmac.node.files import untrusted
from tarmac.node.kernel import fifo

SPACE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})


def pass_on(view: AttemptView, request: LeaveRequest) -> None:
    """Write down a request to leave, unless a stronger one is there.

    Raises Unavailable when the disk does not take it. On a full disk the runners get the message
    at least, and the caller tries again.
    """
    if not replaces(request, view.leave_request()):
        return
    try:
        write_request(view.directory, request)
    except Unavailable:
        wake(view, json.dumps(pending_request(request)).encode() + b"\n")
        raise


def write_request(directory: Path, request: LeaveRequest) -> None:
    """Replace what an attempt is asked. Raises Unavailable when the disk does not take it."""
    try:
        untrusted.replace(str(directory / protocol.ASK_FILE), json.dumps(pending_request(request)).encode())
    except OSError as error:
        raise Unavailable(f"cannot pass on the {request}: {error.strerror}", hint=hint(error)) from None


def pending_request(request: LeaveRequest) -> Mapping[str, Any]:
    """The content of the file of a request to leave."""
    return {"ask": request.value, "at": time.time()}


def fence(view: AttemptView) -> None:
    """See to it that no node that nobody has claimed ever starts. Raises Unavailable if that cannot be."""
    try:
        for node in view.nodes:
            if node.facts.state is PartState.UNCLAIMED:
                claims.fence(node.paths)
    except OSError as error:
        raise Unavailable(f"cannot fence attempt {view.attempt_id}: {error.strerror}") from None
    view.refresh()


def wake(view: AttemptView, message: bytes = fifo.RING) -> None:
    """Make every runner look for requests; `message` may be the request itself."""
    for node in view.nodes:
        fifo.ring(node.paths.wake, message)


def lose(view: AttemptView, node: NodeView, cause: Cause) -> None:
    """Take a node's part as lost; the peers end their workers, as after any failure."""
    node.lose(cause)
    note = json.dumps({"node": node.node, "cause": codec.encode(cause)})
    draft = f"{view.paths.failed}.{node.node}"
    with contextlib.suppress(OSError):  # on a full disk the peers are left to find out by themselves
        untrusted.write_new(draft, note.encode())
        try:
            os.link(draft, view.paths.failed)
        finally:
            os.unlink(draft)  # noqa: PTH108
    wake(view)


def replaces(request: LeaveRequest, current: LeaveRequest | None) -> bool:
    """Whether a request says something new, and is not weaker than the one it would replace."""
    if current is None:
        return True
    return request is not current and words.LEAVE_STRENGTH[request] >= words.LEAVE_STRENGTH[current]


def hint(error: OSError) -> str | None:
    """What a person can do about it."""
    return "free some space under the tarmac home" if error.errno in SPACE_ERRORS else None
