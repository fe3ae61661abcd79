"""A node is cut off while it trains: its run goes on elsewhere, and what the cut one does counts no more.

The control plane with its loops, an SQL store, a store of artifacts and the engine; agents as processes, each
behind a cable; a stand-in of Ray.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from actors import ADA
from attempts import is_running
from cables import Cable
from ray_harness import StandInRay
from simulated import InstantCode
from tarmac.artifacts.versions.catalog import Catalog
from tarmac.artifacts.versions.listed import read_chunk, read_manifest, versions
from tarmac.artifacts.versions.relayed import RelayedBlobs, Writer
from tarmac.artifacts.versions.retention import Rules
from tarmac.artifacts.versions.sync import Place, Syncer
from tarmac.control.loops import Loops
from tarmac.control.service import ControlPlane, Submission
from tarmac.engines.hosts.installing import Sidecar
from tarmac.engines.ray.engine import RayEngine
from tarmac.engines.ray.membership import Endpoint, Member
from tarmac.engines.ray.settings import read_settings
from tarmac.engines.sim import SimEngine, VirtualClock
from tarmac.model.errors import Refused, Unavailable
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Attempt, CauseCode, Outcome
from tarmac.model.spec import ArtifactRules, Command, Process, Role, RunSpec, Target
from tarmac.node.attempt import claims, liveness
from tarmac.node.attempt.paths import AttemptPaths, NodePaths
from tarmac.node.host.relay import socket_path
from tarmac.node.kernel.fifo import ring
from tarmac.node.starting import NODE_DIRECTORY
from tarmac.server.identity import RandomIds, SystemClock
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.store import open_store

LIMIT_S = 120.0
CLUSTER = "gpus"
LEASE_S = 3600.0

TRAINS = """
state=$CHECKPOINT_ARTIFACT_PATH/state
before=$(cat "$state" 2>/dev/null)
save() { printf %s "$1" > "$state.draft"; mv "$state.draft" "$state"; }
trap 'save "$before[$TARMAC_ATTEMPT][late]"; exit 0' TERM
echo "began from <$before>"
save "$before[$TARMAC_ATTEMPT]"
while :; do sleep 0.1; done
"""


class CuttableRay(StandInRay):
    """Two nodes, each behind a cable."""

    def __init__(self) -> None:
        super().__init__(2)
        self.cables: dict[str, Cable] = {}
        self._real: dict[Endpoint, Endpoint] = {}

    def agent(self, member: Member, *, home: str, instead_of: Endpoint | None) -> Endpoint:
        if member.id in self.lost:
            raise Unavailable("Ray does not reach it")
        real = super().agent(member, home=home, instead_of=self._real.get(instead_of) if instead_of else None)
        cable = self.cables.get(member.id)
        if cable is None or cable.target != (real.address, real.port):
            cable = self.cables[member.id] = Cable(real.address, real.port)
        endpoint = replace(real, port=cable.port)
        self._real[endpoint] = real
        return endpoint

    def cut(self, member_id: str) -> None:
        """Neither the server nor Ray reaches the node any more."""
        self.cables[member_id].cut()
        self.lost.add(member_id)

    def mend(self, member_id: str) -> None:
        self.lost.discard(member_id)
        self.cables[member_id].mend()

    def end(self) -> None:
        super().end()
        for cable in self.cables.values():
            cable.close()


@dataclass
class Site:
    """A server with a cluster of two nodes."""

    home: Path
    ray: CuttableRay
    engine: RayEngine
    plane: ControlPlane
    catalog: Catalog

    def submit(self) -> str:
        process = Process(command=Command(argv=("bash", "-c", TRAINS)))
        wanted = RunSpec(
            name="trains",
            roles=(Role(processes=(process,), slots=4),),
            target=Target(cluster=CLUSTER),
            artifacts=ArtifactRules(checkpoint_every_s=0.2),
        )
        return self.plane.submit([Submission(spec=wanted, actor=ADA)])[0].run.id

    def wait(self, found: Callable[[], Any], otherwise: str) -> Any:
        """What `found` returns once that is something; woken by the plane."""
        changed = threading.Event()
        unsubscribe = self.plane.subscribe(lambda _run_ids: changed.set())
        deadline = time.monotonic() + LIMIT_S
        try:
            while not (result := found()):
                assert time.monotonic() < deadline, otherwise
                changed.wait(0.1)
                changed.clear()
            return result
        finally:
            unsubscribe()

    def attempts(self, run_id: str) -> list[Attempt]:
        return self.plane.control.store.attempts(run_id)

    def kept(self) -> list[tuple[int, str]]:
        """The attempt and the state of each version."""
        found = []
        for version in versions(self.catalog.blobs):
            manifest = read_manifest(self.catalog.blobs, version)
            content = {
                entry.path: b"".join(read_chunk(self.catalog.blobs, chunk) for chunk in entry.chunks)
                for entry in manifest.entries
            }
            found.append((manifest.attempt, content.get("state", b"").decode()))
        return found

    def node_of(self, attempt: Attempt) -> str:
        return attempt.allocation.placements[0].node

    def sync_late(self, attempt: Attempt) -> None:
        """What the sidecar of an attempt does on its node, whenever that comes."""
        name = self.node_of(attempt)
        root = str(self.home / "far/disks" / name / attempt.run_id / "artifacts/checkpoint")
        address = next(node.address for node in self.engine.nodes() if node.name == name)
        blobs = RelayedBlobs(socket_path(str(self.home / "far"), address), Writer(attempt.id, attempt.token))
        place = Place(
            run_id=attempt.run_id,
            attempt=attempt.number,
            kind="checkpoint",
            rank=0,
            root=root,
            seen_at=(root,),
        )
        assert "late" in Path(root, "state").read_text(), "it is still on its node"
        Syncer(blobs, place).sync()

    def member_of(self, attempt: Attempt) -> str:
        """What Ray calls the node of an attempt."""
        address = next(node.address for node in self.engine.nodes() if node.name == self.node_of(attempt))
        return next(member.id for member in self.ray.members() if member.address == address)

    def at_node(self, attempt: Attempt) -> NodePaths:
        """The part of the attempt as it lies on its node."""
        paths = AttemptPaths(str(self.home / "far/runs" / attempt.run_id / f"attempts/{attempt.number}"))
        return paths.node(self.node_of(attempt))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    store, clock, ray = open_store(f"sqlite:///{tmp_path}/tarmac.db"), SystemClock(), CuttableRay()
    catalog = Catalog(str(tmp_path / "store"))
    catalog.begin(tmp_path / "marker")
    artifacts = ArtifactService(catalog, store, clock, Rules(versions=9, days=None), marker=tmp_path / "m")
    packages = tuple(NODE_DIRECTORY.with_name(name) for name in ("artifacts", "model"))
    settings = {"address": "127.0.0.1:1", "directory": str(tmp_path / "far"), "slots": 4}
    engine = RayEngine(
        CLUSTER,
        replace(read_settings(settings), lease_s=LEASE_S),
        ray,
        copies=tmp_path / "copies",
        sidecar=Sidecar(store=str(tmp_path / "store"), patience_s=60.0, packages=packages),
        artifacts=artifacts.answer,
    )
    plane = ControlPlane(
        store=store,
        engine=SimEngine(VirtualClock(time.time()), []),
        engines={CLUSTER: engine},
        code=InstantCode(),
        clock=clock,
        ids=RandomIds(None),
    )
    loops = Loops(plane)
    loops.start()
    made = Site(tmp_path, ray, engine, plane, catalog)
    try:
        made.wait(lambda: [node.state for node in engine.nodes()] == ["up"] * 2, "the nodes do not come up")
        yield made
        for cable in ray.cables.values():
            cable.mend()
        for run in store.live_runs():
            for attempt in store.attempts(run.id):
                engine.reap(attempt.id)
    finally:
        loops.stop()
        engine.close()
        ray.end()
        store.close()


def events(part: NodePaths) -> str:
    path = Path(part.events)
    return path.read_text() if path.exists() else ""


def living(part: NodePaths) -> bool:
    claim = claims.read(part)
    return claim is not None and liveness.is_alive(claim)


def test_of_two_attempts_one_of_them_cut_off_one_counts(site: Site) -> None:
    run_id = site.submit()
    site.wait(lambda: (1, "[1]") in site.kept(), "no checkpoint of attempt 1 came to the store")
    first = site.attempts(run_id)[0]
    cut = site.member_of(first)

    site.ray.cut(cut)
    second = site.wait(
        lambda: next((each for each in site.attempts(run_id) if each.number == 2), None), "no second attempt"
    )
    assert site.node_of(second) != site.node_of(first)
    lost = site.attempts(run_id)[0]
    assert (lost.outcome, lost.cause and lost.cause.code) == (Outcome.LOST, CauseCode.NODE_LOST)
    site.wait(lambda: (2, "[1][2]") in site.kept(), f"attempt 2 did not go on from [1]: {site.kept()}")
    assert '"ended"' not in events(site.at_node(first)), "the cut one goes on meanwhile"

    part = site.at_node(first)
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - int((LEASE_S + 1) * 1e9)
    os.utime(part.lease, ns=(at_ns, at_ns))
    ring(part.wake)
    site.wait(lambda: '"worker_ended"' in events(part), "the cut one does not end by itself")
    assert '"lease_expired"' in events(part)
    site.ray.mend(cut)
    site.wait(lambda: not living(part), "it still runs, though the server reaches it")
    with pytest.raises(Refused, match="is not the live one of its run"):
        site.sync_late(first)
    assert "late" not in str(site.kept()), "what it saved at last is not in the store"

    site.plane.stop(ADA, run_id)
    site.wait(lambda: site.plane.find(ADA, run_id).state is RunState.ENDED, "it does not end")
    assert [each.number for each in site.attempts(run_id)] == [1, 2]
    assert site.kept()[-1] == (2, "[1][2][late]")


def test_what_a_node_still_runs_of_a_lost_attempt_is_ended_as_soon_as_it_is_reached(site: Site) -> None:
    run_id = site.submit()
    site.wait(lambda: (1, "[1]") in site.kept(), "no checkpoint of attempt 1 came to the store")
    first = site.attempts(run_id)[0]
    cut, part = site.member_of(first), site.at_node(first)
    worker = next(json.loads(line)["pid"] for line in events(part).splitlines() if '"worker_started"' in line)
    site.ray.cut(cut)
    site.wait(lambda: len(site.attempts(run_id)) == 2, "no second attempt")
    assert is_running(worker), "the cut one goes on meanwhile"
    site.ray.mend(cut)
    site.wait(lambda: not is_running(worker), "it still runs, though the server reaches it")
    assert not [text for number, text in site.kept() if number == 1 and "late" in text]
