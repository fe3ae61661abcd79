"""`python -m benchmarks.image_start`: what a run in a cached image adds to `podman run` of the same image.

Called by hand, as root, with podman, runc and Debian's static busybox. One image in both caches, the ways in
turns: from the call to the first instruction of a program that prints its clock. Then ten at once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.figures import percentile
from benchmarks.sandbox import sandbox
from tarmac.client import Client

BUDGET_MS = 40.0
AT_ONCE = 10
BUSYBOX = Path("/bin/busybox")
CLOCK = ("adjtimex",)
"""Of busybox: its `date` has no fractions of a second; this prints `time.tv_sec` and `time.tv_usec`."""

PODMAN = ("podman", "run", "--rm", "--runtime=runc", "--network=host")
LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")
"""Of a machine whose root may not raise limits."""

NAME = "localhost/tarmac-bench:1"


def main() -> int:
    """Measure and print; 1 where the budget is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.image_start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="is-") as place, sandbox() as client:
        archive = _image(Path(place))
        ways: dict[str, Callable[[], float]] = {
            "podman run": _podman,
            "tarmac, in the image": lambda: _tarmac(client, f"environment: {{image: '{archive}'}}\n"),
            "tarmac, on the node": lambda: _tarmac(client, ""),
        }
        try:
            alone: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(options.rounds + 1):
                for name, measure in ways.items():
                    alone[name].append(measure())
            together = {name: _at_once(measure) for name, measure in ways.items()}
        finally:
            subprocess.run(["podman", "rmi", "--force", NAME], check=False, capture_output=True)
    return _report(alone, together)


def _report(alone: dict[str, list[float]], together: dict[str, list[float]]) -> int:
    print(f"| way | first instruction: p50 / p90 | {AT_ONCE} at once: p50 / last |")
    print("| --- | ---: | ---: |")
    for name, values in alone.items():
        single = [percentile([value * 1000 for value in values[1:]], part) for part in (0.5, 0.9)]
        many = [value * 1000 for value in together[name]]
        at_once = f"{percentile(many, 0.5):.0f} / {max(many):.0f} ms"
        print(f"| {name} | {single[0]:.0f} / {single[1]:.0f} ms | {at_once} |")
    medians_ms = [percentile(values[1:], 0.5) * 1000 for values in alone.values()]
    added = medians_ms[1] - medians_ms[0]
    print(f"\ntarmac adds {added:.0f} ms to `podman run` (at most {BUDGET_MS:.0f} ms)")
    return int(added > BUDGET_MS)


def _image(place: Path) -> Path:
    """An image with busybox alone, in podman's store and as an archive."""
    layer = place / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        tar.add(BUSYBOX, "bin/busybox")
        tar.add(BUSYBOX, "bin/sh")
    archive = place / "image.tar"
    for command in (
        ("podman", "import", str(layer), NAME),
        ("podman", "save", "--output", str(archive), NAME),
    ):
        subprocess.run(command, check=True, capture_output=True)
    return archive


def _podman() -> float:
    began = time.time()
    command = (*PODMAN, *LIMITS, NAME, "/bin/busybox", *CLOCK)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return _clock_in(done.stdout) - began


def _tarmac(client: Client, environment: str) -> float:
    began = time.time()
    run = client.submit(f"name: clock\n{environment}command: [/bin/busybox, {', '.join(CLOCK)}]\n").id
    ended = client.wait(run)
    assert ended.outcome == "completed", ended.cause
    text = "".join(chunk.text for chunk in client.logs(run))
    return _clock_in(text) - began


def _at_once(measure: Callable[[], float]) -> list[float]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda _: measure(), range(AT_ONCE)))


def _clock_in(text: str) -> float:
    """The time that the program prints, in seconds since the epoch."""
    fields = dict(line.strip().split(":", 1) for line in text.splitlines() if ":" in line)
    return int(fields["time.tv_sec"].split()[0]) + int(fields["time.tv_usec"].split()[0]) / 1e6


if __name__ == "__main__":
    sys.exit(main())
