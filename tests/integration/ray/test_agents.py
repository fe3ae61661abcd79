"""What becomes of runs when agents, nodes, Ray or the server fail: real agents, and a stand-in of Ray."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Semaphore

import pytest

from engine_harness import LOG, Work, ended, running, started, submit
from processes import ended as gone
from ray_harness import BOUND_S, RayHarness, StandInRay, images_by_node, supplies
from tarmac.engines.ray.engine import RayEngine
from tarmac.engines.ray.link import linked
from tarmac.engines.ray.membership import Endpoint, Member
from tarmac.engines.ray.settings import read_settings
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import CauseCode, Outcome
from tarmac.node.host import services

pytestmark = pytest.mark.timeout(400)


class SlowRay(StandInRay):
    """While it is held its answers are under way: they say what was so when it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.flows = Event()
        self.flows.set()
        self.asked = Semaphore(0)

    def members(self) -> Sequence[Member]:
        found = super().members()
        self.asked.release()
        assert self.flows.wait(BOUND_S), "it is held for too long"
        return found

    def hold(self) -> None:
        """From now on answers are under way; return when one is."""
        self.flows.clear()
        while self.asked.acquire(blocking=False):
            pass
        assert self.asked.acquire(timeout=BOUND_S), "nobody asks"


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[RayHarness]:
    """An engine over two nodes."""
    made = RayHarness(tmp_path / "home")
    yield made
    made.close()


def state_of(ray: RayHarness, name: str) -> str:
    return next(node.state.value for node in ray.engine.nodes() if node.name == name)


def test_a_run_goes_on_while_its_agent_is_started_again(tmp_path: Path) -> None:
    ray = RayHarness(tmp_path / "home", ray=StandInRay(sent=True), fresh=True)
    attempt = started(ray, Work(lasts=True), nodes=2)
    before = ray.ray.pids["id1"]
    ray.ray.send("id1", signal.SIGKILL)
    ray.wait(lambda: ray.ray.pids["id1"] != before and state_of(ray, "node1") == "up")
    assert ray.settle(attempt, running).state is ObservedState.RUNNING
    ray.engine.request_leave(attempt, LeaveRequest.PAUSE)
    assert ray.settle(attempt, ended).outcome is Outcome.PAUSED
    ray.close()


def test_a_node_that_ray_lost_and_that_is_silent_is_lost_and_comes_back(ray: RayHarness) -> None:
    attempt = started(ray, Work(lasts=True), nodes=2)
    ray.ray.send("id2", signal.SIGSTOP)
    ray.ray.lost.add("id2")
    seen = ray.settle(attempt, ended)
    assert (seen.outcome, seen.cause and seen.cause.code) == (Outcome.LOST, CauseCode.NODE_LOST)
    assert seen.cause is not None
    assert seen.cause.node == "node2"
    assert state_of(ray, "node2") == "down"
    ray.ray.send("id2", signal.SIGCONT)
    ray.ray.lost.clear()
    ray.wait(lambda: state_of(ray, "node2") == "up")
    assert ray.engine.observe([attempt])[attempt] == seen  # what it says late changes nothing


def test_a_node_that_ray_lost_alone_goes_on_with_its_runs(ray: RayHarness) -> None:
    """A raylet that was killed: nothing new comes to the node, and what runs there is not touched."""
    attempt = started(ray, Work(lasts=True), nodes=2)
    ray.ray.lost.add("id2")
    ray.wait(lambda: state_of(ray, "node2") == "down")
    assert ray.settle(attempt, running).state is ObservedState.RUNNING
    ray.engine.request_leave(attempt, LeaveRequest.STOP)
    assert ray.settle(attempt, ended).outcome is Outcome.STOPPED


def test_without_an_answer_of_ray_runs_go_on_and_start_where_nodes_are_reserved(ray: RayHarness) -> None:
    first = started(ray, Work(lasts=True))
    ray.ray.down = True
    second = submit(ray, Work(output="on"), run_id="second")
    assert ray.settle(second, ended).outcome is Outcome.COMPLETED
    with pytest.raises(Unavailable):
        submit(ray, Work(), run_id="third", nodes=2)
    ray.ray.down = False
    ray.engine.request_leave(first, LeaveRequest.STOP)
    assert ray.settle(first, ended).outcome is Outcome.STOPPED


def test_what_ray_said_before_a_node_was_reserved_does_not_undo_that(tmp_path: Path) -> None:
    slow = SlowRay()
    ray = RayHarness(tmp_path / "home", ray=slow)
    try:
        slow.hold()
        first = submit(ray, Work(lasts=True))
        slow.down = True
        slow.flows.set()
        ray.wait(lambda: ray.engine._nodes.trouble is not None)  # asked again: the first answer was taken
        second = submit(ray, Work(output="on"), run_id="second")
        assert ray.settle(second, ended).outcome is Outcome.COMPLETED
        ray.engine.request_leave(first, LeaveRequest.STOP)
        assert ray.settle(first, ended).outcome is Outcome.STOPPED
    finally:
        slow.flows.set()
        ray.close()


def test_nothing_starts_on_a_node_that_others_use(ray: RayHarness) -> None:
    ray.ray.shared.add("id1")
    ray.wait(lambda: state_of(ray, "node1") == "down")
    launch = ray.launch(Work(output="once"))
    request = ray.engine.render(launch)
    with pytest.raises(Unavailable):
        ray.engine.submit(request)
    ray.ray.shared.clear()
    ray.engine.submit(request)
    assert ray.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED
    assert ray.engine.read(launch.attempt_id, LOG) == b"once"


def test_the_next_server_finds_what_runs_without_an_answer_of_ray(ray: RayHarness) -> None:
    attempt = started(ray, Work(lasts=True), nodes=2)
    ray.ray.down = True
    ray.engine.close()
    ray.engine = ray.open()
    assert ray.settle(attempt, running).state is ObservedState.RUNNING
    ray.engine.request_leave(attempt, LeaveRequest.PREEMPT)
    assert ray.settle(attempt, ended).outcome is Outcome.PREEMPTED


def test_nodes_that_an_earlier_server_reserved_are_let_go_by_the_next(ray: RayHarness) -> None:
    """However soon it leaves itself."""
    attempt = started(ray, Work(lasts=True), nodes=2)
    ray.engine.close()
    assert ray.ray.reserved == {"id1", "id2"}
    ray.engine = ray.open()
    ray.engine.request_leave(attempt, LeaveRequest.STOP)
    assert ray.settle(attempt, ended).outcome is Outcome.STOPPED
    ray.engine.close()
    assert ray.ray.reserved == set()
    ray.engine = ray.open()


def test_a_server_of_another_version_uses_no_agent_of_the_last_one(ray: RayHarness) -> None:
    """It may not know what it is asked: the nodes are known, and an agent comes with an answer of Ray."""
    ray.engine.close()
    record = ray.home / "copies/local/agents.json"
    record.write_text(re.sub(r'"package": "[^"]*"', '"package": "/another/version"', record.read_text()))
    ray.ray.down = True
    settings = read_settings({"address": "127.0.0.1:1", "directory": str(ray.home / "far"), "slots": 4})
    engine = RayEngine("local", settings, ray.ray, supplies(ray.home))
    try:
        assert [node.state for node in engine.nodes()] == ["down"] * 2
        assert all(node.endpoint is None for node in engine._nodes.all())
        ray.ray.down = False
        ray.wait(lambda: [node.state for node in engine.nodes()] == ["up"] * 2)
    finally:
        engine.close()
        ray.engine = ray.open()


def test_a_node_keeps_its_name_whatever_ray_says_of_it_later(ray: RayHarness) -> None:
    """After a restart of its head, Ray may have forgotten host names for a while."""
    ray.ray.rename("id1", "")
    ray.ray.lost.add("id2")
    ray.wait(lambda: state_of(ray, "node2") == "down")
    assert {node.name for node in ray.engine.nodes()} == {"node1", "node2"}


def test_nodes_are_known_once_ray_and_each_of_them_has_answered(tmp_path: Path, ray: RayHarness) -> None:
    assert ray.engine.knows_nodes()
    late = StandInRay()
    late.down = True
    settings = read_settings({"address": "127.0.0.1:1", "directory": str(tmp_path / "far"), "slots": 4})
    engine = RayEngine("late", settings, late, supplies(tmp_path))
    try:
        assert not engine.knows_nodes()
        late.down = False
        ray.wait(engine.knows_nodes)
        assert len(engine.nodes()) == 2
    finally:
        engine.close()
        late.end()


def test_a_server_that_goes_leaves_to_others_what_it_does_not_need(ray: RayHarness) -> None:
    over = started(ray, Work(lasts=True), nodes=2)
    assert ray.ray.reserved == {"id1", "id2"}
    ray.engine.request_leave(over, LeaveRequest.PAUSE)
    ray.settle(over, ended)
    ray.reopen()
    assert ray.ray.reserved == set()
    started(ray, Work(lasts=True), nodes=1, run_id="run2")
    needed = set(ray.ray.reserved)
    ray.reopen()
    assert ray.ray.reserved == needed
    assert len(needed) == 1


def test_the_check_of_a_cluster_tries_a_container_on_every_node(ray: RayHarness) -> None:
    assert images_by_node(ray.engine).keys() == {node.name for node in ray.engine.nodes()}


def test_an_agent_takes_nobody_without_its_token(ray: RayHarness) -> None:
    known = next(node.endpoint for node in ray.engine._nodes.all())
    assert known is not None
    stranger = Endpoint(address=known.address, port=known.port, token="00" * 32)
    with pytest.raises(Unavailable, match="another token"):
        linked(stranger, {})


def test_a_node_whose_survey_failed_is_offered_once_it_is_told_again(ray: RayHarness) -> None:
    first = ray.engine._nodes.at("127.0.0.1")
    first.survey = {}  # as after a link that broke off in the middle, or an agent that was too slow
    ray.wait(lambda: sorted(node.name for node in ray.engine.nodes()) == ["node1", "node2"])


def test_agents_end_with_their_cluster_and_runs_do_not(ray: RayHarness) -> None:
    attempt = started(ray, Work(lasts=True), run_id="stays")
    pids = list(ray.ray.pids.values())
    ray.ray.down = True  # Ray has ended before: nothing starts other agents
    assert services.end_all(str(ray.home / "far")) == 2
    assert services.end_all(str(ray.home / "far")) == 0
    for pid in pids:
        assert gone(pid)
    ray.ray.down = False
    assert ray.settle(attempt, running).state is ObservedState.RUNNING
