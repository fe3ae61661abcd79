"""How questions to a server grow with the runs that it has: pages of the list and of the queue, and why.

Run with `python -m benchmarks.server_growth [--check] [--sizes 1000,10000]`: with `--check` it ends with 1 if
one is out of range with the most runs. The last line counts the files and directories that a run leaves.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from benchmarks import yardstick
from benchmarks.figures import ROWS, percentile
from benchmarks.own.hundred_thousand import ASKED, queue_and_why, timed
from benchmarks.sandbox import NO_OP, raw_get, sandbox, stop_server

SIZES = (1_000, 10_000, 100_000)
FILES = 18

PAGE, FILTERED, LEFT = "a page of 50 runs", "a page that no run fits", "left by a run"
ROW_OF = {PAGE: "page", FILTERED: "page", "queue: a page of 40": "queue", "why, the slowest of nine": "why"}
"""What is asked, and the row of `figures` whose budget it has."""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_growth", description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with 1 where a figure is out of range")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="how many runs")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    scale = yardstick.measure().scale
    ended = [of_ended(size) for size in sizes]
    queued = [of_queued(size) for size in sizes]
    print(f"\n{'ms, server side':<44}" + "".join(f"{size:>10,}" for size in sizes))
    missed = False
    for kind, found in (("ended", ended), ("queued", queued)):
        for name in (name for name in found[0] if name in ROW_OF):
            row = next(row for row in ROWS if row.key == ROW_OF[name])
            missed = missed or not row.kept(found[-1][name], scale)
            print(f"{f'{name}, by runs {kind}':<44}" + "".join(f"{one[name]:>10.1f}" for one in found))
    left = max(one[LEFT] for one in ended)
    print(f"files and directories that a run leaves at its end: {left:.0f}")
    return 1 if options.check and (missed or left > FILES) else 0


def of_ended(runs: int) -> Mapping[str, float]:
    """With so many runs that have just ended: copies of one, on the record of a server that stands still."""
    with sandbox() as client:
        first = client.submit(NO_OP).id
        client.wait(first, timeout_s=60)
        left = sum(1 for _ in (client.home.runs / first).rglob("*")) + 1
        stop_server(client)
        _multiply(client.home.database, first, runs)
        client.version()  # starts the next one
        page_s = [timed(lambda: raw_get(client, "/runs?limit=50")) for _ in range(ASKED)]
        filtered_s = [timed(lambda: raw_get(client, "/runs?limit=50&name=nobody")) for _ in range(ASKED)]
    return {
        PAGE: percentile(page_s, 0.5) * 1000,
        FILTERED: percentile(filtered_s, 0.5) * 1000,
        LEFT: float(left),
    }


def of_queued(runs: int) -> Mapping[str, float]:
    """With so many runs that wait behind one."""
    found = queue_and_why(runs)
    return {name: found[row] for name, row in ROW_OF.items() if row in ("queue", "why")}


def _multiply(database: Path, run_id: str, runs: int) -> None:
    with closing(sqlite3.connect(database)) as connection:
        columns = list(_columns(connection))
        changed = {"id": "substr(id, 1, 7) || printf('%06d', n)", "idempotency_key": "NULL"}
        copied = ", ".join(changed.get(name, name) for name in columns)
        connection.execute(
            f"""WITH RECURSIVE each(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM each WHERE n < {runs - 1})
            INSERT INTO run ({", ".join(columns)}) SELECT {copied} FROM run, each WHERE id = ?""",
            (run_id,),
        )
        connection.commit()


def _columns(connection: sqlite3.Connection) -> Iterator[str]:
    for _, name, *_ in connection.execute("PRAGMA table_info(run)"):
        yield name


if __name__ == "__main__":
    raise SystemExit(main())
