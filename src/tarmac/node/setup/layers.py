"""The environments of one attempt: shared ones, made once for all equal requirements, and its own.

    nodes/NODE/venv        the attempt's own: from commands, editable installs and local paths
    ENVIRONMENTS/KEY       one for each set of requirements, over those of the steps before it
    the run's own Python   as its commands find it: never written to

Made by the hook `setup`; `packages` installs into them. A shared environment is made under a lock and is
valid after its mark exists; an attempt holds the lock in shared mode until it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from typing import Any, Callable, Optional

from tarmac.node.files import untrusted
from tarmac.node.files.digests import digest
from tarmac.node.setup import interpreter, venv
from tarmac.node.setup.interpreter import Interpreter
from tarmac.node.setup.setupwork import SetupWork, StepFailed

_MARK = "whole"
_SCRIPTS = "scripts"
_POLL_S = 0.1
UNUSED_S = 30 * 86400.0


class Layers:
    """The environments of an attempt on a node, from the top: its own, then the shared ones of its steps."""

    def __init__(self, work: SetupWork, python: Interpreter, root: str) -> None:
        self._work = work
        self._root = root
        self._shared: list[str] = []
        self._key: list[Any] = python.identity()
        self.python = python
        self.own = work.run.node.venv
        self._base_scripts = self._scripts_of_base()
        venv.make(self.own, python, self._below())
        self._untouched = venv.contents(self.own, python)
        self._enter()

    @property
    def private(self) -> bool:
        """Whether the attempt's own environment has packages: later steps may depend on them."""
        return venv.contents(self.own, self.python) != self._untouched

    def share(self, words: Any, install: Callable[[str], None]) -> bool:
        """Put the environment that `words` describe below the attempt's own; False if it existed.

        `install` fills an empty one; it is not called if another attempt has made it.
        """
        text = json.dumps([self._key, words], sort_keys=True)
        key = digest(text)[:32]
        directory = os.path.join(self._root, key)
        made = self._ensure(directory, install)
        self._key = [key]
        self._shared.insert(0, directory)
        venv.set_below(self.own, self.python, self._below())
        self._enter()
        return made

    def _ensure(self, directory: str, install: Callable[[str], None]) -> bool:
        """Complete the environment if necessary; True if this attempt made it."""
        mark = os.path.join(directory, _MARK)
        handle = os.open(f"{directory}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        self._work.run.lock_handles.append(handle)
        waited = False
        while True:
            if _locked(handle, fcntl.LOCK_SH) and os.path.exists(mark):
                os.utime(mark)
                return False
            if _locked(handle, fcntl.LOCK_EX):
                if not os.path.exists(mark):
                    self._make(directory, mark, install)
                fcntl.flock(handle, fcntl.LOCK_SH)
                return True
            fcntl.flock(handle, fcntl.LOCK_UN)
            if not waited:
                self._work.say("(another run is installing the same: waiting for it)")
                waited = True
            self._work.wait(_POLL_S * (1 + self._work.run.part.rank % 7 / 7))

    def _make(self, directory: str, mark: str, install: Callable[[str], None]) -> None:
        with suppress(OSError):  # an incomplete one of a process that ended
            untrusted.remove_tree(directory)
        venv.make(directory, self.python, self._below())
        try:
            install(directory)
        except BaseException:
            with suppress(OSError):
                untrusted.remove_tree(directory)
            raise
        binaries = venv.bin_of(directory)
        venv.pass_on_scripts(binaries, os.path.join(directory, _SCRIPTS), others=True)
        with open(f"{mark}.draft", "w", encoding="utf-8") as file:
            json.dump({"made_at": time.time(), "python": self.python.executable}, file)
        os.replace(f"{mark}.draft", mark)
        sweep(self._root, older_than_s=UNUSED_S)

    def _below(self) -> list[str]:
        """The layers below the attempt's own environment, or below the next shared one."""
        return [*(venv.site_of(directory, self.python) for directory in self._shared), *self.python.sites]

    def _enter(self) -> None:
        """Put these programs first on the PATH of later steps and of workers."""
        scripts = [os.path.join(directory, _SCRIPTS) for directory in self._shared]
        self._work.run.venv = self.own
        self._work.run.programs = [venv.bin_of(self.own), *scripts, self._base_scripts]

    def _scripts_of_base(self) -> str:
        """The scripts of the run's own Python, adapted to see the packages above it."""
        binaries = self.python.scripts
        if self._work.run.container is not None:
            return binaries  # they can be read only in the container
        with suppress(OSError):
            text = json.dumps([binaries, os.stat(binaries).st_mtime_ns])
            target = os.path.join(self._root, f"scripts-{digest(text)[:32]}")
            if not os.path.isdir(target):
                venv.pass_on_scripts(binaries, target, others=False)
            return target
        return binaries


def open_layers(work: SetupWork) -> Optional[Layers]:
    """The environments of this attempt here; None if its commands find no Python."""
    env = work.env()
    path = interpreter.find(work, env)
    if path is None:
        return None
    root = work.run.document.environments or os.path.join(work.run.node.directory, "environments")
    if work.run.container is not None:  # different images may have different Pythons at the same path
        root = os.path.join(root, f"image-{work.run.container.key}")
    os.makedirs(root, mode=0o700, exist_ok=True)
    try:
        python = interpreter.ask(work, path, env=env, root=root)
    except StepFailed:
        return None
    return Layers(work, python, root)


def sweep(root: str, *, older_than_s: float) -> None:
    """Remove shared environments that are not in use and were unused for `older_than_s`."""
    for name in os.listdir(root):
        directory = os.path.join(root, name)
        mark = os.path.join(directory, _MARK)
        with suppress(OSError):
            if time.time() - os.stat(mark).st_mtime < older_than_s:
                continue
            handle = os.open(f"{directory}.lock", os.O_RDWR)
            try:
                if _locked(handle, fcntl.LOCK_EX):
                    os.unlink(mark)
                    with suppress(OSError):
                        untrusted.remove_tree(directory)
            finally:
                os.close(handle)


def _locked(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
