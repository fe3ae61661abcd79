"""Starting one process of an attempt: own session, log file, environment, and a death tied to the runner's.

Called by `children`. Written with fork and exec because what the child does in between has no other way: the
runner's death must take it along from its first instruction on.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import NoReturn, Optional, Sequence

from tarmac.node import pulse, syscalls, words


class CannotStart(Exception):
    """The command is not there or may not be executed; `exit_code` is what a shell would return."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def spawn(argv: Sequence[str], *, env: dict[str, str], directory: str, log: str) -> int:
    """The pid of a new process whose output is appended to `log`; raises CannotStart, or OSError."""
    if not argv:
        raise CannotStart("its command is empty", words.NOT_FOUND_EXIT)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        hear, say = os.pipe()  # closed by exec: end of file means that the command runs
        runner = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become(argv, env=env, directory=directory, output=output, say=say, runner=runner)
        os.close(say)
    finally:
        os.close(output)
    with open(hear, "rb") as told:
        problem = told.read()
    if problem:
        os.waitpid(pid, 0)
        raise _explain(argv[0], int(problem), env=env, directory=directory)
    return pid


def _become(
    argv: Sequence[str], *, env: dict[str, str], directory: str, output: int, say: int, runner: int
) -> NoReturn:
    """In the child: become the command, or say through the pipe why not. Never returns."""
    try:
        os.setsid()
        syscalls.die_with_parent(signal.SIGKILL)
        if os.getppid() != runner:
            os._exit(1)  # the runner was gone before we were tied to it
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(directory)
        for ignored in pulse.IGNORED:
            signal.signal(ignored, signal.SIG_DFL)  # exec itself does so with those that are handled
        os.execvpe(argv[0], list(argv), env)
    except (OSError, ValueError, TypeError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        os.write(say, str(number).encode())
    finally:
        os._exit(words.NOT_FOUND_EXIT)


def _explain(command: str, number: int, *, env: dict[str, str], directory: str) -> CannotStart:
    path = _find(command, env=env, directory=directory)
    if number == errno.ENOENT and path is None:
        if "/" in command:
            return CannotStart(f"{command!r}: there is no such file", words.NOT_FOUND_EXIT)
        return CannotStart(
            f"{command!r}: there is no such command on the PATH {env.get('PATH', os.defpath)}",
            words.NOT_FOUND_EXIT,
        )
    if number == errno.ENOENT:
        return CannotStart(
            f"{path}: its first line names an interpreter that is not there", words.NOT_FOUND_EXIT
        )
    reason = os.strerror(number)
    if number == errno.ENOEXEC:
        reason = "it is neither a program nor a script that begins with #!"
    return CannotStart(f"{path or command}: {reason}", words.NOT_EXECUTABLE_EXIT)


def _find(command: str, *, env: dict[str, str], directory: str) -> Optional[str]:
    places = [""] if "/" in command else os.get_exec_path(env)
    for place in places:
        path = os.path.join(directory, place, command)
        if os.path.exists(path):
            return path
    return None
