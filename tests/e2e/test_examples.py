"""Every example does what its comment says, started as its README tells. C2, C5, D2, D12."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell import LIMIT_S, Shell

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user whose server serves all tests of this module."""
    directory = tmp_path_factory.mktemp("examples")
    shell = Shell(directory / "home", directory)
    yield shell
    shell.close()


def example(name: str) -> str:
    return str(EXAMPLES / name / "run.yaml")


def test_hello(user: Shell) -> None:
    assert user.tarmac("run", example("01-hello"), code=0).stdout == "hello from hello\n"


def test_two_nodes_are_told_of_one_another(user: Shell) -> None:
    """I16: NNODES x N_PROC is the number of slots, and both meet at one place."""
    text = user.tarmac("run", example("02-two-nodes"), code=0).stdout
    told = re.findall(r"I am node (\d) of 2 and start 1 process here, on slot 0", text)
    assert sorted(told) == ["0", "1"]
    assert len(set(re.findall(r"we meet at (127[\d.]+:\d+)", text))) == 1


def test_a_failure_ends_the_run_with_its_own_code(user: Shell) -> None:
    """C5, D2: the other worker would sleep for ten minutes."""
    result = user.tarmac("run", example("03-failure"), code=7)
    assert "main.1.0" in result.stderr
    assert "exited with 7" in result.stderr


def test_replicas_share_the_work_on_slots_of_their_own(user: Shell) -> None:
    """C2, C3, C9."""
    text = user.tarmac("run", example("04-replicas-and-roles"), code=0).stdout
    found = re.findall(r"replica (\d) of 4, on slot (\d): (.*)", text)
    assert sorted(replica for replica, _, _ in found) == ["0", "1", "2", "3"]
    assert len({slot for _, slot, _ in found}) == 4
    words = [word for _, _, share in found for word in share.split()]
    assert len(words) == len(set(words)) == 10
    assert "with no slot of my own" in text


def test_a_cycle_run_proves_that_its_script_resumes(user: Shell) -> None:
    """I11: two turns, the second goes on from the checkpoint of the first."""
    result = user.tarmac("run", example("07-cycle"), code=0)
    first, second = re.findall(r"starting after step (\d+)", result.stdout)
    assert int(first) == 0 < int(second)
    assert "pause and resume proven" in result.stderr


def test_counting_goes_on_after_a_pause(user: Shell) -> None:
    """D12: pausing saves a checkpoint and frees the slots; resuming goes on from it."""
    run = user.tarmac("run", "--detach", example("05-pause-and-resume"), code=0).stdout.strip()
    follower = user.start("logs", "--follow", run)
    assert follower.stdout is not None
    _until(follower.stdout, r"^step 2$")
    user.tarmac("pause", run, code=0)
    saved = int(_until(follower.stdout, r"asked to leave: step (\d+) is saved")[1])
    user.wait_until(run, "paused")
    user.tarmac("resume", run, code=0)
    resumed = user.start("logs", "--follow", run)
    assert resumed.stdout is not None
    assert int(_until(resumed.stdout, r"starting after step ([1-9]\d*)")[1]) == saved
    user.tarmac("stop", "--wait", run)
    for process in (follower, resumed):
        process.communicate(timeout=LIMIT_S)


def test_setup_prepares_the_node_and_variables_arrive(user: Shell) -> None:
    text = user.tarmac("run", example("06-environment-and-setup"), code=0).stdout
    assert text.splitlines() == [
        "set up by attempt 1",
        *(f"word {number}" for number in range(1, 5)),
        "good morning, the learning rate is 0.10",
    ]


def _until(stream: Iterator[str], pattern: str) -> re.Match[str]:
    """The first line that matches; whatever writes them ends in time, or the test's own limit ends it."""
    for line in stream:
        if found := re.search(pattern, line):
            return found
    pytest.fail(f"no line matches {pattern!r}")
