"""`tarmac exec`: run a command in the environment of a running worker; `shell` uses the same functions.

A session at a person's terminal sends keys and size, and shows output: one thread writes received output, the
calling one sends. Signals are bytes in a pipe, so that one call waits for input and signals.
"""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any

import click

from tarmac.cli.dialogue import connect, remark
from tarmac.cli.options import COUNT, complete_node, flag, run_argument, together
from tarmac.client.sessions import ClientSession
from tarmac.model.errors import Unavailable
from tarmac.node.session import frames

STDIN, STDOUT, STDERR = 0, 1, 2

SIGNALLED = 128
"""Added to a signal's number in the exit code of a command that it ended, as in shells."""

USUAL_ROWS, USUAL_COLUMNS = 24, 80
"""For a terminal of unknown size."""

_LEAVE = (signal.SIGTERM, signal.SIGHUP)
_HEARD = (signal.SIGWINCH, signal.SIGINT, *_LEAVE)
_OVER = b"\0"
_ROOM_S = 0.05

Listener = Callable[[bytes], None]

worker_options = together(
    click.option("--role", metavar="NAME", help="Beside a worker of this role."),
    click.option("--replica", type=COUNT, metavar="N", help="Beside a worker of this replica."),
    click.option("--worker", type=COUNT, metavar="N", help="Beside this worker of its replica."),
    click.option(
        "--node", metavar="NAME", shell_complete=complete_node, help="Beside a worker on this node."
    ),
)
"""Options that select the worker."""


@click.command("exec")
@run_argument
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@flag("--stdin", "-i", help="Pass on what is typed or piped in.")
@flag("--tty", "-t", help="Give the command a terminal.")
@worker_options
def exec(*, run: str, command: tuple[str, ...], stdin: bool, tty: bool, **worker: Any) -> None:
    """Run a command beside a worker of a run.

    It sees what the worker sees: the same processes, disk, limits, directory and variables. Without an
    option that is the first worker that runs. The exit code is the command's own. Ctrl-C goes to the
    command, and when the connection breaks off the command is ended.

    \b
    tarmac exec digits -- nvidia-smi
    tarmac exec -it digits -- bash
    tarmac exec -i digits -- tar -xf - < more.tar
    """
    if tty:
        needs_terminal("-t", "leave it out, the command then has pipes")
    sys.exit(run_command(run, list(command), stdin=stdin, terminal=tty, worker=worker))


def needs_terminal(what: str, hint: str) -> None:
    """Raise UsageError if this program has no terminal to pass on."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what} takes a terminal, and standard input is none: {hint}")


def run_command(run: str, command: list[str], *, stdin: bool, terminal: bool, worker: dict[str, Any]) -> int:
    """Run a command beside a worker (empty: the user's shell there); return its exit code."""
    size = terminal_size() if terminal else None
    session = connect().open_session(run, command=command, stdin=stdin, terminal=size, **worker)
    return attend(session, stdin=stdin, terminal=terminal)


def terminal_size() -> dict[str, Any]:
    """The terminal of this program, in the form of a session's opening."""
    try:
        size = os.get_terminal_size(STDIN)
    except OSError:
        size = os.terminal_size((0, 0))
    name = os.environ.get("TERM", "")
    return {"rows": size.lines or USUAL_ROWS, "columns": size.columns or USUAL_COLUMNS, "name": name}


def attend(
    session: ClientSession,
    *,
    stdin: bool,
    terminal: bool,
    typed: bytes = b"",
    interrupt: int = signal.SIGINT,
    listener: Listener | None = None,
) -> int:
    """Serve the near end of a command until it has ended; return its exit code.

    `terminal`: the command has one, so every key is passed on. `typed` is its complete input if `stdin` is
    false. `interrupt` is the signal that Ctrl-C sends; `listener` receives the command's
    output. Raises Unavailable if the connection breaks.
    """
    with _raw_terminal(terminal and stdin), _signal_pipe() as (hear, say):
        near = _NearEnd(session, hear, say, listener, interrupt)
        reader = Thread(target=near.show, name="session", daemon=True)
        reader.start()
        try:
            with suppress(OSError):  # the session has ended, and the reader reports it
                if typed:
                    session.write(typed)
                    session.write(b"")
                if (left := near.send(stdin=stdin, terminal=terminal)) is not None:
                    return SIGNALLED + left
            reader.join()
        finally:
            session.close()
        if near.problem is not None:
            raise near.problem
        return _exit_code(near.ended or {})


@dataclass(slots=True)
class _NearEnd:
    """The near end of one session; the pipe `hear` and `say` carries the numbers of signals."""

    session: ClientSession
    hear: int
    say: int
    listener: Listener | None
    interrupt: int
    ended: dict[str, Any] | None = None
    problem: Exception | None = None

    def send(self, *, stdin: bool, terminal: bool) -> int | None:
        """Send input until the session has ended (None), or until a signal requests an exit (its number)."""
        while True:
            has_room = self.session.has_room()
            reading = [STDIN] if stdin and has_room else []
            wait_s = frames.PING_S if has_room else _ROOM_S
            ready, _, _ = select.select([self.hear, *reading], [], [], wait_s)
            for number in os.read(self.hear, 64) if self.hear in ready else b"":
                if number == _OVER[0]:
                    return None
                if number in _LEAVE:
                    return number
                if number == signal.SIGWINCH and terminal:
                    size = terminal_size()
                    self.session.resize(size["rows"], size["columns"])
                elif number == signal.SIGINT:
                    self.session.signal(self.interrupt)
            if STDIN in ready:
                data = os.read(STDIN, frames.PIECE_BYTES)
                self.session.write(data)
                stdin = bool(data)
            elif not ready and has_room:
                self.session.send(frames.PING)

    def show(self) -> None:
        """Write the received output, to its end."""
        try:
            for frame in self.session.frames():
                if frame.kind == frames.OUTPUT:
                    self._write(STDOUT, frame.content)
                elif frame.kind == frames.ERRORS:
                    self._write(STDERR, frame.content)
                elif frame.kind == frames.OPENED:
                    for notice in frame.document()["notices"]:
                        remark(notice)
                elif frame.kind == frames.ENDED:
                    self.ended = frame.document()
        except (Unavailable, OSError, ValueError) as problem:
            self.problem = problem
        finally:
            os.write(self.say, _OVER)

    def _write(self, handle: int, data: bytes) -> None:
        if self.listener is not None and data:
            self.listener(data)
        while data:
            data = data[os.write(handle, data) :]


def _exit_code(ended: dict[str, Any]) -> int:
    if ended.get("message"):
        remark(ended["message"])
    if ended.get("signal") is not None:
        return SIGNALLED + int(ended["signal"])
    return int(ended.get("exit_code") or 0)


@contextmanager
def _raw_terminal(raw: bool) -> Iterator[None]:
    """Pass on every key, including Ctrl-C; restores the terminal afterwards."""
    if not raw:
        yield
        return
    sys.stdout.flush()
    before = termios.tcgetattr(STDIN)
    tty.setraw(STDIN, termios.TCSADRAIN)  # keys typed in advance are for the command
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


@contextmanager
def _signal_pipe() -> Iterator[tuple[int, int]]:
    """A pipe that receives the numbers of signals as bytes."""
    hear, say = os.pipe()
    os.set_blocking(say, False)
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in _HEARD}
    signal.set_wakeup_fd(say, warn_on_full_buffer=False)
    try:
        yield hear, say
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(hear)
        os.close(say)
