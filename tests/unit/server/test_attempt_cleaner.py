"""What ended runs left is cleared up by age (C8), and never what a run still needs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from scratch_store import ScratchStore
from simulated import spec
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.hosts.engine import cleared_notices
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Run
from tarmac.node.attempt import clearing
from tarmac.server.storage.cleaners import AttemptCleaner

DAY_S = 86_400.0
NOW = 1_700_000_000.0


class Runs(ScratchStore):
    """A store that holds these runs, and counts which it was asked for."""

    def __init__(self, runs: Sequence[Run]) -> None:
        super().__init__()
        self._given = {run.id: run for run in runs}
        self.asked: list[str] = []

    def live_runs(self) -> list[Run]:
        return [run for run in self._given.values() if run.state is not RunState.ENDED]

    def load_runs(self, run_ids: Sequence[str]) -> dict[str, Run]:
        self.asked += run_ids
        return {run_id: self._given[run_id] for run_id in run_ids if run_id in self._given}


class Engine:
    """Clears up below a home, as engines do."""

    def __init__(self, home: Path) -> None:
        self._layout = Layout(home)

    def remains(self) -> Collection[str]:
        return clearing.remains(str(self._layout.runs))

    def clear(self, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
        return clearing.clear(str(self._layout.runs / run_id), work_days=work_days, log_days=log_days)

    def clear_copies(self, live: Collection[str], *, unused_days: float) -> int:
        return 0


class Away(Engine):
    """One that cannot be reached."""

    def remains(self) -> Collection[str]:
        raise Unavailable("no route to host")


class Left:
    """What runs left, and the cleaner that clears it up, at a time of the test's choice."""

    def __init__(self, place: Path) -> None:
        self.runs = place / "home" / "runs"
        self.precious = place / "precious"
        self.clock = VirtualClock(NOW)
        self.engines: dict[str, Engine] = {"": Engine(place / "home")}

    def cleaner(
        self, *known: Run, work_days: float = 14.0, log_days: float = 100.0
    ) -> tuple[AttemptCleaner, Runs]:
        store = Runs(known)
        cleaner = AttemptCleaner(
            store,
            self.clock,
            engines=lambda: self.engines,
            work_days=work_days,
            log_days=log_days,
            answer_s=60.0,
        )
        return cleaner, store

    def tidy(self, *known: Run, work_days: float = 14.0, log_days: float = 100.0) -> None:
        self.cleaner(*known, work_days=work_days, log_days=log_days)[0].tidy()

    def attempt(self, run_id: str) -> Path:
        """The directory of an attempt of a run, with a link to something else."""
        attempt = self.runs / run_id / "attempts" / "1"
        node = attempt / "nodes" / "node1"
        for directory in (node / "work" / "sub", node / "venv" / "bin", node / "files", attempt / "logs"):
            directory.mkdir(parents=True)
        for kind in ("checkpoint", "crud", "lossy", "log"):
            (self.runs / run_id / "artifacts" / kind).mkdir(parents=True)
        (node / "work" / "sub" / "model.bin").write_text("weights")
        (node / "work" / "home").symlink_to(self.precious)
        for name in ("events.jsonl", "claim", "heartbeat", "wake", "reports.jsonl", "polls.main.0.0"):
            (node / name).touch()
        for name in ("attempt.json", "logs/main.0.0.log"):
            (attempt / name).touch()
        return attempt


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


def run(run_id: str, *, ended_days_ago: float | None = None) -> Run:
    """A run that waits, or one that has ended."""
    return Run(
        id=run_id,
        user="ada",
        seq=1,
        spec=spec(),
        state=RunState.QUEUED if ended_days_ago is None else RunState.ENDED,
        created_at=0.0,
        ended_at=None if ended_days_ago is None else NOW - ended_days_ago * DAY_S,
    )


def names(attempt: Path) -> set[str]:
    return {str(path.relative_to(attempt)) for path in attempt.rglob("*")}


HISTORY = {"attempt.json", "cleared", "nodes", "nodes/node1", *(
    f"nodes/node1/{name}" for name in ("claim", "events.jsonl", "reports.jsonl")
)}  # fmt: skip
LOGS = {"logs", "logs/main.0.0.log"}


def test_what_a_run_worked_in_goes_by_age_and_its_logs_later_c8(left: Left) -> None:
    """C8: a working directory stays after the end, and is cleaned up later by age; the history stays."""
    ages = {"live": None, "oldest": 101.0, "old": 15.0, "young": 13.0}
    attempts = {name: left.attempt(name) for name in (*ages, "unknown")}
    whole = names(attempts["live"])
    left.tidy(*(run(name, ended_days_ago=days) for name, days in ages.items()))
    assert [names(attempts[name]) for name in ("live", "young", "unknown")] == [whole] * 3
    assert names(attempts["old"]) == HISTORY | LOGS
    assert names(attempts["oldest"]) == HISTORY


def test_what_was_removed_is_said(left: Left) -> None:
    attempt = left.attempt("a")
    left.tidy(run("a", ended_days_ago=15))
    work = "its work directories, and what was installed for it, were removed 14 days after its end"
    assert [notice.text for notice in cleared_notices(attempt, "n")] == [work]
    left.tidy(run("a", ended_days_ago=101), log_days=1)
    texts = [notice.text for notice in cleared_notices(attempt, "n")]
    assert texts == [work, "its logs were removed 1 day after its end"]


def test_what_a_run_itself_says_was_removed_is_no_text_of_its_own(left: Left) -> None:
    attempt = left.attempt("a")
    (attempt / "cleared").write_text(json.dumps({"work": "now!", "logs": [1], "other": 3}))
    assert list(cleared_notices(attempt, "n")) == []


def test_empty_artifact_directories_go_and_others_stay(left: Left) -> None:
    left.attempt("a")
    left.attempt("b")
    checkpoint = left.runs / "b" / "artifacts" / "checkpoint" / "step-1"
    checkpoint.touch()
    left.tidy(run("a", ended_days_ago=15), run("b", ended_days_ago=15))
    assert not (left.runs / "a" / "artifacts").exists()
    assert [path.name for path in (left.runs / "b" / "artifacts").iterdir()] == ["checkpoint"]
    assert checkpoint.exists()


def test_always_is_a_number_of_days_as_well(left: Left) -> None:
    attempt = left.attempt("a")
    whole = names(attempt)
    left.tidy(run("a", ended_days_ago=10_000), work_days=float("inf"), log_days=float("inf"))
    assert names(attempt) == whole


def test_a_run_is_asked_for_again_only_when_something_of_it_is_due(left: Left) -> None:
    attempt = left.attempt("a")
    cleaner, store = left.cleaner(run("a", ended_days_ago=13))
    for days in (0, 0.5, 0.5, 1, 85, 1, 1):
        left.clock.advance(days * DAY_S)
        cleaner.tidy()
    assert store.asked == ["a"] * 3
    assert names(attempt) == HISTORY


@pytest.mark.parametrize("level", [0, 1, 2], ids=["work", "node", "nodes"])
def test_a_link_that_a_run_left_leads_the_clearing_up_nowhere(left: Left, level: int) -> None:
    work = left.attempt("old") / "nodes" / "node1" / "work"
    precious = left.precious / "n" / "work" / "thesis"
    precious.parent.mkdir(parents=True)
    precious.write_text("years")
    there = [work, *work.parents][level]
    shutil.rmtree(there)
    there.symlink_to(precious.parents[level])
    left.tidy(run("old", ended_days_ago=15))
    assert precious.read_text() == "years"


def test_a_work_directory_deeper_than_python_recurses_is_cleared(left: Left) -> None:
    work = left.attempt("old") / "nodes" / "node1" / "work"
    here = os.open(work, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=here)
        below = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    left.tidy(run("old", ended_days_ago=15))
    assert not work.exists()


def test_each_engine_clears_up_what_lies_with_it_and_one_that_is_away_holds_up_no_other(
    left: Left, tmp_path: Path
) -> None:
    left.engines = {"a": Away(tmp_path), "b": Engine(tmp_path / "home"), "c": Engine(tmp_path / "site")}
    attempt = left.attempt("old")
    shutil.copytree(tmp_path / "home", tmp_path / "site", symlinks=True)
    left.tidy(run("old", ended_days_ago=15))
    assert names(attempt) == HISTORY | LOGS
    assert names(tmp_path / "site" / "runs" / "old" / "attempts" / "1") == HISTORY | LOGS


class Site(Engine):
    """One to which code is brought."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.asked: list[tuple[set[str], float]] = []

    def clear_copies(self, live: Collection[str], *, unused_days: float) -> int:
        self.asked.append((set(live), unused_days))
        return 1


@pytest.mark.parametrize(("code_days", "unused_days"), [(30.0, 30.0), (0.0, 1 / 24)])
def test_copies_at_a_site_are_kept_for_live_runs_and_for_as_long_as_code(
    left: Left, code_days: float, unused_days: float
) -> None:
    site = left.engines["site"] = Site(left.runs.parent)
    store = Runs([run("waits"), run("over", ended_days_ago=99)])
    days = {"work_days": 14.0, "log_days": 100.0, "code_days": code_days}
    AttemptCleaner(store, left.clock, engines=lambda: left.engines, answer_s=60.0, **days).tidy()
    assert site.asked == [({"waits"}, unused_days)]
