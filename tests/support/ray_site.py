"""A whole control plane over the Ray engine: loops, an SQL store, artifacts, real runners.

Its own cluster is that of the local engine, so that the same run can be rehearsed beside.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors import ADA
from delivered import deliver_early
from engine_harness import MACHINE
from ray_harness import JoinedRay, StandInRay
from simulated import InstantCode
from tarmac.artifacts.versions.catalog import Catalog, Rules
from tarmac.artifacts.versions.manifest import read_chunk, read_manifest, versions
from tarmac.control.loops import Loops
from tarmac.control.service import ControlPlane, Submission
from tarmac.control.state.control_state import ControlState
from tarmac.engines.hosts.installing import Sidecar, Supplies
from tarmac.engines.local.engine import LocalEngine
from tarmac.engines.local.nodes import local_nodes
from tarmac.engines.ray.engine import RayEngine
from tarmac.engines.ray.settings import read_settings
from tarmac.model.cluster import Cluster, Pool
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import ArtifactRules, Command, Process, Role, RunSpec, Target
from tarmac.node.attempt.protocol import AttemptPaths, NodePaths
from tarmac.node.starting import NODE_DIRECTORY
from tarmac.server.run_ids import RandomIds
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.server.storage.site_artifacts import SiteArtifacts
from tarmac.server.wiring import SystemClock
from tarmac.store import open_store

LIMIT_S = 120.0
CLUSTER = "gpus"
LEASE_S = 3600.0
LOG = "logs/main.0.0.log"
PACKAGES = tuple(NODE_DIRECTORY.with_name(name) for name in ("artifacts", "model"))
"""What travels beside the runner's package."""

TRAINS = """
state=$CHECKPOINT_ARTIFACT_PATH/state
before=$(cat "$state" 2>/dev/null)
save() { printf %s "$1" > "$state.draft"; mv "$state.draft" "$state"; }
trap 'save "$before[$TARMAC_ATTEMPT][late]"; exit 0' TERM
save "$before[$TARMAC_ATTEMPT]"
echo "began from <$before>"
while :; do sleep 0.1; done
"""
"""Goes on until it is asked to leave; its checkpoint says which attempts it has been through."""


class Kind:
    """Opens the engine of the one cluster of these tests, over this Ray."""

    def __init__(self, home: Path, ray: StandInRay | JoinedRay, artifacts: ArtifactService) -> None:
        self.engine: RayEngine | None = None
        self._home = home
        self._ray = ray
        self._artifacts = artifacts

    def check(self, cluster: Cluster) -> None:
        read_settings(cluster.settings)

    def open(self, cluster: Cluster) -> RayEngine:
        self.engine = RayEngine(
            cluster.name,
            read_settings(cluster.settings),
            self._ray,
            Supplies(
                copies=self._home / "copies",
                sidecar=Sidecar(store=str(self._home / "store"), patience_s=60.0, packages=PACKAGES),
                artifacts=self._artifacts.answer,
            ),
        )
        return self.engine


@dataclass
class Site:
    """A server with a cluster of servers that a Ray joins."""

    home: Path
    ray: StandInRay | JoinedRay
    engine: RayEngine
    plane: ControlPlane
    catalog: Catalog

    def submit(self, *specs: RunSpec) -> list[str]:
        """The ids of the runs, which are considered at once."""
        accepted = self.plane.submit([Submission(spec=spec, actor=ADA) for spec in specs])
        return [each.run.id for each in accepted]

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

    def find(self, run_id: str) -> Run:
        return self.plane.find(ADA, run_id)

    def attempts(self, run_id: str) -> list[Attempt]:
        return self.plane.control.store.attempts(run_id)

    def attempt(self, run_id: str, number: int) -> Attempt:
        """That attempt, once there is one."""
        found: Attempt = self.wait(
            lambda: next((each for each in self.attempts(run_id) if each.number == number), None),
            f"{run_id} has no attempt {number}: {self.find(run_id)}",
        )
        return found

    def log(self, attempt: Attempt) -> str:
        """What the worker of rank 0 wrote so far."""
        try:
            return self.plane.read(ADA, attempt.id, LOG).decode()
        except NotFound:
            return ""

    def wait_for_log(self, run_id: str, number: int, line: str) -> None:
        """Wait until the worker of rank 0 of that attempt wrote the line."""
        attempt = self.attempt(run_id, number)
        self.wait(
            lambda: line in self.log(attempt).splitlines(), f"attempt {attempt.id} does not write {line!r}"
        )

    def wait_for_end(self, run_id: str) -> Run:
        """The run, once it has ended."""
        self.wait(lambda: self.find(run_id).state is RunState.ENDED, f"{run_id} does not end")
        return self.find(run_id)

    def stop(self, *run_ids: str) -> None:
        """Stop the runs, and wait until they have ended."""
        for run_id in run_ids:
            self.plane.stop(ADA, run_id)
        for run_id in run_ids:
            self.wait_for_end(run_id)

    def kept(self, run_id: str) -> list[tuple[int, str]]:
        """The attempt and the state of each version that rank 0 of the run made."""
        found = []
        for version in versions(self.catalog.blobs, run_id):
            if version.rank == 0:
                manifest = read_manifest(self.catalog.blobs, version)
                content = {
                    entry.path: b"".join(read_chunk(self.catalog.blobs, chunk) for chunk in entry.chunks)
                    for entry in manifest.entries
                }
                found.append((manifest.attempt, content.get("state", b"").decode()))
        return found

    def node_of(self, attempt: Attempt) -> str:
        return attempt.allocation.first_node

    def member_of(self, attempt: Attempt) -> str:
        """What Ray calls the node of an attempt."""
        address = next(node.address for node in self.engine.nodes() if node.name == self.node_of(attempt))
        return next(member.id for member in self.ray.members() if member.address == address)

    def at_node(self, attempt: Attempt) -> NodePaths:
        """The part of the attempt as it lies on its node."""
        paths = AttemptPaths(str(self.home / "far/runs" / attempt.run_id / f"attempts/{attempt.number}"))
        return paths.node(self.node_of(attempt))


def run_of(script: str, *, slots: int, cluster: str = CLUSTER, **wanted: Any) -> RunSpec:
    """A run of so many slots, whose one role runs a bash script once per node."""
    process = Process(command=Command(argv=("bash", "-c", script)))
    spec = RunSpec(
        name="trains",
        roles=(Role(processes=(process,), slots=slots),),
        target=Target(cluster=cluster),
        artifacts=ArtifactRules(checkpoint_every_s=0.2),
    )
    return replace(spec, **wanted)


@contextmanager
def opened_site(
    home: Path, ray: StandInRay | JoinedRay, *, slots: int, pools: Sequence[Pool] = ()
) -> Iterator[Site]:
    """A site whose nodes are up; everything on it is ended in the end."""
    store, clock = open_store(f"sqlite:///{home}/tarmac.db"), SystemClock()
    catalog = Catalog(str(home / "store"))
    catalog.begin(home / "marker")
    sites = SiteArtifacts(catalog, store, engines=dict, keep_versions=9)
    rules = Rules(versions=9, days=None)
    artifacts = ArtifactService(catalog, store, clock, rules, marker=home / "m", sites=sites)
    kind = Kind(home, ray, artifacts)
    local = LocalEngine(home / "home", local_nodes(MACHINE), machine=MACHINE)
    plane = ControlPlane(
        ControlState(
            store=store,
            engine=local,
            kinds={"ray": kind},
            code=InstantCode(),
            clock=clock,
            ids=RandomIds(None),  # what tests elsewhere on the machine end is marked otherwise
        ),
    )
    settings = {"address": "127.0.0.1:1", "directory": str(home / "far")}
    if isinstance(ray, JoinedRay):
        settings = ray.settings
    else:
        deliver_early(home / "far", *PACKAGES)
    settings = {**settings, "slots": str(slots), "lease": "1h"}
    loops = Loops(plane)
    loops.start()
    try:
        plane.clusters.add(ADA, Cluster(name=CLUSTER, engine="ray", settings=settings, pools=tuple(pools)))
        assert kind.engine is not None
        made = Site(home, ray, kind.engine, plane, catalog)
        up = ["up"] * len({member.address for member in ray.members()})
        made.wait(lambda: [node.state for node in made.engine.nodes()] == up, "the nodes do not come up")
        yield made
    finally:
        for run in store.live_runs():
            for attempt in store.attempts(run.id):
                with plane.control.engine_of(attempt.id).question() as engine:
                    engine.reap(attempt.id)
        loops.stop()
        if kind.engine is not None:
            kind.engine.close()
        local.close()
        ray.end()
        store.close()
