"""Which files were cut short (I14): what a living process closed is whole, what its death closed is torn."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.node.attempt.events import EventLog
from tarmac.node.kernel import procfs
from tarmac.node.processes.children import Children
from tarmac.node.processes.spawn import Command
from tarmac.node.progress.torn import Torn
from tarmac.node.progress.watcher import ProgressWatcher, tree_below

LIMIT_S = 60.0

HALF = "file = open('half', 'wb'); file.write(b'x' * 100000); file.flush(); "
READY = "print('ready', flush=True); any(time.sleep(0.1) for _ in iter(int, 1))"
"""It sleeps in parts: a signal just before a long sleep would be handled only after that."""
MMAP = (
    "file = open('half', 'w+b'); file.truncate(8192); space = mmap.mmap(file.fileno(), 8192); file.close();"
    "space[:5] = b'first'; "
)


class Attempt:
    """A directory of checkpoints, who follows it, and the processes that write there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        events = EventLog(str(root.parent / "events.jsonl"))
        self.children = Children()
        # Servers of other tests may live below this process: they are none of the attempt's own.
        self.children.aside |= {other.pid for other in procfs.descendants(os.getpid(), unreaped=True)}
        torn = Torn(str(root), self.children)
        self.progress = ProgressWatcher(
            events, logs=[], reports="/none", tree=tree_below(str(root)), torn=torn
        )
        self.torn = torn
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """A process that has said that it is ready."""
        command = [sys.executable, "-c", f"import mmap, os, signal, subprocess, sys, time; {script}"]
        process = subprocess.Popen(command, cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.processes.append(process)
        assert process.stdout is not None
        while not select.select([process.stdout], [], [], 0.01)[0]:
            self.progress.look()
        assert process.stdout.readline() == b"ready\n"
        self.progress.look()
        return process

    def end(self, process: subprocess.Popen[bytes], number: int) -> None:
        """End it, and see it before somebody has waited for it."""
        process.send_signal(number)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.progress.look()
        process.wait()

    def torn_paths(self) -> list[str] | None:
        """What is torn in the end."""
        self.progress.close()
        return None if self.progress.torn is None else list(self.progress.torn)


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Attempt]:
    root = tmp_path / "checkpoint"
    root.mkdir()
    made = Attempt(root)
    made.torn.look_at_processes()
    yield made
    for process in made.processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
@pytest.mark.parametrize("script", [HALF, MMAP], ids=["written", "mapped"])
def test_what_is_being_written_at_a_death_is_torn(attempt: Attempt, number: int, script: str) -> None:
    attempt.end(attempt.start(script + READY), number)
    assert attempt.torn_paths() == ["half"]


WHOLE = {
    "closed": HALF + "file.close(); ",
    "renamed": HALF + "file.close(); os.replace('half', 'whole'); ",
    "linked": HALF + "file.close(); os.link('half', 'whole'); os.unlink('half'); ",
    "moved with its directory": "os.mkdir('d'); os.chdir('d'); "
    + HALF
    + "file.close(); os.chdir('..'); os.rename('d', 'e'); ",
    "written by a child that exited": "subprocess.run(['sh', '-c', 'echo x > half; exit 3']); ",
    "unmapped": MMAP + "space.close(); ",
}


@pytest.mark.parametrize("script", WHOLE.values(), ids=list(WHOLE))
def test_what_was_finished_before_a_death_is_whole(attempt: Attempt, script: str) -> None:
    attempt.end(attempt.start(script + READY), signal.SIGKILL)
    assert attempt.torn_paths() == []


def test_what_is_finished_on_the_way_out_is_whole(attempt: Attempt) -> None:
    """The handler of a signal saves and exits with an error: nobody cut it short."""
    handler = (
        "signal.signal(signal.SIGTERM, lambda *_: (open('whole', 'wb').write(b'x' * 1000), os._exit(1))); "
    )
    attempt.end(attempt.start(handler + READY), signal.SIGTERM)
    assert attempt.torn_paths() == []


def test_the_death_of_another_process_tears_nothing(attempt: Attempt) -> None:
    other = attempt.start(READY)
    writer = attempt.start(HALF + "print('ready', flush=True); sys.stdin.read(); file.close(); " + READY)
    attempt.torn.look_at_processes()
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.close()
    assert writer.stdout.readline() == b"ready\n", "it has closed its file since"
    assert attempt.torn_paths() == []


def test_who_is_waited_for_by_another_was_struck_if_he_was_told_to_leave(attempt: Attempt) -> None:
    """As torchrun ends its workers and waits for them."""
    child = HALF + "print('ready', flush=True); time.sleep(1000)"
    launcher = (
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; ' + {child!r}]); "
        "signal.signal(signal.SIGTERM, lambda *_: (child.kill(), child.wait(), os._exit(1))); "
        "time.sleep(1000)"
    )
    process = attempt.start(launcher)
    attempt.progress.before_leaving()
    attempt.end(process, signal.SIGTERM)
    assert attempt.torn_paths() == ["half"]


def test_who_was_never_seen_alive_was_struck_if_a_signal_ended_him(attempt: Attempt) -> None:
    """The runner was late: the worker is over before it looked for the first time."""
    log, env = str(attempt.root.parent / "log"), dict(os.environ)
    script = HALF + "os.kill(os.getpid(), signal.SIGKILL)"
    argv = [sys.executable, "-c", f"import os, signal; {script}"]
    child = attempt.children.start(Command(argv, env, str(attempt.root), log))
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert attempt.children.reap() == [child]
    attempt.progress.look()
    assert attempt.torn_paths() == ["half"]


def test_who_was_never_seen_alive_and_exited_tore_nothing(attempt: Attempt) -> None:
    """The last to be struck before the checkpoints were followed has nothing to do with them either."""
    log, env = str(attempt.root.parent / "log"), dict(os.environ)
    for script in ("kill -9 $$", "echo whole > whole"):
        argv = ["bash", "-c", script]
        child = attempt.children.start(Command(argv, env, str(attempt.root), log))
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert attempt.children.reap() == [child]
        attempt.progress.look()
    assert attempt.torn_paths() == []


WRITES_AND_DIES = "file = open('half', 'wb', 0); file.write(b'x'); {then}; os.kill(os.getpid(), 9)"


def unseen_deeds(attempt: Attempt, then: str) -> list[str] | None:
    """What is torn after a process wrote, did `then`, and was struck, all before anybody looked."""
    (attempt.root / "old").write_bytes(b"x")
    waits = "print('ready', flush=True); sys.stdin.read(); "
    process = attempt.start(waits + WRITES_AND_DIES.format(then=then))
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    attempt.progress.look()
    process.wait()
    return attempt.torn_paths()


@pytest.mark.parametrize(
    "then",
    [
        "file.close(); os.unlink('old')",
        "file.close(); os.rename('old', 'older')",
        "file.close(); open('new', 'w').close()",
        "file.close(); subprocess.run(['rm', 'old'])",
    ],
)
def test_what_was_closed_before_a_later_deed_is_whole(attempt: Attempt, then: str) -> None:
    """Only the living make, move and remove names, and nobody else was there."""
    torn = unseen_deeds(attempt, then)
    assert torn is not None
    assert "half" not in torn


@pytest.mark.parametrize(
    "then",
    [
        "os.unlink('old')",
        "file.close(); os.unlink('old'); file = open('half', 'r+b', 0)",
        "os.mkdir('d'); os.rename('half', 'd/half'); os.unlink('old')",
        "os.mkdir('d'); file = open('d/half', 'wb', 0); file.write(b'x'); os.unlink('old')",
    ],
    ids=["not closed", "opened again", "moved", "in a new directory"],
)
def test_a_later_deed_vouches_only_for_what_was_closed_before(attempt: Attempt, then: str) -> None:
    torn = unseen_deeds(attempt, then)
    assert torn is not None
    assert [Path(path).name for path in torn] == ["half"]


def test_the_deed_of_another_vouches_for_nothing(attempt: Attempt) -> None:
    attempt.start(READY)
    assert unseen_deeds(attempt, "file.close(); os.unlink('old')") == ["half"]


def test_who_was_struck_and_is_waited_for_later_tears_nothing_since(attempt: Attempt) -> None:
    """Seen struck before it was reaped, it is nobody who was never seen."""
    log, env = str(attempt.root.parent / "log"), dict(os.environ)
    writer = attempt.start(
        "print('ready', flush=True); sys.stdin.read(); open('whole', 'wb').write(b'x'); " + READY
    )
    child = attempt.children.start(Command(["sleep", "1000"], env, str(attempt.root), log))
    attempt.torn.look_at_processes()
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    attempt.progress.look()
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.close()
    assert writer.stdout.readline() == b"ready\n", "it has closed its file since"
    assert attempt.children.reap() == [child]
    assert attempt.torn_paths() == []


def test_where_nothing_can_be_watched_nobody_can_tell(tmp_path: Path) -> None:
    def fails(_root: str) -> object:
        raise OSError

    events = EventLog(str(tmp_path / "events.jsonl"))
    tree = tree_below(str(tmp_path), watch=fails)  # type: ignore[arg-type]
    progress = ProgressWatcher(
        events, logs=[], reports="/none", tree=tree, torn=Torn(str(tmp_path), Children())
    )
    progress.look()
    progress.close()
    assert progress.torn is None
    assert time.time() > 0
