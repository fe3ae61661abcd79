"""The shared state of hooks: one node's part of an attempt while it runs. Made by `runner`.

Hooks before the workers react by it to a request to leave, or to a failure on another node.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from typing import Any, Callable, Mapping, Optional, Union

from tarmac.node.attempt import exit_outcome, protocol, words
from tarmac.node.attempt.document import GrantedNode, Launch, NodeLaunch, WorkerLaunch
from tarmac.node.attempt.events import EventLog
from tarmac.node.attempt.protocol import AttemptPaths
from tarmac.node.container.entry import AnyContainer
from tarmac.node.files import untrusted
from tarmac.node.files.logroom import LogRoom, TimeIndex
from tarmac.node.kernel import fifo
from tarmac.node.kernel.mountplan import Bind, Plan
from tarmac.node.kernel.mounts import UserView
from tarmac.node.kernel.namespaces import ProcessNamespace
from tarmac.node.kernel.workergroup import OomKills, WorkerGroup
from tarmac.node.processes.children import Child, Children
from tarmac.node.processes.lease import Lease
from tarmac.node.processes.meter import Meter
from tarmac.node.processes.sidecar_process import SidecarProcess
from tarmac.node.processes.wake_channel import WakeChannel
from tarmac.node.progress.watcher import ProgressWatcher
from tarmac.node.spare import Spare

_MOMENT_S = 0.3


class Leave(Exception):
    """The node's part ends before its workers run, with this outcome."""

    def __init__(self, outcome: exit_outcome.ExitOutcome) -> None:
        super().__init__(outcome.outcome)
        self.outcome = outcome


class Worker:
    """One worker: its launch, and its process once started."""

    def __init__(self, part: WorkerLaunch, paths: AttemptPaths, *, directory: str) -> None:
        self.part = part
        self.directory = directory
        self.log = paths.log(part.name)
        self.index = TimeIndex(self.log, paths.index(part.name))
        self.child: Optional[Child] = None
        self.group: Optional[WorkerGroup] = None
        self.watched = False
        self.over_limit_bytes: Optional[int] = None


class NodeRun:
    """The state that hooks read and change; files of the protocol are read and written by name here.

    Hooks set `mounted`, the private view of the disk, `container`, in which all processes of the attempt
    start, or `view`, if they start as a system user, and `progress`, which observes the workers' files;
    `shown` are the binds of a container beside the attempt's own directories. `spare` has the artifact
    directories, if they are lent to the attempt; `is_untouched`: its workers have left them empty.
    """

    mounted: Optional[Plan] = None
    container: Optional[AnyContainer] = None
    view: Optional[UserView] = None
    progress: Optional[ProgressWatcher] = None
    spare: Optional[Spare] = None
    is_untouched = False
    venv: Optional[str] = None
    over_at: Optional[float] = None
    leave_request: Optional[exit_outcome.LeaveRequest] = None
    failure_cause: Optional[exit_outcome.Cause] = None

    def __init__(
        self,
        document: Launch,
        part: NodeLaunch,
        attempt: AttemptPaths,
        events: EventLog,
        *,
        namespace: Optional[ProcessNamespace] = None,
        granted: Optional[GrantedNode] = None,
    ) -> None:
        self.document = document
        self.part = part
        self.attempt = attempt
        self.node = attempt.node(part.node)
        self.granted = granted
        self.node_name = granted.name if granted is not None else part.node
        self.events = events
        self.namespace = namespace
        self.own_disk_view = namespace is not None
        self.wake_channel = WakeChannel(
            self.node,
            events.keep_up,
            look_s=document.settings.look_s,
            outside_only=namespace is not None,
            lasts=len(document.nodes) > 1 or document.runs_as is not None,
        )
        self.children = Children()
        self.lease = Lease(document, part, self.node)
        self.meter = Meter(self.node.utilization)
        self.sidecar = SidecarProcess(
            document,
            part,
            self.node,
            events=events,
            wake_channel=self.wake_channel,
            children=self.children,
            namespace=namespace,
        )
        self.victims = OomKills()
        self.workers = [Worker(item, attempt, directory=self._start_of(item)) for item in part.workers]
        self.setup_log = attempt.log(f"setup.{self.node_name}")
        logs = [self.setup_log, *(worker.log for worker in self.workers)]
        self.log_room = LogRoom(logs, limit_bytes=document.settings.log_limit_bytes, say=events.notice)
        self.exits: list[exit_outcome.Exit] = []
        self.node_env: dict[str, str] = {}
        self.secret_values: Mapping[str, str] = {}
        self.secret_env: dict[str, str] = {}
        self.secret_mounts: list[Bind] = []
        self.shown: list[Bind] = []
        self.git = document.git
        self.programs: list[str] = []
        self.lock_handles: list[int] = []
        self._claimed = time.monotonic()
        wall_s = granted.leave_s(document.grace_s, time.time()) if granted is not None else None
        self._limits = {
            limit: self._claimed + seconds
            for limit, seconds in ((words.TIME_LIMIT, document.time_limit_s), (words.WALL_TIME, wall_s))
            if seconds is not None
        }

    @property
    def place(self) -> Union[AnyContainer, UserView, None]:
        """The views that every process of the attempt enters."""
        return self.container or self.view

    @property
    def directories(self) -> list[str]:
        """The directories for the code: the node's working directory, or one for each worker in it."""
        return sorted({worker.directory for worker in self.workers}) or [self.node.work]

    def _start_of(self, worker: WorkerLaunch) -> str:
        """The directory of a worker. With steps or hooks all workers share one, to see their files."""
        shared = self.document.setup or self.document.hooks or len(self.part.workers) < 2
        if shared or not self.document.own_directories:
            return self.node.work
        return os.path.join(self.node.work, worker.name)

    @property
    def leave_kind(self) -> Optional[str]:
        """The kind of the strongest request to leave so far."""
        return self.leave_request.kind if self.leave_request else None

    def cause(self, code: str, message: str, **fields: Any) -> exit_outcome.Cause:
        """A cause with the name of this node."""
        return exit_outcome.cause_of(code, message, node=self.node_name, **fields)

    def note_exit(self, left: exit_outcome.Exit) -> None:
        """Record and report the exit of a worker, or that it could not be started."""
        self.exits.append(left)
        self.events.append(
            "worker_ended",
            role=left.part.role,
            replica=left.part.replica,
            index=left.part.worker,
            exit_code=left.exit_code,
            signal=left.signal,
            tail=left.tail,
        )

    @property
    def is_plain(self) -> bool:
        """Whether the attempt's changes to this process are simple to revert."""
        document = self.document
        steps = document.setup or document.hooks or document.own_packages
        special = steps or document.secrets or document.container or document.runs_as or self.part.mounts
        return not special

    def leave_at(self) -> Optional[float]:
        """The time at which workers started now must leave, in seconds since the epoch; None: never."""
        now, dues = time.monotonic(), list(self._limits.values())
        if self.document.allotted_s is not None:
            allowed = self._claimed + protocol.START_ALLOWANCE_S if self.document.allots_setup else now
            dues.append(min(now, allowed) + self.document.allotted_s)
        return time.time() + min(dues) - now if dues else None

    @property
    def leave_due(self) -> Optional[float]:
        """The time at which a limit of the run or of its job makes the workers leave."""
        dues = [due for limit, due in self._limits.items() if self._is_new(limit)]
        left_s = self.lease.left_s()
        if left_s is not None and self._is_new(words.LEASE_EXPIRED):
            dues.append(time.monotonic() + left_s)
        return min(dues, default=None)

    def new_leave_kind(self) -> Optional[str]:
        """The kind of a new request that is not weaker than the last; limits count as requests."""
        left_s = self.lease.left_s()
        if left_s is not None and left_s <= 0 and self._is_new(words.LEASE_EXPIRED):
            return words.LEASE_EXPIRED
        kind, now = self._kind_from_messages(), time.monotonic()
        over = [limit for limit, due in self._limits.items() if now >= due and self._is_new(limit)]
        return kind or next(iter(over), None)

    def note_leave_request(self, kind: str) -> None:
        """Record a request to leave, report it, and make the pause file."""
        self.leave_request = exit_outcome.LeaveRequest(kind, self.leave_signal(kind))
        self.events.append("asked", ask=kind)
        self.raise_pause_file()
        if kind == words.WALL_TIME:  # clocks differ, and the workers of all nodes must leave together
            with suppress(OSError):
                untrusted.publish(self.attempt.ask, json.dumps({"ask": kind, "at": time.time()}).encode())
                self._ring_others(fifo.RING)

    def raise_pause_file(self) -> None:
        """Make `should_pause()` true on this node from now on."""
        try:
            untrusted.touch(self.node.pause)
        except OSError as error:
            self.events.notice(f"the pause file cannot be made: {error}")

    def leave_signal(self, kind: str) -> Optional[str]:
        """The signal of a request to leave. A stop always has one: SIGTERM, if the spec names none."""
        return self.document.pause_signal or (signal.SIGTERM.name if kind == words.STOP else None)

    def peer_failure(self) -> Optional[exit_outcome.Cause]:
        """The failure that ended the attempt, as recorded by the first failing node."""
        alone = len(self.document.nodes) < 2
        found = {} if alone else untrusted.object_at(self.attempt.failed)  # an incomplete one is read again
        return _cause_in(found or self.wake_channel.messages.get(protocol.FAILED_FILE))

    def peer_failure_while_leaving(self) -> Optional[exit_outcome.Cause]:
        """The failure of a worker after the request to leave, here or on another node."""
        return _cause_in(untrusted.object_at(self.attempt.failed_leaving))

    def note_failure_while_leaving(self, cause: exit_outcome.Cause) -> None:
        """Report a failure to the other nodes, unless another was first."""
        with suppress(OSError):  # the disk is full: the others use the whole grace
            untrusted.publish(self.attempt.failed_leaving, self._failure_note(self.events.mask.tree(cause)))
            self._ring_others(fifo.RING)

    def note_failure(self, cause: exit_outcome.Cause) -> None:
        """Record the failure that ends the attempt for the other nodes, unless another was first."""
        cause = self.events.mask.tree(cause)
        ring = fifo.RING
        try:
            untrusted.publish(self.attempt.failed, self._failure_note(cause))
        except FileExistsError:
            cause = self.peer_failure() or cause
        except OSError:  # probably the disk is full: the wake channel takes a line instead
            ring = self._failure_note({**cause, "tail": []}) + b"\n"
        self.failure_cause = cause
        self._ring_others(ring)

    def check_leave(self) -> None:
        """Raises Leave on a request to leave, a failure, or a node that ends its runner: no worker runs."""
        self.failure_cause = self.failure_cause or self.peer_failure()
        kind = self.new_leave_kind()
        if kind is not None:
            self.note_leave_request(kind)
        if self.leave_request or self.failure_cause or self.wake_channel.node_leaves:
            raise Leave(self.outcome())

    def attend(
        self,
        child: Child,
        *,
        check: Optional[Callable[[], None]] = None,
        news: Callable[[], object] = lambda: None,
        also: int = -1,
        at_once: bool = False,
    ) -> None:
        """Wait for a process of a hook, reading its `news`; `also` is another descriptor that wakes it.

        If `check` (usually `check_leave`) raises Leave, end the process and raise it: by SIGTERM, leaving
        what remains after a moment to the end of the node's part, or with `at_once` by SIGKILL.
        """
        while not child.left:
            self.wake_channel.wait(self.leave_due, also=also)
            self.log_room.look()
            news()
            self.children.reap()
            if not child.left:
                try:
                    (check or self.check_leave)()
                except Leave:
                    self._end(child, at_once=at_once)
                    raise
        news()

    def _end(self, child: Child, *, at_once: bool) -> None:
        if at_once:
            os.kill(child.pid, signal.SIGKILL)
            child.send(signal.SIGKILL)
            while not child.left:
                self.wake_channel.wait()
                self.children.reap()
            return
        child.send(signal.SIGTERM)
        deadline = time.monotonic() + _MOMENT_S
        while not self.children.none_left and time.monotonic() < deadline:
            self.wake_channel.wait(deadline)
            self.children.reap()

    def fail(self, cause: exit_outcome.Cause) -> Leave:
        """Fail the attempt before its workers start, on all nodes. The caller raises the result."""
        self.note_failure(cause)
        return Leave(exit_outcome.ExitOutcome(words.FAILED, self.failure_cause))

    def fault(self, message: str) -> exit_outcome.ExitOutcome:
        """The outcome of a platform fault, which the other nodes learn of: the attempt is retried."""
        self.note_failure(self.cause(words.PLATFORM_FAULT, message))
        return self.outcome()

    def wait_for(self, path: str) -> None:
        """Wait until the node of rank 0 has made `path`; raises Leave like `check_leave`."""
        while not os.path.exists(path):
            self.check_leave()
            self.wake_channel.wait(self.leave_due)

    def notify_nodes(self, path: str) -> None:
        """Make `path`, which the other nodes wait for, and wake their runners."""
        untrusted.touch(path)
        self._ring_others(fifo.RING)

    def outcome(self) -> exit_outcome.ExitOutcome:
        """The outcome of this node's part, from all known facts."""
        limit_s = self.document.time_limit_s
        return exit_outcome.node_outcome(
            self.exits,
            node=self.node_name,
            request=self.leave_request,
            failure_cause=self.failure_cause,
            node_leaves=self.wake_channel.node_leaves,
            finished=self.finished,
            time_limit_s=None if limit_s is None else self.document.ran_s + limit_s,
        )

    @property
    def finished(self) -> bool:
        """Whether the SDK has reported the end of the work, on any node that shares this disk."""
        return any(os.path.exists(self.attempt.node(name).finished) for name in self.document.node_names)

    def _kind_from_messages(self) -> Optional[str]:
        """The kind of a request from the file, else from a message of the wake channel."""
        message = self.wake_channel.messages.get(protocol.ASK_FILE)
        for record in (untrusted.object_at(self.attempt.ask), message):
            kind = record.get("ask") if record else None
            if isinstance(kind, str) and kind in words.LEAVE_STRENGTH and self._is_new(kind):
                return kind
        return None

    def _is_new(self, kind: str) -> bool:
        known = words.LEAVE_STRENGTH[self.leave_kind] if self.leave_kind else 0
        return kind != self.leave_kind and words.LEAVE_STRENGTH[kind] >= known

    def _failure_note(self, cause: exit_outcome.Cause) -> bytes:
        return json.dumps({"node": self.node_name, "cause": cause, "at": time.time()}).encode()

    def _ring_others(self, message: bytes) -> None:
        for name in self.document.node_names:
            if name != self.part.node:
                fifo.ring(self.attempt.node(name).wake, message)


def _cause_in(record: Optional[dict[str, Any]]) -> Optional[exit_outcome.Cause]:
    cause = record.get("cause") if record else None
    return cause if isinstance(cause, dict) else None
