"""Starts a server that outlives the command. Imported by `embedded` when no server answers."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from tarmac.model.errors import TarmacError, Unavailable
from tarmac.model.home import ALREADY_SERVED, Home

_REFUSAL = "tarmac server: "
"""The prefix of the message of a server that cannot start."""
_LOG_LINES = 5
_LOG_BYTES = 8192


class StartedServer(subprocess.Popen[bytes]):
    """A server process that outlives this one, so Python must not warn about it.

    `log_from` is where its messages begin in the log of its home.
    """

    home: Home
    log_from = 0

    def __del__(self) -> None:
        pass

    def early_end(self, limit_s: float) -> TarmacError | None:
        """The error of a failed server, if it ends within the limit: its last words."""
        with suppress(subprocess.TimeoutExpired):
            status = self.wait(limit_s)
            if status > 0 and status != ALREADY_SERVED:
                return self.last_words()
        return None

    def last_words(self) -> TarmacError:
        """The error of a server that ended at start: its own last words, not those of earlier servers."""
        with self.home.log.open("rb") as log:
            end = os.fstat(log.fileno()).st_size
            begins_at = self.log_from if self.log_from <= end else 0  # else the log was rotated meanwhile
            log.seek(max(begins_at, end - _LOG_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        refusals = [number for number, line in enumerate(lines) if line.startswith(_REFUSAL)]
        # Earlier messages do not explain why it ended.
        chosen = lines[refusals[-1] :] if refusals else lines[-_LOG_LINES:]
        words = "\n".join(line.removeprefix(_REFUSAL) for line in chosen if line.strip())
        return Unavailable(
            f"the server ended as soon as it was started:\n{words}", hint=f"its log is {self.home.log}"
        )


def start_server(home: Home, options: Sequence[str]) -> StartedServer:
    """Start a server independent of this process: own session, no terminal, no inherited files."""
    try:
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if home.root.stat().st_uid != os.geteuid():
            raise TarmacError(
                f"the tarmac home {home.root} belongs to another user", hint="TARMAC_HOME names another place"
            )
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        log = os.open(home.log, flags, 0o600)
    except OSError as problem:
        raise TarmacError(
            f"the tarmac home {home.root} cannot be used: {problem.strerror}",
            hint="TARMAC_HOME names another place",
        ) from problem
    try:
        begins_at = os.fstat(log).st_size
        started = StartedServer(
            # -P: no file in the current directory may be imported as a module
            [sys.executable, "-P", "-m", "tarmac.server", "--home", str(home.root), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
            cwd=home.root,
        )
        started.home, started.log_from = home, begins_at
        return started
    finally:
        os.close(log)
