"""Seeded histories of the whole control plane, as many as wanted, and what happened in them.

    python tools/histories.py --seeds 2000 --kind batch

Kinds: `one` (one engine), `far` (a second engine, which hangs, fails and comes back), `batch` (a cluster with
a queue of its own), `frail` (nodes are lost often, also several at once, and come back). The server may crash
at every durable write. A broken promise ends with 1, and is printed with its seed.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"

KINDS: Mapping[str, Mapping[str, bool]] = {
    "one": {},
    "far": {"far": True},
    "batch": {"batch": True},
    "frail": {"frail": True},
}


def main() -> int:
    """Play them, and print what happened."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--kind", choices=KINDS, default="one")
    options = parser.parse_args()
    logging.disable()  # engines that cannot be reached are what these histories are about
    sys.path.insert(0, str(SUPPORT))
    play = import_module("seeded").History
    seen, broken = Counter[str](), 0
    for seed in range(options.seeds):
        history = play(seed, **KINDS[options.kind])
        try:
            history.run()
        except AssertionError as error:
            broken += 1
            print(f"history {seed}: {error}", file=sys.stderr)
        seen["crashes"] += history.simulation.crashes
        seen["runs ended"] += len(history.ended)
        seen["attempts"] += sum(run.attempt for run in history.ended.values())
        seen["attempts lost"] += sum(run.faults for run in history.ended.values())
        seen.update(history.node_events)
        if sys.stderr.isatty():
            print(f"\r{seed + 1} of {options.seeds}", end="", file=sys.stderr, flush=True)
    print(f"histories:                       {options.seeds} of kind {options.kind}")
    for what, number in seen.items():
        print(f"{what + ':':<32} {number:,}")
    print(f"broken promises:                 {broken}")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
