"""Sessions beside workers of the local engine: the far end is a process of this machine.

Called by `LocalEngine`.
"""

from __future__ import annotations

import socket
import subprocess

from tarmac.engines.attempts.view import AttemptView
from tarmac.model.errors import Refused, Unavailable
from tarmac.model.ports import WorkerStatus
from tarmac.node.session import frames
from tarmac.node.starting import Installation

START_TIMEOUT_S = 60.0


def open_session(installation: Installation, view: AttemptView | None, worker: WorkerStatus) -> int:
    """As `OpensSessions` says; the worker must have a pid."""
    if view is None or worker.pid is None:
        raise Refused("the worker has not started")
    near, far = socket.socketpair()
    try:
        _start(installation, far)
        near.sendall(frames.pack_document(frames.WORKER, pid=worker.pid, token=view.token))
    except (OSError, subprocess.SubprocessError) as error:
        near.close()
        raise Unavailable(f"the session cannot be started: {error}") from None
    finally:
        far.close()
    return near.detach()


def _start(installation: Installation, far: socket.socket) -> None:
    """Returns once the far end goes on by itself."""
    subprocess.run(
        installation.session(far.fileno()),
        pass_fds=(far.fileno(),),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        check=True,
        timeout=START_TIMEOUT_S,
    )
