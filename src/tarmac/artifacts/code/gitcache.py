"""Caches the fetched commits of a repository for later runs. Called by `git`.

CACHE/HASH/objects.git    single commits without their history: needed by runs
CACHE/HASH/history.git    the names of all commits, if a short name had to be completed
CACHE/HASH.lock           held during writes of git to either; by git itself, if it outlives this process

HASH is of the URL and of the key that opened it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tarmac.artifacts.code.gitprocess import GaveUp, Git, GitFailed
from tarmac.model.errors import InvalidInput
from tarmac.node.files import gitrules

_POLL_S = 0.1
_UNKNOWN_REFERENCE = ("not our ref", "couldn't find remote ref", "no such remote ref")
_ALL = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


class Repo:
    """The cache of one repository, while its lock is held."""

    def __init__(self, directory: Path, url: str, git: Git, lock: int) -> None:
        self._url = url
        self._git = git
        self._lock = lock
        self._history = directory / "history.git"
        self.objects = directory / "objects.git"

    def whole(self, short: str) -> str:
        """The full name of the commit with this prefix; raises InvalidInput for none, or several."""
        found = self._commits(short) if self._history.is_dir() else []
        if len(found) != 1:
            self._init(self._history)
            self._fetch(self._history, "--prune", "--no-tags", "--filter=tree:0", "--", self._url, *_ALL)
            found = self._commits(short)
        if not found:
            raise InvalidInput(
                f"no commit of {gitrules.shown(self._url)} begins with {short!r}",
                hint="commits count that are on a branch or tag; or write it in full",
            )
        if len(found) > 1:
            names = ", ".join(name[:12] for name in found[:4])
            raise InvalidInput(
                f"several commits of {gitrules.shown(self._url)} begin with {short!r}: {names}",
                hint="write more of it",
            )
        return found[0]

    def tip(self, branch: str | None) -> str:
        """The current commit of a branch or tag, or of the default branch; raises InvalidInput."""
        names = (
            ["HEAD"]
            if branch is None
            else [f"refs/heads/{branch}", f"refs/tags/{branch}^{{}}", f"refs/tags/{branch}"]
        )
        output = self._git.run("ls-remote", "--quiet", "--", self._url, *names, around=self.objects.parent)
        found = {}
        for line in output.decode().splitlines():
            commit, _, name = line.partition("\t")
            found[name] = commit
        for name in names:
            if name in found:
                return found[name]
        if branch is None:
            raise InvalidInput(f"{gitrules.shown(self._url)} is empty: it has no commit")
        raise InvalidInput(f"{gitrules.shown(self._url)} has no branch or tag {branch!r}")

    def ensure(self, commit: str) -> None:
        """Fetch the commit with all its files if it is missing; raises InvalidInput, GitFailed."""
        self._init(self.objects)
        if self._has(commit):
            return
        try:
            self._fetch(
                self.objects, "--depth=1", "--no-tags", "--", self._url, f"{commit}:refs/tarmac/{commit}"
            )
        except GitFailed as failed:
            if any(sign in str(failed) for sign in _UNKNOWN_REFERENCE):
                raise self._unknown(commit) from None
            if not any(sign in str(failed) for sign in _OLD_SERVER):
                raise
            self._fetch(self.objects, "--no-tags", "--", self._url, *_ALL)
        if not self._has(commit):
            raise self._unknown(commit)

    def _unknown(self, commit: str) -> InvalidInput:
        return InvalidInput(f"{gitrules.shown(self._url)} has no commit {commit}")

    def _has(self, commit: str) -> bool:
        try:
            self._git.run("cat-file", "-e", f"{commit}^{{commit}}", around=self.objects)
        except GitFailed:
            return False
        return True

    def _commits(self, short: str) -> list[str]:
        """The commits in the history with this prefix."""
        output = self._git.run("rev-parse", f"--disambiguate={short}", around=self._history)
        names = output.decode().split()
        kinds = []
        for name in names:
            with suppress(GitFailed):
                kinds.append((name, self._git.run("cat-file", "-t", name, around=self._history).strip()))
        return sorted(name for name, kind in kinds if kind == b"commit")

    def _init(self, repository: Path) -> None:
        if not (repository / "HEAD").exists():
            repository.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._git.run("init", "--quiet", "--bare", "--template=", str(repository), around=repository)
        for leftover in (*repository.glob("*.lock"), *repository.glob("objects/pack/tmp_*")):
            leftover.unlink(missing_ok=True)  # of an interrupted git: this process holds the lock

    def _fetch(self, repository: Path, *arguments: str) -> None:
        self._git.run(
            "fetch",
            "--quiet",
            "--no-auto-gc",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            *arguments,
            around=repository,
            grows=repository,
            lock=self._lock,
        )


_OLD_SERVER = ("unadvertised object", "dumb http transport", "does not support shallow", "no path specified")


class GitCache:
    """The caches of all repositories, below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextmanager
    def of(self, url: str, git: Git) -> Iterator[Repo]:
        """The cache of a repository, locked for this process. Raises GaveUp, or InvalidInput after its
        deadline.
        """
        directory = self._root / hashlib.sha256("\0".join([url, git.owner]).encode()).hexdigest()[:32]
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(f"{directory}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _take(lock, git)
            yield Repo(directory, url, git, lock)
        finally:
            os.close(lock)


def _take(lock: int, git: Git) -> None:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not git.bounds.proceed():
                raise GaveUp("no run waits for this code any more") from None
            if time.monotonic() >= git.bounds.deadline:
                raise InvalidInput("another fetch of this repository does not come to its end") from None
            time.sleep(_POLL_S)
        else:
            return
