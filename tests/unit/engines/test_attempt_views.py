"""What the local engine makes of an attempt's directory."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path, PosixPath

import pytest

from tarmac.engines.attempts.view import NodeView, open_view
from tarmac.model.progress import Cause, CauseCode, SavedWork
from tarmac.node.attempt import claims, protocol
from tarmac.node.attempt.document import Launch, NodeLaunch, to_json
from tarmac.node.attempt.events import EventLog
from tarmac.node.attempt.protocol import NodePaths

PART = NodeLaunch(node="n1", rank=0, workers=())


class Coming(PosixPath):
    """A directory that comes to its place, whole, at the moment somebody asks whether it is there."""

    def is_dir(self) -> bool:
        _stage(Path(self))
        return True


def test_an_attempt_that_comes_while_it_is_looked_for_is_not_damaged(tmp_path: Path) -> None:
    view = open_view("r1.1", Coming(tmp_path / "1"))
    assert view is not None
    assert (view.damage, view.token) == (None, "t")


def test_only_what_is_there_and_cannot_be_read_is_damaged(tmp_path: Path) -> None:
    assert open_view("r1.1", tmp_path / "none") is None
    (tmp_path / "torn").mkdir()
    torn = open_view("r1.1", tmp_path / "torn")
    assert torn is not None
    assert "the disk lost it" in str(torn.damage)


def test_the_newest_word_on_what_is_kept_counts(tmp_path: Path) -> None:
    """Also that nothing is: what was kept before was cut short."""
    paths = NodePaths(str(tmp_path))
    claims.take(paths, "t", pid=os.getpid())
    events = EventLog(paths.events)
    view = NodeView(paths, PART)
    seen = []
    for kept in ({"saved_at": 8.0, "step": 3}, {"saved_at": 9.5}, {"saved_at": 0.0}):
        events.append("artifact_kept", **kept)
        events.flush()
        view.refresh()
        seen.append(view.facts.milestones.kept)
    assert seen == [SavedWork(8.0, 3), SavedWork(9.5), SavedWork(0.0)]


def test_a_lost_node_ends_at_its_last_sign_of_life(tmp_path: Path) -> None:
    """The heartbeat is renewed every few seconds: it may be older than the start."""
    paths = NodePaths(str(tmp_path))
    claims.take(paths, "t", pid=os.getpid())
    events = EventLog(paths.events)
    events.append("running")
    events.flush()
    Path(paths.heartbeat).touch()
    os.utime(paths.heartbeat, (time.time() - 4.0,) * 2)
    ends = []
    for alive_at in (None, time.time() - 0.5, time.time() + 9.0):
        view = NodeView(paths, PART)
        view.refresh()
        view.alive_at = alive_at
        view.lose(Cause(code=CauseCode.PLATFORM_FAULT, message="it died"))
        ends.append((view.facts.ended_at, view.facts.started_at))
    started_at = ends[0][1]
    assert started_at is not None
    assert ends == [(started_at, started_at), (started_at, started_at), (alive_at, started_at)]


@pytest.mark.parametrize(
    "written",
    [
        "",
        "[]",
        "{}",
        '{"at": "now", "memory_bytes": 1, "cpus": 1, "gpus": []}',
        '{"at": 1, "memory_bytes": 1e400, "cpus": 1, "gpus": []}',
        '{"at": 1, "memory_bytes": 1, "cpus": 1, "gpus": 5}',
        '{"at": 1, "memory_bytes": 1, "cpus": 1, "gpus": [{"index": 0}]}',
        '{"at": 1, "memory_bytes": 1, "cpus": 1, "gpus": ' + "[" * 100_000,
    ],
)
def test_what_a_run_has_written_in_the_place_of_its_figures_is_no_figure(
    tmp_path: Path, written: str
) -> None:
    (tmp_path / protocol.UTILIZATION_FILE).write_text(written)
    assert NodeView(NodePaths(str(tmp_path)), PART).utilization() is None


def test_figures_that_cannot_be_are_cut_to_what_can(tmp_path: Path) -> None:
    (tmp_path / protocol.UTILIZATION_FILE).write_text(
        '{"at": 9e99, "memory_bytes": -5, "cpus": NaN, "gpus": '
        '[{"index": 0, "busy_percent": 900, "used_bytes": 1, "total_bytes": 1' + "0" * 40 + "}]}"
    )
    found = NodeView(NodePaths(str(tmp_path)), PART).utilization()
    assert found is not None
    assert found.at <= time.time()
    assert (found.memory_bytes, found.cpus, found.gpus[0].busy_percent) == (0, 0.0, 100)


def _stage(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    document = to_json(Launch("r1.1", number=1, token="t", nodes=()))
    (directory / protocol.ATTEMPT_FILE).write_text(json.dumps(document), encoding="utf-8")
