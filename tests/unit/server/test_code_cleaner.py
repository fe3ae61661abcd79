"""Code is cleared up by age (C8), and never what a run still needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from code_trees import copied, snapshots_in
from scratch_store import ScratchStore
from simulated import spec
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Run
from tarmac.model.spec import LocalDirectory, RunSpec
from tarmac.node.files.codestore import PACKS
from tarmac.server.storage.cleaners import CodeCleaner

DAY_S = 86_400.0
NOW = 1_700_000_000.0


class Runs(ScratchStore):
    """A store that holds these runs."""

    def __init__(self, runs: Sequence[Run]) -> None:
        super().__init__()
        self._given = {run.id: run for run in runs}

    def live_runs(self) -> list[Run]:
        return [run for run in self._given.values() if run.state is not RunState.ENDED]

    def load_runs(self, run_ids: Sequence[str]) -> dict[str, Run]:
        return {run_id: self._given[run_id] for run_id in run_ids if run_id in self._given}


class ArtifactStoring:
    """A store of code, its runs and the cleaner, at a time of the test's choice."""

    def __init__(self, place: Path) -> None:
        self.root = place / "home" / "code"
        self.code = DirectoryCodeStore(self.root)
        self.known: list[Run] = []
        self.clock = VirtualClock(NOW)
        self._place = place

    def snapshot(self, name: str, *, used_days_ago: float) -> str:
        """A snapshot of one file of its own, used last so long ago."""
        directory = self._place / name
        directory.mkdir()
        (directory / name).write_text(name * 100)
        digest = self.code.snapshot(str(directory))
        used_at = NOW - used_days_ago * DAY_S
        os.utime(self.root / digest, (used_at, used_at))
        for pack in (self.root / PACKS).iterdir():
            os.utime(pack, (used_at, used_at))
        return digest

    def tidy(self, *, keep_days: float = 30.0) -> None:
        cleaner = CodeCleaner(
            self.code,
            Runs(self.known),
            self.clock,
            keep_days=keep_days,
        )
        cleaner.tidy()


@pytest.fixture
def keeping(tmp_path: Path) -> ArtifactStoring:
    return ArtifactStoring(tmp_path)


def run(
    run_id: str,
    *,
    digest: str | None = None,
    ended_days_ago: float | None = None,
    wanted: RunSpec | None = None,
) -> Run:
    """A run that waits, or one that has ended."""
    return Run(
        id=run_id,
        user="ada",
        seq=1,
        spec=wanted or spec(),
        state=RunState.QUEUED if ended_days_ago is None else RunState.ENDED,
        created_at=0.0,
        code_digest=digest,
        ended_at=None if ended_days_ago is None else NOW - ended_days_ago * DAY_S,
    )


def test_snapshots_that_nobody_used_for_long_go_with_what_only_they_held(keeping: ArtifactStoring) -> None:
    old = keeping.snapshot("old", used_days_ago=31)
    new = keeping.snapshot("new", used_days_ago=29)
    keeping.tidy()
    assert snapshots_in(keeping.root) == [new]
    assert len(list((keeping.root / PACKS).iterdir())) == 1
    assert (copied(keeping.root, new) / "new").exists()
    assert old != new


def test_what_a_run_that_has_not_ended_needs_is_never_removed(keeping: ArtifactStoring) -> None:
    """Staged, or sent with a submission that is still to be staged; in use now, so young again."""
    staged = keeping.snapshot("staged", used_days_ago=400)
    sent = keeping.snapshot("sent", used_days_ago=400)
    keeping.known = [
        run("a", digest=staged),
        run("b", wanted=spec(code=LocalDirectory(path="/elsewhere", digest=sent))),
    ]
    keeping.tidy(keep_days=0)
    assert set(snapshots_in(keeping.root)) == {staged, sent}
    keeping.known = []
    keeping.tidy()
    assert set(snapshots_in(keeping.root)) == {staged, sent}


def test_what_was_removed_is_made_anew_when_it_is_needed_again(
    keeping: ArtifactStoring, tmp_path: Path
) -> None:
    old = keeping.snapshot("old", used_days_ago=31)
    keeping.tidy()
    assert snapshots_in(keeping.root) == []
    assert keeping.code.snapshot(str(tmp_path / "old")) == old
    assert (copied(keeping.root, old) / "old").read_text() == "old" * 100


def test_what_snapshots_share_stays_while_one_of_them_does(keeping: ArtifactStoring, tmp_path: Path) -> None:
    keeping.snapshot("old", used_days_ago=400)
    (tmp_path / "old" / "more").write_text("more")
    young = keeping.code.snapshot(str(tmp_path / "old"))
    keeping.tidy()
    assert snapshots_in(keeping.root) == [young]
    assert {path.name for path in copied(keeping.root, young).iterdir()} == {"old", "more"}


def test_what_is_on_its_way_is_left_alone(keeping: ArtifactStoring) -> None:
    """An upload in pieces: a pack of this hour belongs to no snapshot yet."""
    with keeping.code.packs.writer() as writer:
        writer.write(b"text")
        writer.keep("0" * 64)
        keeping.code.packs.add(writer)
    for pack in (keeping.root / PACKS).iterdir():
        os.utime(pack, (NOW - 3600, NOW - 3600))
    keeping.tidy(keep_days=0)
    assert keeping.code.packs.missing(["0" * 64]) == []
