"""What the kernel and the times of files tell of a tree of checkpoints: the same, where both can tell."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from attempts import wait_until
from tarmac.node.attempt.events import EventLog
from tarmac.node.progress.tree import STILL_S, Glimpse, TreeTimes, TreeWatch, walk
from tarmac.node.progress.watcher import ProgressWatcher, tree_below

Tree = TreeWatch | TreeTimes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Checkpoints that an earlier attempt left, read by nobody since."""
    root = tmp_path / "checkpoint"
    (root / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (root / name).write_text("left")
        os.utime(root / name, ns=(1, time.time_ns() - 10**9))
    return root


@pytest.fixture(params=[TreeWatch, TreeTimes])
def tree(request: pytest.FixtureRequest, root: Path) -> Iterator[Tree]:
    if request.param is TreeTimes and os.statvfs(root).f_flag & os.ST_NOATIME:
        pytest.skip("this disk keeps no access times")
    with closing(request.param(str(root))) as made:
        yield made


def what(seen: Glimpse) -> set[str]:
    """The names of what was seen; whatever was, was seen in the last minute."""
    now = time.time()
    found = {name: at for name, at in seen._asdict().items() if at is not None}
    assert all(now - 60 < at <= now for at in found.values())
    return set(found)


CASES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "nothing": (lambda root: None, set()),
    "a new file": (lambda root: (root / "new").write_text("whole"), {"closed_at"}),
    "a file further down": (lambda root: (root / "deep/new").write_text("whole"), {"closed_at"}),
    "a file written again": (lambda root: (root / "a").write_text("whole"), {"closed_at"}),
    "a link": (lambda root: (root / "latest").symlink_to("deep"), {"shown_at"}),
    "an empty file": (lambda root: (root / "lock").touch(), set()),
    "unfinished": (lambda root: (root / ".unfinished-1.0.x").write_text("half"), set()),
    "read": (lambda root: (root / "a").read_text(), {"read_at"}),
    "read further down": (lambda root: (root / "deep/b").read_text(), {"read_at"}),
    "listed": (lambda root: (list(root.rglob("*")), (root / "a").stat()), set()),
    "its own read": (lambda root: ((root / "a").write_text("x"), (root / "a").read_text()), {"closed_at"}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_happened_is_told_once(tree: Tree, root: Path, case: str) -> None:
    happens, told = CASES[case]
    happens(root)
    assert what(tree.look(writers_done=True)) == told
    if isinstance(tree, TreeWatch):  # times only ever say when something happened last
        assert what(tree.look(writers_done=True)) == set()


def test_times_are_looked_at_now_and_then_and_at_the_end(root: Path) -> None:
    tree = TreeTimes(str(root))
    (root / "new").write_text("whole")
    assert what(tree.look()) == set()
    assert what(tree.look(writers_done=True)) == {"closed_at"}


def test_a_new_directory_is_watched_with_what_is_in_it(root: Path) -> None:
    with closing(TreeWatch(str(root))) as tree:
        (root / "new").mkdir()
        (root / "new/early").write_text("whole")
        began_at = time.monotonic()
        assert what(tree.look()) == set(), "its file may still be written"
        wait_until(lambda: what(tree.look()) == {"closed_at"} or None, "it does not count as complete")
        assert time.monotonic() - began_at >= STILL_S, "two looks at once prove nothing"
        (root / "new/late").write_text("whole")
        assert what(tree.look()) == {"closed_at"}


def test_a_tree_of_any_size_is_walked_within_bounds(root: Path) -> None:
    for number in range(20):
        (root / f"d{number}").mkdir()
    assert len(list(walk(str(root), most_directories=5))) == 5
    assert len(list(walk(str(root), most_names=3))) == 1


def test_without_watches_the_times_of_files_tell(root: Path) -> None:
    """The kernel gives a user a bounded number of queues: what runs beyond them is judged all the same."""

    def refused(_root: str) -> TreeWatch:
        raise OSError(errno.EMFILE, "too many")

    events = EventLog(str(root.parent / "events.jsonl"))
    tree = tree_below(str(root), watch=refused)
    progress = ProgressWatcher(events, logs=[], reports=str(root.parent / "reports"), tree=tree)
    (root / "new").write_text("whole")
    (root / "a").read_text()
    progress.note_exit(good=True)
    progress.close()
    events.flush()
    told = (root.parent / "events.jsonl").read_text()
    assert '"checkpoint"' in told
    if not os.statvfs(root).f_flag & os.ST_NOATIME:
        assert '"checkpoint_read"' in told


def test_a_newer_checkpoint_is_told_again_after_a_while(root: Path) -> None:
    events = EventLog(str(root.parent / "events.jsonl"))
    tree = tree_below(str(root))
    progress = ProgressWatcher(
        events, logs=[], reports=str(root.parent / "reports"), tree=tree, report_every_s=0
    )
    with closing(tree):
        for number in range(3):
            (root / "draft").write_text("whole")
            (root / "draft").rename(root / f"ck{number}")
            progress.look()
        progress.close()
    events.flush()
    assert (root.parent / "events.jsonl").read_text().count('"checkpoint"') == 3


def test_a_queue_that_was_given_back_tells_the_next_one_nothing(tmp_path: Path) -> None:
    """A runner that serves attempt after attempt watches with one queue, which is dear to close."""
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    before = TreeWatch(str(first))
    (first / "unseen").write_text("x")
    before.close()
    watch = TreeWatch(str(second))
    (first / "late").write_text("x")
    assert watch.look() == Glimpse()
    assert watch.changes() == []
    (second / "mine").write_text("x")
    assert watch.look().closed_at is not None
    assert {change.path for change in watch.changes()} == {str(second / "mine")}
    watch.close()
