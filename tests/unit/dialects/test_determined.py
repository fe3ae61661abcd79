"""Determined's defaults, changes, ids, drawn values and words, where no server is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tarmac.dialects.dialect import Extras, Report
from tarmac.dialects.kinds import yaml12
from tarmac.dialects.located import Scalar
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.model.spec import Bind, RunSpec
from tarmac.search.space import RandomNumbers, draw
from tarmac.systems.determined.defaults import read_defaults
from tarmac.systems.determined.dialect import determined_dialect
from tarmac.systems.determined.identity import experiment_id, trial_id
from tarmac.systems.determined.search import ranges
from tarmac.systems.determined.statuses import queue_word

PAGE = Path(__file__).parents[3] / "docs/using/dialects/determined.md"
LEAST = "entrypoint: python3 train.py\nsearcher: {name: single, metric: loss}\n"
CLUSTER = {
    "default_priority": 50,
    "checkpoint_storage": {"type": "shared_fs", "host_path": "/shared", "save_trial_best": 3},
    "task_container_defaults": {
        "image": "example/default",
        "environment_variables": ["A=cluster", "B=cluster"],
        "bind_mounts": [
            {"host_path": "/cluster/data", "container_path": "/data"},
            {"host_path": "/cluster/tools", "container_path": "/tools", "read_only": True},
        ],
        "preemption_timeout": 60,
        "log_policies": [{"name": "disk", "pattern": ".*disk.*", "action": "exclude_node"}],
        "startup_hook": "export B=hook",
    },
}


def read(
    text: str, *, changes: tuple[tuple[str, str], ...] = (), cluster: dict[str, Any] | None = None
) -> RunSpec:
    defaults = read_defaults(cluster or {}, filename="settings.toml")
    dialect = determined_dialect(defaults)
    return dialect.read(
        text, filename="const.yaml", directory="/home/ada", extras=Extras(parameters=changes)
    ).spec


def config_of(spec: RunSpec) -> Any:
    return spec.conventions.facts["config"]


def test_what_the_file_leaves_out_the_cluster_says() -> None:
    """D11: task container defaults, storage and priority lie below the configuration."""
    spec = read(LEAST, cluster=CLUSTER)
    assert spec.environment.image == "example/default"
    assert spec.environment.variables == {"A": "cluster", "B": "cluster"}
    assert spec.priority == 42 - 50
    assert spec.pause.grace_s == 60
    assert spec.binds == (
        Bind(source="/cluster/data", target="/data"),
        Bind(source="/cluster/tools", target="/tools", read_only=True),
    )
    assert config_of(spec)["checkpoint_storage"]["host_path"] == "/shared"
    assert spec.conventions.facts["startup_hook"] == "export B=hook"


def test_what_the_file_says_wins_and_lists_are_united() -> None:
    """D11: variables are added, mounts are one for each path, policies one of each name."""
    spec = read(
        LEAST + "environment: {image: {cuda: mine}, environment_variables: [A=mine]}\n"
        "bind_mounts: [{host_path: /mine, container_path: /data}]\n"
        "checkpoint_storage: {save_trial_latest: 9}\npreemption_timeout: 5\nresources: {priority: 1}\n"
        "log_policies: [{name: disk, pattern: mine}, {name: CUDA OOM, action: cancel_retries, pattern: x}]\n",
        cluster=CLUSTER,
    )
    assert spec.environment.image == "mine"
    assert spec.environment.variables == {"A": "mine", "B": "cluster"}
    assert [(bind.source, bind.target) for bind in spec.binds] == [
        ("/mine", "/data"),
        ("/cluster/tools", "/tools"),
    ]
    assert (spec.priority, spec.pause.grace_s) == (41, 5)
    storage = config_of(spec)["checkpoint_storage"]
    assert (storage["type"], storage["save_trial_latest"], storage["save_trial_best"]) == ("shared_fs", 9, 3)
    assert [(item["name"], item["pattern"]) for item in config_of(spec)["log_policies"]] == [
        ("disk", "mine"),
        ("CUDA OOM", "x"),
        ("ECC Error", ".*uncorrectable ECC error encountered.*"),
    ]


def test_log_policies_become_those_of_the_run() -> None:
    """The older form of an action, several of them, the cluster's and the usual ones, which only name."""
    spec = read(
        LEAST + "log_policies:\n  - {pattern: a, action: {type: cancel_retries}}\n"
        "  - {name: two, pattern: b, actions: [cancel_retries, exclude_node, {signal: NOTE}]}\n",
        cluster=CLUSTER,
    )
    assert [(policy.label, policy.pattern, policy.action) for policy in spec.log_policies] == [
        ("a", "a", "cancel_retries"),
        ("two", "b", "cancel_retries"),
        ("two", "b", "exclude_node"),
        ("disk", ".*disk.*", "exclude_node"),
        ("CUDA OOM", ".*CUDA out of memory.*", None),
        ("ECC Error", ".*uncorrectable ECC error encountered.*", None),
    ]


def test_policies_without_a_name_are_kept_apart() -> None:
    """Only what is the same in every field is said once."""
    spec = read(
        LEAST + "log_policies: [{pattern: x}, {pattern: x, action: exclude_node}, {pattern: y}]\n",
        cluster={"task_container_defaults": {"log_policies": [{"pattern": "x"}, {"pattern": "z"}]}},
    )
    kept = [(policy.pattern, policy.action) for policy in spec.log_policies if policy.name is None]
    assert kept == [("x", None), ("x", "exclude_node"), ("y", None), ("z", None)]


def test_a_storage_of_another_type_takes_the_place_of_the_clusters() -> None:
    spec = read(LEAST + "checkpoint_storage: {type: gcs, bucket: b}\n", cluster=CLUSTER)
    assert "host_path" not in config_of(spec)["checkpoint_storage"]


def test_what_every_storage_has_survives_another_type() -> None:
    storage = config_of(
        read(LEAST + "checkpoint_storage: {type: gcs, bucket: b, save_trial_latest: 2}\n", cluster=CLUSTER)
    )["checkpoint_storage"]
    assert (storage["save_trial_best"], storage["save_trial_latest"], storage["bucket"]) == (3, 2, "b")


@pytest.mark.parametrize(
    "written", ["{type: shared_fs}", "{storage_path: mine}", "{type: shared_fs, storage_path: mine}"]
)
def test_the_clusters_settings_complete_a_storage(written: str) -> None:
    """Of the same type, named or not."""
    storage = config_of(read(LEAST + f"checkpoint_storage: {written}\n", cluster=CLUSTER))[
        "checkpoint_storage"
    ]
    assert (storage["type"], storage["host_path"], storage["save_trial_best"]) == ("shared_fs", "/shared", 3)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{type: s3}", "checkpoint_storage: 'bucket' is missing"),
        ("{type: azure, container: c}", "checkpoint_storage: 'connection_string' is missing"),
        ("{type: azure, container: c, account_url: u, connection_string: s}", "connection_string"),
    ],
)
def test_a_storage_that_nobody_completes_is_refused(written: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(LEAST + f"checkpoint_storage: {written}\n", cluster=CLUSTER)
    assert message in str(refused.value)
    with pytest.raises(InvalidInput):
        read_defaults({"checkpoint_storage": {"type": "s3"}}, filename="settings.toml")


def test_a_number_without_a_fraction_is_whole_however_it_is_written() -> None:
    spec = read(
        "entrypoint: a\nmax_restarts: 2.0\nscheduling_unit: 1e3\n"
        "searcher: {name: random, metric: loss, max_trials: 1e1}\n"
        "hyperparameters: {n: {type: int, minval: 1.0, maxval: 1e2}}\n"
    )
    config = config_of(spec)
    assert (config["max_restarts"], config["scheduling_unit"], config["searcher"]["max_trials"]) == (
        2,
        1000,
        10,
    )
    assert repr(config["hyperparameters"]["n"]["maxval"]) == "100"
    with pytest.raises(InvalidInput, match="max_restarts"):
        read(LEAST + "max_restarts: 2.5\n")


def test_a_grid_needs_counts_inside_lists_too() -> None:
    text = (
        "entrypoint: a\nsearcher: {name: grid, metric: loss}\n"
        "hyperparameters: {layers: [{type: int, minval: 1, maxval: 4}, "
        "{lr: {type: log, minval: -5, maxval: -1, base: 10}}, "
        "{type: int, minval: 1, maxval: 4, count: 2}, 3]}\n"
    )
    with pytest.raises(InvalidInput) as refused:
        read(text)
    assert "layers[0]: 'count' is missing" in str(refused.value)
    assert "layers[1].lr: 'count' is missing" in str(refused.value)
    assert "layers[2]" not in str(refused.value)


def test_wrong_defaults_are_told_of_with_their_place() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_defaults({"default_priority": 0, "task_defaults": {}}, filename="settings.toml")
    told = str(caught.value)
    assert "settings.toml: determined.default_priority: a whole number from 1 to 99" in told
    assert "unknown field 'task_defaults' (did you mean 'task_container_defaults'?)" in told


def test_changes_from_the_command_line_reach_any_depth() -> None:
    """D9: a value is YAML, at a dotted path that need not be there."""
    changes = (
        ("resources.slots_per_trial", "4"),
        ("hyperparameters.net.layers", "[1, 2]"),
        ("name", "other"),
        ("description", ""),
        ("max_restarts", "null"),
    )
    spec = read(LEAST + "max_restarts: 1\nname: this\n", changes=changes)
    assert (spec.slots, spec.name, spec.retries) == (4, "other", 5)
    assert config_of(spec)["hyperparameters"] == {"net": {"layers": {"type": "const", "val": [1, 2]}}}
    assert config_of(spec)["description"] == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 0.0001),
        ("1_000", 1000),
        ("0x10", 16),
        ("010", 10),
        (".5", 0.5),
        ("4.", 4.0),
        ("yes", "yes"),
        ("True", True),
        ("~", None),
        (".inf", ".inf"),
        ("2024-01-01", "2024-01-01"),
        ("1:30", "1:30"),
        ("0x", "0x"),
    ],
)
def test_words_are_read_as_yaml_1_2_has_them(text: str, value: Any) -> None:
    found = yaml12(Scalar(text=text))
    assert found == value
    assert type(found) is type(value)


def test_a_trial_draws_the_same_values_for_the_same_seed_within_their_bounds() -> None:
    """D10: one value of each hyperparameter."""
    parameters = {
        "a": {"type": "int", "minval": 1, "maxval": 3},
        "b": {"type": "log", "base": 10, "minval": -3, "maxval": -1},
        "c": {"type": "categorical", "vals": ["x", "y"]},
        "d": {"e": {"type": "double", "minval": 0.5, "maxval": 0.6}, "f": {"type": "const", "val": [1]}},
    }
    space = tuple(ranges(parameters))
    trials = [draw(space, RandomNumbers(seed))[0] for seed in range(200)]
    assert trials[7] == draw(space, RandomNumbers(7))[0]
    assert {trial["a"] for trial in trials} == {1, 2, 3}
    assert {trial["c"] for trial in trials} == {"x", "y"}
    assert all(0.001 <= trial["b"] <= 0.1 and 0.5 <= trial["d"]["e"] <= 0.6 for trial in trials)
    assert all(trial["d"]["f"] == [1] for trial in trials)


def test_numbers_of_experiments_and_trials_fit_and_stay() -> None:
    assert experiment_id("r1") == experiment_id("r1") != experiment_id("r2")
    assert experiment_id("r1") != trial_id("r1")
    assert all(0 < experiment_id(f"r{index}") < 2**31 for index in range(1000))


@pytest.mark.parametrize(
    ("state", "outcome", "word", "queued"),
    [
        (RunState.QUEUED, None, "QUEUED", "STATE_QUEUED"),
        (RunState.STARTING, None, "STARTING", "STATE_SCHEDULED"),
        (RunState.RUNNING, None, "RUNNING", "STATE_SCHEDULED"),
        (RunState.PAUSED, None, "PAUSED", None),
        (RunState.STOPPING, None, "STOPPING_CANCELED", "STATE_SCHEDULED"),
        (RunState.ENDED, Outcome.COMPLETED, "COMPLETED", None),
        (RunState.ENDED, Outcome.STOPPED, "CANCELED", None),
        (RunState.ENDED, Outcome.FAILED, "ERROR", None),
    ],
)
def test_states_have_the_words_of_determined(
    state: RunState, outcome: Outcome | None, word: str, queued: str | None
) -> None:
    """D13: an experiment's state, and its state in the job queue."""
    assert determined_dialect().status(Report(state=state, outcome=outcome)) == word
    assert queue_word(state) == queued


def test_every_state_has_a_word() -> None:
    assert all(determined_dialect().status(Report(state=state)) for state in RunState)
