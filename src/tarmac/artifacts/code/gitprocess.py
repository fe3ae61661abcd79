"""git as a cancellable process with limits of time and size. Called by `gitcache` and `git`.

`gitrules` defines its command line and its environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.node.files import gitrules
from tarmac.node.files.gitrules import GitRules

SHOWN_LINES = 4
_FIRST_LOOK_S, _LAST_LOOK_S = 0.005, 0.2
_LEAVE_S = 2.0
_SAYS_NOTHING = ("hint:", "Please make sure", "and the repository exists")


class GitFailed(Exception):
    """git failed; `lines` are its last ones, without secrets."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines) or "git failed without a word")
        self.lines = tuple(lines)


class GaveUp(Unavailable):
    """The fetch was cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of a fetch: until `deadline` (monotonic), while `proceed()`, within `limit_bytes`."""

    deadline: float
    limit_bytes: int
    proceed: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """git under the rules of this machine, for one fetch.

    `owner` names the key of its run; "": the machine's own.
    """

    rules: GitRules
    bounds: Bounds
    owner: str = ""

    def run(
        self,
        *arguments: str,
        around: Path,
        variables: dict[str, str] | None = None,
        grows: Path | None = None,
        lock: int | None = None,
    ) -> bytes:
        """The output of git, run in the directory `around`; raises GitFailed, InvalidInput, GaveUp.

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
                    self._check(grown_bytes)
            finally:
                _end(process)
            output.seek(0)
            errors.seek(0)
            if process.returncode != 0:
                raise GitFailed(_lines(errors.read()))
            return output.read()

    def _check(self, grown_bytes: int) -> None:
        if not self.bounds.proceed():
            raise GaveUp("no run waits for this code any more")
        if time.monotonic() >= self.bounds.deadline:
            raise InvalidInput(
                "fetching it took longer than the server allows", hint="see git_timeout_s in its settings"
            )
        if grown_bytes > self.bounds.limit_bytes:
            mebibytes = self.bounds.limit_bytes / 2**20
            raise InvalidInput(f"what git sends is more than the {mebibytes:,.0f} MiB allowed")


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
    return [line for line in lines if line and not line.startswith(_SAYS_NOTHING)][-SHOWN_LINES:]
