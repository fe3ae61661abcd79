"""A command in the surroundings of a worker, with its own terminal or with pipes. Called by `serving`.

An intermediate process enters the namespaces, forks the command there and exits; then the command is a child
of the far end, which stays outside, where /proc shows all of the command's processes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import signal
import struct
import termios
import time
from contextlib import suppress
from functools import partial
from typing import NamedTuple, NoReturn, Optional, Sequence

from tarmac.node.attempt import words
from tarmac.node.kernel import handles, procfs, signals, syscalls
from tarmac.node.kernel.procfs import Process
from tarmac.node.session import frames
from tarmac.node.session.relay import Ending, FarEnd
from tarmac.node.session.surroundings import Surroundings

GRACE_S = 5.0
"""Seconds that a command has to leave after its connection ended, before it is killed."""

_LEAST_SHELL = "/bin/sh"


class Terminal(NamedTuple):
    """The terminal at the near end: its size and its type (TERM)."""

    rows: int
    columns: int
    name: str


class Command(FarEnd):
    """A running command."""

    def __init__(
        self,
        surroundings: Surroundings,
        argv: Sequence[str],
        *,
        terminal: Optional[Terminal],
        stdin: bool,
    ) -> None:
        """Start argv, or the user's shell without it. Raises OSError, also if it cannot enter."""
        self._surroundings = surroundings
        env = dict(surroundings.env)
        if terminal is not None and terminal.name:
            env["TERM"] = terminal.name
        argv = list(argv) or [_shell(env)]
        streams = _terminal_streams(terminal) if terminal is not None else _pipes(stdin)
        self.input = streams.near_input
        self.outputs = dict(streams.near_outputs)
        self._tty = terminal is not None
        self._ending: Optional[Ending] = None
        syscalls.become_subreaper()
        try:
            self._pid, problem = _fork(surroundings, argv, env, streams)
        finally:
            for handle in set(streams.far):
                os.close(handle)
        if problem:
            os.waitpid(self._pid, 0)
            code = words.NOT_FOUND_EXIT if problem == errno.ENOENT else words.NOT_EXECUTABLE_EXIT
            self._ending = Ending(exit_code=code, message=f"{argv[0]!r}: {os.strerror(problem).lower()}")

    def ending(self) -> Optional[Ending]:
        """How the command ended; None while it runs."""
        while self._ending is None:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # impossible: it is a child of this process
                self._ending = Ending(message="its end was not seen")
                break
            if pid == 0:
                break
            if pid == self._pid:  # others are its remaining processes
                code = os.waitstatus_to_exitcode(status)
                self._ending = Ending(exit_code=code) if code >= 0 else Ending(signal=-code)
        return self._ending

    def resize(self, rows: int, columns: int) -> None:
        """Resize the terminal; the kernel notifies the command."""
        if self._tty and self.input is not None:
            _set_size(self.input, rows, columns)

    def signal(self, number: int) -> None:
        """Signal its process group."""
        if self._ending is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)

    def close_input(self) -> None:
        """Close its input. On a terminal that is a key, which the near end sends."""
        if self.input is not None and not self._tty:
            os.close(self.input)
            self.input = None

    def close_output(self, handle: int) -> None:
        """Close one of `outputs` at its end."""
        del self.outputs[handle]
        if handle != self.input:
            os.close(handle)

    def hang_up(self) -> None:
        """End all of the command's processes after the near end left: SIGHUP, after the grace SIGKILL."""
        for handle in {self.input, *self.outputs} - {None}:
            os.close(handle)  # type: ignore[arg-type]
        self.input, self.outputs = None, {}
        members = self._members()
        for process in members:
            signals.send(process, signal.SIGHUP)
        deadline = time.monotonic() + GRACE_S
        while members and time.monotonic() < deadline:
            self.ending()
            time.sleep(_LOOK_AGAIN_S)
            members = self._members()
        while members:
            for process in members:
                with suppress(PermissionError):
                    signals.send(process, signal.SIGKILL)
            time.sleep(_LOOK_AGAIN_S)
            self.ending()
            members = self._members()

    def _members(self) -> list[Process]:
        """The command's remaining processes: its session, and descendants of it or of this process."""
        found = {process.pid: process for process in procfs.descendants(os.getpid())}
        found.update((process.pid, process) for process in procfs.session(self._pid))
        return list(found.values())


_LOOK_AGAIN_S = 0.02


class _Streams(NamedTuple):
    """The descriptors of a command's streams at both ends."""

    far: tuple[int, int, int]
    near_input: Optional[int]
    near_outputs: dict[int, bytes]
    tty: bool


def _terminal_streams(terminal: Terminal) -> _Streams:
    near, far = os.openpty()
    _set_size(near, terminal.rows, terminal.columns)
    return _Streams((far, far, far), near, {near: frames.OUTPUT}, tty=True)


def _pipes(stdin: bool) -> _Streams:
    far_input, near_input = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), None)
    output, far_output = os.pipe()
    errors, far_errors = os.pipe()
    return _Streams(
        (far_input, far_output, far_errors),
        near_input,
        {output: frames.OUTPUT, errors: frames.ERRORS},
        tty=False,
    )


def _set_size(handle: int, rows: int, columns: int) -> None:
    with suppress(OSError, struct.error):
        fcntl.ioctl(handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _shell(env: dict[str, str]) -> str:
    """The user's shell, if it exists."""
    with suppress(KeyError):
        env.setdefault("SHELL", pwd.getpwuid(os.getuid()).pw_shell)
    return env.get("SHELL") or _LEAST_SHELL


def _fork(
    surroundings: Surroundings, argv: Sequence[str], env: dict[str, str], streams: _Streams
) -> tuple[int, int]:
    """The pid of the command, a child of this process; and the error number if it could not be executed."""

    def enter(say: int) -> None:
        try:
            surroundings.enter()
            pid = handles.fork(partial(_become, surroundings, argv, env, streams, say))
            os.write(say, f"pid {pid}\n".encode())
        except OSError as error:
            os.write(say, f"closed {error.strerror or error}\n".encode())

    between, reply = handles.fork_to_reply(enter)
    os.waitpid(between, 0)
    answers = dict(line.split(" ", 1) for line in reply.decode("utf-8", "replace").splitlines())
    if "pid" not in answers:
        raise OSError(answers.get("closed", "the process in between ended early"))
    if "unsettled" in answers:
        os.waitpid(int(answers["pid"]), 0)
        raise OSError(answers["unsettled"])
    return int(answers["pid"]), int(answers.get("problem", 0))


def _become(
    surroundings: Surroundings, argv: Sequence[str], env: dict[str, str], streams: _Streams, say: int
) -> NoReturn:
    """In the child: become the command, or report the reason for a failure. Never returns."""
    try:
        os.setsid()
        if streams.tty:
            fcntl.ioctl(streams.far[0], termios.TIOCSCTTY, 0)
        try:
            surroundings.settle()
        except OSError as error:
            os.write(say, f"unsettled {error.strerror or error}\n".encode())
            os._exit(1)
        for number, handle in enumerate(streams.far):
            os.dup2(handle, number)
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], list(argv), env)
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        os.write(say, f"problem {number}\n".encode())
    finally:
        os._exit(words.NOT_FOUND_EXIT)
