"""Experiments for people: the table of parameters against metrics, and the picture of it (D10)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from tarmac import api
from tarmac.cli.commands.search import sweep_of, unreported
from tarmac.cli.views.experimentview import preview_text, trials_table
from tarmac.cli.views.metricplot import Drawn, plot_trials
from tarmac.cli.views.terminal import Terminal
from tarmac.systems.determined.command import is_one_run

PLAIN = Terminal()
RANGES = {"lr": {"log": [1e-4, 1e-1]}, "act": {"choice": ["relu", "gelu"]}, "epochs": 3}


def experiment(metric: str) -> api.Experiment:
    search = api.Search(
        method="random",
        metric=metric,
        smaller_is_better=True,
        parameters=RANGES,
        seed=0,
        max_trials=None,
        max_concurrent_trials=16,
        max_time=None,
        time_metric=None,
        max_slots=None,
    )
    return api.Experiment(
        id="e1",
        name="digits",
        project="default",
        user="ada",
        dialect="native",
        state="active",
        outcome=None,
        message=None,
        progress=0.0,
        created_at=0.0,
        ended_at=None,
        archived=False,
        parent=None,
        search=search,
        source="",
        labels={},
        warnings=[],
    )


def trial(number: int, lr: float, best: float | None) -> api.Trial:
    return api.Trial(
        number=number,
        run=f"r{number}",
        name="digits",
        parameters={"lr": lr, "act": "relu", "epochs": 3},
        state="ended",
        run_state="ended",
        end="completed",
        length=None,
        latest=best,
        at=2,
        best=best,
        best_at=2,
        attempt=1,
        slot_s=0.0,
    )


def series(number: int, values: list[float], name: str = "loss") -> api.MetricSeries:
    steps = list(range(len(values)))
    return api.MetricSeries(
        run=f"r{number}",
        run_name=f"digits-{number}",
        group="training",
        name=name,
        rank=0,
        count=len(values),
        last=values[-1],
        last_step=steps[-1],
        last_at=0.0,
        low=min(values),
        low_step=None,
        high=max(values),
        high_step=None,
        points=api.MetricPoints(
            steps=steps, times=[float(step) for step in steps], values=values, total=len(steps)
        ),
    )


def test_trials_are_parameters_against_the_metric() -> None:
    table = trials_table(experiment("loss"), [trial(1, 0.001, 0.25)], PLAIN).splitlines()
    assert re.split(r"  +", table[0].strip())[:6] == ["TRIAL", "lr", "act", "BEST loss", "AT", "LAST loss"]
    assert table[1].split()[:6] == ["1", "0.001", "relu", "0.25", "2", "0.25"]


class Reported:
    """A client whose runs reported these metrics."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def metrics(self, *_runs: str) -> Any:
        return [series(1, [0.0], name) for name in self._names]


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (("loss", "acc"), "did you mean loss?"),
        (("a", "b"), "they reported a, b"),
        ((), None),
    ],
)
def test_a_metric_that_no_trial_reported_is_said_with_those_that_they_did(
    names: tuple[str, ...], hint: str | None
) -> None:
    client: Any = Reported(*names)
    refusal = unreported(client, experiment("lss"), [trial(1, 0.1, None)])
    assert (refusal.message, refusal.hint) == ("no trial of digits has reported lss", hint)


def test_a_preview_counts_trials() -> None:
    lines = [api.PreviewLine(1, None), api.PreviewLine(2, 5)]
    assert preview_text(lines).splitlines() == ["1 trial to its own end", "2 trials of length 5"]


def test_a_parameter_is_swept_once() -> None:
    assert sweep_of([("lr", "1,2"), ("seed", "0..3")]) == {"lr": "1,2", "seed": "0..3"}
    with pytest.raises(click.UsageError, match="give all its values at once: lr=1,2"):
        sweep_of([("lr", "1"), ("lr", "2")])


def test_a_file_of_one_run_is_told_from_a_configuration() -> None:
    assert is_one_run("name: a\ncommand: python3 train.py\n")
    assert not is_one_run("name: a\nentrypoint: python3 train.py\ncommand: x\n")
    assert not is_one_run("name: a\nserver: {command: x}\n")


def test_a_sweep_without_a_metric_shows_what_its_trials_reported() -> None:
    found = [series(1, [1.0, 0.5]), series(1, [0.1], "acc"), series(2, [2.0])]
    table = trials_table(
        experiment(""), [trial(1, 0.1, None), trial(2, 0.2, None)], PLAIN, found
    ).splitlines()
    assert re.split(r"  +", table[0].strip())[:5] == ["TRIAL", "lr", "act", "LAST loss", "LAST acc"]
    assert table[1].split()[:5] == ["1", "0.1", "relu", "0.5", "0.1"]
    assert table[2].split()[:4] == ["2", "0.2", "relu", "2"]


def test_the_picture_has_curves_and_a_panel_for_each_parameter(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    trials = [trial(1, 0.001, 0.25), trial(2, 0.01, 0.5), trial(3, 0.1, None)]
    drawn = Drawn(
        experiment=experiment("loss"),
        trials=trials,
        metric="loss",
        series=[series(1, [1.0, 0.25]), series(2, [1.0, 0.5])],
        values={"r1": 0.25, "r2": 0.5},
        best=trials[0],
    )
    plot_trials(drawn, tmp_path / "out.svg")
    text = (tmp_path / "out.svg").read_text(encoding="utf-8")
    for title in ("digits: loss of 2 trials", "loss by lr", "loss by act", "best: trial 1, 0.25"):
        assert f"<!-- {title} -->" in text
    assert "loss by epochs" not in text
