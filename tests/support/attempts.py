"""Attempt directories written by hand, and real runners on them: used by the tests of `tarmac.node`.

Waiting is always for something real: a line in events.jsonl (through the notify FIFO), a file, the end of a
process. Every wait is bounded.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tarmac.node.attempt import protocol
from tarmac.node.attempt.document import NodeSettings
from tarmac.node.attempt.protocol import AttemptPaths, NodePaths
from tarmac.node.kernel.fifo import ring
from tarmac.node.kernel.sockets import readable
from tarmac.node.starting import NODE_DIRECTORY, Installation

PATIENCE_S = 120.0


def worker(
    script: str,
    *,
    role: str = "main",
    replica: int = 0,
    index: int = 0,
    stop_on_failure: bool = True,
    argv: Sequence[str] | None = None,
    env: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A worker of attempt.json that runs a bash script, or `argv`."""
    return {
        "role": role,
        "replica": replica,
        "worker": index,
        "argv": list(argv or ["bash", "-c", script]),
        "env": {"PATH": os.environ["PATH"], **(env or {})},
        "slots": [],
        "stop_on_failure": stop_on_failure,
    }


def python_worker(source: str, **how: Any) -> dict[str, Any]:
    """A worker that runs Python source with the interpreter of the tests."""
    return worker("", argv=[sys.executable, "-u", "-c", source], **how)


@dataclass
class AttemptDirectory:
    """An attempt directory, with what a test wants to know of it."""

    path: Path
    token: str
    nodes: tuple[str, ...]
    told: dict[str, Any]
    wakeup: int = field(repr=False)

    def __post_init__(self) -> None:
        # A test that makes hundreds of attempts holds no descriptor of those that it has let go of.
        weakref.finalize(self, os.close, self.wakeup)

    @property
    def paths(self) -> AttemptPaths:
        return AttemptPaths(str(self.path))

    @property
    def artifacts(self) -> dict[str, str]:
        """The directories of the first node, by kind."""
        found: dict[str, str] = self.told["nodes"][0]["artifacts"]
        return found

    def node(self, name: str = "n0") -> NodePaths:
        return self.paths.node(name)

    def events(self, name: str = "n0") -> list[dict[str, Any]]:
        """What the runner of a node has reported so far, whole lines only."""
        path = Path(self.node(name).events)
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def kinds(self, name: str = "n0") -> list[str]:
        return [event["kind"] for event in self.events(name)]

    def wait_for(self, kind: str, name: str = "n0") -> dict[str, Any]:
        """The first event of this kind, once it is there."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for event in self.events(name):
                if event["kind"] == kind:
                    return event
            remaining_s = deadline - time.monotonic()
            assert remaining_s > 0, f"no {kind!r} within {PATIENCE_S} s: {self.events(name)}"
            if readable(self.wakeup, min(remaining_s, 0.05)):
                os.read(self.wakeup, 65536)

    def ended(self, name: str = "n0") -> dict[str, Any]:
        """The last event of a node; nothing may follow it."""
        event = self.wait_for("ended", name)
        assert self.kinds(name)[-1] == "ended"
        return event

    def wait_for_line(self, line: str, *, log: str = "main.0.0") -> str:
        """The log of a worker, once it has a line that is (or begins with) `line`."""
        path = Path(self.paths.log(log))
        return wait_until(
            lambda: next((text for text in _lines(path) if text.startswith(line)), None),
            f"no line {line!r} in {path}: {_lines(path)}",
        )

    def log(self, name: str = "main.0.0") -> str:
        return Path(self.paths.log(name)).read_text()

    def ask(self, ask: str, *, wake: bool = True) -> None:
        """Ask the attempt to leave, as an engine does."""
        draft = self.path / "ask.draft"
        draft.write_text(json.dumps({"ask": ask, "at": time.time()}))
        draft.rename(self.paths.ask)
        if wake:
            for name in self.nodes:
                ring(self.node(name).wake)


def write_attempt(
    root: Path,
    workers: dict[str, list[dict[str, Any]]] | Sequence[dict[str, Any]],
    *,
    artifacts: Path | None = None,
    files: dict[str, str] | None = None,
    mounts: Sequence[dict[str, Any]] = (),
    name: str | None = None,
    node: dict[str, Any] | None = None,
    **fields: Any,
) -> AttemptDirectory:
    """An attempt directory as an engine makes it: `workers` by node, or for the only node n0.

    `node` is more that is said of each node.
    """
    by_node = workers if isinstance(workers, dict) else {"n0": list(workers)}
    directory = root / (name or f"attempt-{uuid.uuid4().hex[:8]}")
    (directory / protocol.LOGS).mkdir(parents=True)
    kept = artifacts or directory / "artifacts"
    notify = directory / "news"
    os.mkfifo(notify)
    token = uuid.uuid4().hex
    settings = {name: fields.pop(name) for name in NodeSettings._fields if name in fields}
    told: dict[str, Any] = {
        "protocol": protocol.PROTOCOL,
        "attempt_id": "run.1",
        "run_id": "run",
        "run_name": "run",
        "number": 1,
        "token": token,
        "code": None,
        "setup": [],
        "setup_env": {"PATH": os.environ["PATH"]},
        "time_limit_s": None,
        "pause_signal": "SIGTERM",
        "grace_s": 10.0,
        "nodes": [
            {
                "node": each,
                "address": f"127.0.0.{rank + 1}",
                "rank": rank,
                "workers": theirs,
                "files": files or {},
                "mounts": list(mounts),
                "artifacts": {kind: str(kept / kind) for kind in ("checkpoint", "crud", "lossy", "log")},
                **(node or {}),
            }
            for rank, (each, theirs) in enumerate(by_node.items())
        ],
        "settings": {"notify": str(notify), "sdk": Installation("").sdk, **settings},
        **fields,
    }
    if "sync" in told:
        told["sync"] = {"store": "", "patience_s": 0.0, **told["sync"]}
    told["setup"] = [step if isinstance(step, dict) else command(step) for step in told["setup"]]
    (directory / protocol.ATTEMPT_FILE).write_text(json.dumps(told))
    wakeup = os.open(notify, os.O_RDWR | os.O_NONBLOCK)
    return AttemptDirectory(directory, token, tuple(by_node), told, wakeup)


def command(argv: Sequence[str]) -> dict[str, Any]:
    """A setup step of attempt.json that is a command."""
    return {"kind": "command", "argv": list(argv)}


class Warm:
    """A warm parent and our end of its socket."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self.process = process
        self.channel = channel

    def request(self, line: bytes) -> list[dict[str, Any]]:
        """Send one line and read the answers."""
        self.channel.sendall(line + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            piece = self.channel.recv(4096)
            assert piece, "the warm parent ended"
            answer += piece
        told: list[dict[str, Any]] = json.loads(answer)
        return told

    def start(self, attempt: AttemptDirectory, node: str = "n0") -> int:
        """Start the runner of a node; its pid."""
        (told,) = self.request(json.dumps([{"directory": str(attempt.path), "node": node}]).encode())
        pid: int = told["pid"]
        return pid

    def run(self, attempt: AttemptDirectory) -> dict[str, Any]:
        """Run all nodes of an attempt to their end; the last event of the first node."""
        for name in attempt.nodes:
            self.start(attempt, name)
        ends = [attempt.ended(name) for name in attempt.nodes]
        return ends[0]


@contextmanager
def warm_parent(
    python: str = sys.executable,
    *,
    prefix: Sequence[str] = (),
    package: Path = NODE_DIRECTORY,
    idle_s: int = 0,
) -> Iterator[Warm]:
    """A warm parent under any interpreter, of any copy of `node`; it has ended when the block is left."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with ours, theirs:
        command = [*prefix, *Installation(python, str(package)).warm(theirs.fileno(), idle_s=idle_s)]
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), start_new_session=True, cwd="/")
        theirs.close()
        try:
            yield Warm(process, ours)
        finally:
            ours.close()
            process.wait(PATIENCE_S)


def cold_runner(attempt: AttemptDirectory, node: str = "n0", *, python: str = sys.executable) -> int:
    """Run a node's part in a process of its own; its exit code."""
    command = Installation(python).run(str(attempt.path), node)
    return subprocess.run(command, timeout=PATIENCE_S, check=False).returncode


def wait_for_end(pid: int) -> None:
    """Wait until there is no such process (other than an unreaped one)."""
    wait_until(lambda: not is_running(pid) or None, f"process {pid} still runs")


def is_running(pid: int) -> bool:
    """Whether the process is there and not merely unreaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def wait_until(found: Any, otherwise: str) -> Any:
    """What `found()` returns once it is not None; bounded."""
    deadline = time.monotonic() + PATIENCE_S
    pause = select.poll()
    while (result := found()) is None:
        assert time.monotonic() < deadline, otherwise
        pause.poll(5)
    return result


def copy_of_node(target: Path) -> Path:
    """The node package alone, as an engine copies it to a machine without tarmac."""
    copied = target / "tarmac" / "node"
    for path in NODE_DIRECTORY.rglob("*.py"):
        to = copied / path.relative_to(NODE_DIRECTORY)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes())
    return copied


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
