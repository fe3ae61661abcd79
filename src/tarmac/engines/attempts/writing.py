"""Writes to attempt directories: their initial files, requests, fences, the note of a loss.

Called by engines; for an existing directory, with the view's lock held. Every step may be repeated after a
crash at any point: fences and the note of a failure are each created exclusively. A directory has few files
at first: the runner creates all others. See `node.files.staging`.
"""

import contextlib
import errno
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.model import codec
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.progress import Cause
from tarmac.node.attempt import claims, protocol, words
from tarmac.node.attempt.document import Launch, to_json
from tarmac.node.files import untrusted
from tarmac.node.kernel import fifo

SPACE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})


def pass_on(view: AttemptView, request: LeaveRequest) -> None:
    """Write a request to leave, unless there is a stronger one.

    Raises Unavailable if writing fails. On a full disk the runners still get the message, and the caller
    tries again.
    """
    if not replaces(request, view.leave_request()):
        return
    content = json.dumps(pending_request(request)).encode()
    try:
        untrusted.replace(view.paths.ask, content)
    except OSError as error:
        wake(view, content + b"\n")
        raise Unavailable(f"cannot pass on the {request}: {error.strerror}", hint=hint(error)) from None


def pending_request(request: LeaveRequest) -> Mapping[str, Any]:
    """The content of the file of a request to leave."""
    return {"ask": request.value, "at": time.time()}


def fence(view: AttemptView) -> None:
    """Ensure that unclaimed nodes never start. Raises Unavailable if that fails."""
    try:
        for node in view.nodes:
            if node.facts.state is PartState.UNCLAIMED:
                claims.fence(node.paths)
    except OSError as error:
        raise Unavailable(f"cannot fence attempt {view.attempt_id}: {error.strerror}") from None
    view.refresh()


def wake(view: AttemptView, message: bytes = fifo.RING) -> None:
    """Wake every runner to check for requests; `message` may be the request itself."""
    for node in view.nodes:
        fifo.ring(node.paths.wake, message)


def lose(view: AttemptView, node: NodeView, cause: Cause) -> None:
    """Mark a node's part as lost; the peers end their workers, as after any failure."""
    node.lose(cause)
    note = json.dumps({"node": node.node, "cause": codec.encode(cause)})
    draft = f"{view.paths.failed}.{node.node}"
    with contextlib.suppress(OSError):  # on a full disk the peers must detect it themselves
        untrusted.write_new(draft, note.encode())
        try:
            os.link(draft, view.paths.failed)
        finally:
            os.unlink(draft)  # noqa: PTH108
    wake(view)


def replaces(request: LeaveRequest, current: LeaveRequest | None) -> bool:
    """Whether a request is new, and not weaker than the one it would replace."""
    if current is None:
        return True
    return request is not current and words.LEAVE_STRENGTH[request] >= words.LEAVE_STRENGTH[current]


def hint(error: OSError) -> str | None:
    """A hint for the user, if the disk is full."""
    return "free some space under the tarmac home" if error.errno in SPACE_ERRORS else None


def attempt_files(launch: Launch) -> dict[str, bytes]:
    """The initial files of an attempt directory, by name."""
    return {protocol.ATTEMPT_FILE: json.dumps(to_json(launch)).encode()}


def fence_files(attempt_id: str, request: LeaveRequest | None) -> Mapping[str, bytes]:
    """The initial files of an attempt that never starts."""
    files = attempt_files(Launch(attempt_id, number=0, token="", nodes=()))
    if request is not None:
        files[protocol.ASK_FILE] = json.dumps(pending_request(request)).encode()
    return files
