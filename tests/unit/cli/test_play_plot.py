"""Plots: a picture of each kind; a missing library or a wrong name is said before anything is played."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tarmac.cli.views.playplot import plot
from tarmac.cli.views.plotting import require_plotting
from tarmac.model.cluster import Policy
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.simulator.comparing import Result, Setting, play
from tarmac.simulator.jobs import Job, Trace
from tarmac.simulator.playing import Rules
from tarmac.simulator.shapes import shape_of


def played(first_at: float) -> list[tuple[Setting, Result]]:
    cluster = shape_of("1x2")
    assert cluster is not None
    jobs = tuple(
        Job(id=str(number), name="j", submitted_at=first_at + number * 10.0, duration_s=60.0, slots=1)
        for number in range(30)
    )
    trace = Trace(name="small", form="csv", jobs=jobs)
    settings = [
        Setting(label=policy.value, trace=trace, cluster=cluster, rules=Rules(policy=policy))
        for policy in (Policy.PRIORITY, Policy.LEAST_ATTAINED)
    ]
    return [(setting, play(setting)) for setting in settings]


@pytest.mark.parametrize(
    ("name", "first_at", "begins", "says"),
    [
        ("plot.png", 0.0, b"\x89PNG", b""),
        ("plot.svg", 1.5e9, b"<?xml", b"</svg>"),
    ],
)
def test_a_picture_is_drawn(tmp_path: Path, name: str, first_at: float, begins: bytes, says: bytes) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    plot(played(first_at), path)
    content = path.read_bytes()
    assert content.startswith(begins)
    assert says in content
    assert len(content) > 10_000


@pytest.mark.parametrize(
    ("name", "said"), [("plot.pdf", "ends in .png or .svg"), ("nowhere/plot.png", "no directory")]
)
def test_a_file_that_cannot_be_drawn_is_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        require_plotting(str(tmp_path / name))


def test_without_the_library_it_is_said_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Unavailable) as raised:
        require_plotting(str(tmp_path / "plot.png"))
    assert raised.value.hint == f"install matplotlib for {sys.executable}"
