"""What Determined promises to a trial, over a launch as `launch.compose` makes it. Pure."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pages
from launches import launch, node, placement
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.run import Allocation, Attempt, Run
from tarmac.model.spec import Conventions, RunSpec
from tarmac.node.attempt.document import Launch
from tarmac.systems.determined.dialect import determined_dialect
from tarmac.systems.determined.fields import EXPERIMENT
from tarmac.systems.registry import read

SOURCE = """
entrypoint: python3 train.py
searcher: {name: single, metric: loss, source_checkpoint_uuid: 3dfe5b86-8a5b-4b92-9bbb-16c4b9d62681}
resources: {slots_per_trial: 4}
hyperparameters: {lr: 1e-5, n: {type: int, minval: 1, maxval: 9}}
checkpoint_storage: {type: s3, bucket: b, access_key: hidden, secret_key: hidden}
environment: {environment_variables: [A=1]}
"""
NODES = [node("n1"), node("n2", "10.0.0.2")]
PLACEMENTS = [placement("main", 0, "n1", 0, 1), placement("main", 1, "n2", 4, 5)]
SET_ELSEWHERE = {"DET_RUN_DIR", "DET_WORKDIR", "DET_INTER_NODE_NETWORK_INTERFACE", "TCD_STARTUP_HOOK"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "minval", "maxval", "val", "name", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


def launched(spec: RunSpec, *, number: int = 1) -> Launch:
    """The launch of an attempt on two nodes, with what the dialect adds."""
    run = Run(id="r1", spec=spec, user="ada", state=RunState.STARTING, seq=1, created_at=1.0)
    attempt = Attempt(
        run_id="r1",
        number=number,
        state=AttemptState.STARTING,
        engine="local",
        allocation=Allocation(cluster="lab", placements=tuple(PLACEMENTS)),
        token="secret",
        master_port=29501,
        created_at=2.0,
    )
    return determined_dialect().apply_conventions(run, attempt, launch(SOURCE, NODES, PLACEMENTS))


def spec_of(source: str = SOURCE) -> RunSpec:
    return read(source, filename="const.yaml", directory="/").spec


def test_d11_every_declared_variable_is_set_and_no_other_of_the_family() -> None:
    """D11: the variables that a script can read."""
    for part in launched(spec_of()).nodes:
        for worker in part.workers:
            family = {name for name in worker.env if name.startswith(("DET_", "TCD_"))}
            declared = pages.variables("dialects/determined.md").keys()
            assert family <= declared
            assert declared - worker.env.keys() <= SET_ELSEWHERE
            assert worker.env["DET_LATEST_CHECKPOINT"].startswith("3dfe5b86")


def test_a_second_attempt_is_another_run_of_the_same_trial() -> None:
    first, second = (launched(spec_of(), number=number).nodes[0].workers[0].env for number in (1, 2))
    same = ("DET_EXPERIMENT_ID", "DET_TRIAL_ID", "DET_TASK_ID", "DET_TRIAL_SEED", "DET_HPARAMS")
    assert [first[name] for name in same] == [second[name] for name in same]
    assert (first["DET_TRIAL_RUN_ID"], second["DET_TRIAL_RUN_ID"]) == ("1", "2")
    assert first["DET_ALLOCATION_ID"] != second["DET_ALLOCATION_ID"]


def test_the_files_tell_each_node_of_the_others_and_hold_no_secret() -> None:
    """D2, D11: rendezvous, and secrets masked."""
    made = launched(spec_of())
    files = [
        {name: json.loads(text) for name, text in part.files.items() if name.startswith("determined/info/")}
        for part in made.nodes
    ]
    meeting = [found["determined/info/rendezvous.json"] for found in files]
    assert [found["container_rank"] for found in meeting] == [0, 1]
    assert (
        meeting[0]["container_addrs"]
        == meeting[1]["container_addrs"]
        == [part.address for part in made.nodes]
    )
    assert meeting[0]["container_slot_counts"] == [2, 2]
    assert "hidden" not in json.dumps(files)
    assert files[0]["determined/info/trial.json"]["config"]["searcher"]["smaller_is_better"] is True
    targets = ["/run/determined", "/run/determined/workdir"]
    assert all([mount.target for mount in part.mounts[-2:]] == targets for part in made.nodes)


def test_a_configuration_without_a_seed_takes_the_time_of_submission() -> None:
    env = launched(spec_of()).nodes[0].workers[0].env
    assert json.loads(env["DET_EXPERIMENT_CONFIG"])["reproducibility"] == {"experiment_seed": 1}


@pytest.mark.parametrize(
    ("hook", "path"),
    [
        ("true", "/site:/node/shim"),
        ("export PYTHONPATH=/mine:$PYTHONPATH", "/mine:/site:/node/shim"),
        ("export PYTHONPATH=$PYTHONPATH:/mine", "/site:/node/shim:/mine"),
        ("export PYTHONPATH=/mine", "/mine:/node/shim"),
        ("unset PYTHONPATH", "/node/shim"),
    ],
)
def test_a_startup_hook_cannot_lose_the_launchers(tmp_path: Path, hook: str, path: str) -> None:
    """D2 to D8: `determined.launch` stays last on PYTHONPATH, beside what makes `import tarmac` work."""
    (tmp_path / "startup-hook.sh").write_text(f"{hook}\n")
    start = launched(spec_of()).nodes[0].workers[0].argv[:4]
    found = subprocess.run(
        [*start, "printenv", "PYTHONPATH"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": "/site:/node/shim"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == f"{path}:/node/shim/../../systems/determined/standins\n"


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"config": 5},
        {"config": {"hyperparameters": 5}},
        {"config": {"hyperparameters": {"a": {"type": "int"}}}},
        {"config": {"hyperparameters": {"a": {"type": "log", "base": 10, "minval": 1, "maxval": 10**90}}}},
        {"config": {"hyperparameters": {"a": {"type": "double", "minval": -1e308, "maxval": 1e308}}}},
        {"config": {"searcher": "single", "reproducibility": []}},
        {"config": {"reproducibility": {"experiment_seed": "x"}}},
    ],
)
def test_facts_that_a_native_file_made_up_still_make_a_launch(facts: dict[str, Any]) -> None:
    spec = replace(spec_of(), conventions=Conventions(system="determined", facts=facts))
    env = launched(spec).nodes[0].workers[0].env
    assert json.loads(env["DET_EXPERIMENT_CONFIG"]).keys() >= {"searcher", "resources"}
    assert isinstance(json.loads(env["DET_HPARAMS"]), dict)


@given(st.dictionaries(st.sampled_from(sorted(EXPERIMENT.fields)), JSON, max_size=4))
def test_any_facts_make_a_launch(config: dict[str, Any]) -> None:
    launched(replace(spec_of(), conventions=Conventions(system="determined", facts={"config": config})))
