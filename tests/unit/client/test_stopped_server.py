"""A server that gives no answer: stopped by a signal, or held by a debugger."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tarmac.client.embedded import EmbeddedServer
from tarmac.model.errors import Unavailable

STOPPED = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
TRACED = "import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0); " + STOPPED


@contextmanager
def held(program: str, home: Path) -> Iterator[int]:
    """A process that has stopped, as the server of a home."""
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            os.waitpid(process.pid, os.WUNTRACED)
            (home / "server.lock").write_text(str(process.pid))
            yield process.pid
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.fixture
def quiet() -> Iterator[socket.socket]:
    """A connection on which no answer comes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


def test_a_server_that_a_signal_stopped_is_named(tmp_path: Path, quiet: socket.socket) -> None:
    server = EmbeddedServer(str(tmp_path))
    with held(STOPPED, tmp_path) as pid, pytest.raises(Unavailable, match=f"process {pid}. was stopped by"):
        server.await_answer(quiet, limit_s=0.0)


def test_a_server_that_a_debugger_holds_is_waited_for(tmp_path: Path, quiet: socket.socket) -> None:
    server = EmbeddedServer(str(tmp_path))
    with held(TRACED, tmp_path), pytest.raises(TimeoutError, match="no answer within"):
        server.await_answer(quiet, limit_s=0.0)
