"""`python -m benchmarks.slurm_addition`: what tarmac adds to plain `sbatch`, beside submitit on one Slurm.

Called by hand. One tuned Slurm; the ways take turns, so that each meets the same machine. When Slurm starts a
job depends on its rhythm, by hundreds of milliseconds: so what a way adds is what it takes until the job is
queued, and then from the prolog of the job, which notes the time, to the first instruction. Then how often
the controller is asked while one job waits, and while 1,000 do.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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

PROLOG = "#!/bin/bash\necho $EPOCHREALTIME > {directory}/$SLURM_JOB_ID\n"


class Took(NamedTuple):
    """Seconds from the call until the job is in Slurm's queue, and until its program's first instruction.

    `in_job_s` is the part of the latter that Slurm's own waiting is not in: since the prolog of the job.
    """

    queued_s: float
    started_s: float
    in_job_s: float


def main() -> int:
    """Measure and print; 1 where the budget is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm_addition", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--queued", type=int, default=1000, help="how many jobs wait; 0: that is left out")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="sa-") as starts,
        cluster("tuned", lines=f"Prolog={_prolog(Path(starts))}") as directory,
        _site(directory) as client,
    ):
        ways: dict[str, Callable[[], Took]] = {
            "sbatch": lambda: _sbatch(directory, Path(starts), "{}"),
            "sbatch and srun": lambda: _sbatch(directory, Path(starts), "srun bash -c {!r}"),
            "tarmac": lambda: _tarmac(client, directory, Path(starts)),
            "submitit": _submitit(directory, Path(starts)),
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
    print("| way | in the queue: p50 / p99 | in the job: p50 / p99 | first instruction: p50 |")
    print("| --- | ---: | ---: | ---: |")
    for name, values in took.items():
        queued_ms, started_ms, in_job_ms = (
            [took_s * 1000 for took_s in each] for each in zip(*values[1:], strict=True)
        )
        figures = [
            f"{percentile(each, 0.5):.0f} / {percentile(each, 0.99):.0f} ms"
            for each in (queued_ms, in_job_ms)
        ]
        print(f"| {name} | {' | '.join(figures)} | {percentile(started_ms, 0.5):.0f} ms |")
    added = {name: _added_ms(took[name], took["sbatch"]) for name in ("tarmac", "submitit")}
    for name, (queue_ms, job_ms) in added.items():
        print(f"{name} adds to sbatch: {queue_ms:.0f} ms to the queue, {job_ms:.0f} ms in the job")
    print(f"squeue in {LOOK_S:g} s: {one} with one job waiting, {many} with {options.queued:,}")
    return 1 if sum(added["tarmac"]) > BUDGET_MS or many > LOOK_S / LEAST_APART_S else 0


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


def _prolog(directory: Path) -> Path:
    """A prolog that notes when a job began, in a file named as its id."""
    program = directory / "prolog"
    program.write_text(PROLOG.format(directory=directory))
    program.chmod(0o755)
    directory.chmod(0o755)
    return program


def _begun_s(starts: Path, job_id: str) -> float:
    """When a job that has begun did so."""
    return float((starts / job_id).read_text())


def _sbatch(directory: Path, starts: Path, way: str) -> Took:
    """Plain `sbatch`, whose script writes the clock; `way`: how it runs that."""
    clock = directory / "clock"
    clock.unlink(missing_ok=True)
    command = way.format(f"date +%s.%N > {clock}.part; mv {clock}.part {clock}")
    began = time.time()
    submission = ["sbatch", "--parsable", "--output=/dev/null", f"--wrap={command}"]
    job_id = subprocess.run(submission, check=True, capture_output=True, text=True).stdout.strip()
    queued = time.time()
    wait_until(clock.exists)
    return _took(began, queued, float(clock.read_text()), _begun_s(starts, job_id))


def _took(began: float, queued: float, started: float, job_begun: float) -> Took:
    return Took(queued - began, started - began, started - job_begun)


def _tarmac(client: Client, directory: Path, starts: Path) -> Took:
    """A run, from the call of the client; the engine notes the id of its job once `sbatch` has said it."""
    began = time.time()
    run_id = client.submit(CLOCK).id
    client.wait(run_id)
    note = directory / "shared/runs" / run_id / "attempts/1/slurm-submitted"
    printed = "".join(chunk.text for chunk in client.logs(run_id))
    return _took(began, note.stat().st_mtime, float(printed), _begun_s(starts, note.read_text().split()[0]))


def _submitit(directory: Path, starts: Path) -> Callable[[], Took]:
    submitit: Any = importlib.import_module("submitit")  # is not always installed, and has no types
    executor = submitit.AutoExecutor(folder=directory / "submitit", cluster="slurm")
    executor.update_parameters(slurm_partition="batch", timeout_min=5, cpus_per_task=1)

    def measure() -> Took:
        began = time.time()
        submission = executor.submit(time.time)
        queued = time.time()
        outcome = Path(submission.paths.result_pickle)
        wait_until(outcome.exists)  # its own look at accounting would come seconds later
        return _took(began, queued, float(submission.result()), _begun_s(starts, submission.job_id))

    return measure


def _calls(client: Client, directory: Path, queued: int) -> int:
    """How often the queue is asked in a while, with so many jobs waiting."""
    subprocess.run(["scontrol", "update", "PartitionName=batch", "State=DOWN"], check=True)
    runs = [run.id for run in client.submit_all([{"source": CLOCK}] * queued)]
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


def _added_ms(took: list[Took], bare: list[Took]) -> tuple[float, float]:
    """What a way adds to a bare script, at the median: until the job is queued, and in the job."""
    (queued, in_job), (bare_queued, bare_in_job) = (
        [
            percentile([getattr(each, part) for each in of[1:]], 0.5) * 1000
            for part in ("queued_s", "in_job_s")
        ]
        for of in (took, bare)
    )
    return queued - bare_queued, in_job - bare_in_job


if __name__ == "__main__":
    raise SystemExit(main())
