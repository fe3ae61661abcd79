"""Whether the image of a run can be had on this machine. Made by `wiring` for the server of one user.

A laptop without a network starts a file of MCLI or Determined as well: on the machine itself, and says so.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.images import Images
from tarmac.node.container.reference import DOCKER_HUB, local_path, parse

_ANSWER_S = 2.0
"""How long a name server may take: one that cannot be reached takes much longer to be given up."""
_KNOWN_FOR_S = 60.0


class ReachableImages:
    """Tells which images are out of reach.

    `directory` holds those that were pulled, and `finds` tells whether a name of a machine is known.
    """

    def __init__(self, directory: Path, *, finds: Callable[[str], bool] | None = None) -> None:
        self._images = Images(str(directory))
        self._finds = finds or _finds
        self._found = True
        self._looked_at: float | None = None

    def out_of_reach(self, image: str) -> bool:
        """Whether it is one of Docker Hub that is not here, and this machine does not find even that name.

        A registry that somebody named may be misspelt, and one that refuses may be back: their runs fail.
        """
        try:
            if local_path(image) is not None or parse(image).registry != DOCKER_HUB:
                return False
            return self._images.find(image) is None and not self._has_network()
        except ImageProblem:
            return False

    def _has_network(self) -> bool:
        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at > _KNOWN_FOR_S:
            self._found, self._looked_at = self._finds(DOCKER_HUB), now
        return self._found


def _finds(name: str) -> bool:
    found: list[bool] = []

    def look() -> None:
        try:
            socket.getaddrinfo(name, 443)
        except OSError:
            return
        found.append(True)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(_ANSWER_S)
    return bool(found)
