"""Runs and attempts: exit codes, ids, and what allocations and requests add up to."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.model.cluster import admits, rehearsal_cluster
from tarmac.model.progress import Cause, CauseCode, Outcome, WorkerPlacement
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation, attempt_id, split_attempt_id
from tarmac.model.spec import Command, Process, Role, RunSpec
from tarmac.server.records import exit_status


@pytest.mark.parametrize(
    ("outcome", "fields", "status"),
    [
        pytest.param(Outcome.COMPLETED, None, 0, id="completed"),
        pytest.param(Outcome.COMPLETED, {"exit_code": 3}, 0, id="completed by its own word"),
        pytest.param(Outcome.STOPPED, None, 143, id="stopped by a person"),
        pytest.param(Outcome.FAILED, {"exit_code": 7}, 7, id="a worker's own exit code"),
        pytest.param(Outcome.FAILED, {"signal": "SIGKILL"}, 137, id="a signal, like a shell says it"),
        pytest.param(Outcome.FAILED, {"signal": "SIGSEGV"}, 139, id="another signal"),
        pytest.param(Outcome.FAILED, {"signal": "SIGNONSENSE"}, 1, id="an unknown signal"),
        pytest.param(Outcome.FAILED, {"exit_code": 0}, 1, id="failed with exit code 0 is no success"),
        pytest.param(Outcome.FAILED, {}, 1, id="failed without a worker's part"),
        pytest.param(Outcome.FAILED, None, 1, id="failed without a cause"),
        pytest.param(None, None, 1, id="not ended"),
    ],
)
def test_exit_status_is_the_runs_own(outcome, fields, status):
    cause = None if fields is None else Cause(code=CauseCode.EXIT_CODE, message="m", **fields)
    assert exit_status(outcome, cause) == status


@pytest.mark.parametrize(("outcome", "code"), list(product([None, *Outcome], CauseCode)))
def test_only_a_completed_run_exits_with_zero(outcome, code):
    assert (exit_status(outcome, Cause(code=code, message="m")) == 0) == (outcome is Outcome.COMPLETED)


@given(st.text(alphabet="abc.-_0123456789", min_size=1), st.integers(1, 10**6))
def test_an_attempt_id_comes_apart_again(run_id, number):
    assert split_attempt_id(attempt_id(run_id, number)) == (run_id, number)


def test_an_allocations_nodes_are_in_the_order_of_its_placements():
    placements = (
        WorkerPlacement(role="a", replica=0, node="n2", slots=(0, 1)),
        WorkerPlacement(role="a", replica=1, node="n1", slots=(4,)),
        WorkerPlacement(role="b", replica=0, node="n2"),
    )
    allocation = Allocation(cluster="local", placements=placements)
    assert allocation.nodes == ("n2", "n1")
    assert allocation.slots == 3


def test_resources_add_up():
    one = Resources(slots=1, cpus=0.5, memory_bytes=10)
    typed = Resources(slots=2, slot_type="h100")
    assert one.plus(typed) == Resources(slots=3, slot_type="h100", cpus=0.5, memory_bytes=10)
    assert typed.plus(one).slot_type == "h100"
    assert one.times(3) == Resources(slots=3, cpus=1.5, memory_bytes=30)


@pytest.mark.parametrize(
    ("resources", "empty"),
    [
        (Resources(), True),
        (Resources(slot_type="h100"), True),
        (Resources(slots=1), False),
        (Resources(cpus=0.1), False),
        (Resources(memory_bytes=1), False),
    ],
)
def test_c3_what_asks_for_nothing(resources, empty):
    assert resources.empty is empty


def test_a_runs_slots_are_those_of_all_its_roles():
    process = Process(command=Command(script="true"), resources=Resources(slots=2, slot_type="h100"))
    pair = Role(name="pair", processes=(process, process), replicas=3)
    split = Role(name="split", processes=(Process(command=Command(script="true")),), replicas=None, slots=16)
    idle = Role(name="idle", processes=(Process(command=Command(script="true")),))
    assert pair.replica_resources == Resources(slots=4, slot_type="h100")
    assert RunSpec(name="r", roles=(pair, split, idle)).slots == 3 * 4 + 16


@pytest.mark.parametrize(
    ("cluster", "wanted", "may"),
    [
        ("local", None, True),
        ("local", "local", True),
        ("local", "x", False),
        (rehearsal_cluster("r1"), None, False),
        (rehearsal_cluster("r1"), rehearsal_cluster("r1"), True),
        (rehearsal_cluster("r1"), rehearsal_cluster("r2"), False),
    ],
)
def test_who_may_use_the_nodes_of_a_cluster(cluster, wanted, may):
    assert admits(cluster, wanted) is may
