"""Starting one process of an attempt: own session, log file, environment, and a death tied to the runner's.

Called by `children`. Written with fork and exec because what the child does in between has no other way: the
runner's death must take it along from its first instruction on.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import Mapping, NoReturn, Optional, Sequence

from tarmac.node import pulse, syscalls, untrusted, words


class CannotStart(Exception):
    """The command is not there or may not be executed; `exit_code` is what a shell would return."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    directory: str,
    log: str,
    told: Optional[str] = None,
    hearing: Optional[int] = None,
    groups: Sequence[str] = (),
) -> int:
    """The pid of a new process whose output is appended to `log`; raises CannotStart, or OSError.

    With `told`, what is written to its standard output alone goes there. `hearing` becomes its input.
    It joins the control groups whose `cgroup.procs` are `groups`, before it is the command.
    """
    if not argv:
        raise CannotStart("its command is empty", words.NOT_FOUND_EXIT)
    output = untrusted.open_to_append(log)
    apart = -1
    try:
        apart = output if told is None else untrusted.open_to_append(told)
        hear, say = os.pipe()  # closed by exec: end of file means that the command runs
        runner = os.getpid()
        pid = os.fork()
        if pid == 0:
            for group in groups:
                _join(group, say)
            streams = (hearing, apart, output)
            _become(argv, env=env, directory=directory, streams=streams, say=say, runner=runner)
        os.close(say)
    finally:
        os.close(output)
        if apart not in (-1, output):
            os.close(apart)
    with open(hear, "rb") as heard:
        problem = heard.read()
    if problem:
        os.waitpid(pid, 0)
        raise _explain(argv[0], int(problem), env=env, directory=directory)
    return pid


def _become(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    directory: str,
    streams: tuple[Optional[int], int, int],
    say: int,
    runner: int,
) -> NoReturn:
    """In the child: become the command, or say through the pipe why not. Never returns."""
    try:
        os.setsid()
        syscalls.die_with_parent(signal.SIGKILL)
        if os.getppid() != runner:
            os._exit(1)  # the runner was gone before we were tied to it
        hearing, output, errors = streams
        os.dup2(os.open(os.devnull, os.O_RDONLY) if hearing is None else hearing, 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.chdir(directory)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the runner waits for its signals with them blocked
        for ignored in pulse.IGNORED:
            signal.signal(ignored, signal.SIG_DFL)  # exec itself does so with those that are handled
        os.execvpe(argv[0], list(argv), env)
    except (OSError, ValueError, TypeError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        os.write(say, str(number).encode())
    finally:
        os._exit(words.NOT_FOUND_EXIT)


def _join(group: str, say: int) -> None:
    """In the child: enter a control group, or say through the pipe why not, and leave."""
    try:
        handle = os.open(group, os.O_WRONLY)
        os.write(handle, b"0")  # whoever writes
        os.close(handle)
    except OSError as error:
        os.write(say, str(error.errno or errno.EINVAL).encode())
        os._exit(words.NOT_FOUND_EXIT)


def _explain(command: str, number: int, *, env: Mapping[str, str], directory: str) -> CannotStart:
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


def _find(command: str, *, env: Mapping[str, str], directory: str) -> Optional[str]:
    places = [""] if "/" in command else os.get_exec_path(env)
    for place in places:
        path = os.path.join(directory, place, command)
        if os.path.exists(path):
            return path
    return None
