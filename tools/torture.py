"""Torture: `kill -9` of the server at random moments under a load of short runs; then everything is counted.

    python tools/torture.py --runs 300 --kills 10 [--drain]

Each run appends a line to a file of its own making as its first act, so that what really started can be
compared with what was accepted. Nothing accepted may be lost, nothing may start twice, and nothing that runs
may notice. Run by hand, and by tests/e2e/test_torture.py.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar
from uuid import uuid4

from tarmac import api
from tarmac.client import Client
from tarmac.model.errors import TarmacError, Unavailable

T = TypeVar("T")

SUBMITTERS = 4
PATIENCE_S = 60.0
LONG_RUNS = 4

LIVE = ("queued", "starting", "running")
SHAPES = (1, 1, 1, 2)
KILL_PAUSE_S = 0.8
"""The longest life of a server."""

SHORT = "echo $TARMAC_RUN_ID.$TARMAC_ATTEMPT.$NODE_RANK >> {starts}\n{rest}"
RESTS = ("true", "sleep 0.05", "sleep 0.3", "exit 3")


@dataclass(slots=True)
class Ordeal:
    """What was asked for and what came of it. `expected` maps run ids to the exit status they must have.

    `submissions`: how many runs all submitters have to submit.
    """

    home: Path
    starts: Path
    random: Random
    kills: int = 0
    submissions: int = 0
    expected: dict[str, int] = field(default_factory=dict)
    ended: dict[str, api.Run] = field(default_factory=dict)
    submitted: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The result: all but the first two must be zero. `refused`: submitted and not accepted."""

    accepted: int
    kills: int
    refused: int
    lost: int
    started_twice: int
    disturbed: int
    wrong_outcome: int
    slots_held: int

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not (
            self.refused
            or self.lost
            or self.started_twice
            or self.disturbed
            or self.wrong_outcome
            or self.slots_held
        )


def torture(home: Path, *, runs: int, kills: int, seed: int) -> Count:
    """Run the ordeal in a tarmac home of its own and count."""
    ordeal = Ordeal(home=home, starts=home.parent / "starts.txt", random=Random(seed))
    ordeal.starts.touch()
    share, rest = divmod(runs, SUBMITTERS)
    submitters = [
        threading.Thread(target=submit_runs, args=(ordeal, share + (number < rest), seed + number))
        for number in range(SUBMITTERS)
    ]
    killer = threading.Thread(target=kill_servers, args=(ordeal, kills))
    for thread in (*submitters, killer):
        thread.start()
    for thread in submitters:
        thread.join()
    ordeal.submitted.set()
    killer.join()
    return conclude(ordeal)


def torture_drain(home: Path, *, runs: int, kills: int, seed: int) -> Count:
    """Kill servers that only drain a queue, at full speed: no run waits for a client, and none takes time."""
    ordeal = Ordeal(home=home, starts=home.parent / "starts.txt", random=Random(seed), submissions=runs)
    ordeal.starts.touch()
    body = SHORT.format(starts=ordeal.starts, rest="true").replace("\n", "\n  ")
    with Client(home=home) as client:
        accepted = client.submit_all([{"source": f"name: short\nslots: 1\ncommand: |\n  {body}\n"}] * runs)
        ordeal.expected = {run.id: 0 for run in accepted}
        while ordeal.kills < kills and until_answered(partial(client.runs, states=LIVE, limit=1)).runs:
            kill_servers(ordeal, 1, pause_s=KILL_PAUSE_S / 2)
    return conclude(ordeal)


def conclude(ordeal: Ordeal) -> Count:
    """What came of it, once every run has ended; stops the server."""
    await_ends(ordeal)
    count = count_all(ordeal)
    with Client(home=ordeal.home) as client:
        client.stop_server()
    return count


def submit_runs(
    ordeal: Ordeal,
    runs: int,
    seed: int,
    *,
    cluster: str = "",
    slots: Sequence[int] = SHAPES,
    pause_s: float = 0.0,
) -> None:
    """Submit short runs to a cluster, one after the other, after pauses of at most `pause_s`."""
    target = f"cluster: {cluster}\n" if cluster else ""
    random = Random(seed)
    with ordeal.lock:
        ordeal.submissions += runs
    with Client(home=ordeal.home) as client:
        for number in range(runs):
            time.sleep(random.uniform(0.0, pause_s))
            rest = f"sleep {2 + random.random():.2f}" if number < LONG_RUNS else random.choice(RESTS)
            body = SHORT.format(starts=ordeal.starts, rest=rest).replace("\n", "\n  ")
            source = f"name: short\n{target}slots: {random.choice(slots)}\ncommand: |\n  {body}\n"
            submit(ordeal, client, source, exit_status=3 if rest == "exit 3" else 0)


def submit(ordeal: Ordeal, client: Client, source: str, *, exit_status: int) -> None:
    """Submit a run until a server answers, and note how it must end."""
    key = uuid4().hex
    try:
        run = until_answered(partial(client.submit, source, idempotency_key=key))
    except TarmacError as error:
        print(f"refused: {error}", file=sys.stderr, flush=True)
        return
    with ordeal.lock:
        ordeal.expected[run.id] = exit_status


def kill_servers(ordeal: Ordeal, kills: int, *, pause_s: float = KILL_PAUSE_S) -> None:
    """Kill whatever server answers, again and again, at random moments of its life."""
    with Client(home=ordeal.home) as client:
        for _ in range(kills):
            pid = until_answered(client.version).pid
            time.sleep(ordeal.random.uniform(0.0, pause_s))
            if is_server(pid, ordeal.home):
                os.kill(pid, signal.SIGKILL)
                ordeal.kills += 1


def is_server(pid: int, home: Path) -> bool:
    """Whether this process is still the server of the home: pids are used again."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"tarmac.server" in words and os.fsencode(home) in words


def await_ends(ordeal: Ordeal, patience_s: float = PATIENCE_S) -> None:
    """Until every run has ended, for so long at most."""
    deadline = time.monotonic() + patience_s
    with Client(home=ordeal.home) as client:
        for run_id in ordeal.expected:
            left_s = max(deadline - time.monotonic(), 0.1)
            try:
                run = until_answered(partial(client.wait, run_id, timeout_s=left_s))
            except TimeoutError:
                continue
            if run.state == "ended":
                ordeal.ended[run_id] = run


def count_all(ordeal: Ordeal) -> Count:
    """What came of it."""
    starts, by_run = read_starts(ordeal.starts)
    with Client(home=ordeal.home) as client:
        slots_held = sum(node.slots_used for node in client.nodes())
    return Count(
        accepted=len(ordeal.expected),
        kills=ordeal.kills,
        refused=ordeal.submissions - len(ordeal.expected),
        lost=sum(run_id not in ordeal.ended or by_run[run_id] == 0 for run_id in ordeal.expected),
        started_twice=sum(times > 1 for times in starts.values()),
        disturbed=sum(run.attempt > 1 for run in ordeal.ended.values()),
        wrong_outcome=sum(run.exit_status != ordeal.expected[run_id] for run_id, run in ordeal.ended.items()),
        slots_held=slots_held,
    )


def read_starts(path: Path) -> tuple[Counter[str], Counter[str]]:
    """How often each worker of an attempt began, and how many began of each run."""
    starts = Counter(path.read_text().split())
    return starts, Counter(start.rsplit(".", 2)[0] for start in starts.elements())


def until_answered(ask: Callable[[], T]) -> T:
    """Ask until there is an answer: the server may be killed under any request."""
    while True:
        try:
            return ask()
        except Unavailable:
            time.sleep(0.02)


def main(arguments: Sequence[str]) -> int:
    """Parse the arguments, run the ordeal, print the count."""
    parser = argparse.ArgumentParser(description="kill -9 the server at random moments, and count")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drain", action="store_true", help="while it drains a queue that was full before")
    parsed = parser.parse_args(arguments)
    ordeal = torture_drain if parsed.drain else torture
    with tempfile.TemporaryDirectory(prefix="tarmac-torture-") as directory:
        began = time.monotonic()
        count = ordeal(Path(directory) / "home", runs=parsed.runs, kills=parsed.kills, seed=parsed.seed)
    print_count(count)
    print(f"took:                 {time.monotonic() - began:.1f} s")
    return 0 if count.clean else 1


def print_count(count: Count) -> None:
    """One line for each number."""
    print(f"runs accepted:        {count.accepted}")
    print(f"kill -9 of the server: {count.kills}")
    print(f"refused:              {count.refused}")
    print(f"lost:                 {count.lost}")
    print(f"started twice:        {count.started_twice}")
    print(f"disturbed:            {count.disturbed}")
    print(f"wrong outcome:        {count.wrong_outcome}")
    print(f"slots still held:     {count.slots_held}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
