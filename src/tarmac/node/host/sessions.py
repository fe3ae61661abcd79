"""The far end of a session, started on a connection to the agent of a node. Called by `agent`.

first      {"package", "python"}    the package's path here, and the Python that runs it (None: the agent's)
answer     {"problem"}              the reason why the far end did not start, or None
then       frames of the session (`node/session/frames.py`), which bypass the agent
"""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import BinaryIO

from tarmac.node.host import frames
from tarmac.node.starting import Installation

START_TIMEOUT_S = 60.0


def begin(connection: socket.socket, stream: BinaryIO) -> None:
    """Start the far end, and hand over the connection. Raises OSError and ValueError."""
    order = frames.read(stream)
    if order is None:
        return
    problem = None
    try:
        start(Installation(order["python"] or sys.executable, order["package"]), connection)
    except (OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    connection.sendall(frames.pack({"problem": problem}))


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
