"""Metrics for people: a table, curves of blocks, pictures, and how options are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tarmac import api
from tarmac.cli.commands.metrics import _refuse_several
from tarmac.cli.views.metricplot import blocks, curves_text, plot
from tarmac.cli.views.metricview import series_table
from tarmac.cli.views.plotting import require_plotting
from tarmac.cli.views.terminal import Terminal
from tarmac.model.errors import InvalidInput

PLAIN = Terminal()


def series(
    run: str, name: str = "loss", *, group: str = "training", values: Any = (4.0, 2.0)
) -> api.MetricSeries:
    steps = list(range(len(values)))
    points = api.MetricPoints(
        steps=steps, times=[980.0 + step for step in steps], values=list(values), total=len(steps)
    )
    return api.MetricSeries(
        run=f"r-{run}",
        run_name=run,
        group=group,
        name=name,
        rank=0,
        count=len(values),
        last=values[-1],
        last_step=steps[-1],
        last_at=990.0,
        low=2.0,
        low_step=1,
        high=4.0,
        high_step=0,
        points=points,
    )


def test_runs_stand_below_one_another_by_metric() -> None:
    found = [series("a"), series("a", group="validation"), series("b", values=(4.0, "nan"))]
    lines = series_table(found, now=1000.0, terminal=PLAIN).splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["METRIC", "RUN", "LAST", "STEP"],
        ["loss", "a", "2", "1"],
        ["loss", "b", "NaN", "1"],
        ["validation/loss", "a", "2", "1"],
    ]
    assert "RUN" not in series_table(found[:1], now=1000.0, terminal=PLAIN)
    twins = series_table([series("a"), replace(series("a"), run="r-2")], now=1000.0, terminal=PLAIN)
    assert "r-a" in twins
    assert "r-2" in twins


def test_curves_of_one_metric_share_their_scale() -> None:
    text = curves_text([series("a", values=(0.0, 10.0)), series("b", values=(5.0, "nan"))], PLAIN)
    assert [line.split() for line in text.splitlines()] == [
        ["METRIC", "RUN", "CURVE", "FIRST", "LAST"],
        ["loss", "a", "\u2581\u2588", "0", "10"],
        ["loss", "b", "\u2585!", "5", "NaN"],
    ]


def test_many_values_share_a_column() -> None:
    assert blocks(range(1000), low=0, high=999, width=8) == "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
    assert blocks([1.0, 1.0], low=1.0, high=1.0, width=8) == "\u2585\u2585"
    assert blocks([], low=0.0, high=0.0, width=8) == ""


@pytest.mark.parametrize("name", ["curves.png", "curves.svg"])
def test_a_picture_is_drawn(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    require_plotting(str(path))
    found = [series("a"), series("b", values=(1.0, "nan", 3.0)), series("b", "acc", values=(1.0,))]
    found[2] = replace(found[2], points=replace(found[2].points, steps=[None]))
    plot(found, path)
    content = path.read_bytes()
    assert content.startswith((b"\x89PNG", b"<?xml"))
    assert len(content) > 5000


def test_what_cannot_be_drawn_is_refused_before_anything_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"\.png or \.svg"):
        require_plotting("run-2")
    with pytest.raises(InvalidInput, match="no directory"):
        require_plotting(str(tmp_path / "no" / "a.png"))


def test_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(InvalidInput, match="--csv and --plot do not go together"):
        _refuse_several(["--csv", "--plot"])
    _refuse_several(["--csv"])
