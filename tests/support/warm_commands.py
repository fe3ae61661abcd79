"""Commands of `tarmac`, and servers, as forks of one warm process: no Python starts, and nothing is imported.

Each command is a process with its own arguments, directory, environment and output; only the modules are
imported already. A server that such a command starts is a fork of the command, in the same way. Run as a
program, this file is the warm process: its standard input is a socket with orders, its argument the process
id of the tests, with which it ends.
"""

from __future__ import annotations

import atexit
import gc
import json
import logging
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import tarmac
from tarmac.client import starting
from tarmac.node.kernel.sockets import readable

IMPORTED = ("cli", "client", "dialects", "server", "simulator")
"""The packages whose modules the warm process imports."""

COMMANDS, SERVERS = "tarmac.cli.main", "tarmac.server.__main__"
"""The modules of the programs that it can become."""

_ORDER_BYTES = 100_000
_PIPE_BYTES = 1 << 16
_NUMBER_BYTES = 16


class WarmCommands:
    """The warm process of this process; it is started at the first command and ends with this process."""

    def __init__(self) -> None:
        self._orders: socket.socket | None = None

    def run(
        self,
        arguments: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str],
        limit_s: float,
        module: str = COMMANDS,
        stdin: str = "",
    ) -> subprocess.CompletedProcess[str] | None:
        """Run a command to its end; None if the order is too long for the socket, or `stdin` for a pipe.

        `module` has the main function: that of commands, or of servers.
        """
        order = json.dumps([module, list(arguments), str(directory), dict(environment)]).encode()
        given = stdin.encode()
        if len(order) > _ORDER_BYTES or len(given) > _PIPE_BYTES:
            return None
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        out, err = os.memfd_create("out"), os.memfd_create("err")
        files = [_pipe_with(given) if given else os.open(os.devnull, os.O_RDONLY), out, err]
        try:
            with its:
                socket.send_fds(self._connected(), [order], [its.fileno(), *files])
            pid = int(mine.recv(_NUMBER_BYTES))
            mine.settimeout(limit_s)
            try:
                code = int(mine.recv(_NUMBER_BYTES))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(arguments), limit_s, _text(out), _text(err)) from None
            return subprocess.CompletedProcess(list(arguments), code, _text(out), _text(err))
        finally:
            mine.close()
            for file in files:
                os.close(file)

    def _connected(self) -> socket.socket:
        if self._orders is None:
            self._orders, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with its:
                argv = [sys.executable, "-P", __file__, str(os.getpid())]
                process = subprocess.Popen(argv, stdin=its.fileno())
            atexit.register(_end, self._orders, process)
        return self._orders


WARM = WarmCommands()


def _pipe_with(content: bytes) -> int:
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    return read


def _text(handle: int) -> str:
    with open(handle, encoding="utf-8", closefd=False) as file:
        file.seek(0)
        return file.read()


def _end(orders: socket.socket, process: subprocess.Popen[bytes]) -> None:
    orders.close()
    process.wait()


def serve(orders: socket.socket, owner: int) -> None:
    """Run what is ordered until the other end closes; in a command's process, this does not return.

    `owner` refers to the process of the tests. A fork of it may keep the other end open when it was killed.
    """
    poll = select.poll()
    poll.register(orders, select.POLLIN)
    poll.register(owner, select.POLLIN)
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for handle, _ in poll.poll():
            if handle == owner:
                return
            if handle in running:
                pid, answer = running.pop(handle)
                poll.unregister(handle)
                os.close(handle)
                with answer, suppress(BrokenPipeError):  # nobody waits for it any more
                    answer.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                continue
            order, files, _, _ = socket.recv_fds(orders, _ORDER_BYTES, 4, socket.MSG_CMSG_CLOEXEC)
            if not order:
                return
            answer = socket.socket(fileno=files[0])
            pid = os.fork()
            if pid == 0:
                orders.close()
                answer.close()
                module, arguments, directory, environment = json.loads(order)
                _become(module, arguments, directory, environment, files[1:])
            for file in files[1:]:
                os.close(file)
            watched = os.pidfd_open(pid)
            running[watched] = pid, answer
            poll.register(watched, select.POLLIN)
            answer.send(b"%d" % pid)


def _become(
    module: str, arguments: list[str], directory: str, environment: dict[str, str], files: list[int]
) -> None:
    for number, handle in enumerate(files):
        os.dup2(handle, number)
        os.close(handle)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv[1:] = arguments
    _run_to_the_end(import_module(module).main)


class ForkedServer(starting.StartedServer):
    """A server that begins without an `exec`, and otherwise as the client asks for it, word for word."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        start_new_session: bool,
        close_fds: bool,
        cwd: Path,
    ) -> None:
        program, arguments = list(argv[:4]), list(argv[4:])
        assert program == [sys.executable, "-P", "-m", "tarmac.server"], argv
        assert stdin == subprocess.DEVNULL, "it is not the command's"
        self.args = argv
        self.returncode = None
        self.pid = os.fork()
        if self.pid:
            return
        if start_new_session:
            os.setsid()
        os.chdir(cwd)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, handle in enumerate((nothing, stdout, stderr)):
            os.dup2(handle, number)
        if close_fds:
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                begins_with = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
                signal.signal(number, begins_with)
        sys.stdout = open(1, "w")  # noqa: SIM115 for as long as there is the process
        sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
        sys.argv[1:] = arguments
        _run_to_the_end(import_module(SERVERS).main)

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            handle = os.pidfd_open(self.pid)
            if not readable(handle, timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            os.close(handle)
        code = self.poll()
        assert code is not None
        return code


def _run_to_the_end(program: Callable[[], int | None]) -> NoReturn:
    """Run a program's main function, and end as a Python of its own would."""
    try:
        code: object = program()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 the top level of a process
        sys.excepthook(*sys.exc_info())
        code = 1
    # The end of an interpreter writes to all that it shares with the warm process.
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    import_module(SERVERS)
    for package in IMPORTED:
        for module in pkgutil.walk_packages([f"{tarmac.__path__[0]}/{package}"], f"tarmac.{package}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    starting.StartedServer = ForkedServer  # type: ignore[misc]
    gc.freeze()
    with suppress(ProcessLookupError):  # the tests have ended already
        serve(socket.socket(fileno=os.dup(sys.stdin.fileno())), os.pidfd_open(int(sys.argv[1])))
