"""Caches the fetched commits of a repository for later runs. Called by `git`.

CACHE/HASH/objects.git    single commits without their history: needed by runs
CACHE/HASH/history.git    the names of all commits, if a short name had to be completed
CACHE/HASH.lock           held during writes of git to either; by git itself, if it outlives this process

HASH is of the URL and of the key that opened it.
"""

import fcntl
import hashlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.node.files import gitrules
from tarmac.node.files.gitrules import GitRules
from tarmac.node.kernel.handles import try_lock

_POLL_S = 0.1
_UNKNOWN_REFERENCE = ("not our ref", "couldn't find remote ref", "no such remote ref")
_ALL = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


_SHOWN_LINES = 4
_FIRST_LOOK_S, _LAST_LOOK_S = 0.005, 0.2
_LEAVE_S = 2.0
_SAYS_NOTHING = ("hint:", "Please make sure", "and the repository exists")


class GitFailed(Exception):
    """git failed; `lines` are its last ones, without secrets."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines) or "git failed without a word")
        self.lines = tuple(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """git under the rules of this machine, for one fetch: until `deadline` (monotonic), while `proceed()`,
    within `limit_bytes`.

    `owner` names the key of its run; "": the machine's own.
    """

    rules: GitRules
    deadline: float
    limit_bytes: int
    proceed: Callable[[], bool]
    owner: str

    def run(
        self,
        *arguments: str,
        around: Path,
        variables: dict[str, str] | None = None,
        grows: Path | None = None,
        lock: int | None = None,
    ) -> bytes:
        """The output of git, run in the directory `around`; raises GitFailed, InvalidInput, Unavailable.

        `grows` is the directory that receives the fetched data. `lock` is a lock that git holds as well, in
        case it outlives this process.
        """
        before_bytes = _size_bytes(grows)
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    gitrules.argv(*arguments),
                    cwd=around,
                    env={**gitrules.environment(self.rules, os.environ), **(variables or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                    pass_fds=() if lock is None else (lock,),
                )
            except FileNotFoundError:
                raise InvalidInput(
                    "git is not installed on the machine of the server, which fetches the code",
                    hint="install it there, or name a directory as the code",
                ) from None
            try:
                look_s = _FIRST_LOOK_S
                while not _left(process, look_s):
                    look_s = min(look_s * 2, _LAST_LOOK_S)
                    grown_bytes = _size_bytes(grows) - before_bytes + os.fstat(output.fileno()).st_size
                    self.check("fetching it took longer than the server allows", _TIMEOUT_HINT)
                    if grown_bytes > self.limit_bytes:
                        mebibytes = self.limit_bytes / 2**20
                        raise InvalidInput(f"what git sends is more than the {mebibytes:,.0f} MiB allowed")
            finally:
                _end(process)
            output.seek(0)
            errors.seek(0)
            if process.returncode != 0:
                raise GitFailed(_lines(errors.read()))
            return output.read()

    def check(self, too_late: str, hint: str | None = None) -> None:
        """Raise Unavailable once no run waits for the fetch, InvalidInput (`too_late`) after its deadline."""
        if not self.proceed():
            raise Unavailable("no run waits for this code any more")
        if time.monotonic() >= self.deadline:
            raise InvalidInput(too_late, hint=hint)


_TIMEOUT_HINT = "see git_timeout_s in its settings"


def _left(process: subprocess.Popen[bytes], patience_s: float) -> bool:
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the remaining processes: first by a request, so that git removes its half-written files."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        _left(process, _LEAVE_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # ssh, or a remaining remote helper


def _size_bytes(directory: Path | None) -> int:
    """The size of a directory tree, except files that disappear meanwhile."""
    total_bytes = 0
    for root, _, names in os.walk(directory) if directory is not None else ():
        for name in names:
            with suppress(OSError):
                total_bytes += (Path(root) / name).lstat().st_size
    return total_bytes


def _lines(output: bytes) -> list[str]:
    text = output[-16384:].decode("utf-8", "replace").replace("\r", "\n")
    lines = [gitrules.without_secrets(line.strip())[:300] for line in text.split("\n")]
    return [line for line in lines if line and not line.startswith(_SAYS_NOTHING)][-_SHOWN_LINES:]


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


@contextmanager
def cached(root: Path, url: str, git: Git) -> Iterator[Repo]:
    """The cache of a repository below `root`, locked for this process. Raises the errors of `Git.check`."""
    directory = root / hashlib.sha256("\0".join([url, git.owner]).encode()).hexdigest()[:32]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(f"{directory}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(lock, git)
        yield Repo(directory, url, git, lock)
    finally:
        os.close(lock)


def _take(lock: int, git: Git) -> None:
    while not try_lock(lock, fcntl.LOCK_EX):
        git.check("another fetch of this repository does not come to its end")
        time.sleep(_POLL_S)
