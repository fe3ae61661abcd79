"""The SDK: checkpoints that are whole or not there, reports, the pause file; inside a run and outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tarmac
from tarmac.node.attempt import protocol


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The variables of a run, all of its files below the directory returned."""
    monkeypatch.setenv(protocol.CHECKPOINT_VARIABLE, str(tmp_path / "checkpoint"))
    monkeypatch.setenv(protocol.PAUSE_VARIABLE, str(tmp_path / "pause"))
    monkeypatch.setenv(protocol.FINISHED_VARIABLE, str(tmp_path / "finished"))
    monkeypatch.setenv(protocol.REPORTS_VARIABLE, str(tmp_path / "reports.jsonl"))
    return tmp_path


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        protocol.CHECKPOINT_VARIABLE,
        protocol.PAUSE_VARIABLE,
        protocol.FINISHED_VARIABLE,
        protocol.REPORTS_VARIABLE,
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def visible(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


def save(text: str, step: int | None = None, *, keep: int | None = None) -> None:
    with tarmac.checkpoint(step, keep=keep) as directory:
        (directory / "state").write_text(text)


def save_half(step: int) -> None:
    with tarmac.checkpoint(step) as directory:
        (directory / "state").write_text("half")
        raise ValueError("torn")


def latest_text() -> str:
    found = tarmac.latest_checkpoint()
    assert found is not None
    return (found / "state").read_text()


def test_a_checkpoint_becomes_the_latest(inside: Path) -> None:
    assert tarmac.latest_checkpoint() is None
    save("ten", 10)
    assert tarmac.latest_checkpoint() == inside / "checkpoint/step-10"
    save("twenty", 20)
    assert latest_text() == "twenty"
    assert visible(inside / "checkpoint") == ["latest", "step-10", "step-20"]
    assert not [path for path in (inside / "checkpoint").iterdir() if path.name.startswith(".")]


def test_after_an_exception_nothing_is_seen(inside: Path) -> None:
    save("good", 1)
    with pytest.raises(ValueError, match="torn"):
        save_half(2)
    assert latest_text() == "good"
    assert [path.name for path in (inside / "checkpoint").iterdir() if "step-1" not in path.name] == [
        "latest"
    ]


def test_the_same_step_again_touches_nothing_that_was_whole(inside: Path) -> None:
    save("first", 5)
    save("second", 5)
    assert latest_text() == "second"
    assert (inside / "checkpoint/step-5/state").read_text() == "first"


def test_without_a_step_the_number_counts_on(inside: Path) -> None:
    save("a")
    save("b", 40)
    save("c")
    assert visible(inside / "checkpoint") == ["latest", "step-1", "step-40", "step-41"]


def test_keep_removes_the_oldest_never_the_latest(inside: Path) -> None:
    for step in (3, 2, 1):
        save(str(step), step, keep=2)
    assert visible(inside / "checkpoint") == ["latest", "step-1", "step-2"]
    save("only", 9, keep=0)
    assert visible(inside / "checkpoint") == ["latest", "step-9"]


def test_a_latest_that_somebody_removed(inside: Path) -> None:
    save("gone", 1)
    (inside / "checkpoint/step-1/state").unlink()
    (inside / "checkpoint/step-1").rmdir()
    assert tarmac.latest_checkpoint() is None


def test_the_artifact_directory_may_be_seen_under_another_path(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save("moved", 1)
    (inside / "checkpoint").rename(inside / "elsewhere")
    monkeypatch.setenv(protocol.CHECKPOINT_VARIABLE, str(inside / "elsewhere"))
    assert latest_text() == "moved"


def test_reports_are_lines(inside: Path) -> None:
    tarmac.report(step=3, progress=0.5, loss=0.25, lr="cosine", epoch=1)
    tarmac.report(loss=float("nan"), other=float("inf"))
    first, second = map(json.loads, (inside / "reports.jsonl").read_text().splitlines())
    assert first.pop("at") > 0
    assert first == {
        "rank": 0,
        "step": 3,
        "group": "training",
        "progress": 0.5,
        "metrics": {"loss": 0.25, "lr": "cosine", "epoch": 1},
    }
    assert second["metrics"] == {"loss": "nan", "other": "inf"}


def test_where_the_run_asks_for_it_a_metric_that_is_not_finite_ends_the_process(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N8: the report is written first, and only such a metric ends it."""
    monkeypatch.setenv("TARMAC_STOP_ON_NAN", "1")
    tarmac.report(step=1, loss=0.5, note="nancy")
    with pytest.raises(SystemExit, match="loss is nan at step 2, and the run asks to stop_on_nan"):
        tarmac.report(step=2, loss=float("nan"))
    steps = [json.loads(line)["step"] for line in (inside / "reports.jsonl").read_text().splitlines()]
    assert steps == [1, 2]


def test_a_tensor_of_one_number_is_that_number(inside: Path) -> None:
    class Tensor:
        def __float__(self) -> float:
            return 1.5

    tarmac.report(loss=Tensor(), shape=(2, 3))
    (line,) = (inside / "reports.jsonl").read_text().splitlines()
    assert json.loads(line)["metrics"] == {"loss": 1.5, "shape": "(2, 3)"}


def test_a_full_disk_does_not_disturb_training(inside: Path) -> None:
    (inside / "reports.jsonl").symlink_to("/dev/full")
    tarmac.report(loss=1.0)


def test_lines_of_many_processes_never_mix(inside: Path) -> None:
    script = "import tarmac\nfor n in range(200): tarmac.report(step=n, text='x' * 6000)"
    workers = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(4)]
    assert [process.wait(60) for process in workers] == [0] * 4
    lines = (inside / "reports.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["step"] for line in lines) == sorted(list(range(200)) * 4)


def test_pause_and_finished(inside: Path) -> None:
    assert not tarmac.should_pause()
    (inside / "pause").touch()
    assert tarmac.should_pause()
    tarmac.finished()
    tarmac.finished()
    assert (inside / "finished").exists()


def test_outside_a_run(outside: Path) -> None:
    assert not tarmac.should_pause()
    tarmac.report(step=1, loss=2.0)
    tarmac.finished()
    assert list(outside.iterdir()) == []
    save("here", 1)
    assert (outside / "checkpoints/step-1/state").read_text() == "here"
    assert tarmac.latest_checkpoint() is None, "a run by hand never resumes by surprise"


def test_outside_a_run_no_end_is_set(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(protocol.LEAVE_VARIABLE, raising=False)
    assert tarmac.time_left() is None
