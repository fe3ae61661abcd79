"""`python -m benchmarks.slurm_addition`: what tarmac adds to plain `sbatch`, beside submitit on one Slurm.

Called by hand. One tuned Slurm; the ways take turns, so that each meets the same machine. Then how often the
controller is asked while one job waits, and while 1,000 do.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import percentile
from benchmarks.peers.slurm import cluster
from benchmarks.sandbox import sandbox, wait_until
from tarmac.client import Client

LEAST_APART_S = 2.0
"""How often the engine promises to ask the queue at most."""
STAGGER_S = 0.29
"""Slurm schedules in a rhythm; submissions that follow it would all meet the same beat."""
LOOK_S = 30.0
BUDGET_MS = 50.0

SITE = """name: site
engine: slurm
settings: {{directory: {directory}, partition: batch, python: {python}}}
"""
CLOCK = "name: clock\ncluster: site\nslots: 1\ncommand: [date, '+%s.%N']\n"
COUNTING = '#!/bin/bash\necho x >> {calls}\nexec {program} "$@"\n'

Took = tuple[float, float]
"""Seconds until the job is in Slurm's queue, and until the first instruction of its program."""


def main() -> int:
    """Measure and print; 1 where the budget is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm_addition", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--queued", type=int, default=1000, help="how many jobs wait; 0: that is left out")
    options = parser.parse_args()
    with cluster("tuned") as directory, _site(directory) as client:
        ways: dict[str, Callable[[], Took]] = {
            "sbatch": lambda: _sbatch(directory, "{}"),
            "sbatch and srun": lambda: _sbatch(directory, "srun bash -c {!r}"),
            "tarmac": lambda: _tarmac(client, directory),
            "submitit": _submitit(directory),
        }
        took: dict[str, list[Took]] = {name: [] for name in ways}
        for number in range(options.rounds + 1):
            for name, measure in ways.items():
                time.sleep(number * STAGGER_S % 1)
                took[name].append(measure())
        one, many = [
            _calls(client, directory, queued) if queued else 0
            for queued in (min(1, options.queued), options.queued)
        ]
    print(f"| {'way':16} | in the queue p50 | p99 | first instruction p50 | p99 |\n|---|---:|---:|---:|---:|")
    for name, values in took.items():
        submits, starts = ([each[index] * 1000 for each in values[1:]] for index in (0, 1))
        figures = [percentile(found, at) for found in (submits, starts) for at in (0.5, 0.99)]
        print(f"| {name:16} | " + " | ".join(f"{figure:.0f} ms" for figure in figures) + " |")
    added = [_median(took["tarmac"], index) - _median(took["sbatch"], index) for index in (0, 1)]
    print(
        f"tarmac adds to sbatch: {added[0]:.0f} ms to the queue, {added[1]:.0f} ms to the first instruction"
    )
    print(f"squeue in {LOOK_S:g} s: {one} with one job waiting, {many} with {options.queued:,}")
    return 1 if added[1] > BUDGET_MS or many > LOOK_S / LEAST_APART_S else 0


@contextmanager
def _site(directory: Path) -> Iterator[Client]:
    """A tarmac whose cluster `site` is the Slurm; every `squeue` of its server is counted."""
    programs = directory / "bin"
    programs.mkdir()
    program = programs / "squeue"
    program.write_text(COUNTING.format(calls=directory / "calls", program=shutil.which("squeue")))
    program.chmod(0o755)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{programs}:{path}"
    with sandbox() as client:
        os.environ["PATH"] = path
        client.add_cluster(SITE.format(directory=directory / "shared", python=sys.executable))
        yield client


def _sbatch(directory: Path, way: str) -> Took:
    """Plain `sbatch`, whose script writes the clock; `way`: how it runs that."""
    clock = directory / "clock"
    clock.unlink(missing_ok=True)
    command = way.format(f"date +%s.%N > {clock}.part; mv {clock}.part {clock}")
    began = time.time()
    subprocess.run(["sbatch", "--output=/dev/null", f"--wrap={command}"], check=True, capture_output=True)
    submitted_s = time.time() - began
    wait_until(clock.exists)
    return submitted_s, float(clock.read_text()) - began


def _tarmac(client: Client, directory: Path) -> Took:
    """A run, from the call of the client; the engine notes the id of its job once `sbatch` has said it."""
    began = time.time()
    run_id = client.submit(CLOCK)["id"]
    client.wait(run_id)
    note = directory / "shared/runs" / run_id / "attempts/1/slurm-submitted"
    printed = "".join(chunk["text"] for chunk in client.logs(run_id))
    return note.stat().st_mtime - began, float(printed) - began


def _submitit(directory: Path) -> Callable[[], Took]:
    submitit: Any = importlib.import_module("submitit")  # is not always installed, and has no types
    executor = submitit.AutoExecutor(folder=directory / "submitit", cluster="slurm")
    executor.update_parameters(slurm_partition="batch", timeout_min=5, cpus_per_task=1)

    def measure() -> Took:
        began = time.time()
        submission = executor.submit(time.time)
        submitted_s = time.time() - began
        outcome = Path(submission.paths.result_pickle)
        wait_until(outcome.exists)  # its own look at accounting would come seconds later
        return submitted_s, float(submission.result()) - began

    return measure


def _calls(client: Client, directory: Path, queued: int) -> int:
    """How often the queue is asked in a while, with so many jobs waiting."""
    subprocess.run(["scontrol", "update", "PartitionName=batch", "State=DOWN"], check=True)
    runs = [run["id"] for run in client.submit_all([{"source": CLOCK}] * queued)]
    shared = directory / "shared/runs"
    wait_until(
        lambda: all((shared / run / "attempts/1/slurm-submitted").exists() for run in runs), every_s=0.5
    )
    calls = directory / "calls"
    before = calls.read_text().count("x")
    time.sleep(LOOK_S)
    found = calls.read_text().count("x") - before
    subprocess.run(["scancel", f"--user={os.getuid()}"], check=True)
    subprocess.run(["scontrol", "update", "PartitionName=batch", "State=UP"], check=True)
    return found


def _median(took: list[Took], index: int) -> float:
    return percentile([each[index] for each in took[1:]], 0.5) * 1000


if __name__ == "__main__":
    raise SystemExit(main())
