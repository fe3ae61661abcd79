"""PyTorch trains on two of four nodes of a real Slurm, for a user without rights, whatever happens there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from guides import Reader
from plain_users import NotPossible, user_of_slurm
from separate_sites import SeparateSite, separate_site
from slurm_clusters import CLUSTER, Missing
from source_tree import ROOT

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.xdist_group("slurm-training"),
    pytest.mark.timeout(1200),
    pytest.mark.skipif("SLURM_ENDS" not in os.environ, reason="takes minutes: run with SLURM_ENDS=1"),
]

LINES = "PartitionName=short Nodes=ALL MaxTime=2 State=UP"
DIGITS = f"tarmac run {ROOT}/examples/10-digits-ddp/run.yaml --env GLOO_SOCKET_IFNAME=lo --slots 4 --detach"
PATIENCE_S = 400.0

JOB_S = 50.0
"""So long a job of the partition `short` lets a run work that needs ten seconds to leave."""

POSITION = r" (step +\d+ loss [\d.]+ accuracy [\d.]+%)"


class Story:
    """What the user types and sees."""

    def __init__(self, reader: Reader, slurm: Path) -> None:
        self.reader = reader
        self.slurm = slurm

    def add(self, name: str, **settings: str) -> None:
        """Add a cluster."""
        options = "".join(f" --set {key}={value}" for key, value in settings.items())
        self.type(f"tarmac clusters add {name} --engine slurm{options}")

    def type(self, line: str, *, code: int = 0) -> str:
        """What a command prints, which ends with this code."""
        done = self.reader.run(line)
        assert done.returncode == code, f"$ {line}\n{done.stdout}"
        return done.stdout

    def slurm_command(self, *argv: str) -> None:
        """What an administrator does."""
        environment = {**os.environ, "SLURM_CONF": str(self.slurm / "etc/slurm.conf")}
        subprocess.run(argv, env=environment, check=True, timeout=120)

    def show(self, run: str) -> dict[str, Any]:
        """The run and its attempts."""
        found: dict[str, Any] = json.loads(self.type(f"tarmac show {run} --json"))
        return found

    def until(self, run: str, seen: Callable[[], bool]) -> None:
        """Until something is seen of a run."""
        deadline = time.monotonic() + PATIENCE_S
        while not seen():
            assert time.monotonic() < deadline, self.type(f"tarmac show {run}; tarmac logs {run}")
            Event().wait(0.5)

    def says(self, run: str, attempt: int, pattern: str) -> str:
        """The first such thing that an attempt says, once it does."""
        found: list[str] = []

        def look() -> bool:
            if len(self.show(run)["attempts"]) >= attempt:
                log = self.type(f"tarmac logs {run} --attempt {attempt} --replica 0")
                found.extend(re.findall(pattern, log))
            return bool(found)

        self.until(run, look)
        return found[0]


@pytest.fixture
def story() -> Iterator[Story]:
    try:
        with user_of_slurm(nodes=4, cpus_per_node=2, lines=LINES) as site:
            made = Story(site.reader, site.slurm)
            for name in ("batch", "short"):
                made.add(name, directory="$HOME/runs", partition=name)
            yield made
    except (Missing, NotPossible) as missing:
        pytest.skip(str(missing))


def pid(slurm: Path, daemon: str) -> int:
    return int((slurm / f"{daemon}.pid").read_text())


def test_training_goes_on_through_a_pause_a_dead_controller_and_a_lost_node(story: Story) -> None:
    story.type(f"{DIGITS} --cluster batch --env EPOCHS=60")
    story.says("digits", 1, r"epoch +3 ")
    story.type("tarmac pause digits --wait")
    paused_at = story.says("digits", 1, f"paused at{POSITION}")
    story.type("tarmac resume digits")
    assert story.says("digits", 2, f"resumed at{POSITION}") == paused_at

    subprocess.run(["bash", str(CLUSTER), "restart", str(story.slurm)], check=True, timeout=120)
    epoch = story.says("digits", 2, r"epoch +(\d+) ")
    story.says("digits", 2, rf"epoch +{int(epoch) + 3} ")
    lost = story.show("digits")["attempts"][-1]["nodes"][0]
    os.kill(pid(story.slurm, f"slurmd-{lost}"), 9)
    story.slurm_command("scontrol", "update", f"nodename={lost}", "state=down", "reason=test")
    assert story.says("digits", 3, f"resumed at{POSITION}") == paused_at, "its last checkpoint"
    assert lost not in story.show("digits")["attempts"][-1]["nodes"]

    story.says("digits", 3, "finished at")
    story.type("tarmac wait digits")
    shown = story.show("digits")
    assert [each["outcome"] for each in shown["attempts"]] == ["paused", "lost", "completed"]
    assert all(len(set(each["nodes"])) == 2 for each in shown["attempts"])
    assert shown["run"]["failures"] == 0
    assert float(story.says("digits", 3, r"finished at .* accuracy ([\d.]+)%")) > 95


def test_training_takes_as_many_jobs_as_it_needs(story: Story) -> None:
    """Of a training of two jobs and a half each goes on with the loss of the one before, and it completes."""
    story.type(f"{DIGITS} --cluster batch --env EPOCHS=20 --name pace")
    story.says("pace", 1, r"epoch +1 ")
    began = time.monotonic()
    story.says("pace", 1, "finished at")
    epochs = int(2.5 * JOB_S * 19 / (time.monotonic() - began))
    story.type(f"{DIGITS} --cluster short --env EPOCHS={epochs} --set pause.grace=10s --name capped")
    story.until("capped", lambda: bool(story.show("capped")["run"]["outcome"]))
    *before_last, last = story.show("capped")["attempts"]
    assert last["outcome"] == "completed", last
    assert before_last
    assert all("wall time" in each["cause"]["message"] for each in before_last), before_last
    numbers = range(1, len(before_last) + 2)
    logs = [story.type(f"tarmac logs capped --attempt {each} --replica 0") for each in numbers]
    logs = [log for log in logs if log]  # on a busy machine a job may be over before PyTorch is imported
    assert len(logs) > 1
    for before, after in pairwise(logs):
        assert re.findall(f"resumed at{POSITION}", after) == re.findall(f"paused at{POSITION}", before) != []


def test_a_job_that_somebody_cancels_is_not_taken_for_a_failure(story: Story) -> None:
    story.type(f"{DIGITS} --cluster batch --env EPOCHS=4000")
    story.says("digits", 1, r"epoch +1 ")
    job = story.show("digits")["attempts"][-1]["native"]["id"]
    story.type(f"scancel {job}")
    story.until("digits", lambda: story.show("digits")["run"]["outcome"] == "stopped")
    assert f"job {job} was cancelled in Slurm, not through tarmac" in story.type("tarmac why digits")


@pytest.fixture
def apart() -> Iterator[SeparateSite]:
    try:
        with separate_site(nodes=4, cpus_per_node=2) as site:
            yield site
    except (Missing, NotPossible) as missing:
        pytest.skip(str(missing))


def artifacts(story: Story, run: str) -> list[dict[str, Any]]:
    """The checkpoints of a run that its user has."""
    found = json.loads(story.type(f"tarmac artifacts ls {run} --json"))["artifacts"]
    return [each for each in found if each["kind"] == "checkpoint"]


def end_server(story: Story) -> None:
    """`kill -9`, of the server of somebody else."""
    os.kill(int((Path(story.reader.environment["TARMAC_HOME"]) / "server.lock").read_text()), 9)


def contents(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_training_over_ssh_where_nothing_is_shared_and_the_server_dies(apart: SeparateSite) -> None:
    """The checkpoint goes to the user's machine, and on to nodes that did not save it."""
    story = Story(apart.reader, apart.slurm)
    runs = apart.directory / "runs"
    assert story.reader.run(f"ls {apart.directory}").returncode != 0, "the user cannot read what is there"
    story.add("far", ssh=apart.target, directory=str(runs), partition="batch")
    check = story.type("tarmac clusters check far")
    assert f"are kept in {runs}/artifacts, and fetched from there over the connection" in check
    digits = f"{DIGITS} --cluster far --env PATH={apart.path} --env EPOCHS=60"
    story.type(digits)
    story.says("digits", 1, r"epoch +3 ")
    end_server(story)
    story.type("tarmac pause digits --wait")
    paused_at = story.says("digits", 1, f"paused at{POSITION}")
    shown = story.show("digits")
    story.until("digits", lambda: bool(artifacts(story, "digits")))  # at once, where nothing else is at work
    (saved,) = artifacts(story, "digits")[-1:]
    assert saved["attempt"] == 1
    story.type("tarmac artifacts get digits -o fetched")
    there = contents(runs / "runs" / shown["run"]["id"] / "artifacts/checkpoint")
    assert contents(story.reader.home / "fetched") == there != {}

    end_server(story)
    for node in shown["attempts"][0]["nodes"]:
        story.slurm_command("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
    story.type("tarmac resume digits")
    assert story.says("digits", 2, f"resumed at{POSITION}") == paused_at
    epoch = story.says("digits", 2, r"epoch +(\d+) ")
    end_server(story)
    story.says("digits", 2, rf"epoch +{int(epoch) + 3} ")
    story.says("digits", 2, "finished at")
    story.type("tarmac wait digits")
    shown = story.show("digits")
    assert [each["outcome"] for each in shown["attempts"]] == ["paused", "completed"]
    first, second = (set(each["nodes"]) for each in shown["attempts"])
    assert len(first) == len(second) == 2
    assert first.isdisjoint(second)
    assert float(story.says("digits", 2, r"finished at .* accuracy ([\d.]+)%")) > 95
    assert artifacts(story, "digits")[-1] == saved


def test_artifacts_of_a_site_start_runs_elsewhere_and_the_other_way_round(apart: SeparateSite) -> None:
    story = Story(apart.reader, apart.slurm)
    story.add("far", ssh=apart.target, directory=str(apart.directory / "runs"), partition="batch")
    save = "echo {name} > $CHECKPOINT_ARTIFACT_PATH/{name}; cat $CHECKPOINT_ARTIFACT_PATH/*"
    ran = ""
    for name, where in (("one", "cluster: far"), ("two", ""), ("three", "cluster: far")):
        inputs = f"input_artifacts: [{ran}]" if ran else ""
        text = f"name: {name}\n{where}\n{inputs}\ncommand: {save.format(name=name)}\n"
        story.reader.write(f"# {name}.yaml\n{text}")
        story.type(f"tarmac run {name}.yaml")
        ran = name
    assert sorted(story.type("tarmac logs three").split()) == ["one", "three", "two"]
    run_id = story.show("three")["run"]["id"]
    versions = apart.directory / "runs/artifacts/manifests" / run_id
    assert contents(versions)
    story.type("tarmac rm -y three")
    assert not versions.exists()
    assert "Traceback" not in (Path(story.reader.environment["TARMAC_HOME"]) / "server.log").read_text()
