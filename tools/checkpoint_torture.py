"""Torture of checkpoints: runs that save in many ways are ended in many ways, at chosen or random moments.

    python tools/checkpoint_torture.py --cases 500
    python tools/checkpoint_torture.py --cases 20 --ways Trainer,Orbax --ends pause,runner --seed 3 --keep

The nodes have disks of their own. A case is one ending: a pause, a move to another node, a stop, a SIGKILL
for a worker, for the runner, or for all of a node with the loss of its disk, or a full disk. Then a run
resumes, on the same node or another (after a stop or a failure as a new run from what was kept), and its
script notes what it found. What it had finished saving must be there, whole; what it had not must never pass
for a checkpoint, neither on a disk nor in a version in the store; and what is reported as lost must be what
its own notes tell. The same arguments give the same cases.

The real frameworks are played where they are installed: in the Python that runs this, in `.venv`, in
`.venv-launchers`, or in the Python that CHECKPOINT_PYTHON names. Imitations that write the same files in the
same order need no framework. Run by hand, and shorter by tests/e2e/test_checkpoint_torture.py.

Counted apart is what nobody can tell (decision 0020), and only of ways of saving where neither a name nor the
content shows that a file is whole: a save that was over less than MOMENT_S before a stranger's SIGKILL, and
one that was over less than DOUBT_S before the death of its runner, or before the first sync.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from random import Random

from checkpoint_count import ENDS, LOST, REPORT, Case, Count, table
from checkpoint_frameworks import IMITATIONS
from checkpoint_libraries import REAL
from checkpoint_lineage import CLUSTER, Lineage, Place, Plan
from checkpoint_ways import WAYS

from tarmac.client import Client
from tarmac.node.kernel import mounts, syscalls

ALL = {**WAYS, **IMITATIONS, **REAL}
PER_LINEAGE = len(ENDS)
SPARE_NODES = 3
DISK_BYTES = 128 << 20
DESCRIPTION = """\
name: {name}
disks: own
nodes: [{{count: {count}, slots: 1}}]
pools:
  default: {{turn: 4s}}
"""


def torture(
    place: Path,
    *,
    cases: int,
    lanes: int,
    seed: int,
    ways: Sequence[str] = tuple(ALL),
    ends: Sequence[str] = tuple(ENDS),
    cycles: Sequence[str] = (),
) -> Count:
    """Play so many cases, then let each of `cycles` be judged in turns, and count."""
    count = Count()
    with ExitStack() as held:
        other_disk = tempfile.mkdtemp(prefix="tarmac-drafts-", dir="/dev/shm")
        held.callback(shutil.rmtree, other_disk, ignore_errors=True)
        shared = Place(directory=place, home=place / "home", other_disk=Path(other_disk), seed=seed)
        names = [f"node{number}.{CLUSTER}" for number in range(1, lanes + SPARE_NODES + 1)]
        if "disk" in ends and not _give_disks(shared.home, names):
            ends = [end for end in ends if end != "disk"]
            count.skipped.append("disk full: this machine gives no view of the disk of our own")
        pythons = {name: _python_for(ALL[name].needs) for name in ways}
        count.skipped += [f"{name}: not installed" for name, python in pythons.items() if python is None]
        plans = plan(cases, seed, {name: python for name, python in pythons.items() if python}, ends)
        with Client(home=shared.home) as client:
            client.add_cluster(DESCRIPTION.format(name=CLUSTER, count=len(names)), filename="cluster.yaml")
        _play(shared, plans, lanes, count)
        with Client(home=shared.home) as client:
            for number, name in enumerate(cycles):
                _judge_turns(
                    shared,
                    client,
                    Plan(
                        name=name, way=ALL[name], number=len(plans) + number, ends=(), python=sys.executable
                    ),
                    count,
                )
            client.stop_server()
    return count


def plan(cases: int, seed: int, pythons: dict[str, str], ends: Sequence[str]) -> list[Plan]:
    """The lineages that make so many cases: all ways again and again, with all ends in an order by chance."""
    random = Random(seed)
    plans: list[Plan] = []
    left = cases
    while left > 0:
        for name in random.sample(sorted(pythons), len(pythons)):
            chosen = random.sample(list(ends), len(ends))[: min(left, PER_LINEAGE)]
            if chosen:
                plans.append(
                    Plan(name=name, way=ALL[name], number=len(plans), ends=chosen, python=pythons[name])
                )
            left -= len(chosen)
    return plans


def _play(shared: Place, plans: Sequence[Plan], lanes: int, count: Count) -> None:
    waiting: Iterator[Plan] = iter(plans)
    lock = threading.Lock()

    def lane() -> None:
        with Client(home=shared.home) as client:
            while True:
                with lock:
                    following = next(waiting, None)
                if following is None:
                    return
                began = time.monotonic()
                lineage = Lineage(shared, client, following)
                lineage.play()
                with lock:
                    _add(count, lineage)
                    _say(lineage, time.monotonic() - began, shared.cases)

    threads = [threading.Thread(target=lane) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count.cases = shared.cases


def _add(count: Count, lineage: Lineage) -> None:
    count.resumed += lineage.ledger.found
    count.finished += lineage.ledger.finished
    count.versions += lineage.audit.looked
    count.replaced += lineage.audit.replaced
    count.excused += lineage.ledger.excused


def _say(lineage: Lineage, took_s: float, cases: Sequence[Case]) -> None:
    """One line on the error output for each lineage that is over."""
    own = [case for case in cases if case.name.startswith(f"{lineage.label}.")]
    wrong = [f"{case.name} {ENDS[case.end]}: {case.problems[0]}" for case in own if case.problems]
    print(
        f"{len(cases)} cases; {lineage.label} {lineage.plan.name}: {len(own)} in {took_s:.0f} s",
        *wrong,
        sep="\n  ! ",
        file=sys.stderr,
        flush=True,
    )


def _judge_turns(shared: Place, client: Client, judged: Plan, count: Count) -> None:
    """A cycle run: whether it is called proven, and whether that is honest."""
    case = Case(way=judged.name, end="pause", name=f"t{judged.number}.cycle")
    lineage = Lineage(shared, client, judged, "mode: cycle\nmax_rapid_cycles: 2\n", cuts=False)
    lineage.wait_for_state("ended")
    report = client.run(lineage.run.id).cycle_report
    lineage.ledger.look()
    count.judged += 1
    if report and report.proven:
        count.proven += 1
        if not lineage.checkpoints():
            case.problems.append((REPORT, "called proven, and nothing is kept"))
    case.problems += [(LOST, text) for text in (*lineage.ledger.lost, *lineage.ledger.torn)]
    if case.problems:
        count.cases.append(case)


def _give_disks(home: Path, nodes: Sequence[str]) -> bool:
    """A small disk of its own for each node, seen only from here; False where that is not allowed."""
    try:
        mounts.enter_own_view()
        for node in nodes:
            directory = home / "disks" / node
            directory.mkdir(parents=True)
            syscalls.mount("small", str(directory), "tmpfs", 0, f"size={DISK_BYTES}")
    except OSError:
        return False
    return True


@cache
def _python_for(needs: tuple[str, ...]) -> str | None:
    """A Python that has these modules."""
    root = Path(__file__).parents[1]
    candidates = [
        os.environ.get("CHECKPOINT_PYTHON", ""),
        *(str(root / place / "bin" / "python") for place in (".venv", ".venv-launchers")),
    ]
    if not needs:
        return sys.executable
    asks = f"import importlib.util, sys; sys.exit(None in map(importlib.util.find_spec, {list(needs)!r}))"
    for python in (sys.executable, *candidates):
        if (
            python
            and shutil.which(python)
            and subprocess.run([python, "-c", asks], check=False).returncode == 0
        ):
            return python
    return None


def _choice(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    def chosen(text: str) -> list[str]:
        names = [name.strip() for name in text.split(";" if ";" in text else ",")]
        unknown = [name for name in names if name not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {unknown[0]!r}; there are: {', '.join(allowed)}")
        return names

    return chosen


def main(arguments: Sequence[str]) -> int:
    """Parse the arguments, play, print the table."""
    parser = argparse.ArgumentParser(description="end runs that save, in many ways, and count what was lost")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--lanes", type=int, default=2, help="how many are played at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", type=_choice(tuple(ALL)), default=list(ALL), help="A;B: only these")
    parser.add_argument("--ends", type=_choice(tuple(ENDS)), default=list(ENDS), help="a,b: only these")
    parser.add_argument("--cycles", type=int, default=0, help="how many ways are judged in turns")
    parser.add_argument("--keep", action="store_true", help="leave the directory, to be looked at")
    parsed = parser.parse_args(arguments)
    began = time.monotonic()
    with ExitStack() as held:
        directory = tempfile.mkdtemp(prefix="tarmac-checkpoints-")
        if not parsed.keep:
            held.callback(shutil.rmtree, directory, ignore_errors=True)
        count = torture(
            Path(directory),
            cases=parsed.cases,
            lanes=parsed.lanes,
            seed=parsed.seed,
            ways=parsed.ways,
            ends=parsed.ends,
            cycles=[name for name in parsed.ways if name in WAYS][: parsed.cycles],
        )
        print(table(count))
        print(f"seed {parsed.seed}, {time.monotonic() - began:.0f} s" + f", in {directory}" * parsed.keep)
    return 0 if count.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
