"""Runs described in Python are run files: the reader of run files takes what the client makes."""

from __future__ import annotations

import pytest

import tarmac
from tarmac.client.launching import run_file
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import LocalDirectory, Repository, RunSpec
from tarmac.systems.registry import read


def test_the_shortest_run() -> None:
    spec = spec_of(tarmac.Run(command="echo hello"))
    assert str(spec.roles[0].processes[0].command) == "echo hello"


def test_a_run_with_everything() -> None:
    spec = spec_of(
        tarmac.Run(
            name="all",
            project="p",
            roles={
                "learner": tarmac.Role(command=["python", "learn.py"], slots=4),
                "server": tarmac.Role(
                    processes=[
                        tarmac.Process("serve", tarmac.Resources(cpus=2, memory="1GiB")),
                        tarmac.Process(["watch"]),
                    ],
                    replicas=2,
                    on_failure="continue",
                ),
            },
            code=tarmac.LocalDir("src"),
            priority=3,
            retries=2,
            time_limit="2h",
            pause={"signal": "SIGUSR1", "grace": "10s"},
            setup=["pip list"],
            env={"SEED": "7"},
            labels={"team": "vision"},
        )
    )
    learner, server = spec.roles
    assert (learner.slots, learner.processes[0].command.argv) == (4, ("python", "learn.py"))
    assert (server.replicas, len(server.processes), server.on_failure) == (2, 2, "continue")
    assert server.processes[0].resources.memory_bytes == 2**30
    assert spec.code == LocalDirectory(path="/somewhere/src")
    assert (spec.priority, spec.retries, spec.time_limit_s, spec.pause.grace_s) == (3, 2, 7200.0, 10.0)
    assert (spec.environment.variables, spec.labels) == ({"SEED": "7"}, {"team": "vision"})


def test_a_run_brings_code_and_finds_what_it_names() -> None:
    """C1, C6, C7: code from git or a directory, datasets, artifacts, parameters, from Python."""
    spec = spec_of(
        tarmac.Run(
            command="x",
            code=tarmac.GitRepo("git@example.org:team/digits.git", branch="main", commit="1a2b3c4"),
            hooks={"before": "echo", "after": ["echo 1", "echo 2"]},
            image="ubuntu:24.04",
            modules=["CUDA/12"],
            binds=[{"source": "/scratch", "target": "/data/scratch", "read_only": True}],
            datasets=["mnist"],
            input_artifacts=["r1-checkpoint"],
            artifacts={"checkpoint_every": "5m"},
            parameters={"lr": 0.1, "note": "1e-3"},
            unique_name=True,
        )
    )
    assert spec.code == Repository(url="git@example.org:team/digits.git", branch="main", commit="1a2b3c4")
    assert [str(command) for command in spec.hooks.after] == ["echo 1", "echo 2"]
    assert (spec.environment.image, spec.environment.modules) == ("ubuntu:24.04", ("CUDA/12",))
    assert (spec.datasets, spec.input_artifacts) == (("mnist",), ("r1-checkpoint",))
    assert (spec.binds[0].read_only, spec.artifacts.checkpoint_every_s) == (True, 300.0)
    assert (spec.parameters, spec.unique_name) == ({"lr": 0.1, "note": "1e-3"}, True)


def test_a_directory_says_what_stays_behind() -> None:
    spec = spec_of(tarmac.Run(command="x", code=tarmac.LocalDir("src", exclude=["data/"], limit="95MiB")))
    assert spec.code == LocalDirectory(path="/somewhere/src", exclude=("data/",), limit_bytes=95 * 2**20)


def test_the_reader_judges_what_python_says() -> None:
    with pytest.raises(InvalidInput, match="priority"):
        spec_of(tarmac.Run(command="x", priority="urgent"))  # type: ignore[arg-type]


def test_a_venv_is_part_of_the_environment() -> None:
    assert spec_of(tarmac.Run(command="x", venv="/envs/a", env={"A": "b"})).environment.venv == "/envs/a"


def spec_of(run: tarmac.Run) -> RunSpec:
    return read(run_file(run), filename="run.json", directory="/somewhere").spec
