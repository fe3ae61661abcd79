"""The Ray engine without a Ray: agents as plain processes of this machine, at loopback addresses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from typing import Any

from delivered import deliver_early
from engine_harness import WORKING, Work, make_launch, running, script
from ray_clusters import TOKEN, RayNodes
from tarmac.engines.attempts.request import DEFAULT_ATTEMPTS
from tarmac.engines.hosts.connection import EXEC_CODE, loading_program
from tarmac.engines.hosts.installing import Forward, Supplies
from tarmac.engines.ray.bridge import Bridge
from tarmac.engines.ray.engine import RayEngine
from tarmac.engines.ray.membership import Endpoint, Member
from tarmac.engines.ray.settings import read_settings
from tarmac.model.cluster import Cluster
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation
from tarmac.model.progress import WorkerStatus
from tarmac.node.attempt.document import Launch, Mount
from tarmac.node.kernel.system_users import LEAST_UID
from tarmac.node.starting import NODE_DIRECTORY

BOUND_S = 300.0
AGAIN_S = 0.05
AGENT = "tarmac.node.host.agent"


BEGIN = f"import sys; sys.path.insert(0, {str(NODE_DIRECTORY.parents[1])!r}); from {AGENT} import serve; "
BEGIN += "serve(sys.stdin.buffer, 1)"


class StandInRay:
    """A `Membership` with nodes of its own; `lost` ones are those that it says are dead.

    The modules of its agents come from here, or, `sent`, over their input as with a real Ray. `python` runs
    the agents, and makes them those of another user.
    """

    def __init__(
        self, count: int = 2, *, sent: bool = False, python: Sequence[str] = (sys.executable,)
    ) -> None:
        self._sent = sent
        self._python = python
        self.lost: set[str] = set()
        self.shared: set[str] = set()
        self.reserved: set[str] = set()
        self.down = False
        self.pids: dict[str, int] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._lock = Lock()
        self._members = [
            Member(id=f"id{n}", address=f"127.0.0.{n}", hostname=f"node{n}", cpus=2.0)
            for n in range(1, count + 1)
        ]

    def members(self) -> Sequence[Member]:
        self._answer()
        return [
            replace(
                member,
                alive=member.id not in self.lost,
                shared=member.id in self.shared,
                reserved=member.id in self.reserved,
            )
            for member in self._members
        ]

    def agent(self, member: Member, *, home: str, instead_of: Endpoint | None) -> Endpoint:
        self._answer()
        with self._lock:
            known = self._endpoints.get(member.id)
            if known is None or known == instead_of or not self._lives(member.id):
                if known is not None and self._lives(member.id):
                    self.send(member.id, signal.SIGKILL)
                self._endpoints[member.id] = self._start(member.id, member.address, home)
            return self._endpoints[member.id]

    def reserve(self, member_ids: Collection[str]) -> None:
        self._answer()
        if taken := self.shared & set(member_ids):
            raise Unavailable(f"others use {', '.join(sorted(taken))}")
        self.reserved |= set(member_ids)

    def release(self, member_ids: Collection[str]) -> None:
        self._answer()
        self.reserved -= set(member_ids)

    def about(self) -> Mapping[str, Any]:
        self._answer()
        return {"ray": "none", "python": sys.version.split()[0]}

    def rename(self, member_id: str, hostname: str) -> None:
        """What Ray calls a node from now on."""
        self._members = [
            replace(member, hostname=hostname) if member.id == member_id else member
            for member in self._members
        ]

    def close(self) -> None:
        """The engine lets go; agents stay."""

    def send(self, member_id: str, number: signal.Signals) -> None:
        """Signal the agent of a node."""
        os.kill(self.pids[member_id], number)

    def end(self) -> None:
        """End every agent."""
        for pid in self.pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _answer(self) -> None:
        if self.down:
            raise Unavailable("the head does not answer")

    def _lives(self, member_id: str) -> bool:
        return member_id in self.pids and Path(f"/proc/{self.pids[member_id]}").exists()

    def _start(self, member_id: str, address: str, home: str) -> Endpoint:
        token = os.urandom(16).hex()
        order = {"address": address, "home": home, "token": token}
        program = loading_program("mark", begin=AGENT) if self._sent else b""
        found = subprocess.run(
            [*self._python, "-I", "-S", "-c", EXEC_CODE if self._sent else BEGIN],
            input=program + json.dumps(order).encode() + b"\n",
            stdout=subprocess.PIPE,
            check=True,
            timeout=BOUND_S,
        )
        told = json.loads(found.stdout.splitlines()[-1])
        self.pids[member_id] = told["pid"]
        return Endpoint(address=address, port=told["port"], token=token)


class JoinedRay(Bridge):
    """A real Ray, where a stand-in would do as well; runs are kept in a directory `name` of its nodes."""

    def __init__(self, cluster: RayNodes, name: str) -> None:
        self.settings = {**cluster.settings(), "directory": str(cluster.far / name)}
        self._name = name
        super().__init__(read_settings(self.settings), name, token=lambda: TOKEN)

    def end(self) -> None:
        """Let go of nodes that are still reserved for runs. Agents leave by themselves, or with the nodes."""
        again = Bridge(read_settings(self.settings), self._name, token=lambda: TOKEN)
        again.release([member.id for member in again.members() if member.reserved])
        again.close()


def supplies(home: Path, forward: Forward | None = None) -> Supplies:
    """What an engine needs of a server that keeps copies of reports in this directory."""
    attempts = replace(DEFAULT_ATTEMPTS, least_uid=LEAST_UID)
    return Supplies(copies=home / "copies", attempts=attempts, forward=forward)


def images_by_node(engine: RayEngine) -> dict[str, str]:
    """What the check of the cluster says of images on each node."""
    found = engine.examine(Cluster(name="local", engine="ray"))
    return {finding.what: finding.text for finding in found if "in their images" in finding.text}


class RayHarness:
    """The engine over agents on this machine; with `fresh` nodes, it delivers what runs there."""

    def __init__(self, home: Path, *, ray: StandInRay | None = None, fresh: bool = False) -> None:
        self.home = home
        home.mkdir(exist_ok=True)
        if not fresh:
            deliver_early(home / "far")
        self.ray = ray or StandInRay()
        self.news = Event()
        self._started: list[str] = []
        self.engine = self.open()

    def open(self, forward: Forward | None = None, **knobs: Any) -> RayEngine:
        """An engine, as a server that comes (back) would make it; its nodes are there."""
        settings = {"address": "127.0.0.1:1", "directory": str(self.home / "far"), "slots": 4}
        engine = RayEngine("local", read_settings(settings), self.ray, supplies(self.home, forward), **knobs)
        engine.subscribe(lambda _attempt: self.news.set())
        self.wait(lambda: sum(node.state == "up" for node in engine.nodes()) == 2)
        return engine

    def wait(self, until: Callable[[], bool]) -> None:
        """Look again and again until it is so."""
        deadline = time.monotonic() + BOUND_S
        while not until():
            assert time.monotonic() < deadline, "it does not come about"
            self.news.wait(AGAIN_S)
            self.news.clear()

    def launch(self, work: Work, **wanted: Any) -> Launch:
        missing = (Mount(source="/no/such/source", target=work.misses),) if work.misses else ()
        launch = make_launch(("bash", "-c", script(work)), mounts=missing, **wanted)
        self._started.append(launch.attempt_id)
        return launch

    def settle(self, attempt: str, until: Callable[[Observation], bool]) -> Observation:
        deadline = time.monotonic() + BOUND_S
        while not until(seen := self.engine.observe([attempt])[attempt]):
            assert time.monotonic() < deadline, f"{attempt} is still {seen}"
            self.news.wait(AGAIN_S)
            self.news.clear()
        return seen

    def at_work(self, attempt: str) -> None:
        deadline = time.monotonic() + BOUND_S
        self.settle(attempt, running)
        for worker in self.engine.workers(attempt):
            while not self._works(attempt, worker):
                assert time.monotonic() < deadline, f"{worker} does not get to work"
                self.news.clear()
                self.news.wait(AGAIN_S / 4)

    def _works(self, attempt: str, worker: WorkerStatus) -> bool:
        with suppress(Unavailable):  # its node is silent now
            return WORKING.encode() in self.engine.read(attempt, worker.log)
        return False

    def reopen(self, **knobs: Any) -> None:
        """The server goes and another comes."""
        self.engine.close()
        self.engine = self.open(**knobs)

    def hang(self, **knobs: Any) -> None:
        """A warm parent that takes every request and forks nothing."""
        fake = self.home / "python-that-hangs"
        fake.write_text(
            '#!/bin/bash\nfd="${@: -2:1}"\nwhile read -r line <&"$fd"; do\n'
            'sed -E \'s/[{][^{]*[{][^}]*[}]{2}/{"pid": 1}/g\' <<< "$line" >&"$fd"; done\n'
        )
        fake.chmod(0o755)
        self.reopen(python=str(fake), **knobs)

    def close(self) -> None:
        for attempt in self._started:
            self.engine.reap(attempt)
        self.engine.close()
        self.ray.end()


class RealRayHarness(RayHarness):
    """The engine over a real Ray of three nodes, each with a disk of its own."""

    def __init__(self, home: Path, cluster: RayNodes) -> None:
        self.cluster = cluster
        super().__init__(home, fresh=True)

    def open(self, forward: Forward | None = None, **knobs: Any) -> RayEngine:
        settings = read_settings(self.cluster.settings())
        bridge = Bridge(settings, "tests", token=lambda: TOKEN)
        engine = RayEngine("real", settings, bridge, supplies(self.home, forward), **knobs)
        engine.subscribe(lambda _attempt: self.news.set())
        self.wait(lambda: [node.state for node in engine.nodes()] == ["up"] * 3)
        return engine

    def launch(self, work: Work, **wanted: Any) -> Launch:
        """On the nodes of these numbers, by rank."""
        numbers = wanted.pop("on", (1, 2))
        launch = super().launch(work, nodes=len(numbers), **wanted)
        by_address = {node.address: node.name for node in self.engine.nodes()}
        addresses = [f"{self.cluster.subnet}.{10 + number}" for number in numbers]
        nodes = tuple(
            node._replace(node=by_address[address], address=address, own_disk=True)
            for node, address in zip(launch.nodes, addresses, strict=True)
        )
        return launch._replace(nodes=nodes)

    def submit(self, launch: Launch) -> str:
        """Have the engine take it; its id."""
        request = self.engine.render(launch)
        self._insist(lambda: self.engine.submit(request))
        return launch.attempt_id

    def ask(self, attempt: str, leave: LeaveRequest) -> None:
        """Ask an attempt to leave."""
        self._insist(lambda: self.engine.request_leave(attempt, leave))

    def _insist(self, do: Callable[[], None]) -> None:
        """Do it as a server does: again later where a node is silent, or cannot be reserved, now."""

        def done() -> bool:
            try:
                do()
            except Unavailable:
                return False
            return True

        self.wait(done)

    def state_of(self, number: int) -> str:
        """The state of a node as the scheduler sees it."""
        address = f"{self.cluster.subnet}.{10 + number}"
        return next(node.state.value for node in self.engine.nodes() if node.address == address)

    def close(self) -> None:
        for attempt in self._started:
            self.engine.reap(attempt)
        self.engine.close()
