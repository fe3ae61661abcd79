"""Programs with a connection as standard input and output, here or behind an ssh. Used by hosts."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import BinaryIO

from tarmac.model.errors import Unavailable

BEGIN_S = 50.0
"""Time limit for a program to print its mark."""

LONGEST_NOISE_BYTES = 1 << 20
_LAST_WORDS_BYTES = 4000


def open_stream(argv: Sequence[str], *, mark: str, env: Mapping[str, str] | None = None) -> int:
    """The descriptor of a socket to a program, positioned behind the line `mark`. See `Host.stream`."""
    near, far = socket.socketpair()
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=far.fileno(),
                stdout=far.fileno(),
                stderr=errors,
                env=None if env is None else dict(env),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            near.close()
            raise Unavailable(f"{argv[0]} cannot be run here: {error.strerror}") from None
        finally:
            far.close()
        Thread(target=process.wait, name="stream-end", daemon=True).start()
        if _pass_over_noise(near, mark.encode()):
            return near.detach()
        near.close()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise Unavailable(_last_line(errors) or f"no answer within {BEGIN_S:g} s")


def _pass_over_noise(near: socket.socket, mark: bytes) -> bool:
    """Read up to the mark and no further; False if it does not come."""
    deadline, line = time.monotonic() + BEGIN_S, b""
    for _ in range(LONGEST_NOISE_BYTES):
        near.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            byte = near.recv(1)
        except OSError:
            return False
        if not byte:
            return False
        if byte != b"\n":
            line += byte
        elif line.rstrip(b"\r") == mark:
            near.settimeout(None)
            return True
        else:
            line = b""
    return False


def _last_line(errors: BinaryIO) -> str:
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
    lines = [line.strip() for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
