"""The artifact directories that a warm runner lends to its attempts in turn. Called by `runner` and hooks.

Making, mounting and watching them takes longer than a short run, which mostly leaves them empty. Then the
runner takes them back by a rename before the attempt ends, and lends them to its next attempt by another: the
mounts and the watch of a directory remain with it. Directories that an attempt changed stay with its run.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Mapping, Optional

from tarmac.node.files import untrusted
from tarmac.node.kernel.mountplan import ROOT, Plan
from tarmac.node.kernel.mounts import take_back
from tarmac.node.progress.tree import TreeWatch
from tarmac.node.progress.watcher import Tree, tree_below

_TICK_S = 0.05
"""Longer than the steps of the clock that dates changes: an older date that is unchanged proves no change."""

_TOP = ""
"""The name of the directory that contains the others."""


class Spare:
    """The directories of one runner: none yet, or lent to its attempt, or waiting in a staging area."""

    def __init__(self) -> None:
        self._path = ""
        self._waits = False
        self._handles: dict[str, int] = {}
        self._facts: dict[str, tuple[int, ...]] = {}
        self._watch: Optional[TreeWatch] = None
        self.plan: Optional[Plan] = None
        """Their mounts in the runner's view of the disk; None: to be made."""

    def lend(self, directories: Mapping[str, str]) -> bool:
        """Make these directories, by kind; False if some must be made in another way."""
        top = os.path.dirname(next(iter(directories.values()), ""))
        is_usual = top and all(path == f"{top}/{kind}" for kind, path in directories.items())
        with suppress(OSError):  # there are some if an earlier attempt of the run used its own
            if is_usual and not self._waits:
                self._make(top, directories)
            elif is_usual and self._handles.keys() == {_TOP, *directories} and self.is_untouched():
                os.rename(self._path, top)
            else:
                return False
            self._path, self._waits = top, False
            return True
        return False

    def is_untouched(self) -> bool:
        """Whether the directories are those that were made, and empty."""
        if any(_facts(name, handle) != self._facts[name] for name, handle in self._handles.items()):
            return False
        top = untrusted.lstat(self._path)
        if top is None or (top.st_dev, top.st_ino) != self._facts[_TOP][:2]:
            return False
        if max(facts[-1] for facts in self._facts.values()) / 1e9 < time.time() - _TICK_S:
            return True
        names = {name: os.listdir(handle) for name, handle in self._handles.items()}
        return set(names.pop(_TOP)) == names.keys() and not any(names.values())

    def watch(self, checkpoints: str) -> Tree:
        """The watch on the lent directory of checkpoints."""
        if self._watch is not None:
            self._watch.move(checkpoints)
            return self._watch
        tree = tree_below(checkpoints)
        self._watch = tree if isinstance(tree, TreeWatch) else None
        return tree

    def take_back(self, place: str) -> bool:
        """Move the lent directories into `place`; False if the attempt changed them."""
        plan, watch = self.plan, self._watch
        if plan is None or plan.refused or any(cover.directory == ROOT for cover in plan.covers):
            return False
        path = os.path.join(place, f"spare-{os.urandom(6).hex()}")
        with suppress(OSError):
            if watch is not None and watch.complete and self.is_untouched():
                os.rename(self._path, path)
                self._path, self._waits = path, True
        return self._waits

    def forget(self) -> None:
        """Leave the lent directories to their run, which still has their mounts and the watch."""
        for handle in self._handles.values():
            os.close(handle)
        Spare.__init__(self)

    def drop(self) -> None:
        """Remove the directories that wait, their mounts and the watch."""
        if self._waits:
            take_back(self.plan)
            if self._watch is not None:
                self._watch.close()
            with suppress(OSError):
                for name in (*filter(None, self._handles), _TOP):
                    os.rmdir(os.path.join(self._path, name))
        self.forget()

    def _make(self, top: str, directories: Mapping[str, str]) -> None:
        self.forget()
        for name, path in ((_TOP, top), *directories.items()):
            os.mkdir(path)
            self._handles[name] = untrusted.open_directory(path)
        self._facts = {name: _facts(name, handle) for name, handle in self._handles.items()}


def _facts(name: str, handle: int) -> tuple[int, ...]:
    """The facts about a directory that any use changes; a rename of the outer one changes its own times."""
    found = os.fstat(handle)
    changed_ns = found.st_ctime_ns if name else found.st_mtime_ns
    return found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_gid, changed_ns
