"""`det experiment continue`: experiments that have ended go on, also by a changed configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from determined_calls import DeterminedCalls
from determined_experiments import GRID, create, logged_in, states, turn
from served import Served, served
from sim_engine import Behaviour

ONE = """\
name: one
entrypoint: python3 train.py
hyperparameters: {lr: 0.5, depth: 2}
searcher: {name: single, metric: loss, max_length: {batches: 20}}
max_restarts: 0
"""


def end(here: Served) -> None:
    for _ in range(5):
        turn(here, 10.0)


def go_on(calls: DeterminedCalls, override: Any = "{}", *, code: int = 200) -> Any:
    status, found = calls.post("/api/v1/experiments/continue", {"id": 1, "overrideConfig": override})
    assert status == code, found
    return found["experiment"] if code == 200 else found["message"]


def trials(calls: DeterminedCalls) -> list[tuple[int, Any, str]]:
    found = calls.get("/api/v1/experiments/1/trials")[1]["trials"]
    return [(each["id"], each["hparams"], each["state"]) for each in found]


def test_a_trial_that_completed_goes_on_by_another_configuration(
    here: Served, calls: DeterminedCalls
) -> None:
    create(calls, ONE)
    create(calls, ONE)
    end(here)
    assert states(calls, 1)[0] == "STATE_COMPLETED"
    assert calls.ask("PATCH", "/api/v1/experiments/1", {"name": "renamed", "notes": "kept"})[0] == 200
    [first] = here.plane.control.store.experiments.trials(
        calls.get("/api/v1/experiments/1")[1]["experiment"]["jobId"]
    )
    found = go_on(
        calls, "searcher: {max_length: {epochs: 3}}\nhyperparameters: {lr: 0.25}\nrecords_per_epoch: 5\n"
    )
    assert (found["name"], found["notes"], found["state"]) == ("renamed", "kept", "STATE_QUEUED")
    assert found["config"]["searcher"]["max_length"] == {"epochs": 3}
    assert found["config"]["hyperparameters"] == {
        "lr": {"type": "const", "val": 0.25},
        "depth": {"type": "const", "val": 2},
    }
    assert trials(calls) == [(1, {"lr": 0.25, "depth": 2}, "STATE_QUEUED")], "a trial keeps its number"
    assert calls.get("/api/v1/trials/1")[1]["trial"]["experimentId"] == 1
    [now] = here.plane.control.store.experiments.trials(first.experiment)
    assert now.run_id != first.run_id
    run = here.plane.control.store.run(now.run_id)
    assert run is not None
    assert (run.spec.parameters, run.code_digest is not None) == ({"lr": 0.25, "depth": 2}, True)
    end(here)
    assert states(calls, 1) == ("STATE_COMPLETED", ["STATE_COMPLETED"])
    again = go_on(calls, "description: once more")
    assert again["config"]["searcher"]["max_length"] == {"epochs": 3}, "what was changed stays"


def test_one_that_failed_goes_on_with_the_configuration_that_it_has(tmp_path: Path) -> None:
    with served(
        tmp_path / "home", behaviour=lambda _: Behaviour(duration_s=5.0, exit_code=1), keeps_code=True
    ) as here:
        calls = logged_in(here)
        create(calls, ONE)
        end(here)
        assert trials(calls) == [(1, {"lr": 0.5, "depth": 2}, "STATE_ERROR")]
        assert go_on(calls)["state"] == "STATE_QUEUED"
        assert trials(calls) == [(1, {"lr": 0.5, "depth": 2}, "STATE_QUEUED")]


@pytest.mark.parametrize(
    ("config", "override", "words"),
    [
        (ONE, "searcher: {nam: grid}", "did you mean 'name'"),
        (ONE, "[1, 2]", "fields such as"),
        (ONE, 7, "the text of a configuration is expected"),
        (ONE, "searcher: {name: random, max_trials: 2}", "an experiment of a single trial"),
        (GRID, "max_restarts: 2", "an experiment of a single trial"),
        (GRID, "{}", "every trial has completed"),
        (ONE, "{}", "every trial has completed"),
    ],
)
def test_what_cannot_be_continued(
    here: Served, calls: DeterminedCalls, config: str, override: Any, words: str
) -> None:
    create(calls, config)
    end(here)
    message = go_on(calls, override, code=409 if "single" in words or "every" in words else 400)
    assert words in message
    assert states(calls, 1)[0] == "STATE_COMPLETED"


def test_one_that_runs_is_not_continued(here: Served, calls: DeterminedCalls) -> None:
    create(calls, ONE)
    turn(here)
    assert "has not ended" in go_on(calls, "max_restarts: 1", code=409)
