"""Clusters started on machines: the loops as threads, the simulated engine, a starter that notes calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from actors import ADA, member
from cluster_starter import LIMIT_S, NAME, Starter
from scratch_store import ScratchStore
from sim_engine import Behaviour, SimEngine
from simulated import CountingIds, InstantCode, nodes, spec
from tarmac.api import ChangeState, ClusterChange
from tarmac.control.loops import Loops
from tarmac.control.service import ControlPlane, Submission
from tarmac.control.state.control_state import ControlState
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.cluster import Cluster, Machine, MachineState, NodeState
from tarmac.model.codec import replace
from tarmac.model.errors import Forbidden, InvalidInput, NotFound, Problem, Refused
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.model.spec import Target


class SystemClock:
    """The time of the machine: the loops run by it."""

    def now(self) -> float:
        return time.time()


@dataclass
class Site:
    plane: ControlPlane
    starter: Starter
    store: ScratchStore

    def up(self, *names: str, install: bool = False) -> ClusterChange:
        """Bring it up, to the end."""
        self.plane.cluster_machines.up(ADA, NAME, machines(*names), install=install)
        return self.end_of_change()

    def down(self, *, force: bool = False, purge: bool = False) -> ClusterChange:
        self.plane.cluster_machines.down(ADA, NAME, force=force, purge=purge)
        return self.end_of_change()

    def end_of_change(self) -> ClusterChange:
        deadline = time.monotonic() + LIMIT_S
        seen, report = 0, self.plane.cluster_machines.progress(ADA, NAME, 0, wait_s=0)
        while report.state is ChangeState.WORKING:
            assert time.monotonic() < deadline
            seen = report.next
            report = self.plane.cluster_machines.progress(ADA, NAME, seen, wait_s=LIMIT_S)
        return self.plane.cluster_machines.progress(ADA, NAME, 0, wait_s=0)

    def submit(self, cluster: str | None = NAME) -> str:
        wanted = spec(slots=4, target=Target(cluster=cluster))
        return self.plane.submit([Submission(spec=wanted, actor=ADA)])[0].run.id

    def wait_for(self, run_id: str, state: RunState) -> None:
        changed = threading.Event()
        unsubscribe = self.plane.subscribe(lambda _run_ids: changed.set())
        deadline = time.monotonic() + LIMIT_S
        while self.plane.find(ADA, run_id).state is not state:
            assert time.monotonic() < deadline, f"it is {self.plane.find(ADA, run_id).state}"
            changed.wait(0.5)
            changed.clear()
        unsubscribe()

    def node_of(self, run_id: str) -> str:
        return self.plane.attempts(ADA, run_id)[-1].allocation.nodes[0]


def machines(*names: str) -> list[Machine]:
    return [Machine(name=name, head=name == names[0]) for name in names]


def texts(report: ClusterChange) -> list[str]:
    return [f"{line.machine}: {line.text}" for line in report.lines]


@pytest.fixture
def site() -> Iterator[Site]:
    clock = VirtualClock(time.time())

    def busy(_launch: object) -> Behaviour:
        return Behaviour(duration_s=1e9)

    starter = Starter(SimEngine(clock, nodes(3, 4, cluster=NAME), behaviour=busy))
    store = ScratchStore()
    plane = ControlPlane(
        ControlState(
            store=store,
            engine=SimEngine(clock, nodes(1, 4, first=9), behaviour=busy),
            kinds={"placed": starter},
            code=InstantCode(),
            clock=SystemClock(),
            ids=CountingIds(),
        ),
        starter=lambda: starter,
    )
    loops = Loops(plane)
    loops.start()
    yield Site(plane, starter, store)
    loops.stop()


def test_a_cluster_is_started_used_and_ended(site: Site) -> None:
    report = site.up("gpu1", "gpu2", install=True)
    assert report.state is ChangeState.DONE, report.error
    assert texts(report)[0] == "gpu1: reached and installed"
    assert "gpu2: is node gpus2, 4 slots" in texts(report)
    status = site.plane.cluster_machines.status(ADA, NAME)
    assert [machine.state for machine in status.machines] == [MachineState.UP] * 2
    run_id = site.submit()
    site.wait_for(run_id, RunState.RUNNING)
    with pytest.raises(Refused, match=f"keeps what runs hold: train \\({run_id}\\)") as refusal:
        site.down()
    assert refusal.value.hint == "--force stops these runs"
    report = site.down(force=True, purge=True)
    assert report.state is ChangeState.DONE, report.error
    assert site.plane.find(ADA, run_id).outcome is Outcome.STOPPED
    assert site.starter.calls[-2:] == ["end gpu1 and purge", "end gpu2 and purge"]
    assert site.store.clusters() == []
    assert site.store.drained_nodes() == {}
    with pytest.raises(NotFound):
        site.plane.cluster_machines.status(ADA, NAME)


def test_what_is_wrong_is_reported_and_nothing_is_kept(site: Site) -> None:
    site.starter.unfit = [Problem(message="gpu1: wrong key"), Problem(message="gpu2: no Ray")]
    report = site.up("gpu1", "gpu2")
    assert report.state is ChangeState.FAILED
    assert report.error is not None
    assert report.error.code == InvalidInput.code
    assert [problem.message for problem in report.error.problems] == ["gpu1: wrong key", "gpu2: no Ray"]
    assert site.store.clusters() == []

    site.starter.unfit, site.starter.broken = [], [Problem(message="gpu2: Ray ended")]
    assert site.up("gpu1", "gpu2").state is ChangeState.FAILED
    assert site.store.clusters() == []

    site.starter.broken = []
    assert site.up("gpu1").state is ChangeState.DONE
    site.starter.broken = [Problem(message="gpu2: Ray ended")]
    assert site.up("gpu1", "gpu2").state is ChangeState.FAILED
    assert [machine.name for machine in site.store.clusters()[0].machines] == ["gpu1"]


def test_it_is_recorded_before_anything_is_started(site: Site) -> None:
    """A server that dies in the middle leaves a cluster that can be completed, or ended."""
    site.starter.gate.clear()
    site.plane.cluster_machines.up(ADA, NAME, machines("gpu1", "gpu2"), install=False)
    site.plane.cluster_machines.progress(ADA, NAME, 0, wait_s=LIMIT_S)
    assert site.starter.waiting.wait(LIMIT_S)
    assert [machine.name for machine in site.store.clusters()[0].machines] == ["gpu1", "gpu2"]
    same = site.plane.cluster_machines.up(ADA, NAME, machines("gpu1", "gpu2"), install=False)
    assert same.state is ChangeState.WORKING, "the same again joins what is at work"
    with pytest.raises(Refused, match="up is at work on cluster gpus"):
        site.plane.cluster_machines.up(ADA, NAME, machines("gpu1"), install=False)
    with pytest.raises(Refused, match="up is at work on cluster gpus"):
        site.plane.cluster_machines.down(ADA, NAME, force=False, purge=False)
    site.starter.gate.set()
    assert site.end_of_change().state is ChangeState.DONE


def test_a_machine_with_work_on_it_is_taken_out_and_its_runs_go_on_elsewhere(site: Site) -> None:
    site.up("gpu1", "gpu2", "gpu3")
    runs = [site.submit() for _ in range(2)]
    for run_id in runs:
        site.wait_for(run_id, RunState.RUNNING)
    leaving = site.node_of(runs[0])
    assert leaving != "gpus1" or site.node_of(runs[1]) != "gpus1"
    moved = next(run_id for run_id in runs if site.node_of(run_id) != "gpus1")
    other = next(run_id for run_id in runs if run_id != moved)
    gone = f"gpu{site.node_of(moved).removeprefix('gpus')}"
    kept = [name for name in ("gpu1", "gpu2", "gpu3") if name != gone]
    report = site.up(*kept)
    assert report.state is ChangeState.DONE, report.error
    assert f"{gone}: train ({moved}) saves, leaves and is queued again" in texts(report)
    assert site.starter.calls[-1] == f"end {gone}"
    site.wait_for(moved, RunState.RUNNING)
    assert site.node_of(moved) != f"gpus{gone.removeprefix('gpu')}"
    assert site.plane.find(ADA, moved).attempt == 2
    assert site.plane.find(ADA, other).attempt == 1, "nothing else was disturbed"
    assert [machine.name for machine in site.store.clusters()[0].machines] == kept
    node = f"gpus{gone.removeprefix('gpu')}"
    site.starter.engine.set_node(node, NodeState.DOWN)
    assert node not in [report.node.name for report in site.plane.nodes(ADA)], "it is no node any more"

    site.starter.engine.set_node(node, NodeState.UP)
    assert site.up("gpu1", "gpu2", "gpu3").state is ChangeState.DONE
    assert site.store.drained_nodes() == {}, "a machine that comes back takes work"


def test_what_cannot_change_is_refused_at_once(site: Site) -> None:
    site.up("gpu1", "gpu2")
    changed = [replace(machines("gpu1")[0], slots=2), Machine(name="gpu3", directory="/new")]
    with pytest.raises(Refused, match="gpu1 has slots=None, not 2"):
        site.plane.cluster_machines.up(ADA, NAME, changed, install=False)
    with pytest.raises(Refused, match="the head is gpu1, not gpu2"):
        site.plane.cluster_machines.up(ADA, NAME, machines("gpu2", "gpu1"), install=False)
    with pytest.raises(Refused, match="tarmac cluster up"):
        site.plane.clusters.remove(ADA, NAME)
    with pytest.raises(Refused, match="tarmac cluster up"):
        site.plane.clusters.add(ADA, Cluster(name=NAME, engine="placed"), replacing=True)
    with pytest.raises(Refused, match="that name is taken"):
        site.plane.cluster_machines.up(ADA, "local", machines("gpu1"), install=False)
    with pytest.raises(Forbidden):
        site.plane.cluster_machines.up(member("bob"), NAME, machines("gpu1"), install=False)


def test_a_cluster_with_a_lost_machine_stays_until_it_is_given_up(site: Site) -> None:
    site.up("gpu1", "gpu2")
    site.starter.lost = [Problem(message="gpu2: no route to host")]
    report = site.down()
    assert report.state is ChangeState.FAILED
    assert "gpu2: no route to host" in report.error.message
    assert len(site.store.clusters()) == 1
    assert site.store.drained_nodes() == {}
    report = site.down(force=True)
    assert report.state is ChangeState.DONE
    assert "gpu2: given up, what ran there may run on: no route to host" in texts(report)
    assert site.store.clusters() == []
