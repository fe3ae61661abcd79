"""The far end of a session, started on a connection to the agent of a node. Called by `agent`.

After the answer the connection carries frames of the session (`node/session/frames.py`) past the agent.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Optional

from tarmac.node.starting import Installation
from tarmac.node.wire.opening import answer

START_TIMEOUT_S = 60.0


def begin(connection: socket.socket, package: str, python: Optional[str]) -> None:
    """Start the far end, and hand over the connection. Raises OSError.

    `package` is the package's path here, `python` runs it (None: the agent's).
    """
    problem = None
    try:
        start(Installation(python or sys.executable, package), connection)
    except (OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    answer(connection, problem)


def start(installation: Installation, far: socket.socket) -> None:
    """Start a far end on a connected socket; returns after it is independent.

    Raises OSError and SubprocessError.
    """
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
