"""One server per home: a lock that the kernel frees when its holder dies. Taken by `__main__` at once."""

import fcntl
import os
from pathlib import Path

from tarmac.model.errors import Refused, TarmacError, Unavailable
from tarmac.model.home import ALREADY_SERVED, Home


class AlreadyServed(Refused):
    """Another server serves this home."""

    code = "already_served"
    exit_code = ALREADY_SERVED


class HomeLock:
    """Held from `take` to the end of the process, however it ends."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._file: int | None = None

    def take(self) -> None:
        """Make the home, private to the user, and take its lock; raises AlreadyServed if it is taken."""
        own_directory(self._home.root)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._file = os.open(self._home.lock, flags, 0o600)
        except OSError as problem:
            raise TarmacError(
                f"the lock {self._home.lock} cannot be opened: {problem.strerror}",
                hint="a server makes this file; remove what lies there, if no server runs",
            ) from problem
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 32).decode(errors="replace").strip()
            os.close(self._file)
            self._file = None
            raise AlreadyServed(
                f"a server (process {holder or 'unknown'}) already serves {self._home.root}",
                hint="tarmac server stop ends it; its runs go on",
            ) from None
        except OSError as problem:
            raise Unavailable(
                f"{self._home.lock} cannot be locked: {problem.strerror}",
                hint="the tarmac home must be on a file system with locks; TARMAC_HOME names another place",
            ) from problem
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the home for another server."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def own_directory(path: Path) -> None:
    """Make a directory private to this user, or make their existing one private."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if found.st_uid != os.geteuid():
            raise TarmacError(f"the tarmac home {path} belongs to another user", hint=_ELSEWHERE)
        if found.st_mode & 0o077:
            path.chmod(0o700)
    except OSError as problem:
        raise TarmacError(
            f"the tarmac home {path} cannot be used: {problem.strerror}", hint=_ELSEWHERE
        ) from problem


_ELSEWHERE = "TARMAC_HOME names another place"
