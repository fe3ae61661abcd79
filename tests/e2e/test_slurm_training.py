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

from plain_users import NotPossible, Site, user_of_slurm
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

    def __init__(self, site: Site) -> None:
        self.reader = site.reader
        self.slurm = site.slurm
        for name in ("batch", "short"):
            self.type(
                f"tarmac clusters add {name} --engine slurm --set directory=$HOME/runs --set partition={name}"
            )

    def type(self, line: str, *, code: int = 0) -> str:
        """What a command prints, which ends with this code."""
        done = self.reader.run(line)
        assert done.returncode == code, f"$ {line}\n{done.stdout}"
        return done.stdout

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
            yield Story(site)
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
    environment = {**os.environ, "SLURM_CONF": str(story.slurm / "etc/slurm.conf")}
    down = ["scontrol", "update", f"nodename={lost}", "state=down", "reason=test"]
    subprocess.run(down, env=environment, check=True, timeout=120)
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
    for before, after in pairwise(logs):
        assert re.findall(f"resumed at{POSITION}", after) == re.findall(f"paused at{POSITION}", before) != []


def test_a_job_that_somebody_cancels_is_not_taken_for_a_failure(story: Story) -> None:
    story.type(f"{DIGITS} --cluster batch --env EPOCHS=4000")
    story.says("digits", 1, r"epoch +1 ")
    job = story.show("digits")["attempts"][-1]["native"]["id"]
    story.type(f"scancel {job}")
    story.until("digits", lambda: story.show("digits")["run"]["outcome"] == "stopped")
    assert f"job {job} was cancelled in Slurm, not through tarmac" in story.type("tarmac why digits")
