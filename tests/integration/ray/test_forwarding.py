"""An address of the server that runs elsewhere reach as their own: real agents, and a stand-in of Ray."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from ray_harness import RayHarness
from tarmac.engines.hosts.installing import Forward
from tarmac.model.cluster import Cluster
from tarmac.node.host.relay import loopback
from tarmac.node.kernel import sockets

LIMIT_S = 30.0

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def forward(tmp_path: Path) -> Iterator[Forward]:
    """Of a server on another machine, as far as nodes know, that answers in capitals."""
    listener = sockets.listen(str(tmp_path / "gateway.sock"))
    Thread(target=answer_all, args=(listener,), daemon=True).start()
    with listener:
        yield Forward(
            address="127.0.0.1", port=free_port(), socket=tmp_path / "gateway.sock", loopback="elsewhere"
        )


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[RayHarness]:
    """An engine over two nodes, whose loopback is one and the same."""
    made = RayHarness(tmp_path / "home")
    yield made
    made.close()


def answer_all(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as stream:
                connection.sendall(stream.read().upper())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def ask(forward: Forward) -> bytes:
    """What is answered at the address; nothing where nobody is there."""
    try:
        with socket.create_connection((forward.address, forward.port), LIMIT_S) as connection:
            connection.sendall(b"hello")
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as stream:
                return stream.read()
    except OSError:
        return b""


def problems(ray: RayHarness) -> list[str]:
    cluster = Cluster(name="local", engine="ray")
    return [finding.text for finding in ray.engine.examine(cluster) if "the gateway" in finding.text]


def test_programs_of_a_node_reach_it_also_through_the_next_agent(ray: RayHarness, forward: Forward) -> None:
    ray.reopen(forward=forward)
    ray.wait(lambda: ask(forward) == b"HELLO")
    for member in ("id1", "id2"):  # whichever of them listens
        ray.ray.send(member, signal.SIGKILL)
    ray.wait(lambda: ask(forward) == b"HELLO")


def test_a_node_where_the_port_is_taken_is_named(ray: RayHarness, forward: Forward) -> None:
    """Of two nodes with one loopback the second finds it taken."""
    ray.reopen(forward=forward)
    ray.wait(lambda: ask(forward) == b"HELLO" and bool(problems(ray)))
    [text] = problems(ray)
    place = f"{forward.address}:{forward.port}"
    assert text == f"runs there do not reach the gateway at {place}: Address already in use"


def test_nothing_is_carried_on_the_machine_of_the_server_itself(ray: RayHarness, forward: Forward) -> None:
    ray.reopen(forward=replace(forward, loopback=loopback()))
    assert problems(ray) == []
    assert ask(forward) == b""
