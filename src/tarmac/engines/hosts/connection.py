"""A connection to a host: one process of `ssh`, and a program of ours at its far end. Made by `remote`.

Nothing is installed there: `node/host/loading.py` is sent as text, and takes the rest of the package into
memory. From its mark on the connection carries messages alone (`node/host/frames.py`); what a login shell
prints before is passed over. Calls may overlap. The program ends with the connection.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from itertools import count
from threading import Event, Lock, Thread
from typing import Any, BinaryIO, cast

from tarmac.engines.hosts import installing
from tarmac.model.errors import Unavailable
from tarmac.node.host import frames
from tarmac.node.starting import NODE_DIRECTORY

CONNECT_S = 60.0
"""To log in, for the login shell, and for the first word of our program."""

MARGIN_S = 15.0
"""How long a request and its answer may be under way."""

STREAM_S = 120.0
"""How long a stream may stand still."""

PIECE_BYTES = 1 << 20
LONGEST_LINE_BYTES = 64 * 1024
LARGEST_NOISE_LINES = 100_000
KEPT_LINES = 20


class NotConnected(Exception):
    """There is no connection; `lines` are the last words of ssh or the host, `code` the exit code of ssh."""

    def __init__(
        self, reason: str, lines: Sequence[str] = (), code: int | None = None, old: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lines = tuple(lines)
        self.code = code
        self.old_python = old


class Connection:
    """One connection; once it is lost it cannot be used again. Thread-safe.

    `argv` is an ssh, to which the command for the host is added. Raises NotConnected.
    """

    def __init__(self, argv: Sequence[str], *, python: str, connect_s: float = CONNECT_S) -> None:
        self.began_at = time.monotonic()
        self._mark = f"tarmac-{os.urandom(12).hex()}".encode()
        self._word = b""
        self._numbers = count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._lock = Lock()
        self._sending = Lock()
        self._ready = Event()
        self.lost_at: float | None = None
        """Since when it can no longer be used."""
        self._heard_at = self.began_at
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        modules = _modules()
        program = _loader() + f"\nload({self._mark.decode()!r}, {len(modules)})\n".encode()
        try:
            self._process = subprocess.Popen(
                [*argv, _command(python, len(program))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise NotConnected(f"ssh cannot be run on this machine: {error.strerror}") from None
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._errors = Thread(target=self._read_errors, name="ssh-errors", daemon=True)
        self._errors.start()
        Thread(target=self._read_answers, name="ssh-answers", daemon=True).start()
        self._begin(program + modules, connect_s)

    @property
    def pid(self) -> int:
        """The process of ssh."""
        return self._process.pid

    def call(self, operation: str, *, timeout_s: float, arguments: Mapping[str, Any]) -> Any:
        """Have an operation done. Raises Unavailable, what it raised there (OSError), and ValueError."""
        number, answer = self._expect()
        began_at = time.monotonic()
        self._send({"id": number, "do": operation, "with": dict(arguments)}, MARGIN_S)
        return self._result(number, answer, began_at, timeout_s + MARGIN_S)

    def send_code(self, directory: str, digest: str, pieces: Iterator[bytes]) -> None:
        """Send a snapshot of code. Raises as `call`."""
        number, answer = self._expect()
        arguments = {"directory": directory, "digest": digest}
        self._send({"id": number, "do": "take_code", "with": arguments}, MARGIN_S)
        for piece in pieces:
            for begin in range(0, len(piece), PIECE_BYTES):
                self._send({"id": number, "piece": piece[begin : begin + PIECE_BYTES]}, STREAM_S)
            if answer.done():
                break  # it is there already, or was refused
        self._send({"id": number, "piece": b""}, STREAM_S)
        self._result(number, answer, time.monotonic(), STREAM_S)

    def close(self) -> None:
        """End it."""
        self._process.kill()

    # --- inside ----------------------------------------------------------------------------------

    def _begin(self, program: bytes, connect_s: float) -> None:
        """Send our program, and wait until it answers."""
        with suppress(Unavailable):  # the last words say more
            self._write(program, connect_s)
        if not self._ready.wait(max(0.0, self.began_at + connect_s - time.monotonic())):
            self.close()
            raise NotConnected(f"no answer within {connect_s:g} s", self._last_lines())
        if self.lost_at is not None:
            raise NotConnected("the connection ended", self._last_lines(), self._process.returncode)
        if self._word.startswith(b"old"):
            self.close()
            raise NotConnected("its Python is too old", old=self._word[3:].strip().decode(errors="replace"))

    def _expect(self) -> tuple[int, Future[dict[str, Any]]]:
        number, answer = next(self._numbers), Future[dict[str, Any]]()
        with self._lock:
            if self.lost_at is not None:
                raise Unavailable("the connection was lost")
            self._waiting[number] = answer
        return number, answer

    def _result(self, number: int, answer: Future[dict[str, Any]], began_at: float, timeout_s: float) -> Any:
        try:
            message = answer.result(timeout_s)
        except TimeoutError:
            if self._heard_at < began_at:  # it says nothing at all any more
                self.close()
            raise Unavailable(f"no answer within {timeout_s:g} s") from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if "error" in message:
            code, text, path = message["error"]
            raise OSError(code, text, path)
        if "refused" in message:
            raise ValueError(message["refused"])
        return message["result"]

    def _send(self, message: dict[str, Any], timeout_s: float) -> None:
        self._write(frames.pack(message), timeout_s)

    def _write(self, data: bytes, timeout_s: float) -> None:
        """Write all of it; where that cannot be, the connection is of no more use. Raises Unavailable."""
        rest, deadline = memoryview(data), time.monotonic() + timeout_s
        if not self._sending.acquire(timeout=timeout_s):
            raise Unavailable(f"nothing could be sent within {timeout_s:g} s")
        try:
            assert self._process.stdin is not None
            poll = select.poll()
            poll.register(self._process.stdin, select.POLLOUT)
            while rest:
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    raise TimeoutError(f"nothing could be sent within {timeout_s:g} s")
                with suppress(BlockingIOError):
                    rest = rest[os.write(self._process.stdin.fileno(), rest) :]
        except (OSError, ValueError) as error:
            self.close()
            raise Unavailable(f"the connection was lost: {error}") from None
        finally:
            self._sending.release()

    def _read_answers(self) -> None:
        """The thread that hears."""
        assert self._process.stdout is not None
        output = cast(BinaryIO, self._process.stdout)
        with suppress(OSError, ValueError, KeyError, TypeError):
            if self._pass_over_noise(output):
                self._ready.set()
                while (message := frames.read(output)) is not None:
                    self._heard_at = time.monotonic()
                    with self._lock:
                        answer = self._waiting.pop(message["id"], None)
                    if answer is not None:
                        answer.set_result(message)
        self._lose()

    def _pass_over_noise(self, output: BinaryIO) -> bool:
        """Read up to our mark; False where it does not come."""
        for _ in range(LARGEST_NOISE_LINES):
            line = output.readline(LONGEST_LINE_BYTES)
            if not line:
                return False
            if line.startswith(self._mark):
                self._word = line[len(self._mark) :].strip()
                self._lines.clear()  # what is kept from here on is about its end
                return True
            self._keep(line)
        return False

    def _read_errors(self) -> None:
        """The thread that reads what ssh and the host say besides."""
        assert self._process.stderr is not None
        with self._process.stderr as errors:
            while line := errors.readline(LONGEST_LINE_BYTES):
                self._keep(line)

    def _keep(self, line: bytes) -> None:
        text = line.decode(errors="replace").strip()
        if text:
            self._lines.append(text[:500])

    def _lose(self) -> None:
        """The connection is over: nobody waits for it any longer."""
        self._process.kill()
        self._process.wait()
        words = "; ".join(self._last_lines()[-2:])
        with self._lock:
            self.lost_at = time.monotonic()
            waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.set_exception(Unavailable(f"the connection was lost{words and ': '}{words}"))
        self._ready.set()
        with self._sending:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()

    def _last_lines(self) -> tuple[str, ...]:
        self._errors.join(0.5)
        return tuple(self._lines)


def _command(python: str, size_bytes: int) -> str:
    """What the login shell of the host, whichever it is, is given to run.

    Our program is run by a login shell of bash, which knows where Slurm's commands are; while that reads its
    profile it has another input than ours.
    """
    code = f"import sys;exec(sys.stdin.buffer.read({size_bytes}))"
    run = f"exec {python} -I -S -c {shlex.quote(code)} <&3 3<&-"
    return f"exec bash -c {shlex.quote(f'exec bash -l -c {shlex.quote(run)} 3<&0 </dev/null')}"


@cache
def _loader() -> bytes:
    return installing.collect([NODE_DIRECTORY])["tarmac/node/host/loading.py"]


@cache
def _modules() -> bytes:
    """The texts of all modules that travel, by name, compressed."""
    texts = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): content.decode()
        for path, content in installing.collect([NODE_DIRECTORY]).items()
    }
    return zlib.compress(json.dumps(texts).encode(), 9)
