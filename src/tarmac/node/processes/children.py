"""The processes that a runner started, and their exits. Called by the hooks `setup` and `watch`.

The runner is a subreaper: besides its own processes it reaps all of their orphans, even after a change of
session or a double fork, and so knows when no process of the attempt remains.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import Callable, Iterator, NoReturn, Optional

from tarmac.node.kernel import handles, procfs, signals
from tarmac.node.processes.spawn import Command, spawn

_ROUNDS = 50
_STOPPED = (b"T", b"t", b"Z", b"X", b"D")
_PATIENCE_S = 0.2
_LOOK_AGAIN_S = 0.001


class Child:
    """One started process: a setup step, or a worker."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exit_code: Optional[int] = None
        self.signal: Optional[str] = None
        self.peak_bytes = 0
        self.left = False

    def send(self, number: int) -> None:
        """Signal the rest of its process group, if any."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def ask(self, number: int) -> None:
        """Signal the processes of its group that should react: see `groups`."""
        signals.ask_group(self.pid, number)

    @property
    def how(self) -> str:
        """How it ended, as the verb of a sentence."""
        return f"was ended by {self.signal}" if self.signal else f"exited with {self.exit_code}"

    @property
    def group_lives(self) -> bool:
        """Whether its process group has living processes (a shell may leave before its children)."""
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


class Children:
    """All processes started on this node, and whether any descendant remains.

    `aside` are the platform's own processes beside the attempt: the runner neither waits for them nor ends
    them.
    """

    def __init__(self) -> None:
        self._by_pid: dict[int, Child] = {}
        self.none_left = True
        self.aside: frozenset[int] = frozenset()
        self._ends: dict[int, bool] = {}

    def start(self, command: Command, *, aside: bool = False) -> Child:
        """Start a process, of the attempt or `aside`; raises spawn.CannotStart, or OSError."""
        return self._note(spawn(command), aside=aside)

    def fork(self, become: Callable[[], NoReturn], *, aside: bool = False) -> Child:
        """Fork a process, of the attempt or `aside`, that calls `become`. Raises OSError."""
        return self._note(handles.fork(become), aside=aside)

    def _note(self, pid: int, *, aside: bool) -> Child:
        child = self._by_pid[pid] = Child(pid)
        if aside:
            self.aside |= {pid}
        else:
            self.none_left = False
        return child

    def end_aside(self, child: Child) -> None:
        """Send SIGKILL to a process aside, and wait for its end."""
        if self._by_pid.pop(child.pid, None) is not None:
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            self.aside -= {child.pid}
        child.left = True

    def take_ends(self) -> dict[int, bool]:
        """The processes reaped since the last call, and whether a signal ended each."""
        ends, self._ends = self._ends, {}
        return ends

    def reap(self) -> list[Child]:
        """The runner's processes that left since the last call, in that order; orphans are also reaped."""
        left: list[Child] = []
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.none_left = True
                return left
            if pid == 0:
                # Processes that left after that answer are reaped here, with their exits.
                self.none_left = bool(self.aside) and not self.living(unreaped=True)
                return left
            if pid not in self.aside:
                self._ends[pid] = os.WIFSIGNALED(status)
            child = self._by_pid.pop(pid, None)
            if child is not None:
                _note_exit(child, status)
                child.peak_bytes = usage.ru_maxrss * 1024
                if pid not in self.aside:
                    left.append(child)
                self.aside -= {pid}

    def living(self, *, unreaped: bool = False) -> list[procfs.Process]:
        """Every living process of the attempt here (or also `unreaped` ones), however it was forked."""
        return procfs.descendants(os.getpid(), but=self.aside, unreaped=unreaped)

    def ask_to_end(self) -> None:
        """Send SIGTERM to every process of the attempt."""
        for process in self.living():
            _deliver(process, signal.SIGTERM)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Every process of the attempt is stopped inside the context, and continues afterwards."""
        stopped, _ = self._stop()
        try:
            yield
        finally:
            for process in stopped:
                _deliver(process, signal.SIGCONT)

    def end(self, *, before: Callable[[], object] = lambda: None) -> list[procfs.Process]:
        """Send SIGKILL to every process of the attempt; returns those that the runner may not signal.

        All are stopped first; then `before` is called. The caller reaps, and repeats the call while any
        process is left.
        """
        stopped, refusing = self._stop()
        before()
        for process in stopped:
            _deliver(process, signal.SIGKILL)
        return refusing

    def _stop(self) -> tuple[set[procfs.Process], list[procfs.Process]]:
        """Stop processes in rounds until no new one appears, since stopped processes do not fork.

        Returns the stopped ones (one in a system call may continue for a moment), and those that refuse the
        signal.
        """
        stopped: set[procfs.Process] = set()
        refusing: list[procfs.Process] = []
        for _ in range(_ROUNDS):
            fresh = [found for found in self.living() if found not in stopped]
            if not fresh:
                break
            refusing += [process for process in fresh if not _deliver(process, signal.SIGSTOP)]
            stopped.update(fresh)
        deadline = time.monotonic() + _PATIENCE_S
        waiting = stopped.difference(refusing)
        while waiting and time.monotonic() < deadline:
            waiting = {process for process in waiting if procfs.state(process.pid) not in _STOPPED}
            if waiting:
                time.sleep(_LOOK_AGAIN_S)
        return stopped, refusing


def _deliver(process: procfs.Process, number: int) -> bool:
    try:
        signals.send(process, number)
    except PermissionError:
        return False
    return True


class Aside:
    """A process beside the runner that starts when it is due, and ends with the attempt."""

    def __init__(self, become: Callable[[int], NoReturn]) -> None:
        """The process calls `become` with the pid of the runner."""
        self._become = become
        self._process: Optional[Child] = None
        self.due: Optional[float] = None
        """The time at which it must start (monotonic clock); None: it runs, or is not needed."""

    def look(self, children: Children) -> None:
        """Start the process if it is due. Raises OSError."""
        if self.due is None or time.monotonic() < self.due:
            return
        self.due, runner = None, os.getpid()
        self._process = children.fork(lambda: self._become(runner), aside=True)

    def end(self, children: Children) -> None:
        """End the process after the last process of the attempt."""
        self.due = None
        if self._process is not None:
            children.end_aside(self._process)
            self._process = None


def _note_exit(child: Child, status: int) -> None:
    child.left = True
    if os.WIFSIGNALED(status):
        child.signal = f"SIG{os.WTERMSIG(status)}"  # a real-time signal has no name of its own
        with suppress(ValueError):
            child.signal = signal.Signals(os.WTERMSIG(status)).name
    else:
        child.exit_code = os.WEXITSTATUS(status)
