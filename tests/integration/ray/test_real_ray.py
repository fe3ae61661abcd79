"""A real Ray of three machines, as far as namespaces can be: each part fails, and runs go on or are lost."""

from __future__ import annotations

import pytest

from engine_harness import LOG, Work, ended, running
from ray_harness import RealRayHarness, images_by_node
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import CauseCode, Outcome

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("ray"), pytest.mark.timeout(900)]


def submit(real: RealRayHarness, work: Work, **wanted: object) -> str:
    """Submit an attempt; its id."""
    return real.submit(real.launch(work, **wanted))


def started(real: RealRayHarness, work: Work, **wanted: object) -> str:
    """Submit an attempt and wait until it is at work; its id."""
    attempt = submit(real, work, **wanted)
    real.at_work(attempt)
    return attempt


def test_nodes_have_disks_of_their_own_and_what_they_say_is_read(real: RealRayHarness) -> None:
    attempt = submit(real, Work(output="hello", saves=True), run_id="own")
    assert real.settle(attempt, ended).outcome is Outcome.COMPLETED
    assert [real.engine.read(attempt, worker.log) for worker in real.engine.workers(attempt)] == [
        b"hello"
    ] * 2
    for number in (1, 2):
        assert real.cluster.on(number, "ls", str(real.cluster.far / "runs")).split().count("own") == 1
        kept = real.cluster.on(number, "find", str(real.cluster.far / "disks"), "-name", "state")
        assert len(kept.split()) == 1


def test_the_check_of_a_cluster_tries_a_container_on_every_node(real: RealRayHarness) -> None:
    assert images_by_node(real.engine).keys() == {node.name for node in real.engine.nodes()}


def test_nothing_of_ray_is_in_the_environment_of_a_run(real: RealRayHarness) -> None:
    launch = real.launch(Work(), on=(1,), run_id="env", argvs={0: ("bash", "-c", "env")})
    real.submit(launch)
    real.settle(launch.attempt_id, ended)
    assert b"RAY_" not in real.engine.read(launch.attempt_id, LOG)


def test_a_failure_on_one_node_ends_the_work_on_the_other(real: RealRayHarness) -> None:
    lasting = ("bash", "-c", "sleep 3600")
    launch = real.launch(Work(exit_code=3), run_id="peer", argvs={0: lasting})
    real.submit(launch)
    seen = real.settle(launch.attempt_id, ended)
    assert (seen.outcome, seen.cause and seen.cause.exit_code) == (Outcome.FAILED, 3)


def test_a_run_outlives_agents_and_raylets(real: RealRayHarness) -> None:
    attempt = started(real, Work(lasts=True), run_id="outlives")
    real.cluster.end_agents(1)
    real.wait(lambda: real.state_of(1) == "down")
    real.wait(lambda: real.state_of(1) == "up")
    real.cluster.end_ray(2, "raylet")
    real.wait(lambda: real.state_of(2) == "down")
    assert real.settle(attempt, running).state is ObservedState.RUNNING
    real.cluster.end_ray(2)
    real.cluster.start_ray(2)
    real.wait(lambda: real.state_of(2) == "up")
    real.ask(attempt, LeaveRequest.PAUSE)
    assert real.settle(attempt, ended).outcome is Outcome.PAUSED


def test_a_cut_link_loses_the_node_until_it_is_mended(real: RealRayHarness) -> None:
    attempt = started(real, Work(lasts=True), run_id="cut")
    workers = {worker.node: worker.pid for worker in real.engine.workers(attempt)}
    assert len(workers) == 2
    real.cluster.cut(2)
    try:
        seen = real.settle(attempt, ended)
        assert (seen.outcome, seen.cause and seen.cause.code) == (Outcome.LOST, CauseCode.NODE_LOST)
        assert real.state_of(2) == "down"
        again = submit(real, Work(output="elsewhere"), run_id="cut", number=2, on=(1, 0))
        assert real.settle(again, ended).outcome is Outcome.COMPLETED
        assert "sleep 3600" in real.cluster.on(2, "ps", "-eo", "args")  # it goes on until it is reached
    finally:
        real.cluster.restore(2)
        real.cluster.end_ray(2)  # a raylet that was declared dead leaves by itself, later
        real.cluster.start_ray(2)
    real.wait(lambda: real.state_of(2) == "up")
    real.wait(lambda: "sleep 3600" not in real.cluster.on(2, "ps", "-eo", "args"))
    assert real.engine.observe([attempt])[attempt] == seen


def test_the_head_may_go_and_come_back(real: RealRayHarness) -> None:
    attempt = started(real, Work(lasts=True), run_id="head", on=(0, 1))
    real.cluster.end_ray(0)
    second = submit(real, Work(output="meanwhile"), run_id="meanwhile", on=(1,))
    assert real.settle(second, ended).outcome is Outcome.COMPLETED
    real.cluster.start_ray(0)
    third = submit(real, Work(output="after"), run_id="after", on=(2,))
    assert real.settle(third, ended).outcome is Outcome.COMPLETED
    assert real.settle(attempt, running).state is ObservedState.RUNNING
    real.ask(attempt, LeaveRequest.STOP)
    assert real.settle(attempt, ended).outcome is Outcome.STOPPED


def test_a_node_is_reserved_while_a_run_is_on_it(real: RealRayHarness) -> None:
    attempt = started(real, Work(lasts=True), run_id="reserved", on=(1,))
    members = {member.address: member for member in real.engine._membership.members()}
    reserved = members[f"{real.cluster.subnet}.11"]
    assert (reserved.reserved, reserved.shared) == (True, False)
    real.ask(attempt, LeaveRequest.STOP)
    real.settle(attempt, ended)
