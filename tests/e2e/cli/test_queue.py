"""The queue on the command line, on real slots in a pool that preempts: the document's example (D13-D15)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell import Shell

SETTINGS = """
[[local]]
nodes = 1
slots = 1

[[local]]
nodes = 1
slots = 1
pool = "small"

[pools.default]
preemption = true
guaranteed = "1s"
"""
JOB = "slots: 1\npool: default\npause: {grace: 5s}\ncommand: exec sleep 600\n"
HEAD = ["#", "ID", "TYPE", "NAME", "PRIORITY", "SUBMITTED", "SLOTS", "STATE", "USER", "EST.", "START"]


@pytest.fixture
def one_slot(tmp_path: Path) -> Iterator[Shell]:
    """A user with a pool of one slot that preempts, and another pool beside it."""
    yield from _one_slot(tmp_path)


@pytest.fixture
def jobs(one_slot: Shell) -> tuple[str, str]:
    """The ids of first_job, which runs, and second_job, which waits for its slot."""
    return _jobs(one_slot)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, tuple[str, str]]]:
    """The same for tests that change nothing."""
    for shell in _one_slot(tmp_path_factory.mktemp("untouched")):
        yield shell, _jobs(shell)


def _one_slot(directory: Path) -> Iterator[Shell]:
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    shell.home.mkdir(mode=0o700)
    (shell.home / "settings.toml").write_text(SETTINGS)
    yield shell
    shell.close()


def _jobs(shell: Shell) -> tuple[str, str]:
    ids = []
    for name, state in (("first_job", "running"), ("second_job", "queued")):
        shell.write(f"{name}.yaml", f"name: {name}\npriority: 42\n{JOB}")
        ids.append(shell.tarmac("run", f"{name}.yaml", "-d", code=0).stdout.strip())
        shell.wait_until(ids[-1], state)
    return ids[0], ids[1]


def table(text: str) -> list[tuple[str, ...]]:
    """Number, name, priority, slots and state of each line of the only table."""
    heading, head, *lines = text.splitlines()
    assert heading == "pool default of local: by priority, with preemption"
    assert head.split() in (HEAD, HEAD[:-2])
    pattern = r"(\d+) +\S+ +batch +(\S+) +(-?\d+) +(?:now|\S+ ago) +(\d/\d) +(\S+)"
    found = [re.match(pattern, line) for line in lines]
    assert all(found), text
    return [match.groups() for match in found if match is not None]


def test_the_documents_example_step_by_step(one_slot: Shell, jobs: tuple[str, str]) -> None:
    """D14: two jobs, `ahead-of`, then a batch of priorities; the tables are those of the document."""
    first, second = jobs
    assert table(one_slot.tarmac("queue", code=0).stdout) == [
        ("1", "first_job", "42", "1/1", "running"),
        ("2", "second_job", "42", "0/1", "queued"),
    ]
    moved = one_slot.tarmac("queue", "move", second, "--ahead-of", first, code=0).stdout
    assert [line[1] for line in table(moved)] == ["second_job", "first_job"]
    one_slot.wait_until(second, "running")
    one_slot.wait_until(first, "queued")
    assert table(one_slot.tarmac("queue", code=0).stdout) == [
        ("1", "second_job", "42", "1/1", "running"),
        ("2", "first_job", "42", "0/1", "queued"),
    ]
    assert one_slot.json("show", first)["run"]["preemptions"] == 1
    one_slot.tarmac("queue", "set", f"{second}.priority=1", f"{first}.priority=1", code=0)
    assert table(one_slot.tarmac("queue", code=0).stdout) == [
        ("1", "second_job", "1", "1/1", "running"),
        ("2", "first_job", "1", "0/1", "queued"),
    ]


def test_a_change_of_a_paused_run_says_when_it_counts(one_slot: Shell, jobs: tuple[str, str]) -> None:
    _, second = jobs
    one_slot.tarmac("pause", second, "--wait", code=0)
    changed = one_slot.tarmac("queue", "set", second, "--priority", "7", code=0)
    assert (
        changed.stderr
        == f"tarmac: {second}: changed, and in no queue now; the change counts once it is resumed\n"
    )
    assert changed.stdout == ""
    one_slot.tarmac("resume", second, code=0)
    assert one_slot.json("show", second)["run"]["priority"] == 7


def test_the_documents_batch_form(one_slot: Shell, jobs: tuple[str, str]) -> None:
    """D14: priorities, pools and places of several runs in one command."""
    first, second = jobs
    one_slot.write("third.yaml", f"name: third_job\n{JOB}")
    third = one_slot.tarmac("run", "third.yaml", "-d", code=0).stdout.strip()
    text = one_slot.tarmac(
        "queue",
        "set",
        f"{first}.priority=50",
        f'{second}.pool="small"',
        "third_job.behind-of=first_job",
        code=0,
    ).stdout
    assert "pool small of local" in text
    one_slot.wait_until(second, "running")
    listed = {pool["pool"]: [run["name"] for run in pool["runs"]] for pool in one_slot.json("queue")["pools"]}
    assert listed == {"default": ["first_job", "third_job"], "small": ["second_job"]}
    assert one_slot.json("show", third)["run"]["priority"] == 50


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("set", "first_job", "--weight", "2"), "weight"),
        (("set", "first_job", "--pool", "smal"), "small"),
        (("set", "frist_job", "--priority", "1"), "first_job"),
        (("set", "first_job", "--priority", "high"), "whole number"),
        (("set", "first_job"), "--priority"),
        (("set", "first_job.colour=red"), "no operation 'colour'"),
        (("set", "first_job.priority=1", "--pool", "small"), "use one form"),
        (("move", "first_job"), "--ahead-of"),
        (("move", "first_job", "--ahead-of", "second_job", "--top"), "one of"),
        (("sort",), "there is no command 'sort'"),
        (("--pool", "smal"), "did you mean small?"),
    ],
)
def test_each_misuse_is_refused(
    untouched: tuple[Shell, tuple[str, str]], arguments: tuple[str, ...], told: str
) -> None:
    """D15: with the reason, exit code 2, and nothing changed."""
    shell, jobs = untouched
    result = shell.tarmac("queue", *arguments, code=2)
    assert result.stderr.startswith("error: ")
    assert told in result.stderr
    assert [run["id"] for run in shell.json("queue")["pools"][0]["runs"]] == list(jobs)
