"""Experiments for people: the table of parameters against metrics, and the picture of it (D10)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tarmac.cli.views.experimentplot import Drawn, plot_trials
from tarmac.cli.views.experimentview import trials_table
from tarmac.cli.views.terminal import Terminal

PLAIN = Terminal()
RANGES = {"lr": {"log": [1e-4, 1e-1]}, "act": {"choice": ["relu", "gelu"]}, "epochs": 3}


def experiment(metric: str) -> Any:
    search = {"metric": metric, "smaller_is_better": True, "parameters": RANGES}
    return {"id": "e1", "name": "digits", "search": search}


def trial(number: int, lr: float, best: float | None) -> Any:
    return {
        **{"number": number, "run": f"r{number}", "parameters": {"lr": lr, "act": "relu", "epochs": 3}},
        **{"best": best, "best_at": 2, "latest": best, "end": "completed", "state": "ended"},
    }


def series(number: int, values: list[float], name: str = "loss") -> Any:
    steps = list(range(len(values)))
    points = {"steps": steps, "times": [float(step) for step in steps], "values": values}
    return {
        "run": f"r{number}",
        "run_name": f"digits-{number}",
        "name": name,
        "last": values[-1],
        "points": points,
    }


def test_trials_are_parameters_against_the_metric() -> None:
    table = trials_table(experiment("loss"), [trial(1, 0.001, 0.25)], PLAIN).splitlines()
    assert re.split(r"  +", table[0].strip())[:6] == ["TRIAL", "lr", "act", "BEST loss", "AT", "LAST loss"]
    assert table[1].split()[:6] == ["1", "0.001", "relu", "0.25", "2", "0.25"]


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
