"""What this machine knows of an image before a run in it is accepted. Made by `wiring`.

Whether the image can be had at all: a laptop without a network starts a file of MCLI or Determined as well,
on the machine itself, and says so. And whether a run in it can start: containers can be made here, and an
image of this machine is there, and for its architecture.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tarmac.node.container import checking
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.images import Images
from tarmac.node.container.reference import DOCKER_HUB, local_path, parse
from tarmac.node.container.trial import Trial

_ANSWER_S = 2.0
"""How long a name server may take: one that cannot be reached takes much longer to be given up."""
_KNOWN_FOR_S = 60.0

Value = TypeVar("Value")


class LocalImages:
    """The images of this machine.

    `directory` holds those that were pulled, `finds` tells whether a name of a machine is known, and
    `try_container` whether a container can be made. Without `replaceable` no image is ever out of reach.
    """

    def __init__(
        self,
        directory: Path,
        *,
        try_container: Callable[[], Trial],
        replaceable: bool,
        finds: Callable[[str], bool] | None = None,
    ) -> None:
        self._images = Images(str(directory))
        self._replaceable = replaceable
        self._network = _Known(lambda: (finds or _finds)(DOCKER_HUB))
        self._trial = _Known(try_container, lasts=lambda trial: trial.works)

    def out_of_reach(self, image: str) -> bool:
        """Whether it is one of Docker Hub that is not here, and this machine does not find even that name.

        A registry that somebody named may be misspelt, and one that refuses may be back: their runs fail.
        """
        try:
            if not self._replaceable or local_path(image) is not None or parse(image).registry != DOCKER_HUB:
                return False
            return self._images.find(image) is None and not self._network.value()
        except ImageProblem:
            return False

    def problem(self, image: str) -> ImageProblem | None:
        """Why no run can start in it here; None where only a try can tell."""
        try:
            path = local_path(image)
            if path is not None:
                checking.check(str(Path(path).absolute()), os.uname().machine)
            else:
                parse(image)
        except ImageProblem as problem:
            return problem
        trial = self._trial.value()
        return None if trial.works else ImageProblem("", f"no container can be made here: {trial.text}")


class _Known(Generic[Value]):
    """What takes a while to find out, and is known for a while; for good, where it `lasts`."""

    def __init__(
        self, find: Callable[[], Value], *, lasts: Callable[[Value], bool] = lambda _: False
    ) -> None:
        self._find = find
        self._lasts = lasts
        self._found: tuple[Value, float] | None = None

    def value(self) -> Value:
        """The value of now, or of a while ago."""
        now = time.monotonic()
        if self._found is None or now > self._found[1]:
            value = self._find()
            self._found = value, float("inf") if self._lasts(value) else now + _KNOWN_FOR_S
        return self._found[0]


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
