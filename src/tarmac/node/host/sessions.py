"""The far end of a session, begun on a connection that came to the agent of a node. Called by `agent`.

first      {"package", "python"}    where the package lies here, and the Python that runs it (None: ours)
answer     {"problem"}              what kept the far end from starting, or None
then       frames of the session (`node/session/frames.py`), of which the agent sees none
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
    """Start the far end, and leave the connection to it. Raises OSError and ValueError."""
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
    """Start a far end on a connected socket; returns once it goes on by itself.

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
