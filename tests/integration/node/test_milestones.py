"""What runners see of their workers (I11): first output, whole checkpoints, readings of earlier ones.

Real processes in real directories. A first attempt leaves checkpoints in the ways people save them; whether a
second one reads them is told by the kernel, and only real reading counts.
"""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from attempts import AttemptDirectory, Warm, python_worker, worker, write_attempt
from tarmac.node.attempt.protocol import LONGEST_REPORTS_BYTES
from tarmac.node.progress.tree import STILL_S

SDK_SAVES = """
import tarmac
with tarmac.checkpoint(1) as directory:
    (directory / "state").write_text("whole")
"""

ATOMIC_DIRECTORY = """
import os
root = os.environ["OUTPUT_PATH"]
directory = os.path.join(root, "AtomicDirectory_checkpoint_1")
os.makedirs(directory)
link = os.path.join(root, "AtomicDirectory.latest_checkpoint")
os.symlink(directory, link + "_temp")
os.replace(link + "_temp", link)
"""
"""As cycling_utils does it; nothing is in the directory, so that only the link can tell."""

WRITES_OVER_A_WHILE = """
import os, time
os.chdir(os.environ["OUTPUT_PATH"])
os.mkdir("new")
with open("new/ck", "w") as file:
    for _ in range(30):
        print(time.time(), file=file, flush=True)
        time.sleep(0.05)
time.sleep(0.8)
"""
"""On a busy machine it may pause for longer: a file that does not change for a while counts as complete."""

SAVES = {
    "sdk": python_worker(SDK_SAVES),
    "written and renamed": worker('cd "$OUTPUT_PATH"; echo whole > ck.pt.temp; mv ck.pt.temp ck.pt'),
    "written in place": worker('echo whole > "$OUTPUT_PATH/ck.pt"'),
    "in a new directory": worker('mkdir "$OUTPUT_PATH/new"; echo whole > "$OUTPUT_PATH/new/ck.pt"'),
    "atomic directory": python_worker(ATOMIC_DIRECTORY),
}

SAVES_NOTHING = {
    "no file": worker("echo nothing"),
    "a mere directory": worker('mkdir -p "$OUTPUT_PATH/checkpoints/best"'),
    "an empty file": worker('touch "$OUTPUT_PATH/lock"'),
    "another artifact": worker('echo loss > "$LOSSY_ARTIFACT_PATH/metrics"'),
    "unfinished": python_worker(
        "import os, signal, tarmac\n"
        "with tarmac.checkpoint(1) as directory:\n"
        "    (directory / 'state').write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    ),
    "torn by a signal": worker('exec 3> "$OUTPUT_PATH/ck.pt"; echo half >&3; kill -KILL $$'),
    "torn by an exception": python_worker(
        "import os\nwith open(os.environ['OUTPUT_PATH'] + '/ck.pt', 'w') as file:\n"
        "    file.write('half')\n    raise ValueError\n"
    ),
}

READS = {
    "cat": worker('cat "$OUTPUT_PATH/ck.pt" > /dev/null'),
    "through the literal path's variable": worker('cat "$CHECKPOINT_ARTIFACT_PATH/deep/part" > /dev/null'),
    "mapped into memory": python_worker(
        "import mmap, os\nwith open(os.environ['OUTPUT_PATH'] + '/ck.pt', 'rb') as file:\n"
        "    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\nprint(mapped[0])\n"
    ),
    "renamed first": worker('cd "$OUTPUT_PATH"; mv ck.pt before.pt; cat before.pt > /dev/null'),
    "read, and at once replaced": worker(
        'cd "$OUTPUT_PATH"; cat ck.pt > /dev/null; echo next > t; mv t ck.pt'
    ),
}

READS_NOTHING = {
    "nothing": worker("exit 0"),
    "a mere listing": worker(
        'ls -lR "$OUTPUT_PATH"; stat "$OUTPUT_PATH/ck.pt"; readlink "$OUTPUT_PATH/latest"'
    ),
    "its own": worker('cd "$OUTPUT_PATH"; echo mine > mine.pt; cat mine.pt'),
    "its own of the same name": worker('cd "$OUTPUT_PATH"; echo mine > t; mv t ck.pt; cat ck.pt'),
    "overwritten, then read": worker('cd "$OUTPUT_PATH"; echo mine > ck.pt; cat ck.pt'),
    "appended to": worker('echo more >> "$OUTPUT_PATH/ck.pt"'),
    "another artifact": worker('echo x > "$CRUD_ARTIFACT_PATH/x"; cat "$CRUD_ARTIFACT_PATH/x"'),
}


def seen(attempt: AttemptDirectory, kind: str, node: str = "n0") -> float | None:
    """When the runner saw something last, if it did."""
    found = [event["at"] for event in attempt.events(node) if event["kind"] == kind]
    return found[-1] if found else None


def earlier(root: Path) -> Path:
    """Artifact directories in which an earlier attempt left a checkpoint."""
    checkpoints = root / "artifacts" / "checkpoint"
    (checkpoints / "deep").mkdir(parents=True)
    (checkpoints / "ck.pt").write_text("left")
    (checkpoints / "deep" / "part").write_text("left")
    (checkpoints / "latest").symlink_to("deep")
    return checkpoints.parent


@pytest.mark.parametrize("how", SAVES)
def test_a_whole_checkpoint_is_seen(warm: Warm, tmp_path: Path, how: str) -> None:
    attempt = write_attempt(tmp_path, [SAVES[how]])
    began = time.time()
    warm.run(attempt)
    at = seen(attempt, "checkpoint")
    assert at is not None
    assert began <= at <= time.time()
    assert seen(attempt, "checkpoint_read") is None


@pytest.mark.parametrize("how", SAVES_NOTHING)
def test_what_is_no_whole_checkpoint_is_not_taken_for_one(warm: Warm, tmp_path: Path, how: str) -> None:
    attempt = write_attempt(tmp_path, [SAVES_NOTHING[how]])
    warm.run(attempt)
    assert seen(attempt, "checkpoint") is None


@pytest.mark.parametrize("how", READS)
def test_reading_what_an_earlier_attempt_left_is_seen(warm: Warm, tmp_path: Path, how: str) -> None:
    attempt = write_attempt(tmp_path, [READS[how]], artifacts=earlier(tmp_path), number=2)
    warm.run(attempt)
    assert seen(attempt, "checkpoint_read") is not None


@pytest.mark.parametrize("how", READS_NOTHING)
def test_only_reading_is_reading(warm: Warm, tmp_path: Path, how: str) -> None:
    attempt = write_attempt(tmp_path, [READS_NOTHING[how]], artifacts=earlier(tmp_path), number=2)
    warm.run(attempt)
    assert seen(attempt, "checkpoint_read") is None


def test_what_the_platform_reads_does_not_count(warm: Warm, tmp_path: Path) -> None:
    """Setup steps are before the workers; clearing away what was unfinished is ours."""
    setup = [["bash", "-c", 'cat "$OUTPUT_PATH/ck.pt"']]
    attempt = write_attempt(tmp_path, [worker("exit 0")], artifacts=earlier(tmp_path), setup=setup)
    (tmp_path / "artifacts/checkpoint/.unfinished-9.0.1").mkdir()
    warm.run(attempt)
    assert seen(attempt, "checkpoint_read") is None


def test_a_renamed_old_checkpoint_is_not_a_new_one(warm: Warm, tmp_path: Path) -> None:
    script = 'cd "$OUTPUT_PATH"; mv ck.pt backup.pt; mv deep kept'
    attempt = write_attempt(tmp_path, [worker(script)], artifacts=earlier(tmp_path), number=2)
    warm.run(attempt)
    assert seen(attempt, "checkpoint") is None


@pytest.mark.parametrize(
    ("script", "whole"),
    [
        (
            "trap 'echo whole > \"$OUTPUT_PATH/ck\"; exit 0' TERM; echo ready; while :; do sleep 0.01; done",
            True,
        ),
        ('exec 3> "$OUTPUT_PATH/ck"; echo half >&3; echo ready; exec sleep 100', False),
        (
            "trap 'sleep 0.9; exit 143' TERM\n"
            "bash -c 'exec 3> \"$OUTPUT_PATH/ck\"; echo half >&3; echo ready; sleep 100'",
            False,
        ),
        ('echo whole > "$OUTPUT_PATH/ck"; echo ready; exec sleep 100', True),
    ],
    ids=["saved when told", "ended while writing", "ended below a launcher", "saved before it was told"],
)
def test_a_file_that_the_end_closed_is_not_whole(
    warm: Warm, tmp_path: Path, script: str, whole: bool
) -> None:
    """A turn is over in the middle of a save: what the kernel closes for a dead writer proves nothing."""
    attempt = write_attempt(tmp_path, [worker(script)])
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("preempt")
    assert attempt.ended()["outcome"] == "preempted"
    assert (seen(attempt, "checkpoint") is not None) == whole


def test_it_is_told_while_the_attempt_runs_and_stays_when_the_runner_dies(warm: Warm, tmp_path: Path) -> None:
    script = 'echo ready; cd "$OUTPUT_PATH"; cat ck.pt > /dev/null; echo n > t; mv t n; exec sleep 100'
    attempt = write_attempt(tmp_path, [worker(script)], artifacts=earlier(tmp_path), number=2)
    pid = warm.start(attempt)
    for kind in ("first_output", "checkpoint", "checkpoint_read"):
        attempt.wait_for(kind)
    os.kill(pid, 9)
    assert {"first_output", "checkpoint", "checkpoint_read"} <= set(attempt.kinds())
    assert "ended" not in attempt.kinds()


def test_the_first_output_is_of_any_worker_and_once(warm: Warm, tmp_path: Path) -> None:
    workers = [worker("sleep 0.2; exit 0"), worker("echo first; sleep 0.3; echo more", replica=1)]
    attempt = write_attempt(tmp_path, workers)
    warm.run(attempt)
    at = seen(attempt, "first_output")
    assert at is not None
    assert attempt.kinds().count("first_output") == 1


def test_a_report_is_a_first_output_too(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [python_worker("import tarmac; tarmac.report(step=1)")])
    warm.run(attempt)
    assert seen(attempt, "first_output") is not None


def test_a_silent_worker_has_no_first_output(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("exit 0")])
    warm.run(attempt)
    assert seen(attempt, "first_output") is None


def test_a_run_that_saves_without_end_fills_no_report(warm: Warm, tmp_path: Path) -> None:
    many = "for i in $(seq 200); do echo $i > t; mv t ck; done"
    script = f'cd "$OUTPUT_PATH"; {many}; sleep 0.6; {many}'
    attempt = write_attempt(tmp_path, [worker(script)])
    warm.run(attempt)
    assert attempt.kinds().count("checkpoint") <= 2


def test_the_runner_lets_go_of_its_watches(warm: Warm, tmp_path: Path) -> None:
    """Workers inherit none, and the warm parent never has one."""
    attempt = write_attempt(tmp_path, [worker("ls -l /proc/self/fd")], artifacts=earlier(tmp_path))
    warm.run(attempt)
    assert "inotify" not in attempt.log()
    held = [str(path.readlink()) for path in Path(f"/proc/{warm.process.pid}/fd").iterdir()]
    assert not [link for link in held if "inotify" in link]


def test_every_node_of_an_attempt_tells(warm: Warm, tmp_path: Path) -> None:
    workers: dict[str, list[dict[str, Any]]] = {
        "n0": [worker('until [ -e "$OUTPUT_PATH/ck" ]; do sleep 0.02; done; sleep 0.1')],
        "n1": [worker('echo x > "$OUTPUT_PATH/t"; mv "$OUTPUT_PATH/t" "$OUTPUT_PATH/ck"', replica=1)],
    }
    attempt = write_attempt(tmp_path, workers)
    warm.run(attempt)
    assert seen(attempt, "checkpoint", "n1") is not None


def test_a_checkpoint_written_over_a_while_in_a_new_directory_is_seen_at_its_end(
    warm: Warm, tmp_path: Path
) -> None:
    """The directory is found while its file is still written: only the closed file counts."""
    attempt = write_attempt(tmp_path, [python_worker(WRITES_OVER_A_WHILE)])
    warm.run(attempt)
    (at, *_) = [event["at"] for event in attempt.events() if event["kind"] == "checkpoint"]
    (file,) = tmp_path.rglob("new/ck")
    wrote_at = [float(line) for line in file.read_text().split()]
    pauses = (one for one, next_one in pairwise(wrote_at) if next_one - one > STILL_S)
    assert at >= next(pauses, wrote_at[-1]) - 0.1, "it is written for a second and a half"


def test_more_reports_than_are_shown_are_told_of(warm: Warm, tmp_path: Path) -> None:
    """N8: a file of gigabytes is not read whole, and whoever asks for metrics is told so."""
    script = 'truncate -s "$SIZE" "$TARMAC_REPORTS_FILE"; exec sleep 100'
    attempt = write_attempt(tmp_path, [worker(script, env={"SIZE": str(LONGEST_REPORTS_BYTES + 1)})])
    warm.start(attempt)
    assert attempt.wait_for("notice")["text"] == (
        "its workers on this node reported more than 64 MiB: what comes after is left out"
    )
    attempt.ask("stop")
    attempt.ended()
    assert attempt.kinds().count("notice") == 1
