"""A node is cut off while it trains: its run goes on elsewhere, and what the cut one does counts no more.

The control plane with its loops, an SQL store, a store of artifacts and the engine; agents as processes, each
behind a cable; a stand-in of Ray.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from attempts import is_running
from cables import Cable
from ray_harness import StandInRay
from ray_site import LEASE_S, TRAINS, Site, opened_site, run_of
from tarmac.artifacts.versions.relayed import RelayedBlobs, Writer
from tarmac.artifacts.versions.sync import Place, Syncer
from tarmac.engines.ray.membership import Endpoint, Member
from tarmac.model.errors import Refused, Unavailable
from tarmac.model.progress import CauseCode, Outcome
from tarmac.model.run import Attempt
from tarmac.node.attempt import claims
from tarmac.node.attempt.protocol import NodePaths
from tarmac.node.host.relay import socket_path
from tarmac.node.kernel.fifo import ring


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


@pytest.fixture
def ray() -> CuttableRay:
    """A Ray of two nodes, each behind a cable."""
    return CuttableRay()


@pytest.fixture
def site(tmp_path: Path, ray: CuttableRay) -> Iterator[Site]:
    """A server with a cluster of these two nodes."""
    with opened_site(tmp_path, ray, slots=4) as made:
        yield made
        for cable in ray.cables.values():
            cable.mend()


def sync_late(site: Site, attempt: Attempt) -> None:
    """What the sidecar of an attempt does on its node, whenever that comes."""
    name = site.node_of(attempt)
    root = str(site.home / "far/disks" / name / attempt.run_id / "artifacts/checkpoint")
    address = next(node.address for node in site.engine.nodes() if node.name == name)
    blobs = RelayedBlobs(socket_path(str(site.home / "far"), address), Writer(attempt.id, attempt.token))
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


def events(part: NodePaths) -> str:
    path = Path(part.events)
    return path.read_text() if path.exists() else ""


def living(part: NodePaths) -> bool:
    claim = claims.read(part)
    return claim is not None and claims.is_alive(claim)


def test_of_two_attempts_one_of_them_cut_off_one_counts(site: Site, ray: CuttableRay) -> None:
    (run_id,) = site.submit(run_of(TRAINS, slots=4))
    site.wait(lambda: (1, "[1]") in site.kept(run_id), "no checkpoint of attempt 1 came to the store")
    first = site.attempts(run_id)[0]
    cut = site.member_of(first)

    ray.cut(cut)
    second = site.attempt(run_id, 2)
    assert site.node_of(second) != site.node_of(first)
    lost = site.attempts(run_id)[0]
    assert (lost.outcome, lost.cause and lost.cause.code) == (Outcome.LOST, CauseCode.NODE_LOST)
    site.wait(
        lambda: (2, "[1][2]") in site.kept(run_id),
        f"attempt 2 did not go on from [1]: {site.kept(run_id)}",
    )
    assert '"ended"' not in events(site.at_node(first)), "the cut one goes on meanwhile"

    part = site.at_node(first)
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - int((LEASE_S + 1) * 1e9)
    os.utime(part.lease, ns=(at_ns, at_ns))
    ring(part.wake)
    site.wait(lambda: '"worker_ended"' in events(part), "the cut one does not end by itself")
    assert '"lease_expired"' in events(part)
    ray.mend(cut)
    site.wait(lambda: not living(part), "it still runs, though the server reaches it")
    with pytest.raises(Refused, match="is not the live one of its run"):
        sync_late(site, first)
    assert "late" not in str(site.kept(run_id)), "what it saved at last is not in the store"

    site.stop(run_id)
    assert [each.number for each in site.attempts(run_id)] == [1, 2]
    assert site.kept(run_id)[-1] == (2, "[1][2][late]")


def test_what_a_node_still_runs_of_a_lost_attempt_is_ended_as_soon_as_it_is_reached(
    site: Site, ray: CuttableRay
) -> None:
    (run_id,) = site.submit(run_of(TRAINS, slots=4))
    site.wait(lambda: (1, "[1]") in site.kept(run_id), "no checkpoint of attempt 1 came to the store")
    first = site.attempts(run_id)[0]
    cut, part = site.member_of(first), site.at_node(first)
    worker = next(json.loads(line)["pid"] for line in events(part).splitlines() if '"worker_started"' in line)
    ray.cut(cut)
    site.wait(lambda: len(site.attempts(run_id)) == 2, "no second attempt")
    assert is_running(worker), "the cut one goes on meanwhile"
    ray.mend(cut)
    site.wait(lambda: not is_running(worker), "it still runs, though the server reaches it")
    assert not [text for number, text in site.kept(run_id) if number == 1 and "late" in text]
