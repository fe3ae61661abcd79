"""A tarmac of its own for one measurement: an empty home, a server on demand, nothing left behind.

Used by the measurements in `benchmarks.own`.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from http.client import HTTPConnection
from pathlib import Path

from tarmac.client import Client
from tarmac.model.cluster import LOCAL_CLUSTER
from tarmac.model.errors import Unavailable
from tarmac.model.home import Home

NO_OP = "name: no-op\nslots: 1\ncommand: ['true']\n"
PATIENCE_S = 300.0


@contextmanager
def sandbox(prepare: Callable[[Home], object] = lambda _: None) -> Iterator[Client]:
    """A client of a server that was started just now, on a home that goes away with this program.

    `prepare` fills the home before that.
    """
    before = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("TARMAC_")}
    os.environ["TARMAC_HOME"] = tempfile.mkdtemp(dir=_homes().name)
    client = Client()
    prepare(client.home)
    try:
        client.version()
        yield client
    finally:
        _stop_everything(client)
        del os.environ["TARMAC_HOME"]
        os.environ.update(before)


def drain_all(client: Client) -> list[str]:
    """Let no node take work, so that what is submitted stays queued; the names of the nodes."""
    names = [node.name for node in client.nodes()]
    client.drain(*names)
    return names


def submit_many(client: Client, source: str, count: int, *, at_a_time: int) -> list[str]:
    """Submit `count` runs, so many per request; their ids."""
    ids: list[str] = []
    while len(ids) < count:
        size = min(at_a_time, count - len(ids))
        ids += [run.id for run in client.submit_all([{"source": source}] * size)]
    return ids


def raw_get(client: Client, path: str) -> bytes:
    """The bytes of an answer, as the server sends them."""
    connection = HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    with closing(connection):
        connection.sock.connect(str(client.home.socket))
        connection.request("GET", f"/api/v1{path}")
        return connection.getresponse().read()


def stop_server(client: Client) -> None:
    """End the server, and wait until it is gone; the next request starts another."""
    pid = client.version().pid
    client.stop_server()
    wait_until(lambda: _gone(pid))


def wait_until(condition: Callable[[], bool], *, every_s: float = 0.005) -> None:
    """Return as soon as `condition` holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what was waited for did not come about")
        time.sleep(every_s)


@cache
def _homes() -> tempfile.TemporaryDirectory[str]:
    """Where the homes lie until all is measured.

    Deleting one at once would slow the next measurement down: for some minutes ext4 passes over inodes that
    were just freed, one by one, and ten thousand runs free many.
    """
    return tempfile.TemporaryDirectory(prefix="tarmac-bench-")


def _stop_everything(client: Client) -> None:
    try:
        drain_all(client)  # what waits does not start
        live = client.runs(states=("starting", "running"), limit=1000).runs
        for run in live:
            if run.cluster == LOCAL_CLUSTER:  # the others are no processes
                client.stop(run.id)
                client.wait(run.id, timeout_s=10)
        stop_server(client)
    except Unavailable:
        return
    finally:
        client.close()


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
