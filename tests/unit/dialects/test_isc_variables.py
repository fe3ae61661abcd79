"""What the ISC promises to a run, over a launch as `launch.compose` makes it; and the page that lists it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pages
from launches import launch, node, placement, workers
from tarmac.dialects.native.reader import write
from tarmac.dialects.overrides import override
from tarmac.launch.compose import with_datasets
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, Mode, RunState
from tarmac.model.run import Allocation, Attempt, Run
from tarmac.node.attempt.document import Launch
from tarmac.systems.registry import apply_conventions, read

PAGE = Path(__file__).parents[3] / "docs/using/dialects/isc.md"
SOURCE = """
isc_project_id = "p"
experiment_name = "Größe 1"
gpus = 4
command = "cd / && env"
"""
NODES = [node("n1", "10.0.0.7"), node("n2", "10.0.0.2")]
PLACEMENTS = [placement("main", 0, "n1", 0, 1), placement("main", 1, "n2", 4, 5)]


def launched(mode: Mode = Mode.CYCLE, allotted_s: float | None = None, **overrides: Any) -> Launch:
    spec = override(read(SOURCE, filename="a.isc", directory="/").spec, overrides)
    run = Run(
        id="r1",
        spec=replace(spec, mode=mode),
        user="ada",
        state=RunState.STARTING,
        seq=1,
        created_at=1.0,
    )
    attempt = Attempt(
        run_id="r1",
        number=3,
        state=AttemptState.STARTING,
        engine="local",
        allocation=Allocation(cluster="site-a", placements=tuple(PLACEMENTS)),
        token="secret",
        master_port=29501,
        created_at=2.0,
        allotted_s=allotted_s,
    )
    return apply_conventions(run, attempt, launch(SOURCE, NODES, PLACEMENTS))


def test_ranks_are_those_of_the_nodes() -> None:
    """I16: RANK and NODE_RANK both, and the mapping in one word."""
    first, second = workers(launched())
    for rank, worker in enumerate((first, second)):
        assert worker.env["RANK"] == worker.env["NODE_RANK"] == str(rank)
        assert worker.env["IP_TO_RANK_MAPPING"] == '{"10.0.0.7":0,"10.0.0.2":1}'
        assert json.loads(worker.env["IP_TO_RANK_MAPPING"])[worker.env["MASTER_ADDR"]] == 0
        assert int(worker.env["NNODES"]) * int(worker.env["N_PROC"]) == 4


@pytest.mark.parametrize(
    ("mode", "allotted_s", "milliseconds"),
    [
        (Mode.CYCLE, 90.0, "90000"),
        (Mode.INTERRUPTIBLE, 1234.5678, "1234568"),
        (Mode.INTERRUPTIBLE, None, "0"),
        (Mode.BURST, None, "0"),
        (Mode.BATCH, None, "0"),
    ],
)
def test_mode_count_and_time_in_every_mode(mode: Mode, allotted_s: float | None, milliseconds: str) -> None:
    """I15."""
    for worker in workers(launched(mode, allotted_s)):
        assert worker.env["STRONG_COMPUTE_MODE"] == mode
        assert worker.env["STRONG_CYCLE_COUNT"] == "3"
        assert worker.env["STRONG_CYCLE_TIME_MS"] == milliseconds
        assert worker.env["STRONG_EXPERIMENT_ID"] == "r1"


def test_the_name_is_as_it_was_written_until_the_run_is_called_otherwise() -> None:
    """I15, I4: any string."""
    assert workers(launched())[0].env["STRONG_EXPERIMENT_NAME"] == "Größe 1"
    assert workers(launched(name="other"))[0].env["STRONG_EXPERIMENT_NAME"] == "other"


def test_a_converted_file_has_the_same_variables() -> None:
    """I3: `tarmac convert` keeps the conventions of the system."""
    spec = read(SOURCE, filename="a.isc", directory="/").spec
    native = read(write(spec, directory="/"), filename="run.yaml", directory="/", dialect="native").spec
    assert native.conventions == spec.conventions


def test_the_page_lists_the_family() -> None:
    given = workers(launched())[0].env.keys()
    assert {name for name in given if name.startswith("STRONG_")} <= pages.variables("dialects/isc.md").keys()
    assert pages.variables("dialects/isc.md").keys() <= given


def test_the_content_of_the_retired_dataset_is_at_data_too() -> None:
    """I8: 92 public files read it there, and none below its id; the variable names the place below it."""
    source = SOURCE + 'dataset_id = "uds-one"\n'
    spec = read(source, filename="a.isc", directory="/").spec
    run = Run(id="r1", spec=spec, user="ada", state=RunState.STARTING, seq=1, created_at=1.0)
    attempt = Attempt(
        run_id="r1",
        number=1,
        state=AttemptState.STARTING,
        engine="local",
        allocation=Allocation(cluster="site-a", placements=tuple(PLACEMENTS)),
        token="secret",
        master_port=29501,
        created_at=2.0,
    )
    found = apply_conventions(
        run, attempt, with_datasets(launch(source, NODES, PLACEMENTS), {"uds-one": "/disk/one"})
    )
    for each in found.nodes:
        places = [(mount.source, mount.target, mount.read_only, mount.variables) for mount in each.mounts]
        below = ("/disk/one", "/data/uds-one", True, ("TARMAC_DATASET_UDS_ONE",))
        assert places == [("/disk/one", "/data", True, ()), below]
