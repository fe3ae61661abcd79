"""Starts one process of an attempt: own session, log file, environment, and a death tied to the runner's.

Called by `children`. The process must end with the runner from its first instruction on. If the runner is the
first of a namespace (`namespaces`), the kernel ensures that, and the fork need not copy the runner for the
moment before exec, which costs a short run more than the rest of its start. Otherwise, and to join control
groups, the process ties itself to the runner in that moment.
"""

from __future__ import annotations

import errno
import os
import signal
from contextlib import ExitStack
from functools import partial
from typing import Iterator, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple, Union

from tarmac.node.attempt import words
from tarmac.node.container.entry import AnyContainer
from tarmac.node.files import untrusted
from tarmac.node.kernel import handles, syscalls
from tarmac.node.kernel.mounts import UserView
from tarmac.node.kernel.system_users import as_server
from tarmac.node.processes import wake_channel

_Streams = Tuple[Optional[int], int, int]
"""Standard input (None: empty), output and errors of the process."""

_FIRST = 1
"""The pid of the first process of a namespace."""

_EXHAUSTED = (errno.EAGAIN, errno.ENOMEM)
"""The machine has no room for another process; the command is not at fault."""


class CannotStart(Exception):
    """The command is missing or not executable; `exit_code` is that of a shell."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Command(NamedTuple):
    """A command to start, and the file `log` to which its output is appended.

    With `stdout`, its standard output goes to that file instead. `stdin` becomes its input. Before exec it
    joins the control groups whose `cgroup.procs` are `groups`, and enters the `place`; directory and command
    are paths inside it.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    directory: str
    log: str
    stdout: Optional[str] = None
    stdin: Optional[int] = None
    groups: Sequence[str] = ()
    place: Union[AnyContainer, UserView, None] = None


def spawn(command: Command) -> int:
    """The pid of a new process that executes the command; raises CannotStart, or OSError."""
    if not command.argv:
        raise CannotStart("its command is empty", words.NOT_FOUND_EXIT)
    with ExitStack() as opened:
        log = output = opened.enter_context(handles.closing(untrusted.open_to_append(command.log)))
        if command.stdout is not None:
            output = opened.enter_context(handles.closing(untrusted.open_to_append(command.stdout)))
        streams = (command.stdin, output, log)
        opened.enter_context(as_server())
        if os.getpid() == _FIRST and not command.groups and command.place is None:
            pid, problem = _start_untied(command, streams)
            path = _find(command.argv[0], command.env, command.directory) if problem else None
        else:
            pid, problem, path = _start_tied(command, streams)
    if problem:
        raise _explain(command.argv[0], problem, path, env=command.env)
    return pid


def _start_untied(command: Command, streams: _Streams) -> tuple[int, int]:
    """The pid, or the reason why the command cannot be executed; for the first process of a namespace."""
    stdin, output, errors = streams
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) if stdin is None else stdin
    actions = [(os.POSIX_SPAWN_DUP2, *pair) for pair in ((nothing, 0), (output, 1), (errors, 2))]
    name, problem = command.argv[0], errno.ENOENT
    try:
        os.chdir(command.directory)  # this process has one thread, and its other paths are absolute
        for path in [name] if os.path.dirname(name) else _existing(name, command.env):
            try:
                pid = os.posix_spawn(
                    path,
                    list(command.argv),
                    command.env,
                    file_actions=actions,
                    setsid=True,
                    setsigmask=[],  # the runner waits for its signals with them blocked
                    setsigdef=wake_channel.IGNORED,  # exec itself resets the handled signals
                )
                return pid, 0
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    raise
                # Like a shell: try the next directory, and prefer the error of an existing file.
                if problem == errno.ENOENT and error.errno not in (None, errno.ENOTDIR):
                    problem = error.errno
        return 0, problem
    except NotImplementedError:  # this C library lacks an option
        return _start_tied(command, streams)[:2]
    except (ValueError, TypeError):
        return 0, errno.EINVAL
    except OSError as error:
        if error.errno in _EXHAUSTED:
            raise
        return 0, error.errno or errno.EINVAL
    finally:
        os.chdir("/")
        if stdin is None:
            os.close(nothing)


def _start_tied(command: Command, streams: _Streams) -> tuple[int, int, Optional[str]]:
    """The same, in a process that first joins the groups, enters the place and ties itself to the runner.

    Also returns the path of a command that cannot be executed.
    """
    runner = os.getpid()
    pid, problem = handles.fork_to_reply(partial(_become, command, streams, runner))
    if problem:
        os.waitpid(pid, 0)
    number, _, path = problem.partition(b"\n")
    return pid, int(number or 0), os.fsdecode(path) or None


def _become(command: Command, streams: _Streams, runner: int, say: int) -> NoReturn:
    """In the child: become the command, or write the reason for a failure to the pipe. Never returns."""
    argv, env, directory = command.argv, command.env, command.directory
    for group in command.groups:
        _join(group, say)
    try:
        os.setsid()
        if command.place is not None:
            command.place.enter()  # before tying: a change of the user removes the tie
            argv, env, directory = command.place.start(argv, env, directory)
        syscalls.die_with_parent(signal.SIGKILL)
        if os.getppid() != runner:
            os._exit(1)  # the runner ended before this process was tied to it
        stdin, output, errors = streams
        os.dup2(os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin, 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.chdir(directory)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the runner waits for its signals with them blocked
        for ignored in wake_channel.IGNORED:
            signal.signal(ignored, signal.SIG_DFL)  # exec itself resets the handled signals
        os.execvpe(argv[0], list(argv), env)
    except (OSError, ValueError, TypeError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        os.write(say, os.fsencode(f"{number}\n{_find(argv[0], env, directory) or ''}"))
    finally:
        os._exit(words.NOT_FOUND_EXIT)


def _join(group: str, say: int) -> None:
    """In the child: enter a control group, or write the reason for a failure to the pipe, and exit."""
    try:
        handle = os.open(group, os.O_WRONLY)
        os.write(handle, b"0")  # the writing process
        os.close(handle)
    except OSError as error:
        os.write(say, str(error.errno or errno.EINVAL).encode())
        os._exit(words.NOT_FOUND_EXIT)


def _explain(command: str, number: int, path: Optional[str], *, env: Mapping[str, str]) -> CannotStart:
    if number == errno.ENOENT:
        message = f"{path}: its first line names an interpreter that is not there"
        if path is None and "/" in command:
            message = f"{command!r}: there is no such file"
        elif path is None:
            message = f"{command!r}: there is no such command on the PATH {env.get('PATH', os.defpath)}"
        return CannotStart(message, words.NOT_FOUND_EXIT)
    reason = os.strerror(number)
    if number == errno.ENOEXEC:
        reason = "it is neither a program nor a script that begins with #!"
    return CannotStart(f"{path or command}: {reason}", words.NOT_EXECUTABLE_EXIT)


def _find(name: str, env: Mapping[str, str], directory: str) -> Optional[str]:
    return next(_existing(name, env, directory), None)


def _existing(name: str, env: Mapping[str, str], directory: str = "") -> Iterator[str]:
    """The existing paths of a command, in the order of tries: a failed try costs a process."""
    places = [""] if "/" in name else env.get("PATH", os.defpath).split(os.pathsep)
    return filter(os.path.exists, (os.path.join(directory, place, name) for place in places))
