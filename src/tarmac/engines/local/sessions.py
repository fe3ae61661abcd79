"""Sessions beside workers of the local engine: the far end is a process of this machine.

Called by `LocalEngine`.
"""

from __future__ import annotations

import socket
import subprocess

from tarmac.engines.attempts.view import AttemptView
from tarmac.model.errors import Refused, Unavailable
from tarmac.model.ports import WorkerStatus
from tarmac.node.host.sessions import start
from tarmac.node.session import frames
from tarmac.node.starting import Installation


def open_session(installation: Installation, view: AttemptView | None, worker: WorkerStatus) -> int:
    """As `OpensSessions` defines; the worker must have a pid."""
    if view is None or worker.pid is None:
        raise Refused("the worker has not started")
    near, far = socket.socketpair()
    try:
        start(installation, far)
        near.sendall(frames.pack_document(frames.WORKER, pid=worker.pid, token=view.token))
    except (OSError, subprocess.SubprocessError) as error:
        near.close()
        raise Unavailable(f"the session cannot be started: {error}") from None
    finally:
        far.close()
    return near.detach()
