"""Checks an image on this machine before the server accepts a run in it. Made by `wiring`.

It checks whether the image is available: without a network, a laptop starts a file that was written for a
cluster on the machine itself, with a warning. It also checks whether a run can start in it: whether this
machine can make containers, and whether a local image exists and fits its architecture.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tarmac.node.container import archives
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.images import Images
from tarmac.node.container.making import Trial
from tarmac.node.container.reference import DOCKER_HUB, local_path, parse

_ANSWER_S = 2.0
"""Maximum time for a name server: an unreachable one would take much longer."""
_KNOWN_FOR_S = 60.0

Value = TypeVar("Value")


class LocalImages:
    """The images of this machine.

    `directory` holds the pulled images, `finds` tests whether a host name resolves, and `try_container` tests
    whether a container can be made. Without `replaceable` every image counts as available.
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
        """Whether a missing image is from Docker Hub and this machine cannot resolve even Docker Hub's name.

        The name of any other registry may be misspelt, and one that refuses may recover: their runs fail.
        """
        try:
            if not self._replaceable or local_path(image) is not None or parse(image).registry != DOCKER_HUB:
                return False
            return self._images.find(image) is None and not self._network.value()
        except ImageProblem:
            return False

    def problem(self, image: str) -> ImageProblem | None:
        """The reason why no run can start in it here; None if only a try can decide."""
        try:
            path = local_path(image)
            if path is not None:
                archives.check_image(str(Path(path).absolute()), os.uname().machine)
            else:
                parse(image)
        except ImageProblem as problem:
            return problem
        trial = self._trial.value()
        return None if trial.works else ImageProblem("", f"no container can be made here: {trial.text}")


class _Known(Generic[Value]):
    """A slowly computed value, cached for some time; permanently if it `lasts`."""

    def __init__(
        self, find: Callable[[], Value], *, lasts: Callable[[Value], bool] = lambda _: False
    ) -> None:
        self._find = find
        self._lasts = lasts
        self._found: tuple[Value, float] | None = None

    def value(self) -> Value:
        """The current or cached value."""
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
