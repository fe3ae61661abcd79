"""Artifact directories that a runner lends to its attempts in turn: to each attempt they are its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attempts import AttemptDirectory, Warm, wait_until, warm_parent, worker, write_attempt
from tarmac.node.kernel import namespaces

pytestmark = pytest.mark.skipif(
    namespaces.find_way().by is None,
    reason="no runner has processes of its own here: each serves one attempt",
)

OFTEN = 50
SHOW = 'ls -A "$CHECKPOINT_ARTIFACT_PATH" "$CRUD_ARTIFACT_PATH" "$LOSSY_ARTIFACT_PATH" "$LOG_ARTIFACT_PATH"'


class Runner:
    """One runner that waits after an attempt, and directories that wait with it."""

    def __init__(self, warm: Warm, root: Path) -> None:
        self._warm = warm
        self._root = root
        self.place = root / "spare"
        self.place.mkdir()
        self.pid = 0
        self.run("sleep 0.1")  # the clock of the files has moved on

    def run(self, script: str) -> AttemptDirectory:
        """An attempt of this runner, which has ended and been given up."""
        return self.serve(lambda: write_attempt(self._root, [worker(script)], spare=str(self.place)))

    def serve(self, make: Callable[[], AttemptDirectory]) -> AttemptDirectory:
        for _ in range(OFTEN):  # others serve while it is not done
            attempt = make()
            pid = self._warm.start(attempt)
            assert attempt.ended()["outcome"] == "completed"
            self.pid = self.pid or pid
            if pid == self.pid:
                return attempt
        raise AssertionError(f"{OFTEN} attempts had other runners")

    def waiting(self) -> list[Path]:
        """The directories that wait, with what is in them."""
        return sorted(self.place.glob("*/*"))


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with warm_parent(idle_s=600) as warm:
        yield Runner(warm, tmp_path)


def test_a_short_attempt_leaves_few_files(runner: Runner) -> None:
    attempt = runner.run("exit 0")
    left = {str(path.relative_to(attempt.path)) for path in attempt.path.rglob("*")} - {"news"}
    node = {"nodes", "nodes/n0", *(f"nodes/n0/{name}" for name in ("claim", "events.jsonl", "work"))}
    assert left == {"attempt.json", "logs", "logs/main.0.0.log", *node}


def test_directories_that_were_left_empty_are_lent_again(runner: Runner) -> None:
    before = {path.lstat().st_ino for path in runner.waiting()}
    attempt = runner.run('stat -c %i "$CHECKPOINT_ARTIFACT_PATH"')
    assert int(attempt.log()) in before
    assert {path.lstat().st_ino for path in runner.waiting()} == before
    assert not Path(attempt.artifacts["checkpoint"]).exists()


@pytest.mark.parametrize("kind", ["checkpoint", "crud", "lossy", "log"])
def test_what_an_attempt_writes_stays_with_it_and_the_next_finds_nothing(runner: Runner, kind: str) -> None:
    variable = f"{kind.upper()}_ARTIFACT_PATH"
    wrote = runner.run(f'echo it > "${variable}/file"')
    assert Path(wrote.artifacts[kind], "file").read_text() == "it\n"
    after = runner.run(f'{SHOW} | grep -v : ; echo mine > "${variable}/file"')
    assert not after.log().split()
    assert Path(wrote.artifacts[kind], "file").read_text() == "it\n"
    assert Path(after.artifacts[kind], "file").read_text() == "mine\n"


@pytest.mark.parametrize(
    "deed",
    [
        'chmod 500 "$CHECKPOINT_ARTIFACT_PATH"',
        'touch "$CHECKPOINT_ARTIFACT_PATH/a"; rm "$CHECKPOINT_ARTIFACT_PATH/a"',
        'mv "$(dirname "$0")" moved; ln -s "$PWD/moved" "$(dirname "$0")"',
        'rmdir "$0"; ln -s /etc "$0"',
        'mv "$(dirname "$0")" moved; mkdir -p "$0"',
        'touch "$(dirname "$0")/more"',
    ],
    ids=["mode", "file made and removed", "link for all", "link for one", "others for all", "more"],
)
def test_a_changed_directory_is_lent_to_no_other_attempt(runner: Runner, tmp_path: Path, deed: str) -> None:
    number = 0

    def make() -> AttemptDirectory:
        nonlocal number
        number += 1
        own = tmp_path / f"run{number}"
        own.mkdir()
        script = deed.replace('"$0"', f'"{own}/artifacts/checkpoint"')
        return write_attempt(tmp_path, [worker(script)], artifacts=own / "artifacts", spare=str(runner.place))

    runner.serve(make)
    assert not runner.waiting(), "the attempt keeps what it has changed"
    after = runner.run(f'{SHOW} | grep -v : ; echo mine > "$CHECKPOINT_ARTIFACT_PATH/file"')
    assert not after.log().split()
    assert Path(after.artifacts["checkpoint"], "file").read_text() == "mine\n"
    assert not Path("/etc/file").exists()


def test_whatever_becomes_of_directories_that_wait_the_next_attempt_has_its_own(runner: Runner) -> None:
    (runner.waiting()[0] / "planted").touch()
    assert not runner.run(f"{SHOW} | grep -v : ; exit 0").log().split()
    shutil.rmtree(runner.place)  # as the next server does
    runner.place.mkdir()
    after = runner.run('echo mine > "$CHECKPOINT_ARTIFACT_PATH/file"')
    assert Path(after.artifacts["checkpoint"], "file").read_text() == "mine\n"


def test_an_attempt_whose_run_has_directories_gets_those(runner: Runner, tmp_path: Path) -> None:
    kept = tmp_path / "run" / "artifacts"
    kept.mkdir(parents=True)
    (kept / "checkpoint").mkdir()
    (kept / "checkpoint" / "old").touch()
    attempt = runner.serve(
        lambda: write_attempt(
            tmp_path,
            [worker('ls "$CHECKPOINT_ARTIFACT_PATH" && touch "$CRUD_ARTIFACT_PATH/new"')],
            artifacts=kept,
            spare=str(runner.place),
        )
    )
    assert attempt.log() == "old\n"
    assert {path.name for path in kept.rglob("*") if path.is_file()} == {"old", "new"}


def test_directories_that_wait_leave_with_their_runner(tmp_path: Path) -> None:
    with warm_parent(idle_s=600) as warm:
        place = Runner(warm, tmp_path).place
        assert list(place.iterdir())
    wait_until(lambda: not list(place.iterdir()) or None, "they are still there")
