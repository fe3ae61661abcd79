"""Torture of two servers on one PostgreSQL: killed, stopped, cut off from it; then everything is counted.

    python tools/torture_pair.py --runs 400 --faults 40

Each server serves a cluster of its own and has its own users. A fault strikes one of them at random moments:
`kill -9`, SIGSTOP and SIGCONT, connections to the database closed, or silent; and now and then a third home
tries to serve a cluster that is served. Nothing accepted may be lost, nothing may start twice or on the wrong
cluster, and nothing that runs may notice. Run by hand, and by tests/e2e/test_torture.py.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
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

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

from sqlalchemy import make_url
from torture import RESTS, SHORT, is_server, read_starts, until_answered

from postgres import running_server
from tarmac import api
from tarmac.client import Client
from tarmac.model.home import Home

T = TypeVar("T")

PATIENCE_S = 120.0
CLUSTERS = ("a", "b")
SUBMITTERS_EACH = 2
SLOTS = 3
LONG_RUNS = 3
SOCKET = ".s.PGSQL.5432"

KILL, STOP, CUT, HOLD, INTRUDE = "kill -9", "SIGSTOP", "connections cut", "connections silent", "third home"
FAULTS = (KILL, KILL, STOP, STOP, CUT, HOLD, INTRUDE)


class Cable:
    """The way from one server to the database, which can be cut (refused) and held (silent)."""

    def __init__(self, upstream: Path, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self._upstream = str(upstream)
        self._whole, self._flowing = threading.Event(), threading.Event()
        self._whole.set()
        self._flowing.set()
        self._ends: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(directory / SOCKET))
        self._listener.listen(64)
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def cut(self) -> None:
        """Close every connection, and refuse new ones."""
        self._whole.clear()
        for end in list(self._ends):
            with contextlib.suppress(OSError):  # it may just have been closed
                end.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        """Let nothing through; connections stay."""
        self._flowing.clear()

    def heal(self) -> None:
        """All is as it was."""
        self._whole.set()
        self._flowing.set()

    def close(self) -> None:
        """End it, when nobody uses it any more."""
        self.cut()
        self._flowing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self._whole.is_set():
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            far.connect(self._upstream)
            self._ends |= {near, far}
            self._begin(partial(self._carry, near, far))

    def _begin(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        with near, far, contextlib.suppress(OSError):
            while True:
                for source in select.select([near, far], [], [])[0]:
                    data = source.recv(65536)
                    self._flowing.wait()
                    if not data:
                        self._ends -= {near, far}
                        return
                    (far if source is near else near).sendall(data)


@dataclass(slots=True)
class Side:
    """One server: its home, its way to the database, and what was submitted to it."""

    cluster: str
    home: Path
    cable: Cable
    url: str
    expected: dict[str, int | None] = field(default_factory=dict)
    up: threading.Event = field(default_factory=threading.Event)
    """Cleared while its server is to stay dead: its clients would start it."""


@dataclass(slots=True)
class Ordeal:
    """What was asked for and what came of it. Expected of None: to be stopped through the other server."""

    sides: Sequence[Side]
    starts: Path
    random: Random
    outage_s: float
    struck: Counter[str] = field(default_factory=Counter)
    let_in: int = 0
    ended: dict[str, api.Run] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The result: all but the first two must be zero."""

    accepted: int
    struck: Counter[str]
    lost: int
    started_twice: int
    disturbed: int
    wrong_outcome: int
    wrong_cluster: int
    slots_held: int
    intruders_let_in: int

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not any(
            (
                self.lost,
                self.started_twice,
                self.disturbed,
                self.wrong_outcome,
                self.wrong_cluster,
                self.slots_held,
                self.intruders_let_in,
            )
        )


def torture_pair(root: Path, *, runs: int, faults: int, seed: int, outage_s: float, url: str) -> Count:
    """Run the ordeal under `root` (a short path) on an empty database, and count."""
    sides = [_side(root, cluster, url) for cluster in CLUSTERS]
    ordeal = Ordeal(sides=sides, starts=root / "starts.txt", random=Random(seed), outage_s=outage_s)
    ordeal.starts.touch()
    share, rest = divmod(runs, SUBMITTERS_EACH * len(sides))
    submitters = [
        threading.Thread(target=_submit, args=(ordeal, side, share + (number < rest), seed + number))
        for number, side in enumerate(sides * SUBMITTERS_EACH)
    ]
    faulty = threading.Thread(target=_strike, args=(ordeal, faults))
    for thread in (*submitters, faulty):
        thread.start()
    for thread in (*submitters, faulty):
        thread.join()
    _await_ends(ordeal)
    count = _count(ordeal)
    for side in sides:
        with Client(home=side.home) as client:
            client.stop_server()
        side.cable.close()
    return count


def _side(root: Path, cluster: str, url: str) -> Side:
    home = root / cluster
    home.mkdir(mode=0o700)
    real = make_url(url)
    cable = Cable(Path(str(real.query["host"])) / SOCKET, root / f"db-{cluster}")
    through = real.update_query_dict({"host": str(cable.directory)}).render_as_string(hide_password=False)
    _settings(home, cluster, through)
    side = Side(cluster=cluster, home=home, cable=cable, url=through)
    side.up.set()
    return side


def _settings(home: Path, cluster: str, url: str) -> None:
    (home / "settings.toml").write_text(
        f'[database]\nurl = "{url}"\n[server]\ncluster = "{cluster}"\n'
        f'[[local]]\nslots = {SLOTS}\nhostnames = ["{cluster}"]\n'
    )


def _submit(ordeal: Ordeal, side: Side, runs: int, seed: int) -> None:
    """One user of one server; a few runs are long, and a few are stopped through the other server."""
    random = Random(seed)
    other = next(found for found in ordeal.sides if found is not side)
    with Client(home=side.home) as client, Client(home=other.home) as elsewhere:
        for number in range(runs):
            stopped = number % 20 == 10
            rest = f"sleep {2 + random.random():.2f}" if number < LONG_RUNS else random.choice(RESTS)
            body = SHORT.format(starts=ordeal.starts, rest="sleep 60" if stopped else rest)
            source = "name: short\nslots: {}\ncommand: |\n  {}\n".format(
                random.choice((1, 1, 2)), body.replace("\n", "\n  ")
            )
            submit = partial(client.submit, source, idempotency_key=uuid4().hex)
            run = _when_up(side, submit)
            side.expected[run.id] = None if stopped else 3 if rest == "exit 3" else 0
            if stopped:
                _when_up(other, partial(elsewhere.stop, run.id))


def _when_up(side: Side, ask: Callable[[], T]) -> T:
    side.up.wait()
    return until_answered(ask)


def _strike(ordeal: Ordeal, faults: int) -> None:
    for _ in range(faults):
        side = ordeal.random.choice(ordeal.sides)
        fault = ordeal.random.choice(FAULTS)
        with Client(home=side.home) as client:
            pid = until_answered(client.version).pid
        time.sleep(ordeal.random.uniform(0.0, 0.8))
        if not is_server(pid, side.home):
            continue
        outage_s = ordeal.random.uniform(0.2, ordeal.outage_s)
        ordeal.struck[fault] += 1
        _suffer(ordeal, side, fault, pid, outage_s)


def _suffer(ordeal: Ordeal, side: Side, fault: str, pid: int, outage_s: float) -> None:
    if fault == KILL:
        side.up.clear()
        os.kill(pid, signal.SIGKILL)
        time.sleep(outage_s)
        side.up.set()
    elif fault == STOP:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(outage_s)
        os.kill(pid, signal.SIGCONT)
    elif fault in (CUT, HOLD):
        side.cable.cut() if fault == CUT else side.cable.hold()
        time.sleep(outage_s)
        side.cable.heal()
    else:
        ordeal.let_in += _intrude(side)


def _intrude(side: Side) -> bool:
    """Have a fresh home try to serve the cluster of a side; whether it was let in."""
    home = Path(tempfile.mkdtemp(prefix="tarmac-intruder-", dir="/tmp"))
    _settings(home, side.cluster, side.url)
    command = [sys.executable, "-m", "tarmac.server", "--home", str(home)]
    try:
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                said = process.communicate(timeout=PATIENCE_S)[1]
            except subprocess.TimeoutExpired:
                process.kill()
                return True
            return "a second home would start its runs again" not in said
    finally:
        shutil.rmtree(home)


def _await_ends(ordeal: Ordeal) -> None:
    deadline = time.monotonic() + PATIENCE_S
    for side in ordeal.sides:
        with Client(home=side.home) as client:
            for run_id in side.expected:
                left_s = max(deadline - time.monotonic(), 0.1)
                with contextlib.suppress(TimeoutError):
                    run = until_answered(partial(client.wait, run_id, timeout_s=left_s))
                    if run.state == "ended":
                        ordeal.ended[run_id] = run


def _count(ordeal: Ordeal) -> Count:
    starts, by_run = read_starts(ordeal.starts)
    expected = {run_id: status for side in ordeal.sides for run_id, status in side.expected.items()}
    slots_held = wrong_cluster = 0
    for side in ordeal.sides:
        with Client(home=Home(side.home).root) as client:
            slots_held += sum(node.slots_used for node in client.nodes())
            for run_id in side.expected:
                wrong_cluster += sum(found.cluster != side.cluster for found in client.attempts(run_id))
    return Count(
        accepted=len(expected),
        struck=ordeal.struck,
        lost=sum(
            run_id not in ordeal.ended or (status is not None and by_run[run_id] == 0)
            for run_id, status in expected.items()
        ),
        started_twice=sum(times > 1 for times in starts.values()),
        disturbed=sum(run.attempt > 1 for run in ordeal.ended.values()),
        wrong_outcome=sum(not _as_expected(run, expected[run_id]) for run_id, run in ordeal.ended.items()),
        wrong_cluster=wrong_cluster,
        slots_held=slots_held,
        intruders_let_in=ordeal.let_in,
    )


def _as_expected(run: api.Run, status: int | None) -> bool:
    return run.outcome == "stopped" if status is None else run.exit_status == status


def main(arguments: Sequence[str]) -> int:
    """Parse the arguments, run the ordeal on a PostgreSQL of its own, print the count."""
    parser = argparse.ArgumentParser(description="two servers on one PostgreSQL, struck at random; and count")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--outage", type=float, default=3.0, help="the longest outage, in seconds")
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args(arguments)
    began = time.monotonic()
    with running_server() as postgres, tempfile.TemporaryDirectory(prefix="tarmac-pair-", dir="/tmp") as root:
        count = torture_pair(
            Path(root),
            runs=parsed.runs,
            faults=parsed.faults,
            seed=parsed.seed,
            outage_s=parsed.outage,
            url=postgres.create(),
        )
    print(f"runs accepted:        {count.accepted}")
    for fault, times in sorted(count.struck.items()):
        print(f"{fault + ':':22}{times}")
    print(f"lost:                 {count.lost}")
    print(f"started twice:        {count.started_twice}")
    print(f"disturbed:            {count.disturbed}")
    print(f"wrong outcome:        {count.wrong_outcome}")
    print(f"on the wrong cluster: {count.wrong_cluster}")
    print(f"slots still held:     {count.slots_held}")
    print(f"third homes let in:   {count.intruders_let_in}")
    print(f"took:                 {time.monotonic() - began:.1f} s")
    return 0 if count.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
