"""A real Slurm on two nodes of 32 slots each, stock and tuned, through its own commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import System, percentile, spread
from benchmarks.own.asking import command_ms
from benchmarks.sandbox import wait_until

SCRIPT = Path(__file__).resolve().parents[1] / "slurm_cluster.sh"
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue")
SUBMISSIONS = 100
CLIENTS = 50
DRAIN_CLIENTS = 8
"""More at once only get in the way of the controller on two processors."""
DRAINED = 1000
STARTS_STOCK = 15
STARTS = 100
STAGGER_S = 0.29
"""Slurm schedules in a rhythm; submissions that follow it would all meet the same beat."""
QUEUED = 10_000
LISTS = 7
SAVED_AFTER_S = 10.0
"""Slurm acknowledges first and saves its state every few seconds; it gets the time to."""


def systems() -> list[System]:
    """Slurm as it comes, and Slurm that schedules at once."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]
    if missing:
        absent = f"no {missing[0]}; apt-get install slurmctld slurmd slurm-client munge"
        return [System(name="Slurm", absent=absent)]
    return [
        System(name="Slurm", measures=(stock,)),
        System(name="Slurm, tuned", measures=(tuned,)),
        System(name="Slurm, tuned, one array", measures=(array,)),
        System(name="Slurm, tuned, srun", measures=(at_once,)),
    ]


def stock() -> Mapping[str, float]:
    """As Debian's package comes: patient, so with fewer jobs."""
    return measure("stock", drained=100, starts=STARTS_STOCK)


def tuned() -> Mapping[str, float]:
    """Scheduling as soon as anything happens."""
    return measure("tuned", drained=DRAINED, starts=STARTS)


def array() -> Mapping[str, float]:
    """The drain of one job array."""
    with cluster("tuned"):
        began = time.perf_counter()
        _sbatch(f"--array=0-{DRAINED - 1}", "--wrap=true")
        wait_until(_queue_is_empty, every_s=0.1)
        return {"drain": DRAINED / (time.perf_counter() - began)}


def at_once() -> Mapping[str, float]:
    """The quickest way that Slurm has to start a program, without a job that could be left alone: `srun`."""
    with cluster("tuned"):
        for _ in range(3):
            _srun()
        return spread("start", [_srun() for _ in range(STARTS)])


def measure(flavour: str, *, drained: int, starts: int) -> Mapping[str, float]:
    """Submissions, starts, a drain; then a list of 10,000 and a killed controller."""
    with cluster(flavour) as directory:
        start_s = [_start(directory, after_s=number * STAGGER_S % 1) for number in range(starts)]
        drain_s, submit_s, at_once_s = _drain(drained)
        _sbatch("--hold", f"--array=0-{QUEUED - 1}", "--wrap=true")
        lists_s = [_list() for _ in range(LISTS)]
        recovery_s, lost = _recovery(directory)
        help_ms = command_ms(["sbatch", "--help"])
    return {
        **spread("submit", submit_s),
        "command": percentile(submit_s, 0.5) * 1000,
        "submit_rate": drained / at_once_s,
        **spread("start", start_s),
        "drain": drained / drain_s,
        "list": percentile(lists_s, 0.5) * 1000,
        "recovery": recovery_s,
        "lost": lost,
        "help": help_ms,
    }


def _start(directory: Path, *, after_s: float) -> float:
    """From before sbatch to the clock that the script writes."""
    clock = directory / "clock"
    clock.unlink(missing_ok=True)
    time.sleep(after_s)
    began = time.time()
    _sbatch(f"--wrap=date +%s.%N > {clock}.part; mv {clock}.part {clock}")
    wait_until(clock.exists)
    return float(clock.read_text()) - began


def _srun() -> float:
    """From before srun to the clock that the program prints."""
    began = time.time()
    command = ["srun", "--ntasks=1", "date", "+%s.%N"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(printed) - began


def _drain(count: int) -> tuple[float, list[float], float]:
    """Seconds until `count` jobs that do nothing have ended, those of single sbatches, and of all of them."""
    one_by_one_s = [_sbatch("--hold", "--wrap=true") for _ in range(SUBMISSIONS)]
    subprocess.run(["scancel", f"--user={os.getuid()}"], check=True)
    wait_until(_queue_is_empty)
    began = time.perf_counter()
    with ThreadPoolExecutor(DRAIN_CLIENTS) as pool:
        list(pool.map(lambda _: _sbatch("--wrap=true"), range(count)))
    wait_until(_queue_is_empty, every_s=0.1)
    drain_s = time.perf_counter() - began
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda _: _sbatch("--hold", "--wrap=true"), range(count)))
    at_once_s = time.perf_counter() - began
    subprocess.run(["scancel", f"--user={os.getuid()}"], check=True)
    wait_until(_queue_is_empty, every_s=0.1)
    return drain_s, one_by_one_s, at_once_s


def _recovery(directory: Path) -> tuple[float, float]:
    """Seconds from `kill -9` of the controller to the full list again; how many jobs are missing then."""
    time.sleep(SAVED_AFTER_S)
    began = time.perf_counter()
    subprocess.run([SCRIPT, "restart", directory], check=True)
    wait_until(lambda: _queued() > 0, every_s=0.02)
    took_s = time.perf_counter() - began
    return took_s, float(QUEUED - _queued())


def _sbatch(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run(["sbatch", "--output=/dev/null", *arguments], check=True, capture_output=True)
    return time.perf_counter() - began


def _list() -> float:
    began = time.perf_counter()
    assert _queued() == QUEUED
    return time.perf_counter() - began


def _queued() -> int:
    result = subprocess.run(["squeue", "--noheader", "--array"], capture_output=True, check=False)
    return result.stdout.count(b"\n")


def _queue_is_empty() -> bool:
    result = subprocess.run(["squeue", "--noheader", "--states=PD,R,CG"], capture_output=True, check=True)
    return not result.stdout.strip()


@contextmanager
def cluster(flavour: str, *, lines: str = "") -> Iterator[Path]:
    """A cluster that lives as long as the block; its commands find it through the environment.

    `lines` are added to its configuration.
    """
    before = dict(os.environ)
    directory = Path(tempfile.mkdtemp(prefix="slurm-bench-"))
    os.environ.update(SLURM_CONF=str(directory / "etc/slurm.conf"), SLURM_CLUSTER_LINES=lines, PATH=_path())
    try:
        subprocess.run([SCRIPT, "up", directory, flavour], check=True, timeout=120)
        yield directory
    finally:
        subprocess.run([SCRIPT, "down", directory], check=False)
        os.environ.clear()
        os.environ.update(before)
        wait_until(lambda: not list(directory.glob("*.pid")), every_s=0.05)
        shutil.rmtree(directory, ignore_errors=True)


def _path() -> str:
    """Slurm's servers live where ordinary users do not look."""
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"
