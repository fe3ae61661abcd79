"""Which control groups limit a worker: a choice among what machines of every kind offer (A9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.node.kernel.workergroup import CPU, MEMORY, Place, choose, survey

MEMORY_1 = Place(1, "/memory/user", frozenset({MEMORY}), writable=True)
CPU_1 = Place(1, "/cpu/user", frozenset({CPU}), writable=True)
BESIDE = Place(2, "/user.slice", frozenset({MEMORY, "pids"}), writable=True)
TOP = Place(2, "/", frozenset({MEMORY, CPU, "io"}), writable=True)
ONLY_CPU = Place(2, "/other", frozenset({CPU}), writable=True)


def closed(place: Place) -> Place:
    return place._replace(writable=False)


@pytest.mark.parametrize(
    ("wanted", "places", "chosen"),
    [
        ([MEMORY, CPU], [MEMORY_1, CPU_1], {MEMORY: MEMORY_1, CPU: CPU_1}),
        ([MEMORY], [MEMORY_1, CPU_1], {MEMORY: MEMORY_1}),
        ([MEMORY, CPU], [BESIDE, TOP], {MEMORY: TOP, CPU: TOP}),
        ([MEMORY], [BESIDE, TOP], {MEMORY: BESIDE}),
        ([MEMORY, CPU], [BESIDE, closed(TOP)], {MEMORY: BESIDE}),
        ([MEMORY, CPU], [ONLY_CPU, MEMORY_1], {CPU: ONLY_CPU, MEMORY: MEMORY_1}),
        ([MEMORY, CPU], [BESIDE, ONLY_CPU], {MEMORY: BESIDE}),
        ([MEMORY, CPU], [closed(MEMORY_1), CPU_1], {CPU: CPU_1}),
        ([MEMORY, CPU], [closed(BESIDE), closed(TOP)], {}),
        ([CPU], [BESIDE], {}),
        ([MEMORY, CPU], [], {}),
    ],
    ids=[
        "version 1, a tree for each",
        "version 1, one wanted",
        "version 2, the top has both",
        "version 2, beside our own does",
        "version 2, the top is not ours",
        "a mixture",
        "a process is in one group of version 2",
        "version 1, only one is ours",
        "a container that may write nothing",
        "not passed on",
        "no groups",
    ],
)
def test_each_controller_gets_a_place_where_there_is_one(
    wanted: list[str], places: list[Place], chosen: dict[str, Place]
) -> None:
    choice = choose(wanted, places)
    assert choice.places == chosen
    assert choice.why_not.keys() == set(wanted) - chosen.keys()


def test_why_there_is_none() -> None:
    assert choose([CPU], []).why_not == {CPU: "this machine has no control groups"}
    assert choose([CPU], [MEMORY_1]).why_not == {CPU: "control groups here do not limit cpu"}
    assert choose([CPU], [closed(CPU_1)]).why_not == {CPU: "no control groups may be made here"}


def test_what_is_there_is_read_in_both_versions(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    for directory in ("memory/me", "cpu/elsewhere", "unified/user.slice/me"):
        (tmp_path / directory).mkdir(parents=True)
    groups.write_text("4:memory:/me\n2:cpu,cpuacct:/me\n1:name=systemd:/me\n0::/user.slice/me\n")
    for directory, controllers in (("unified", "io memory"), ("unified/user.slice", "memory")):
        (tmp_path / directory / "cgroup.controllers").write_text("")
        (tmp_path / directory / "cgroup.subtree_control").write_text(f"{controllers}\n")
    found = survey(groups=str(groups), root=str(tmp_path))
    shown = [
        (place.version, str(Path(place.directory).relative_to(tmp_path)), set(place.controllers))
        for place in found
    ]
    assert shown == [
        (1, "memory/me", {MEMORY}),
        (1, "cpu", {CPU}),
        (2, "unified/user.slice", {MEMORY}),
        (2, "unified", {MEMORY, "io"}),
    ]
    assert survey(groups=str(tmp_path / "none"), root=str(tmp_path)) == []
