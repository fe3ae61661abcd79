"""The far end of a session, as a program: it runs beside the worker and ends with its connection.

Called by `__main__`. Engines start it on the worker's node (`starting.Installation.session`), connected to
the server, which passes frames on to a person's program (see `frames`). OPEN defines the session:

    {"kind": "command", "argv": [...], "stdin": true, "terminal": {"rows", "columns", "name"} or null}
    {"kind": "connection", "addresses": [...], "port": 8888}

A connection is to a port in the worker's network namespace. A command has its own terminal, or pipes. An
intermediate process enters the namespaces, forks the command there and exits; then the command is a child of
the far end, which stays outside, where /proc shows all of the command's processes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import signal
import socket
import struct
import termios
import time
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, NamedTuple, NoReturn, Optional, Sequence

from tarmac.node.attempt import words
from tarmac.node.kernel import handles, procfs, signals, syscalls
from tarmac.node.processes import detach
from tarmac.node.session import frames
from tarmac.node.session.relay import Ending, FarEnd, Relay
from tarmac.node.session.surroundings import Refused, Surroundings, surroundings_of
from tarmac.node.wire.frames import pack_document, read

TIMEOUT_S = 10.0
PIECE_BYTES = 1 << 16


def serve(fd: int) -> None:
    """Serve the session on the connected stream socket `fd`; the starter continues at once."""
    channel = socket.socket(fileno=fd)
    detach.close_inherited(but=frozenset({fd}))
    channel.set_inheritable(False)
    if os.fork():
        os._exit(0)
    detach.own_session()
    detach.default_signals(signal.SIGPIPE)
    try:
        worker, opening = (
            read(lambda count: channel.recv(count, socket.MSG_WAITALL)) for _ in (frames.WORKER, frames.OPEN)
        )
        if worker is None or opening is None:
            return
        try:
            surroundings, far, notices = _begin(worker.document(), opening.document())
        except (Refused, OSError) as problem:
            text = f"the surroundings of the worker cannot be entered: {problem}"
            message = str(problem) if isinstance(problem, Refused) else text
            channel.sendall(pack_document(frames.FAILED, message=message, hint=None))
            return
        channel.sendall(pack_document(frames.OPENED, notices=notices))
        Relay(channel, far, surroundings.worker_lives).run()
    except (ConnectionError, ValueError, KeyError, TypeError):
        return  # no near end, or not one of tarmac
    finally:
        channel.close()


def _begin(worker: dict[str, Any], opening: dict[str, Any]) -> tuple[Surroundings, FarEnd, list[str]]:
    """The surroundings of the worker, the far end, and notices about the limitations of the session."""
    surroundings = surroundings_of(int(worker["pid"]), str(worker["token"]), runs_as=worker.get("runs_as"))
    far: FarEnd
    if opening["kind"] == "connection":
        addresses = [str(address) for address in opening["addresses"]]
        return surroundings, Connection(surroundings, addresses, int(opening["port"])), []
    argv = [str(word) for word in opening["argv"]]
    terminal: Optional[Terminal] = None
    if (given := opening.get("terminal")) is not None:
        terminal = Terminal(int(given["rows"]), int(given["columns"]), str(given.get("name", "")))
    far = Command(surroundings, argv, terminal=terminal, stdin=bool(opening.get("stdin")))
    limits = "the worker's limits do not hold this command"
    groups = surroundings.closed_groups[:1]
    return surroundings, far, [f"{limits}: {group} may not be joined" for group in groups]


class Connection(FarEnd):
    """A connection. It ends after both sides have closed their streams."""

    def __init__(self, surroundings: Surroundings, addresses: Sequence[str], port: int) -> None:
        """Connect to the first of these addresses that answers. Raises Refused, or OSError."""
        surroundings.enter_network()
        self._socket = _connected(addresses, port)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input: Optional[int] = self._socket.fileno()
        self.outputs = {self._socket.fileno(): frames.OUTPUT}

    def ending(self) -> Optional[Ending]:
        """The end of the connection, after all bytes are passed on in both directions."""
        return Ending(exit_code=0) if self.input is None and not self.outputs else None

    def resize(self, rows: int, columns: int) -> None:
        """Do nothing: it has no terminal."""

    def signal(self, number: int) -> None:
        """Do nothing: no process takes it."""

    def close_input(self) -> None:
        """The near end has closed its stream."""
        self.input = None
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.outputs = {}  # the other side has closed the whole connection

    def close_output(self, handle: int) -> None:
        """The other side has closed its stream."""
        self.outputs.pop(handle, None)

    def hang_up(self) -> None:
        """Close the connection."""
        self._socket.close()


def _connected(addresses: Sequence[str], port: int) -> socket.socket:
    problem: Optional[OSError] = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout=TIMEOUT_S)
        except OSError as error:
            problem = problem or error
    reason = problem.strerror or str(problem) if problem is not None else "it has no address"
    raise Refused(f"nothing listens on port {port} there: {reason.lower()}")


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
        self, surroundings: Surroundings, argv: Sequence[str], *, terminal: Optional[Terminal], stdin: bool
    ) -> None:
        """Start argv, or the user's shell without it. Raises OSError, also if it cannot enter."""
        env = dict(surroundings.env)
        if terminal is not None and terminal.name:
            env["TERM"] = terminal.name
        argv = list(argv) or [_shell(env)]
        streams, self.input, self.outputs = _open_streams(terminal, stdin)
        self._tty = terminal is not None
        self._ending: Optional[Ending] = None
        syscalls.become_subreaper()
        try:
            self._pid, problem = _fork(surroundings, argv, env, streams)
        finally:
            for handle in set(streams):
                os.close(handle)
        if problem:
            os.waitpid(self._pid, 0)
            code = words.NOT_FOUND_EXIT if problem == errno.ENOENT else words.NOT_EXECUTABLE_EXIT
            self._ending = Ending(exit_code=code, message=f"{argv[0]!r}: {os.strerror(problem).lower()}")

    def ending(self) -> Optional[Ending]:
        """How the command ended; None while it runs."""
        while self._ending is None:
            pid, status = os.waitpid(-1, os.WNOHANG)
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
        for process in self._members():
            signals.send(process, signal.SIGHUP)
        deadline = time.monotonic() + GRACE_S
        while members := self._members():
            for process in members if time.monotonic() >= deadline else ():
                with suppress(PermissionError):
                    signals.send(process, signal.SIGKILL)
            time.sleep(_LOOK_AGAIN_S)
            self.ending()

    def _members(self) -> list[procfs.Process]:
        """The command's remaining processes: its session, and descendants of it or of this process."""
        found = {process.pid: process for process in procfs.descendants(os.getpid())}
        found.update((process.pid, process) for process in procfs.session(self._pid))
        return list(found.values())


_LOOK_AGAIN_S = 0.02


def _open_streams(
    terminal: Optional[Terminal], stdin: bool
) -> tuple[tuple[int, int, int], Optional[int], dict[int, bytes]]:
    """A terminal or pipes: the command's three streams, and the near end's input and outputs."""
    if terminal is not None:
        near, far = os.openpty()
        _set_size(near, terminal.rows, terminal.columns)
        return (far, far, far), near, {near: frames.OUTPUT}
    far_input, near_input = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), None)
    output, far_output = os.pipe()
    errors, far_errors = os.pipe()
    return (far_input, far_output, far_errors), near_input, {output: frames.OUTPUT, errors: frames.ERRORS}


def _set_size(handle: int, rows: int, columns: int) -> None:
    with suppress(OSError, struct.error):
        fcntl.ioctl(handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _shell(env: dict[str, str]) -> str:
    """The user's shell, if it exists."""
    with suppress(KeyError):
        env.setdefault("SHELL", pwd.getpwuid(os.getuid()).pw_shell)
    return env.get("SHELL") or _LEAST_SHELL


def _fork(
    surroundings: Surroundings, argv: Sequence[str], env: dict[str, str], streams: Sequence[int]
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
    surroundings: Surroundings, argv: Sequence[str], env: dict[str, str], streams: Sequence[int], say: int
) -> NoReturn:
    """In the child: become the command, or report the reason for a failure. Never returns."""
    try:
        os.setsid()
        if os.isatty(streams[0]):
            fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
            if surroundings.user is not None:
                os.fchown(streams[0], surroundings.user.uid, -1)
        try:
            surroundings.settle()
        except OSError as error:
            os.write(say, f"unsettled {error.strerror or error}\n".encode())
            os._exit(1)
        for number, handle in enumerate(streams):
            os.dup2(handle, number)
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], list(argv), env)
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        os.write(say, f"problem {number}\n".encode())
    finally:
        os._exit(words.NOT_FOUND_EXIT)


def serve_standard_streams(mark: str) -> NoReturn:
    """Serve a session on standard input and output until it has ended, in this process.

    It runs below programs that pass streams on, such as `srun` and `ssh`. The mark separates the session from
    the output of those programs and of shells: a line that only the caller knows.
    """
    near, far = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        near.close()
        serve(far.detach())
        os._exit(0)
    far.close()
    os.waitpid(pid, 0)
    try:
        _write(1, f"\n{mark}\n".encode())
        Thread(target=_pass_on_input, args=(near,), daemon=True).start()
        while data := near.recv(PIECE_BYTES):
            _write(1, data)
    finally:
        os._exit(0)  # closing the streams ends the session for the near end


def _pass_on_input(near: socket.socket) -> None:
    try:
        while data := os.read(0, PIECE_BYTES):
            near.sendall(data)
    finally:
        near.shutdown(socket.SHUT_RDWR)


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
