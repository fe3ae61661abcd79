"""Torture of checkpoints: runs that save in many ways are paused, moved and killed at random moments.

    python tools/checkpoint_torture.py --events 500

The nodes have disks of their own. After each event a run goes on, on the same node or another, or (after a
kill) as a new run from what was kept, and says what it found. What its script had finished writing must be
there, whole; what it had not must never pass for a checkpoint; and nothing is left out without a word. With
`--kinds lose` runners are killed, too: then what a node had not synced is owed by that node alone. Run by
hand, and shorter by tests/e2e/test_checkpoint_torture.py.

Counted apart is what nobody can tell (decision 0020), and only of ways of saving where neither a name nor the
content shows that a file is whole: a save that was over less than MOMENT_S before a stranger's SIGKILL, and
one that was over less than DOUBT_S before the death of its runner, or before the first sync.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from checkpoint_count import EVENTS, IN_THE_MOMENT, WITH_NODE, WITH_RUNNER, Count, Ledger, told
from checkpoint_ways import COMMON, WAYS

from tarmac import api
from tarmac.client import Client
from tarmac.control.decisions.retrying import MAX_FAULTS
from tarmac.node.attempt.protocol import HEARTBEAT_PERIOD_S

PATIENCE_S = 240.0
LOOK_S = 0.1
WEIGHTS = {"pause": 4, "move": 4, "kill": 2, "lose": 1}
KINDS = ("pause", "move", "kill")
MOMENT_S = 0.05
DOUBT_S = HEARTBEAT_PERIOD_S + 5.0
CLUSTER = """\
name: torture
disks: own
nodes: [{count: 5, slots: 16}]
pools:
  default: {turn: 4s}
"""
RUN = """\
name: {name}
cluster: torture
slots: 1
code: {code}
pause: {{grace: {grace}s}}
artifacts: {{checkpoint_every: {every}s}}
env: {{LEDGER: {ledger}, OMP_NUM_THREADS: "1"}}
command: exec {python} {launcher} {script}
{more}"""


class Stuck(Exception):
    """Something that must come about did not."""


@dataclass(slots=True)
class Torture:
    """What all lanes share."""

    place: Path
    home: Path
    seed: int
    events: Counter[str] = field(default_factory=Counter)
    left: int = 0
    kinds: Sequence[str] = KINDS
    ways: set[str] = field(default_factory=set)
    ledgers: list[tuple[str, Ledger]] = field(default_factory=list)
    aside: int = 0
    silent: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_event(self) -> bool:
        """Whether there is one more to be played."""
        with self.lock:
            self.left -= 1
            return self.left >= 0


class Lineage:
    """One script from its first run to its last, with its ledger."""

    def __init__(self, torture: Torture, client: Client, name: str, number: int, more: str = "") -> None:
        self.torture, self.client, self.name, self.way = torture, client, name, WAYS[name]
        self.random = Random(torture.seed * 1000 + number)
        self.code = torture.place / f"code{number}"
        self.code.mkdir()
        (self.code / "train.py").write_text(COMMON + self.way.body)
        self.ledger = Ledger(torture.place / f"ledger{number}.txt")
        self.label = f"t{number}"
        self.starts = self.losses = 0
        self.run = self.submit(more)

    def submit(self, more: str = "") -> api.Run:
        """A run of this script."""
        source = RUN.format(
            name=self.label,
            code=self.code,
            grace=self.random.choice((1, 2)),
            every=self.random.choice((1, 3, 600)),
            ledger=self.ledger.path,
            python=sys.executable,
            launcher=self.way.launcher,
            script="train.py",
            more=more,
        )
        self.starts += 1
        return self.client.submit(source, directory=self.torture.place)

    def play(self, events: int) -> None:
        """So many events, at random moments."""
        for _ in range(events):
            if not self.torture.take_event():
                break
            self.wait_for(lambda: self.ledger.look() >= self.starts, "start")
            time.sleep(self.random.uniform(0.0, 1.5))
            kinds = self.torture.kinds
            event = self.random.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
            if event == "lose" and self.losses == MAX_FAULTS:
                event = "kill"  # one more, and the run would not be tried again
            if event == "move" and not self.move():
                event = "pause"  # another lane gave the node work again, and it was taken
            elif event == "pause":
                self.pause()
            elif event == "kill":
                self.kill()
            elif event == "lose":
                self.lose()
            with self.torture.lock:
                self.torture.events[event] += 1
        self.wait_for(lambda: self.ledger.look() >= self.starts, "last start")
        self.client.stop(self.run["id"])
        self.wait_for_state("ended")

    def pause(self, before_resuming: Callable[[], object] = lambda: None) -> None:
        """Off its node, and on again, wherever that may be."""
        self.client.pause(self.run["id"])
        state = self.wait_for_state("paused", "ended")
        self.check_words()
        before_resuming()
        if state == "ended":  # it left with a code that means a failure
            self.go_on()
        else:
            self.starts += 1
            self.client.resume(self.run["id"])

    def move(self) -> bool:
        """Off its node, and on to another; whether it was another."""
        node = self.client.attempts(self.run["id"])[-1]["nodes"][0]
        self.pause(lambda: self.client.drain(node, cluster="torture"))
        try:
            self.wait_for(lambda: self.ledger.look() >= self.starts, "start elsewhere")
        finally:
            self.client.undrain(node, cluster="torture")
        return bool(self.client.attempts(self.run["id"])[-1]["nodes"][0] != node)

    def kill(self) -> None:
        """A worker, or what it has started, is struck from outside; a new run goes on from what was kept."""
        pid = self.client.attempts(self.run["id"])[-1]["workers"][0]["pid"]
        below = _children(pid) if pid is not None else []
        if self.way.bare:
            self.ledger.excuse(time.monotonic() - MOMENT_S, IN_THE_MOMENT)
        with suppress(ProcessLookupError):
            os.kill(self.random.choice([pid or 0, *below]) or 1 << 22, signal.SIGKILL)
        if below:
            time.sleep(0.2)
            with suppress(ProcessLookupError):
                os.kill(pid or 1 << 22, signal.SIGKILL)
        self.wait_for_state("ended")
        self.check_words()
        self.go_on()

    def lose(self) -> None:
        """Its runner is struck: the run goes on by itself, from what its node has, or from the last sync."""
        attempt = self.client.attempts(self.run["id"])[-1]
        runner = _parent(attempt["workers"][0]["pid"] or 0)
        now = time.monotonic()
        kept = any(item["kind"] == "checkpoint" for item in self.client.artifacts(self.run["id"]))
        self.ledger.excuse((now - DOUBT_S if kept else 0.0) if self.way.bare else now, WITH_RUNNER)
        if runner is None:
            return
        os.kill(runner, signal.SIGKILL)
        self.starts, self.losses = self.starts + 1, self.losses + 1

        def goes_on() -> bool:
            last = self.client.attempts(self.run["id"])[-1]
            if last["number"] > attempt["number"] and last["nodes"] != attempt["nodes"]:
                self.ledger.excuse(0.0, WITH_NODE)
            return last["started_at"] is not None and last["number"] > attempt["number"]

        self.wait_for(goes_on, "attempt after a lost one")

    def go_on(self) -> None:
        """A new run from what was kept."""
        self.losses = 0
        kept = [item for item in self.client.artifacts(self.run["id"]) if item["kind"] == "checkpoint"]
        self.run = self.submit(f"input_artifacts: [{self.run['id']}]\n" if kept else "")

    def check_words(self) -> None:
        """What was cut short is said; and where something is owed, something is kept."""
        self.ledger.look()
        attempt = self.client.attempts(self.run["id"])[-1]
        texts = " ".join(notice["text"] for notice in attempt["notices"])
        kept = [item for item in self.client.artifacts(self.run["id"]) if item["kind"] == "checkpoint"]
        out = kept[-1]["left_out"] if kept and kept[-1]["attempt"] == attempt["number"] else []
        with self.torture.lock:
            self.torture.aside += "being written when the attempt ended" in texts
            if out and "being written when the attempt ended" not in texts:
                self.torture.silent.append(f"{self.name}: {out} left out without a word")
            if self.ledger.owed and not self.ledger.begun and not kept and not texts:
                self.torture.silent.append(f"{self.name}: nothing kept without a word")

    def wait_for_state(self, *states: str) -> str:
        """Until the run has come to one of them."""
        state = ""

        def is_there() -> bool:
            nonlocal state
            now = self.client.run(self.run["id"])
            state = now["state"]
            if state == "ended" and state not in states:
                raise Stuck(f"ended {now['outcome']}: {now['cause']}, instead of {states[0]}")
            return state in states

        self.wait_for(is_there, states[0])
        return state

    def wait_for(self, ask: Callable[[], bool], what: str) -> None:
        """Until it is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not ask():
            if time.monotonic() > deadline:
                raise Stuck(f"{self.run['id']}: no {what}")
            time.sleep(LOOK_S)


def torture(
    place: Path,
    *,
    events: int,
    lanes: int,
    seed: int,
    ways: Sequence[str] = tuple(WAYS),
    per_lineage: int = 8,
    cycles: Sequence[str] = (),
    kinds: Sequence[str] = KINDS,
) -> Count:
    """Play so many events, then let each of `cycles` be judged in turns, and count."""
    shared = Torture(place=place, home=place / "home", seed=seed, left=events, kinds=kinds)
    (place / "cluster.yaml").write_text(CLUSTER)
    with Client(home=shared.home) as client:
        client.add_cluster((place / "cluster.yaml").read_text(), filename="cluster.yaml")
    order = iter(_order(ways, Random(seed)))
    numbers = iter(range(1 << 30))

    def lane() -> None:
        with Client(home=shared.home) as client:
            while shared.left > 0:
                with shared.lock:
                    name, number = next(order), next(numbers)
                _play(shared, client, name, number, min(per_lineage, 4) if WAYS[name].heavy else per_lineage)

    threads = [threading.Thread(target=lane) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Client(home=shared.home) as client:
        reports = [_judge(shared, client, name, next(numbers)) for name in cycles]
        client.stop_server()
    return Count(
        events=shared.events,
        ways=len(shared.ways),
        resumed=sum(ledger.found for _, ledger in shared.ledgers),
        finished=sum(ledger.finished for _, ledger in shared.ledgers),
        torn_in_time=shared.aside,
        excused=sum((ledger.excused for _, ledger in shared.ledgers), Counter()),
        lost=tuple(f"{name}: {what}" for name, ledger in shared.ledgers for what in ledger.lost),
        torn=tuple(f"{name}: {what}" for name, ledger in shared.ledgers for what in ledger.torn),
        silent=tuple(shared.silent),
        dishonest=tuple(what for _, what in reports if what),
        stuck=tuple(shared.stuck),
        proven=sum(proven for proven, _ in reports),
        judged=len(reports),
    )


def _play(shared: Torture, client: Client, name: str, number: int, events: int) -> None:
    lineage = Lineage(shared, client, name, number)
    with shared.lock:
        shared.ledgers.append((f"{name} ({lineage.label})", lineage.ledger))
        shared.ways.add(name)
    try:
        lineage.play(events)
    except Exception as error:  # noqa: BLE001 - the outermost level of a lineage: the others go on, and it counts
        with shared.lock:
            shared.stuck.append(f"{name} ({lineage.label}): {type(error).__name__}: {error}")


def _judge(shared: Torture, client: Client, name: str, number: int) -> tuple[bool, str]:
    """Whether a cycle run was called proven, and what is dishonest about it."""
    lineage = Lineage(shared, client, name, number, "mode: cycle\nmax_rapid_cycles: 2\n")
    lineage.wait_for_state("ended")
    report = client.run(lineage.run["id"])["cycle_report"]
    kept = [item for item in client.artifacts(lineage.run["id"]) if item["kind"] == "checkpoint"]
    lineage.ledger.look()
    proven = bool(report and report["proven"])
    if proven and not kept:
        return proven, f"{name}: proven, and nothing is kept"
    if lineage.ledger.lost or lineage.ledger.torn:
        return proven, f"{name}: {lineage.ledger.lost}, {lineage.ledger.torn}"
    return proven, ""


def _order(ways: Sequence[str], random: Random) -> Sequence[str]:
    """All of them, again and again, each time in another order."""
    return [name for _ in range(1000) for name in random.sample(list(ways), len(ways))]


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def main(arguments: Sequence[str]) -> int:
    """Parse the arguments, play, print the count."""
    parser = argparse.ArgumentParser(description="pause, move and kill runs that save, and count")
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--lanes", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", choices=EVENTS, default=list(KINDS))
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--cycles", type=int, default=len(WAYS), help="how many ways are judged in turns")
    parser.add_argument("--keep", action="store_true", help="leave the directory, to be looked at")
    parsed = parser.parse_args(arguments)
    began = time.monotonic()
    with ExitStack() as held:
        directory = tempfile.mkdtemp(prefix="tarmac-checkpoints-")
        if not parsed.keep:
            held.callback(shutil.rmtree, directory, ignore_errors=True)
        count = torture(
            Path(directory),
            events=parsed.events,
            lanes=parsed.lanes,
            seed=parsed.seed,
            ways=parsed.ways,
            cycles=parsed.ways[: parsed.cycles],
            kinds=parsed.kinds,
        )
        print(told(count))
        print(f"{'took:':<29}{time.monotonic() - began:.0f} s{f' in {directory}' if parsed.keep else ''}")
    return 0 if count.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
