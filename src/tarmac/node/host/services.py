"""Programs that outlive the connection: each runs at most once, and is ended by its process id.

Called by `operations` and `agent`. A path identifies a service, its `place`, with these files beside it:

    PLACE.json   the mark and the boot; then the first process (pid, start in clock ticks) and its start time
    PLACE.log    the output since the last start; PLACE.log.1 the output before that
    PLACE.lock   locked while it is started or ended

All of its processes have a mark of this start in their environment and are in the session of the first one. A
process that starts a session of its own no longer belongs to the service.

The agents that serve a home on this machine (see `agent`) outlive the connection likewise: each registers
itself, and ends with its cluster. Several machines may share the directory: an entry names the boot.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import signal
import time
from contextlib import suppress
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from tarmac.node.files import untrusted
from tarmac.node.kernel import procfs, signals
from tarmac.node.kernel.handles import locked

VARIABLE = "TARMAC_SERVICE"
"""A variable of every process of a service: its place, and the mark of its start."""

LOOK_EVERY_S = 0.05
STRUCK_S = 10.0
"""The time within which processes end after SIGKILL."""

LAST_BYTES = 16 * 1024


class _Found(NamedTuple):
    """A service by its record and /proc: `first` while it lives, and all other living processes."""

    first: Optional[procfs.Process]
    others: list[procfs.Process]
    since: Optional[float]

    @property
    def all(self) -> list[procfs.Process]:
        return self.others if self.first is None else [self.first, *self.others]


def start(
    place: str, argv: Sequence[str], variables: Mapping[str, str], directories: Sequence[str]
) -> dict[str, Any]:
    """Start a service, unless it runs; returns `state`, and `started`: whether this call started it.

    Makes the directories first, for this user alone. Raises OSError if a directory or the program fails, and
    PermissionError if a directory is another user's.
    """
    for directory in (os.path.dirname(place), *directories):
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if os.lstat(directory).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", directory)
    with locked(f"{place}.lock"):
        found = _find(place)
        if found.first is not None:
            return {**state(place), "started": False}
        _strike(found.all)
        with suppress(FileNotFoundError):
            os.replace(f"{place}.log", f"{place}.log.1")
        record = {"mark": os.urandom(8).hex(), "boot_id": procfs.boot_id(), "at": time.time()}
        _write(place, record)  # first, so that the process can be found if this one ends now
        pid = _spawn(place, argv, {**os.environ, **variables, VARIABLE: _marked(place, record)})
        status = procfs.status(pid)
        if status is not None:
            _write(place, {**record, **status.process._asdict()})
        return {**state(place), "started": True}


def state(place: str) -> dict[str, Any]:
    """The state of a service: `pid` and `since` of its first process (None: not running), its last `lines`.

    `left` is the number of processes that outlived the first one.
    """
    found = _find(place)
    lines, _ = untrusted.last_bytes(f"{place}.log", LAST_BYTES)
    pid = found.first.pid if found.first is not None else None
    return {
        "pid": pid,
        "since": found.since if pid is not None else None,
        "lines": lines,
        "left": len(found.others) if pid is None else 0,
    }


def end(place: str, *, grace_s: float) -> bool:
    """End a service: SIGTERM to its first process, after the grace SIGKILL to all; returns whether any ran.

    Raises TimeoutError if a process does not end.
    """
    if not os.path.isdir(os.path.dirname(place)):
        return False
    with locked(f"{place}.lock"):
        found = _find(place)
        if found.first is not None:
            signals.send(found.first, signal.SIGTERM)
            _wait([found.first], grace_s)
        _strike([*found.all, *_find(place).all])
        with suppress(FileNotFoundError):
            os.unlink(f"{place}.json")
        return bool(found.all)


def _spawn(place: str, argv: Sequence[str], variables: Mapping[str, str]) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return os.posix_spawnp(
        argv[0],
        list(argv),
        variables,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, f"{place}.log", flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD],
    )


def _write(place: str, record: Mapping[str, Any]) -> None:
    untrusted.replace(f"{place}.json", json.dumps(record).encode(), mode=0o600)


def _marked(place: str, record: Mapping[str, Any]) -> str:
    return f"{place}:{record.get('mark')}"


def _find(place: str) -> _Found:
    """The service by its record; if that is incomplete, its first process is the oldest with the mark."""
    record = untrusted.object_at(f"{place}.json")
    if record.get("boot_id") != procfs.boot_id():
        return _Found(None, [], None)
    mark = os.fsencode(f"{VARIABLE}={_marked(place, record)}")
    bearers = [found for pid in procfs.pids() if (found := _bearer(pid, mark)) is not None]
    first = procfs.Process(record.get("pid", 0), record.get("start_ticks", 0))
    if not first.pid:
        leaders = [each.process for each in bearers if each.session == each.process.pid]
        first = min(leaders, key=lambda process: process.start_ticks, default=first)
    others = [each.process for each in bearers if each.process != first and each.session == first.pid]
    return _Found(first if procfs.lives(first) else None, others, record.get("at"))


def _bearer(pid: int, mark: bytes) -> Optional[procfs.Status]:
    """The status of a process, if it lives and has the mark in its environment."""
    try:
        if mark not in procfs.content(f"/proc/{pid}/environ").split(b"\0"):
            return None
    except OSError:  # ended, or another user's
        return None
    found = procfs.status(pid)
    return found if found is not None and not found.unreaped else None


def _wait(processes: Sequence[procfs.Process], timeout_s: float) -> bool:
    """Wait until none of them lives; returns whether all have ended."""
    deadline = time.monotonic() + timeout_s
    while any(map(procfs.lives, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def _strike(processes: Sequence[procfs.Process]) -> None:
    for process in processes:
        signals.send(process, signal.SIGKILL)
    if not _wait(processes, STRUCK_S):
        left = next(process.pid for process in processes if procfs.lives(process))
        raise TimeoutError(errno.ETIMEDOUT, f"process {left} does not end")


def note(home: str, address: str) -> None:
    """Register this process as the agent of a home at an address, if the disk allows it."""
    status = procfs.status(os.getpid())
    if status is not None:
        with suppress(OSError):
            os.makedirs(home, mode=0o700, exist_ok=True)
            record = {**status.process._asdict(), "boot_id": procfs.boot_id()}
            _write(os.path.join(home, f"agent-{address}"), record)


def end_all(home: str) -> int:
    """End the agents of a home on this machine; returns their number. Their children continue."""
    ended = 0
    for path in glob.iglob(os.path.join(glob.escape(home), "agent-*.json")):
        agent = _find(path[: -len(".json")]).first
        with suppress(OSError):
            if agent is not None:
                _strike([agent])  # it has no state
                ended += 1
                os.unlink(path)
    return ended
