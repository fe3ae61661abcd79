"""Flags change a spec by the same rules as a run file, and say clearly where they do not apply."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.dialects.overrides import override
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import Mode
from tarmac.model.spec import LocalDirectory, Queueing, Rehearsal, RunSpec
from tarmac.systems.registry import dialect_of, read


def spec(text: str = "slots: h100:8\ncommand: python train.py\n") -> RunSpec:
    return read(text, filename="digits.yaml", directory="/home/ada").spec


def test_every_override_of_the_api_is_applied() -> None:
    """M1: overrides on the command line; M10: a clone with other slots."""
    changed = override(
        spec("env: {A: '1', B: '2'}\nlabels: {team: x}\nslots: 2\ncommand: python train.py\n"),
        {
            "name": "other",
            "slots": 4,
            "cluster": "site-a",
            "pool": "big",
            "shard": "left",
            "hostnames": ["n1", "n2"],
            "exclude_hostnames": ["n3"],
            "mode": "cycle",
            "max_rapid_cycles": 2,
            "uneven": True,
            "priority": 7,
            "weight": 0.5,
            "env": {"B": "3", "C": ""},
            "labels": {"sweep": "1"},
            "time_limit": "2h",
            "retries": 2,
            "stop_on_nan": True,
            "slurm": {"nice": 5, "exclusive": True, "mem": None},
            "queueing": "fail_if_busy",
            "command": ["python", "other.py"],
            "rehearse": None,
            "paused": True,
        },
    )
    assert (changed.name, changed.slots, changed.priority) == ("other", 4, 7)
    assert changed.start_paused
    assert (changed.target.cluster, changed.target.pool, changed.target.shard) == ("site-a", "big", "left")
    assert (changed.target.hostnames, changed.target.excluded) == (("n1", "n2"), ("n3",))
    assert (changed.mode, changed.max_rapid_cycles, changed.weight) == (Mode.CYCLE, 2, 0.5)
    assert changed.roles[0].uneven
    assert changed.environment.variables == {"A": "1", "B": "3", "C": ""}
    assert changed.labels == {"team": "x", "sweep": "1"}
    assert changed.stop_on_nan
    assert changed.slurm == {"nice": "5", "exclusive": "", "mem": None}
    assert (changed.time_limit_s, changed.retries, changed.queueing) == (7200, 2, Queueing.FAIL_IF_BUSY)
    assert changed.roles[0].processes[0].command.argv == ("python", "other.py")


def test_code_can_be_left_out() -> None:
    before = spec("code: .\ncommand: x\n")
    assert override(before, {"no_code": True}).code is None
    assert override(before, {"no_code": False}).code == before.code
    with pytest.raises(InvalidInput, match="code and no_code exclude each other"):
        override(before, {"no_code": True, "code": "/elsewhere"})


def test_type_image_and_code_are_replaced() -> None:
    """M1: --gpu-type, --image; code brought from elsewhere keeps the rules of what stays behind."""
    changed = override(
        spec("slots: 2\ncode: {path: src, exclude: [data/]}\ncommand: a\n"),
        {"slot_type": "A100", "image": "ubuntu:24.04", "code": "/srv/other"},
    )
    assert (changed.roles[0].slots, changed.roles[0].slot_type) == (2, "a100")
    assert changed.environment.image == "ubuntu:24.04"
    assert changed.code == LocalDirectory(path="/srv/other", exclude=("data/",))


def test_no_slots_at_all_is_one_copy_anywhere() -> None:
    """M10: --clone of a run with slots, to run without any."""
    (role,) = override(spec(), {"slots": 0}).roles
    assert (role.replicas, role.slots, role.slot_type) == (1, None, None)
    (again,) = override(replace(spec(), roles=(role,)), {"slots": 4, "slot_type": "h100"}).roles
    assert (again.replicas, again.slots, again.slot_type) == (None, 4, "h100")


@pytest.mark.parametrize(
    ("word", "number"), [("high", 1), ("LOW", -1), ("highest", 2), ("auto", 0), ("7", 7)]
)
def test_priorities_have_names_too(word: str, number: int) -> None:
    """M3: `high` before `low`."""
    assert override(spec(), {"priority": word}).priority == number


def test_a_priority_is_on_the_scale_of_the_file_it_stands_in_for() -> None:
    """Determined's goes from 1, which is first, to 99; 42 is usual."""
    scale = dialect_of("determined").scale
    found = [override(spec(), {"priority": word}, scale=scale).priority for word in (1, "42", 99, "high")]
    assert found == [41, 0, -57, 1]
    for beyond in (0, 100, -1):
        with pytest.raises(InvalidInput, match=r"from 1 to 99 \(Determined's scale: 1 is first, 42 usual\)"):
            override(spec(), {"priority": beyond}, scale=scale)


def test_slots_are_split_over_as_many_nodes_as_asked_for() -> None:
    """M1: --nodes; a number that cannot be split equally is refused."""
    (role,) = override(spec(), {"nodes": 4}).roles
    assert (role.slots, role.nodes) == (8, 4)
    with pytest.raises(InvalidInput, match="8 slots cannot be split equally over 3 nodes"):
        override(spec(), {"nodes": 3})


def test_no_override_changes_nothing() -> None:
    assert override(spec(), {}) == spec()


def test_the_source_stays_as_submitted() -> None:
    assert override(spec(), {"name": "other"}).source == spec().source


def test_slots_keep_their_type_unless_another_is_named() -> None:
    assert override(spec(), {"slots": 4}).roles[0].slot_type == "h100"
    assert override(spec(), {"slots": "a100:4"}).roles[0].slot_type == "a100"


def test_slots_for_a_run_that_said_nothing_of_its_needs() -> None:
    role = override(spec("command: hostname"), {"slots": 4}).roles[0]
    assert (role.slots, role.replicas) == (4, None)


def test_a_rehearsal_takes_the_place_of_the_target_and_its_slots_stand_for_any_type() -> None:
    changed = override(spec("cluster: site-a\nslots: h100:2\ncommand: hostname"), {"rehearse": "2x1"})
    assert changed.rehearsal == Rehearsal(nodes=2, slots_per_node=1)
    assert changed.target.cluster is None
    assert (changed.roles[0].slots, changed.roles[0].slot_type) == (2, None)


def test_the_slots_of_a_described_rehearsal_stand_for_gpus_of_no_named_type() -> None:
    described = {"rehearse": {"source": "nodes: [{count: 2, slots: 4}]\n", "filename": "cluster.yaml"}}
    assert override(spec("slots: gpu:2\ncommand: hostname"), described).roles[0].slot_type is None
    assert override(spec("slots: h100:2\ncommand: hostname"), described).roles[0].slot_type == "h100"


def test_a_target_takes_the_place_of_a_rehearsal() -> None:
    changed = override(spec("rehearse: 2x1\nslots: 2\ncommand: hostname"), {"cluster": "site-a"})
    assert (changed.rehearsal, changed.target.cluster) == (None, "site-a")


def test_a_target_that_is_not_given_stays() -> None:
    changed = override(spec("cluster: site-a\npool: big\ncommand: hostname"), {"pool": "small"})
    assert (changed.target.cluster, changed.target.pool) == ("site-a", "small")


TWO_ROLES = "roles:\n  a: {command: hostname}\n  b: {command: hostname}\n"
REPLICAS = "replicas: 2\nresources: 4\ncommand: hostname\n"
PROCESSES = "processes:\n  - {command: hostname}\n  - {command: date}\n"


@pytest.mark.parametrize(
    ("source", "overrides", "message"),
    [
        (None, {"slotz": 4}, "unknown field 'slotz' (did you mean 'slots'?)"),
        (None, {"gpus": 4}, "unknown field 'gpus' (did you mean 'slots'?)"),
        (None, {"slots": -1}, "slots: a number of slots from 0 to 100000"),
        (None, {"slots": "8"}, "take the quotes away"),
        (None, {"slots": True}, "slots: a number of slots from 0 to 100000"),
        (TWO_ROLES, {"slots": 4}, "slots: the run has 2 roles (change their slots in the run file)"),
        (REPLICAS, {"slots": 4}, "slots: the run asks for 2 fixed replicas, not for slots"),
        (TWO_ROLES, {"command": ["date"]}, "command: the run has several commands"),
        (PROCESSES, {"command": ["date"]}, "command: the run has several commands"),
        (None, {"command": []}, "command: a script, or a list of a program and its arguments, is expected"),
        (None, {"name": "a b"}, "'a-b' would do"),
        (None, {"env": {"TARMAC_RUN_ID": "x"}}, "env: TARMAC_RUN_ID is set by tarmac itself"),
        (None, {"env": {"A": "\0"}}, "env.A: the text contains a NUL"),
        (None, {"env": {"A": "\ud800"}}, "env.A: the text contains a NUL, or half of a surrogate pair"),
        (None, {"env": ["A=1"]}, "env: a mapping from names to values is expected, not a list"),
        (None, {"time_limit": 90}, "add a unit: 90s, 90m, 90h or 90d"),
        (None, {"rehearse": "2x1", "cluster": "site-a"}, "cluster: cannot stand beside 'rehearse'"),
        (None, {"queueing": "maybe"}, "queueing: one of wait, fail_if_busy is expected, not 'maybe'"),
        (None, {"mode": "spot"}, "mode: one of batch, cycle, interruptible, burst is expected, not 'spot'"),
        (None, {"max_rapid_cycles": 2}, "only a run of mode 'cycle' has turns, and this one is batch"),
        (None, {"weight": 0}, "weight: a number above 0"),
        (REPLICAS, {"uneven": True}, "uneven: only a run with one role that asks for slots"),
        (None, {"labels": {"a b": "1"}}, "'a-b' would do"),
        (None, {"hostnames": [1, {}]}, "hostnames[1]"),
    ],
)
def test_what_does_not_apply_is_refused(source: str | None, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        override(spec(source) if source else spec(), overrides)
    assert message in str(caught.value)


def test_all_problems_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        override(spec(), {"slots": -1, "retries": -1, "colour": "red"})
    assert len(caught.value.problems) == 3
