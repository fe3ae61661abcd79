"""Operations of an engine on the host of a cluster: running commands, reading and writing files of attempts.

Called in this process if the host is this machine, and at the far end of a connection otherwise (`serve`).
Therefore arguments and results are of the types that `wire.frames` supports. Raises OSError and ValueError
alone. Commands have a deadline, and none outlives the connection. At the end are facts about the machine:
programs, ports, processors, memory, disk and clock; GPUs: see `gpus`.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from threading import Condition, Lock
from typing import Any, BinaryIO, Callable, Iterator, Mapping, Optional, Sequence

from tarmac.node.attempt import claims, clearing, sealed
from tarmac.node.attempt.protocol import ASK_FILE, AttemptPaths
from tarmac.node.container.images import Images
from tarmac.node.files import codestore, staging, untrusted
from tarmac.node.host import services
from tarmac.node.host.changes import Changes
from tarmac.node.kernel import fifo, procfs, sockets, system_users
from tarmac.node.processes import lease
from tarmac.node.wire.connection import Connection

NOTE_BYTES = 64 * 1024

BEGINNING_S = 5.0
"""The wait for commands that are starting, before they are ended: their file may be on a slow disk."""


CONNECT_S = 10.0

FIRST_PORT = 20_000


class Commands:
    """The running commands. Thread-safe."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._running: set[int] = set()
        self._beginning = 0
        self._over = False

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """Exit code, output and error output. Raises OSError; TimeoutError at the deadline."""
        with self._begun(argv, env) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except BaseException as problem:
                _end(process.pid)
                if isinstance(problem, subprocess.TimeoutExpired):
                    message = f"did not answer within {timeout_s:g} s"
                    raise TimeoutError(errno.ETIMEDOUT, message, argv[0]) from None
                raise
        return process.returncode, out, err

    def end(self) -> None:
        """End every running or starting command; no other can start."""
        with self._changed:
            self._over = True
            self._changed.wait_for(lambda: not self._beginning, BEGINNING_S)
            for pid in self._running:
                _end(pid)

    @contextmanager
    def _begun(self, argv: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        with self._changed:
            if self._over:
                raise OSError(errno.ESHUTDOWN, "no command begins any more", argv[0])
            self._beginning += 1
        process = None
        try:
            process = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd="/",
            )
        finally:
            with self._changed:
                self._beginning -= 1
                self._running.update([process.pid] if process is not None else [])
                self._changed.notify_all()
        with process:
            try:
                yield process
            finally:
                with self._changed:
                    self._running.discard(process.pid)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def serve(stream: BinaryIO, output: int) -> None:
    """Perform operations for the other end of a connection until it ends; then this process ends."""
    Connection(output, find=operation, margin_s=None, accepted=True).run(stream)
    _COMMANDS.end()
    os._exit(0)


def operation(name: str) -> Callable[..., Any]:
    """The function of this module with this name, or of another one: see `_ELSEWHERE`. Raises ValueError."""
    found = None if name.startswith("_") else _ELSEWHERE.get(name) or globals().get(name)
    if not callable(found):
        raise ValueError(f"there is no operation {name!r}")
    function: Callable[..., Any] = found
    return function


_ELSEWHERE: Mapping[str, Callable[..., Any]] = {
    "use": clearing.use,
    "remains": clearing.remains,
    "remove": clearing.remove,
    "clear": clearing.clear,
    "clear_copies": clearing.clear_copies,
    "remove_sealed": sealed.remove,
    "files": untrusted.list_inside,
    "read": untrusted.read_inside,
    "take_code": codestore.receive_pieces,
    "write_piece": staging.write_piece,
    "list_pieces": staging.list_pieces,
    "start_service": services.start,
    "service": services.state,
    "end_service": services.end,
    "end_agents": services.end_all,
    "own_home": system_users.own_home,
}
"""Operations that functions of other modules perform."""

_COMMANDS = Commands()
_CHANGES = Changes()
_CHANGES_LOCK = Lock()


def run(
    argv: Sequence[str], *, keep: Sequence[str], variables: Mapping[str, str], limit_s: float
) -> tuple[int, bytes, bytes]:
    """Run a command: its exit code, output and error output. Raises OSError; TimeoutError at the deadline.

    Its environment is the host's variables named in `keep`, and `variables`.
    """
    env = {name: os.environ[name] for name in keep if name in os.environ}
    return _COMMANDS.run(argv, env={**env, **variables}, timeout_s=limit_s)


def about() -> dict[str, Any]:
    """The name of this machine, its Python, and its current time."""
    return {"name": os.uname().nodename, "python": sys.version.split()[0], "at": time.time()}


def prepare(home: str, area: str) -> None:
    """Make the home of a cluster, and make its staging area `area` again."""
    os.makedirs(home, mode=0o700, exist_ok=True)
    staging.prepare(area)


def make_directory(directory: str, files: Mapping[str, bytes], *, area: str) -> bool:
    """Make a directory with these files, complete or not at all; False if it exists."""
    return staging.make_directory(directory, files, staging=area)


def write(path: str, content: bytes, *, private: bool = False) -> None:
    """Replace a small file atomically; `private`: only its user may read it."""
    untrusted.replace(path, content, mode=0o600 if private else 0o666)


def write_once(path: str, content: bytes) -> bytes:
    """Make a small file, unless it exists; returns its content. Of several concurrent calls one succeeds."""
    try:
        untrusted.publish(path, content)
    except FileExistsError:
        return untrusted.read_bytes(path, NOTE_BYTES)
    return content


def ask(directory: str, content: bytes, nodes: Sequence[str]) -> None:
    """Store a request for an attempt, and wake the runners that can be woken from here.

    On a full disk those runners still get the request.
    """
    message = fifo.RING
    try:
        untrusted.replace(os.path.join(directory, ASK_FILE), content)
    except OSError:
        message = content + b"\n"
        raise
    finally:
        for node in nodes:
            fifo.ring(AttemptPaths(directory).node(node).wake, message)


def fence(directory: str, nodes: Sequence[str]) -> None:
    """Prevent these nodes of an attempt from starting, unless they are claimed."""
    for node in nodes:
        claims.fence(AttemptPaths(directory).node(node))


def changes(
    *, number: int, directories: Sequence[str], files: Sequence[str], node_files: Sequence[str]
) -> dict[str, Any]:
    """Reports of attempts since answer `number`; see `Changes.since`.

    As the server has asked about them, this renews their leases.
    """
    for directory in directories:
        lease.renew(directory)
    with _CHANGES_LOCK:
        return _CHANGES.since(number, directories, files, node_files)


def room(home: str) -> tuple[int, Optional[int]]:
    """Test a write to a directory, made if missing; returns its free bytes and files (None: unlimited)."""
    os.makedirs(home, mode=0o700, exist_ok=True)
    with tempfile.TemporaryFile(dir=home) as file:
        file.write(b"tried")
    found = os.statvfs(home)
    return found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None


def images(directory: str) -> list[dict[str, Any]]:
    """The images of this node; see `Images`."""
    return Images(directory).listing()


def remove_image(directory: str, digest: str) -> bool:
    """Remove an image of this node; False if it is in use."""
    return Images(directory).remove(digest)


def clear_images(directory: str, *, limit_bytes: Optional[int], unused_days: Optional[float]) -> list[str]:
    """Remove images of this node by age and beyond a limit; see `Images`."""
    return Images(directory).clear(limit_bytes=limit_bytes, unused_days=unused_days)


def remove_trees(paths: Sequence[str]) -> None:
    """Remove these directories and files with their content, if they exist."""
    for path in paths:
        try:
            untrusted.remove_tree(path)
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            os.unlink(path)


def machine_facts(programs: Sequence[str]) -> dict[str, Any]:
    """The paths of the programs (None: missing), and the address of this machine.

    The address is the target of the incoming connection; None if it is unknown, as on a loopback.
    """
    came_to = os.environ.get("SSH_CONNECTION", "").split()
    address = came_to[2] if len(came_to) == 4 and not came_to[2].startswith("127.") else None
    return {"programs": {name: shutil.which(name) for name in programs}, "address": address}


def port_problem(address: str, port: int) -> Optional[str]:
    """The reason why a program cannot listen at this port; None if it can. Port 0 tries the address alone."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return f"{address} is not an address of this machine"
            if error.errno == errno.EADDRINUSE:
                return f"port {port} is taken"
            return error.strerror or str(error)
    return None


def free_ports(address: str, count: int, taken: Sequence[int] = ()) -> list[int]:
    """`count` free ports at an address, above those that Ray gives to its workers, and not among the taken.

    Raises OSError if there are not enough.
    """
    found: list[int] = []
    for _ in range(count):
        found.append(sockets.find_free_port(address, {*taken, *found}, first=FIRST_PORT))
    return found


def connect_problem(address: str, port: int) -> Optional[str]:
    """The reason why no process answers at an address; None if one does."""
    try:
        socket.create_connection((address, port), CONNECT_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def survey(home: str) -> dict[str, Any]:
    """The current facts about this machine; `home` is the directory whose disk counts."""
    return {**about(), "cpus": float(len(os.sched_getaffinity(0))), **health(home)}


def health(home: str) -> dict[str, Any]:
    """Possible problems: memory, space on the disk, the clock."""
    disk = os.statvfs(home)
    return {
        "at": time.time(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "free_memory_bytes": int((procfs.field("/proc/meminfo", "MemAvailable") or "0").split()[0]) * 1024,
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "free_files": disk.f_favail if disk.f_files else None,
    }
