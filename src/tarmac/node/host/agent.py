"""The agent of a node: a program that executes `operations` there for an engine, and starts runners.

Started by `loading`, with a first message {"address", "home", "token"} on its input. It detaches from its
starter (a session of its own, no shared descriptor), listens at the address, writes {"port", "pid"} to its
output, and serves connections that prove the token. All of its state is in the directories: it may end at any
time, and does so after some time without a connection; runners continue.
"""

from __future__ import annotations

import glob
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any, BinaryIO, Callable, Mapping, Optional, Sequence

from tarmac.node.attempt import claims, clearing
from tarmac.node.attempt.protocol import AttemptPaths
from tarmac.node.files import secretfiles
from tarmac.node.host import operations, services
from tarmac.node.host.gpus import Gpus
from tarmac.node.host.relay import Forwards, Relays
from tarmac.node.host.warm_parent import Start, WarmParent
from tarmac.node.kernel import fifo, procfs, sockets, system_users, workergroup
from tarmac.node.processes import detach
from tarmac.node.starting import Installation
from tarmac.node.wire.connection import Connection, Lost, over_socket, run_over_socket
from tarmac.node.wire.opening import accept, answer, keep_watch

IDLE_S = 600.0
"""The time after which the agent ends without a connection."""

LOOK_S = 10.0
GREET_S = 10.0
CALLS, SESSION = "calls", "session"
"""The services of an agent: operations, and sessions (see `node/session/frames.py`)."""

SCRUBBED = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTHONPATH", "PYTHONHOME")
SCRUBBED_PREFIX = "RAY_"
"""The prefix of the starter's own variables, which no run should see."""

_OF_OTHERS, _WRITABLE = 0o077, 0o022

SESSION_LOST_S = 24
"""Shorter than for other connections, since a person waits."""


def serve(stream: BinaryIO, output: int) -> None:
    """Read the first message, detach from the starter, and serve; in the starter, return at once."""
    order = json.loads(stream.readline())
    listening = socket.create_server((order["address"], 0), backlog=64)
    for name in list(os.environ):
        if name in SCRUBBED or name.startswith(SCRUBBED_PREFIX):
            del os.environ[name]
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.write(output, json.dumps({"port": listening.getsockname()[1], "pid": os.getpid()}).encode() + b"\n")
    detach.drop_stdio()
    detach.close_inherited(but=frozenset({listening.fileno()}))
    detach.default_signals(signal.SIGPIPE, signal.SIGINT)
    services.note(order["home"], order["address"])
    Agent(listening, order["home"], bytes.fromhex(order["token"])).run()
    os._exit(0)


class Agent:
    """The state shared by all connections."""

    def __init__(self, listening: socket.socket, home: str, token: bytes) -> None:
        self._listening = listening
        self._home = home
        self._token = token
        self._lock = Lock()
        self._links: list[Connection] = []
        self._warm: dict[Installation, WarmParent] = {}
        self._left = time.monotonic()
        self._gpus = Gpus()
        self._forwards = Forwards()
        self._relays = Relays()
        self._own: dict[str, Callable[..., Any]] = {
            "survey": self.survey,
            "health": self.health,
            "prepare": self.prepare,
            "start": self.start,
            "lives": lives,
            "living": lambda: living(self._home),
            "end": end,
            "end_orphans": end_orphans,
            "relay": relay,
            "user_problem": partial(user_problem, self._home),
        }

    def run(self) -> None:
        """Accept connections until there has been none for `IDLE_S`."""
        os.makedirs(self._home, mode=0o700, exist_ok=True)
        self._gpus.start()
        Thread(target=self._read_news, daemon=True).start()
        self._listening.settimeout(LOOK_S)
        while True:
            with suppress(OSError):
                connection, _ = self._listening.accept()
                Thread(target=self._serve, args=(connection,), daemon=True).start()
            self._forwards.close_unused()
            with self._lock:
                if not self._links and time.monotonic() - self._left > IDLE_S:
                    return

    def survey(self) -> dict[str, Any]:
        """The facts about this machine; see `operations` and `gpus`."""
        own = {"products": self._gpus.products(), "users_problem": users_problem(self._home)}
        return {**operations.survey(self._home), **own, **self._gpus.report()}

    def health(self) -> dict[str, Any]:
        """Problems of this machine, and the use of its GPUs."""
        return {**operations.health(self._home), **self._gpus.report()}

    def prepare(self, home: str, area: str, package: str, python: Optional[str] = None) -> bool:
        """Like `operations.prepare`, if the home has no other server; returns whether the package exists.

        If so, it starts the warm parent ahead of the first runner.
        """
        operations.prepare(home, area)
        there = clearing.use(os.path.dirname(os.path.dirname(package)))
        if there:
            self._warm_parent(package, python).start()
        return there

    def start(
        self,
        directory: str,
        node: str,
        *,
        package: str,
        python: Optional[str] = None,
        secrets: Optional[Mapping[str, str]] = None,
        files: Mapping[str, bytes],
        area: str,
    ) -> None:
        """Start the runner of a node of an attempt, after making its directory from `files` if it is missing.

        Raises OSError; ValueError if the secrets are too large.
        """
        operations.make_directory(directory, files, area=area)
        start = Start(directory, node, secrets or {})
        (problem,) = self._warm_parent(package, python).start_runners([start])
        if problem is not None:
            raise problem

    def _warm_parent(self, package: str, python: Optional[str]) -> WarmParent:
        installation = Installation(python or sys.executable, package)
        with self._lock:
            if installation not in self._warm:
                self._warm[installation] = WarmParent(installation)
            return self._warm[installation]

    def _serve(self, connection: socket.socket) -> None:
        """Serve one connection, from its opening to its end."""
        with connection, suppress(OSError, ValueError, KeyError, TypeError):
            keep_watch(connection)
            connection.settimeout(GREET_S)
            service, arguments = accept(connection, self._token)
            connection.settimeout(None)
            if service == SESSION:
                keep_watch(connection, lost_s=SESSION_LOST_S)
                answer(connection, begin_session(connection, **arguments))
            elif service == CALLS:
                answer(connection)
                self._serve_calls(connection)

    def _serve_calls(self, connection: socket.socket) -> None:
        own = dict(self._own)

        def find(name: str) -> Callable[..., Any]:
            return own.get(name) or operations.operation(name)

        link = over_socket(connection, find=find, margin_s=None, accepted=True)
        own["serve_store"] = partial(self._relays.serve, link)
        own["forward"] = partial(self._forwards.serve, link)
        with self._lock:
            self._links.append(link)
        try:
            run_over_socket(connection, link)
        finally:
            with self._lock:
                self._links.remove(link)
                self._left = time.monotonic()

    def _read_news(self) -> None:
        """Pass on runners' messages from the FIFO of the home: each line is an attempt with news."""
        handle = fifo.listen(os.path.join(self._home, "notify"))
        if handle < 0:
            return
        rest = b""
        while True:
            sockets.readable(handle)
            *lines, rest = (rest + fifo.drain(handle)).split(b"\n")
            with self._lock:
                links = tuple(self._links)
            for line in dict.fromkeys(lines):
                for link in links:
                    with suppress(Lost):
                        link.notify("news", {"attempt_id": line.decode(errors="replace")})


def begin_session(connection: socket.socket, package: str, python: Optional[str]) -> Optional[str]:
    """Start the far end of a session on a connection, which carries its frames past the agent from now on.

    `package` is the package's path here, `python` runs it (None: the agent's). Returns the problem, if any.
    """
    try:
        Installation(python or sys.executable, package).start_session(connection)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None


def users_problem(home: str) -> str:
    """Why runs below this home cannot be those of system users; empty if they can."""
    if os.geteuid() != 0:
        return f"its agent is not root (uid {os.geteuid()})"
    found = os.lstat(home)
    if found.st_uid != 0 or found.st_mode & _OF_OTHERS:
        return f"{home} must be a directory of root with mode 0700"
    for above in (*Path(home).parents, *Path(os.path.realpath(home)).parents):
        found = os.lstat(above)
        replaceable = found.st_mode & _WRITABLE and not found.st_mode & stat.S_ISVTX
        if found.st_uid != 0 or (replaceable and not stat.S_ISLNK(found.st_mode)):
            return f"users can change {above}, which is above the directory for runs"
    return ""


def user_problem(home: str, name: str, least_uid: int) -> str:
    """Why a run below this home cannot be that of this system user now; empty if it can."""
    if problem := users_problem(home):
        return problem
    try:
        system_users.find(name, least_uid)
    except system_users.Refused as refused:
        return str(refused)
    return ""


def lives(places: Sequence[Sequence[str]]) -> list[str]:
    """The fate of the runner of each of these nodes of attempts: [DIRECTORY, NODE]."""
    return [_life(directory, node) for directory, node in places]


def end(directory: str, node: str) -> None:
    """End an unresponsive runner."""
    claim = _claim(directory, node)
    if claim is not None:
        claims.end(claim)


def end_orphans(attempt_id: str, token: str, directory: str, node: str) -> None:
    """End the remaining processes of a lost runner. Raises TimeoutError if one of them does not end."""
    claims.end_orphans(token)
    workergroup.remove_left(attempt_id)
    secretfiles.remove(token, node, AttemptPaths(directory).node(node).directory)


def relay(directory: str, node: str, files: Mapping[str, bytes]) -> None:
    """Write files of runners on other nodes for this one, unless they exist, and wake its runner."""
    for path, content in files.items():
        place = os.path.join(directory, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if not os.path.lexists(place):
            operations.write_once(place, content)
    fifo.ring(AttemptPaths(directory).node(node).wake)


def living(home: str) -> list[list[str]]:
    """The parts of attempts below a home with living runners: [attempt id, node]."""
    found = []
    for directory in glob.iglob(os.path.join(glob.escape(home), "runs", "*", "attempts", "*")):
        run = os.path.dirname(os.path.dirname(directory))
        for node in AttemptPaths(directory).node_names():
            claim = _claim(directory, node)
            if claim is not None and not claim.fenced and claims.is_alive(claim):
                found.append([f"{os.path.basename(run)}.{os.path.basename(directory)}", node])
    return found


def _life(directory: str, node: str) -> str:
    claim = _claim(directory, node)
    if claim is None:
        return "unclaimed" if os.path.isdir(directory) else "absent"
    if claim.fenced or claims.is_alive(claim):
        return "alive"
    return "dead" if claim.boot_id == procfs.boot_id() else "restarted"


def _claim(directory: str, node: str) -> Optional[claims.Claim]:
    with suppress(OSError, ValueError):
        return claims.read(AttemptPaths(directory).node(node))
    return None
