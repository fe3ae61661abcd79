"""How the costs of a server and its commands grow with things that they do not ask for.

Run with `python -m benchmarks.server_growth [--check] [--sizes 1000,10000] [--things "queued runs,..."]
[--plot FILE]`: with `--check` it ends with 1 if one is out of range with the most things; with `--plot` it
draws the table into FILE (.png, .svg or .pdf), which needs matplotlib. All figures are processor time.
"""

from __future__ import annotations

import argparse
import math
import os
import pty
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks import yardstick
from benchmarks.figures import percentile
from benchmarks.sandbox import NO_OP, sandbox, stop_server, wait_until
from tarmac.client import Client
from tarmac.model.metrics import MetricReport, ReportBatch
from tarmac.store import open_store

SIZES = (1_000, 10_000, 100_000)
ASKED = 3
SUBMITTED = 40
FILES = 18

BUDGET_MS = 50.0
START_MS = 1500.0
MEMORY_MB = 250.0
EXPONENT = 0.3
SMALL_MS = 5.0
"""A cost below this may have any exponent: it is one of noise."""

START, MEMORY, SUBMIT, LEFT = "start", "memory, MB", "submit", "left by a run"

HOLDER = "name: holder\nslots: 8\ncommand: [sleep, '3600']\ntime_limit: 1h\n"
WAITS = "name: waits\nslots: 8\ncommand: [sleep, '3600']\ntime_limit: 1h\n"
LABELLED = NO_OP + "labels: {team: vision}\n"
ARRAY = "name: sweep\nslots: 8\ncommand: [sleep, '3600']\ntime_limit: 1h\narray: 0-1\n"


@dataclass(frozen=True, slots=True)
class Scene:
    """The runs of a sandbox before one of them is multiplied."""

    client: Client
    ended: str
    waiting: str
    member: str

    @property
    def record(self) -> Path:
        return self.client.home.database


def _runs(run: Callable[[Scene], str]) -> Callable[[Scene, int], str]:
    def multiplied(scene: Scene, count: int) -> str:
        with closing(sqlite3.connect(scene.record)) as connection:
            _copy_run(connection, run(scene), count)
            connection.commit()
        return run(scene)

    return multiplied


def _elements(scene: Scene, count: int) -> str:
    with closing(sqlite3.connect(scene.record)) as connection:
        _copy_run(connection, scene.member, count, array_index="n + 1")
        connection.commit()
    return "sweep"


def _events(scene: Scene, count: int) -> str:
    """Changes of a waiting run, as many are made of one that retries."""
    with closing(sqlite3.connect(scene.record)) as connection:
        (last,) = connection.execute("SELECT seq FROM run WHERE id = ?", (scene.waiting,)).fetchone()
        changes = {"id": "NULL", "seq": f"{last} + n"}
        _copy(
            connection,
            "event",
            "id = (SELECT max(id) FROM event WHERE run_id = ?)",
            scene.waiting,
            count,
            changes,
        )
        connection.execute("UPDATE run SET seq = seq + ? WHERE id = ?", (count, scene.waiting))
        connection.commit()
    return scene.waiting


def _metrics(scene: Scene, count: int) -> str:
    reports = [
        MetricReport(at=float(step), step=step, values={"loss": 1 / (step + 1)}) for step in range(count)
    ]
    with closing(open_store(f"sqlite:///{scene.record}")) as store:
        for at in range(0, count, 1000):
            part = tuple(reports[at : at + 1000])
            node, end = "local", at + len(part)
            batch = ReportBatch(run_id=scene.ended, attempt=1, node=node, begin=at, end=end, reports=part)
            store.metrics.take([batch], lease=None)
    return scene.ended


THINGS: Mapping[str, Callable[[Scene, int], str]] = {
    "ended runs": _runs(lambda scene: scene.ended),
    "queued runs": _runs(lambda scene: scene.waiting),
    "labels": _runs(lambda scene: scene.ended),
    "array elements": _elements,
    "events of one run": _events,
    "metrics of one run": _metrics,
}
"""What there is a lot of: a function adds so many, and returns the reference of one of them."""

COMMANDS: Mapping[str, Sequence[str]] = {
    "ls": ("ls",),
    "ls of a label": ("ls", "--label", "team=vision"),
    "queue": ("queue",),
    "show": ("show", "{}"),
    "why": ("why", "{}"),
    "usage": ("usage",),
    "projects": ("projects",),
    "metrics": ("metrics", "{}"),
}
"""The commands, in a terminal."""

ONLY = {"ls of a label": "labels", "metrics": "metrics of one run"}

Costs = dict[str, float]


def main() -> int:
    """Print the table, and draw it where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_growth", description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with 1 where a figure is out of range")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="how many of each thing")
    parser.add_argument("--things", default=",".join(THINGS), help="the things there are many of")
    parser.add_argument("--plot", metavar="FILE", help="draw the table")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    scale = yardstick.measure().scale
    growth: dict[str, list[Costs]] = {}
    for thing in options.things.split(","):
        growth[thing] = [costs(thing, size) for size in sizes]
        _print(thing, sizes, growth[thing])
    left = max(each.pop(LEFT) for found in growth.values() for each in found)
    print(f"files and directories that a run leaves at its end: {left:.0f}")
    if options.plot:
        draw(growth, sizes, options.plot)
    missed = [line for thing, found in growth.items() for line in _missed(thing, sizes, found, scale)]
    print("\n".join(missed))
    return 1 if options.check and (missed or left > FILES) else 0


def costs(thing: str, count: int) -> Costs:
    """The costs with so many of a thing: processor time in ms of the server for each request or command."""
    with sandbox() as client:
        scene = _prepare(client, LABELLED if thing == "labels" else NO_OP)
        left = sum(1 for _ in (client.home.runs / scene.ended).rglob("*")) + 1
        stop_server(client)
        reference = THINGS[thing](scene, count)
        pid = client.version().pid  # starts the next one
        _settle(pid)
        found = {START: _cpu_ms(pid), LEFT: float(left)}
        for name, words in COMMANDS.items():
            if ONLY.get(name, thing) != thing:
                continue
            both = [_command(pid, [word.format(reference) for word in words]) for _ in range(ASKED)]
            found[name] = percentile([server for server, _ in both], 0.5)
            found[f"{name}, the command itself"] = percentile([own for _, own in both], 0.5)
        found[SUBMIT] = _submissions(client, pid)
        found[MEMORY] = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
        client.stop("holder", now=True)
        client.wait("holder", timeout_s=60)
    return found


def _prepare(client: Client, source: str) -> Scene:
    ended = client.submit(source).id
    client.wait(ended, timeout_s=60)
    holder = client.submit(HOLDER).id
    wait_until(lambda: client.run(holder).state == "running")
    member = client.submit(ARRAY)
    last = max(client.runs(array=member.array_id).runs, key=lambda run: run.array_index or 0)
    waiting = client.submit(WAITS).id
    wait_until(lambda: client.run(waiting).state == "queued" and client.run(last.id).state == "queued")
    return Scene(client, ended, waiting, last.id)


def _copy_run(connection: sqlite3.Connection, run_id: str, count: int, **changes: str) -> None:
    """Copies of a run, with its spec, labels, events and attempts, each under an id of its own."""
    new = "substr({}, 1, 7) || printf('%06d', n)"
    own = {"id": new.format("id"), "idempotency_key": "NULL", **changes}
    _copy(connection, "run", "id = ?", run_id, count, own)
    for table, more in (("run_spec", {}), ("run_label", {}), ("event", {"id": "NULL"}), ("attempt", {})):
        _copy(connection, table, "run_id = ?", run_id, count, {"run_id": new.format("run_id"), **more})


def _copy(
    connection: sqlite3.Connection,
    table: str,
    where: str,
    run_id: str,
    count: int,
    changes: Mapping[str, str],
) -> None:
    columns = list(_columns(connection, table))
    copied = ", ".join(changes.get(name, name) for name in columns)
    connection.execute(
        f"""WITH RECURSIVE each(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM each WHERE n < {count - 1})
        INSERT INTO {table} ({", ".join(columns)}) SELECT {copied} FROM {table}, each WHERE {where}""",
        (run_id,),
    )


def _columns(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    for _, name, *_ in connection.execute(f"PRAGMA table_info({table})"):
        yield name


def _command(pid: int, words: Sequence[str]) -> tuple[float, float]:
    """The processor time of the server, and of a command in a terminal, in ms."""
    before_ms = _cpu_ms(pid)
    reader, writer = pty.openpty()
    program = [sys.executable, "-m", "tarmac.cli", *words]
    with subprocess.Popen(program, stdin=writer, stdout=writer, stderr=writer) as started:
        os.close(writer)
        try:
            while os.read(reader, 1 << 16):
                pass
        except OSError:  # the end of a terminal
            pass
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    os.close(reader)
    if started.returncode:
        raise RuntimeError(f"tarmac {' '.join(words)} ended with {started.returncode}")
    return _cpu_ms(pid) - before_ms, (used.ru_utime + used.ru_stime) * 1000


def _submissions(client: Client, pid: int) -> float:
    """The processor time of the server for one run submitted after another, with all that follows from it."""
    _settle(pid)
    before_ms = _cpu_ms(pid)
    for _ in range(SUBMITTED):
        client.submit(WAITS)
        time.sleep(0.01)
    return (_cpu_ms(pid) - before_ms) / SUBMITTED


def _settle(pid: int) -> None:
    """Wait until the server does nothing."""
    before_ms, until = float("-inf"), time.monotonic() + 120
    while (now_ms := _cpu_ms(pid)) - before_ms > 5.0 and time.monotonic() < until:
        before_ms = now_ms
        time.sleep(0.5)


def _cpu_ms(pid: int) -> float:
    """The processor time that a process has used: clock_getcpuclockid(3) in Python."""
    return time.clock_gettime((~pid << 3) | 2) * 1000


def exponent(sizes: Sequence[int], found: Sequence[float]) -> float:
    """The exponent of the growth: the slope of log cost over log size, by least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(max(value, 0.01)) for value in found]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    across = sum((each - x) ** 2 for each in xs)
    return (
        sum((each - x) * (value - y) for each, value in zip(xs, ys, strict=True)) / across if across else 0.0
    )


def _print(thing: str, sizes: Sequence[int], found: Sequence[Costs]) -> None:
    print(f"\n{f'ms, by {thing}':<36}" + "".join(f"{size:>10,}" for size in sizes) + f"{'exponent':>10}")
    for name in (name for name in found[0] if name != LEFT):
        values = [each[name] for each in found]
        line = "".join(f"{value:>10.1f}" for value in values)
        print(f"{name:<36}{line}{exponent(sizes, values):>10.2f}", flush=True)


def _missed(thing: str, sizes: Sequence[int], found: Sequence[Costs], scale: float) -> Iterator[str]:
    for name in found[0]:
        values = [each[name] for each in found]
        if name == MEMORY:
            within = values[-1] <= MEMORY_MB
        elif name == START:
            within = values[-1] <= START_MS * scale
        elif name.endswith("itself"):
            continue
        else:
            flat = exponent(sizes, values) <= EXPONENT or values[-1] <= SMALL_MS * scale
            within = values[-1] <= BUDGET_MS * scale and flat
        if not within:
            yield f"missed: {name} with {sizes[-1]:,} {thing}: {values[-1]:.1f}"


def draw(growth: Mapping[str, Sequence[Costs]], sizes: Sequence[int], file: str) -> None:
    """A picture for each thing: the costs over its number, on log scales."""
    from matplotlib.figure import Figure as Picture  # noqa: PLC0415 - only who draws needs it

    picture = Picture(figsize=(13, 8), layout="constrained")
    every = picture.subplots(2, math.ceil(len(growth) / 2), sharey=True, squeeze=False).flat
    drawn = [
        name for name in (START, *COMMANDS, SUBMIT) if any(name in found[0] for found in growth.values())
    ]
    for axes, (thing, found) in zip(every, growth.items(), strict=False):
        for number, name in enumerate(drawn):
            values = [each.get(name, math.nan) for each in found]
            axes.loglog(sizes, values, marker="o", label=name, color=f"C{number}")
        axes.axhline(BUDGET_MS, linestyle="--", color="grey", label="budget")
        axes.set(title=f"{thing}", xlabel="number", ylabel="ms")
    picture.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(drawn) + 1)
    picture.savefig(file)


if __name__ == "__main__":
    raise SystemExit(main())
