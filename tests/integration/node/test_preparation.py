"""What happens before the workers: code, setup steps, environment, artifact directories."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from attempts import Warm, python_worker, worker, write_attempt
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.spec import LocalDirectory


def snapshot_of(code: Path) -> str:
    """A snapshot of a directory, as the server makes it for an attempt."""
    store = code.parent / "store"
    return str(store / DirectoryCodeStore(store).stage(LocalDirectory(path=str(code))).digest)


def test_code_is_a_fresh_copy(warm: Warm, tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "pkg").mkdir(parents=True)
    (code / "train.sh").write_text("#!/bin/sh\ncat pkg/data; echo more >> pkg/data; touch new\n")
    (code / "train.sh").chmod(0o555)
    (code / "pkg/data").write_text("data\n")
    (code / "pkg/data").chmod(0o444)
    os.utime(code / "pkg/data", (1_000_000, 1_000_000))
    (code / "link").symlink_to("pkg/data")
    (code / "empty").touch()
    attempt = write_attempt(tmp_path, [worker("./train.sh")], code=snapshot_of(code))
    warm.run(attempt)
    work = Path(attempt.node().work)
    assert attempt.log() == "data\n"
    assert (code / "pkg/data").read_text() == "data\n"
    assert (work / "pkg/data").read_text() == "data\nmore\n"
    assert (work / "link").readlink() == Path("pkg/data")
    assert (work / "empty").read_bytes() == b""
    assert (work / "new").exists()


def test_workers_with_directories_of_their_own_do_not_write_over_each_other(
    warm: Warm, tmp_path: Path
) -> None:
    """C8: several processes of a node write files of the same name, each beside the code."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "data").write_text("data\n")
    both = [worker("cat data; echo $0 >> data; cat data", replica=0), worker("cat data; pwd", replica=1)]
    attempt = write_attempt(tmp_path, both, code=snapshot_of(code), own_directories=True)
    warm.run(attempt)
    work = Path(attempt.node().work)
    assert attempt.log("main.0.0") == "data\ndata\nbash\n"
    assert attempt.log("main.1.0") == f"data\n{work / 'main.1.0'}\n"
    assert (work / "main.1.0/data").read_text() == "data\n"


@pytest.mark.parametrize("fields", [{}, {"setup": [["true"]]}], ids=["alone", "set up before"])
def test_one_that_is_alone_or_set_up_before_starts_in_the_directory_of_the_node(
    warm: Warm, tmp_path: Path, fields: dict[str, object]
) -> None:
    count = 2 if "setup" in fields else 1
    workers = [worker("pwd", replica=number) for number in range(count)]
    attempt = write_attempt(tmp_path, workers, own_directories=True, **fields)
    warm.run(attempt)
    assert {attempt.log(f"main.{number}.0") for number in range(count)} == {f"{attempt.node().work}\n"}


def test_code_that_cannot_be_read(warm: Warm, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    attempt = write_attempt(tmp_path, {"n0": [worker("echo never")], "n1": []}, code=str(missing))
    end = warm.run(attempt)
    assert (end["outcome"], end["cause"]["code"]) == ("failed", "code_unreadable")
    assert str(missing) in end["cause"]["message"]


def test_code_that_could_not_be_copied_whole_is_taken_away(warm: Warm, tmp_path: Path) -> None:
    """A copy that filled the disk would keep everybody from writing down that it failed."""
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs/short.pack").write_bytes(b"12345")
    listed = [
        ["snapshot"],
        ["f", 0o644, "a", "short.pack", 0, 5, 0],
        ["f", 0o644, "b", "short.pack", 0, 6, 0],
    ]
    code = tmp_path / "list"
    code.write_text("".join(f"{json.dumps(entry)}\n" for entry in listed))
    attempt = write_attempt(tmp_path, [worker("echo never")], code=str(code))
    end = warm.run(attempt)
    assert "short.pack ends before b does" in end["cause"]["message"]
    assert list(Path(attempt.node().work).iterdir()) == []


def test_setup_steps_run_in_order_before_the_workers(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(
        tmp_path,
        [worker("cat order")],
        setup=[["bash", "-c", "echo $NAME > order; echo said"], ["bash", "-c", "echo two >> order"]],
        setup_env={"PATH": os.environ["PATH"], "NAME": "one"},
    )
    warm.run(attempt)
    assert attempt.log() == "one\ntwo\n"
    assert attempt.log("setup.n0").splitlines() == [
        "+ bash -c 'echo $NAME > order; echo said'",
        "said",
        "+ bash -c 'echo two >> order'",
    ]


@pytest.mark.parametrize(
    ("step", "exit_code", "words"),
    [
        (
            ["bash", "-c", "echo oops; exit 9"],
            9,
            "setup step 2 (bash -c 'echo oops; exit 9') on n0 failed: exited with 9",
        ),
        (
            ["pipp", "install"],
            127,
            "setup step 2 (pipp install) on n0 failed: 'pipp': there is no such command",
        ),
    ],
)
def test_a_failing_setup_step_ends_the_attempt_on_all_nodes(
    warm: Warm, tmp_path: Path, step: list[str], exit_code: int, words: str
) -> None:
    attempt = write_attempt(
        tmp_path, {"n0": [worker("echo never")], "n1": [worker("echo never")]}, setup=[["true"], step]
    )
    warm.start(attempt, "n0")
    end = attempt.ended("n0")
    failed = attempt.wait_for("setup_failed")
    assert (end["outcome"], end["cause"]["code"]) == ("failed", "setup_failed")
    assert (failed["step"], failed["exit_code"]) == (1, exit_code)
    assert end["cause"]["message"].startswith(words)
    warm.start(attempt, "n1")
    assert attempt.ended("n1")["cause"] == end["cause"]
    assert not Path(attempt.paths.log("main.0.0")).exists()


def test_a_worker_sees_what_its_attempt_says_and_what_the_node_adds(warm: Warm, tmp_path: Path) -> None:
    source = "import json, os; print(json.dumps(dict(os.environ)))"
    attempt = write_attempt(tmp_path, [python_worker(source, env={"MINE": "1", "PYTHONPATH": "/mine"})])
    warm.run(attempt)
    env = json.loads(attempt.log())
    env.pop("LC_CTYPE", None)  # Python's own
    node = attempt.node()
    assert env.pop("CHECKPOINT_ARTIFACT_PATH") == env.pop("OUTPUT_PATH")
    expected = {
        "MINE": "1",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"/mine:{attempt.told['settings']['sdk']}",
        "TARMAC_ATTEMPT_TOKEN": attempt.token,
        "TARMAC_PAUSE_FILE": node.pause,
        "TARMAC_POLL_FILE": node.polls("main.0.0"),
        "TARMAC_FINISHED_FILE": node.finished,
        "TARMAC_REPORTS_FILE": node.reports,
        "TARMAC_WORLD_FILE": f"{node.directory}/world",
        "LOG_ARTIFACT_PATH": attempt.artifacts["log"],
    }
    assert {name: env[name] for name in expected} == expected
    added = set(env) - set(expected) - {"CRUD_ARTIFACT_PATH", "LOSSY_ARTIFACT_PATH"}
    assert added <= {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR"}
    assert "HOME" in added


def test_artifacts_persist_and_half_written_checkpoints_do_not(warm: Warm, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "checkpoint/.unfinished-0.0.99.1").mkdir(parents=True)
    (kept / "checkpoint/.unfinished-1.1.99.1").mkdir()
    script = 'cd "$CHECKPOINT_ARTIFACT_PATH"; ls -a > before; mkdir .unfinished-1.0.77.1 real; kill -KILL $$'
    attempt = write_attempt(tmp_path, [worker(script)], artifacts=kept)
    warm.run(attempt)
    assert sorted(path.name for path in (kept / "checkpoint").iterdir()) == [
        ".unfinished-1.1.99.1",
        "before",
        "real",
    ]
    assert ".unfinished-0.0.99.1" not in (kept / "checkpoint/before").read_text()
