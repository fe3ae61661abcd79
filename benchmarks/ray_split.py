"""`python -m benchmarks.ray_split`: how long each step takes after a node of a real Ray is cut off.

Called by hand, as root: the nodes are network namespaces of this machine. Ray's health checks are set as
docs/operating/ray.md says. The test `tests/integration/ray/test_real_split_brain.py` shows what counts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

from ray_clusters import running_ray
from ray_split import LEASE_S, Split, split

MISSED_CHECKS = 3
BUDGET_LOSS_S = 10.0


def main() -> int:
    """Measure and print; 1 where a loss is noticed too late, or a version of the cut one counts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ray_split", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="rs-") as directory,
        running_ray(Path(directory, "r"), missed_checks=MISSED_CHECKS) as nodes,
    ):
        found = [split(Path(directory, f"h{number}"), nodes) for number in range(options.rounds)]
    steps = {
        "loss noticed": [each.lost_at - each.cut_at for each in found],
        "first instruction of the successor": [each.successor_at - each.cut_at for each in found],
        f"end of the cut one (lease {LEASE_S} s)": [each.cut_one_ended_at - each.cut_at for each in found],
    }
    print("| after the cut | median | least | most |\n|---|---:|---:|---:|")
    for step, took_s in steps.items():
        print(f"| {step} | {statistics.median(took_s):.1f} s | {min(took_s):.1f} s | {max(took_s):.1f} s |")
    late = sum(_unwanted(each) for each in found)
    print(f"versions of the cut one after the cut: {late}")
    return 1 if late or max(steps["loss noticed"]) > BUDGET_LOSS_S else 0


def _unwanted(found: Split) -> int:
    return sum(made == 1 and at > found.successor_at for made, _, at in found.versions)


if __name__ == "__main__":
    raise SystemExit(main())
