"""`python -m benchmarks`: measure tarmac and the peers that are here, print the table, keep the figures.

Called by `make bench`. Everything is measured several times and the medians count; a budget that is missed is
said, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

from benchmarks import table, yardstick
from benchmarks.figures import TARMAC, Figure, System
from benchmarks.own.asking import asking
from benchmarks.own.draining import draining, draining_array, draining_widely
from benchmarks.own.following import following
from benchmarks.own.hundred_thousand import queue_and_why
from benchmarks.own.starting import first_run, starting
from benchmarks.own.submitting import submitting
from benchmarks.own.ten_thousand import listing_and_recovery
from benchmarks.peers import hyperqueue_local, ray_jobs, slurm, submitit_local

RESULTS = Path(__file__).with_name("results.json")
OWN = (
    *(asking, submitting, first_run, starting, draining, following),
    *(listing_and_recovery, queue_and_why),
)


def main() -> int:
    options = _options()
    machine = yardstick.measure()
    print(machine, file=sys.stderr)
    systems = [
        System(name=TARMAC, measures=OWN),
        System(name="tarmac, 32 slots", measures=(draining_widely,)),
        System(name="tarmac, 32 slots, one array", measures=(draining_array,)),
        *hyperqueue_local.systems(),
        submitit_local.system(),
        ray_jobs.system(),
        *slurm.systems(),
    ]
    chosen = [system for system in systems if options.only in ("", system.name)]
    figures = [figure for system in chosen for figure in measure(system, options.repeats)]
    circumstances = f"{machine}\n{_circumstances()}"
    RESULTS.write_text(json.dumps(_document(figures, circumstances), indent=2) + "\n")
    print(f"\n{table.render(figures, chosen, scale=machine.scale)}\n\n{circumstances}")
    for sentence in (problems := table.missed(figures, scale=machine.scale)):
        print(f"missed: {sentence}", file=sys.stderr)
    return 1 if problems else 0


def measure(system: System, repeats: int) -> list[Figure]:
    """Everything that is measured of a system, so many times."""
    values: dict[str, list[float]] = {}
    for measuring in system.measures:
        for repeat in range(repeats):
            name = getattr(measuring, "__name__", "everything").replace("_", " ")
            print(f"{system.name}: {name}, {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
            for row, value in measuring().items():
                values.setdefault(row, []).append(value)
    return [Figure(row=row, system=system.name, values=tuple(found)) for row, found in values.items()]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure tarmac and its peers.")
    parser.add_argument("--repeats", type=int, default=3, help="how often each measurement is made (3)")
    parser.add_argument(
        "--only", default="", metavar="SYSTEM", help="one system: tarmac, submitit, 'Ray Jobs', ..."
    )
    return parser.parse_args()


def _document(figures: list[Figure], circumstances: str) -> dict[str, object]:
    return {
        "measured_at": time.time(),
        "circumstances": circumstances,
        "figures": [
            {"row": figure.row, "system": figure.system, "median": figure.median, "values": figure.values}
            for figure in figures
        ],
    }


def _circumstances() -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{os.cpu_count()} processors, Python {platform.python_version()}, load {load} (1, 5, 15 minutes)."


if __name__ == "__main__":
    sys.exit(main())
