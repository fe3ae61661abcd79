"""What MCLI promises to a run, over a launch as `launch.compose` makes it. Pure."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from launches import launch, node, placement, workers
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.run import Allocation, Attempt, Run
from tarmac.model.spec import RunSpec
from tarmac.node.attempt.document import Launch
from tarmac.systems.mcli.dialect import MCLI
from tarmac.systems.registry import read

SOURCE = """
name: digits
image: bash
compute: {gpus: 4}
env_variables: {LR: '0.1'}
parameters: {lr: 0.1}
command: python train.py
"""
NODES = [node("n1"), node("n2", "10.0.0.2")]
PLACEMENTS = [placement("main", 0, "n1", 0, 1), placement("main", 1, "n2", 4, 5)]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def spec_of(source: str = SOURCE, **changed: Any) -> RunSpec:
    return replace(read(source, filename="digits.yaml", directory="/").spec, **changed)


def launched(spec: RunSpec, *, number: int = 1) -> Launch:
    """The launch of an attempt on two nodes, with what the dialect adds."""
    run = Run(id="r1", spec=spec, user="ada", state=RunState.STARTING, seq=1, created_at=1.0)
    attempt = Attempt(
        run_id="r1",
        number=number,
        state=AttemptState.STARTING,
        engine="local",
        allocation=Allocation(cluster="site-a", placements=tuple(PLACEMENTS)),
        token="secret",
        master_port=29501,
        created_at=2.0,
    )
    return MCLI.apply_conventions(run, attempt, launch(SOURCE, NODES, PLACEMENTS))


def test_the_first_attempt_is_resumption_0() -> None:
    assert [worker.env["RESUMPTION_INDEX"] for worker in workers(launched(spec_of()))] == ["0", "0"]
    assert [worker.env["RESUMPTION_INDEX"] for worker in workers(launched(spec_of(), number=3))] == ["2", "2"]


def test_setup_steps_find_the_family_too() -> None:
    """M8: integrations run with the variables of the platform."""
    env = launched(spec_of(name="digits-a1b2c3")).setup_env
    assert env["RUN_NAME"] == env["COMPOSER_RUN_NAME"] == "digits-a1b2c3"
    assert (env["NUM_NODES"], env["WORLD_SIZE"], env["MOSAICML_PLATFORM"]) == ("2", "4", "true")


def test_the_name_in_wandb_is_set_with_its_integration_only() -> None:
    assert "WANDB_NAME" not in workers(launched(spec_of()))[0].env
    with_it = spec_of(SOURCE + "integrations: [{integration_type: wandb}]\n")
    assert workers(launched(with_it))[0].env["WANDB_NAME"] == with_it.name


def test_a_path_of_the_parameters_that_the_user_sets_stays() -> None:
    spec = spec_of(SOURCE.replace("LR: '0.1'", "PARAMETERS: /mine.yaml"))
    mounts = {mount.target: mount.variables for mount in launched(spec).nodes[0].mounts}
    assert mounts["/mnt/config/parameters.yaml"] == ()


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4))
@example({"_shared": {"lr": 1}, "lr": "1e-3", "__": 0})
def test_parameters_of_any_kind_are_yaml_that_reads_back(parameters: dict[str, Any]) -> None:
    """M7: /mnt/config/parameters.yaml, less what begins with `_`."""
    files = launched(spec_of(parameters=parameters)).nodes[0].files
    kept = {name: value for name, value in parameters.items() if not name.startswith("_")}
    assert yaml.safe_load(files["mcli/parameters.yaml"]) == kept


def test_the_configuration_lies_beside_the_parameters() -> None:
    files = launched(spec_of(name="digits-a1b2c3")).nodes[1].files
    config = yaml.safe_load(files["mcli/run_config.yaml"])
    assert config["name"] == "digits-a1b2c3"
    assert config["compute"] == {"gpus": 4}
    assert config["command"] == "python train.py"
    assert config["env_variables"] == {"LR": "0.1"}
    assert "scheduling" not in config
    assert files["mcli/usercommand.bash"] == "python train.py\n"


@pytest.mark.parametrize(("priority", "word"), [(-1, "low"), (2, "highest"), (7, None)])
def test_the_configuration_has_the_priority_that_holds(priority: int, word: str | None) -> None:
    """M1: what the command line says wins, in the file too."""
    source = SOURCE + "scheduling: {priority: low, max_retries: 1}\n"
    config = yaml.safe_load(
        launched(spec_of(source, priority=priority)).nodes[0].files["mcli/run_config.yaml"]
    )
    assert config["scheduling"] == {"max_retries": 1, **({"priority": word} if word else {})}


@pytest.mark.parametrize("source", ["command: echo\n", "name: a\nimage: bash\ncommand: echo\n"])
def test_a_run_without_parameters_finds_an_empty_file(source: str) -> None:
    assert launched(spec_of(source)).nodes[0].files["mcli/parameters.yaml"] == "{}\n"
