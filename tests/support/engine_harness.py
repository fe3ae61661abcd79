"""Engines under one contract: a harness per engine starts attempts that behave as wanted, and waits for them.

No test sleeps: under the simulated engine time is virtual, with the local engine a harness waits for the
runner's own notices (which are hints, so it also looks again from time to time, up to a bound).
"""

from __future__ import annotations

import shlex
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from sim_batch import SimBatchEngine
from sim_engine import Behaviour, SimEngine
from tarmac.engines.local.engine import LocalEngine
from tarmac.engines.local.nodes import Machine, local_nodes
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.cluster import DEFAULT_POOL, Node, NodeGroup
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.resources import Resources
from tarmac.model.run import attempt_id
from tarmac.node.attempt.document import BatchLaunch, Launch, Mount, NodeLaunch, WorkerLaunch
from tarmac.node.attempt.steps import CommandStep

BOUND_S = 120.0
LOOK_AGAIN_S = 0.2

OURS = uuid.uuid4().hex
"""In every token: who clears away what a token marks must not hit the tests of another process."""

LOG = "logs/main.0.0.log"
"""Where the first worker of a launch of these writes."""

WORKING = "working"
"""What a worker of the local engine says once it does what it was told."""

MACHINE = Machine(hostname="here", slots=8, slot_type="cpu", cpus=2.0, memory_bytes=2**33)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the worker of an attempt does, in words that every engine can follow.

    One that `saves` reads the checkpoint of the attempt before, if there is one, and leaves its own. One that
    `misses` a path binds it to a source that no node has. `reports` are lines as the SDK writes them.
    """

    output: str = ""
    reports: str = ""
    saves: bool = False
    exit_code: int = 0
    signal: str | None = None
    lasts: bool = False
    ignores_requests: bool = False
    misses: str | None = None


class Harness(Protocol):
    """An engine whose attempts can be told what to do."""

    engine: Any

    def launch(self, work: Work, **wanted: Any) -> Launch: ...

    def settle(self, attempt: str, until: Callable[[Observation], bool]) -> Observation: ...

    def at_work(self, attempt: str) -> None:
        """Wait until the workers of an attempt that lasts do what they were told, ignoring asks included."""

    def hang(self) -> None:
        """From now on no attempt gets as far as its first instruction."""

    def close(self) -> None: ...


def ended(seen: Observation) -> bool:
    return seen.state is ObservedState.ENDED


def running(seen: Observation) -> bool:
    return seen.state is ObservedState.RUNNING


def submit(harness: Harness, work: Work, **wanted: object) -> str:
    """Submit an attempt; its id."""
    launch = harness.launch(work, **wanted)
    harness.engine.submit(harness.engine.render(launch))
    return launch.attempt_id


def started(harness: Harness, work: Work, **wanted: object) -> str:
    """Submit an attempt and wait until it is at work; its id."""
    attempt = submit(harness, work, **wanted)
    harness.at_work(attempt)
    return attempt


class SimHarness:
    """The simulated engine under its virtual clock."""

    engine: SimEngine | SimBatchEngine

    def __init__(self) -> None:
        self.clock = VirtualClock(1_000.0)
        self.engine = SimEngine(self.clock, _nodes(), behaviour=self._behave)
        self._works: dict[str, Work] = {}
        self._hangs = False

    def launch(self, work: Work, **wanted: Any) -> Launch:
        launch = make_launch(("work",), **wanted)
        self._works[launch.attempt_id] = work
        return launch

    def settle(self, attempt: str, until: Callable[[Observation], bool]) -> Observation:
        while not until(seen := self.engine.observe([attempt])[attempt]):
            upcoming = self.clock.next_event_at()
            assert upcoming is not None, f"nothing more will happen to {attempt}: {seen}"
            self.clock.advance_to(upcoming)
        return seen

    def at_work(self, attempt: str) -> None:
        self.settle(attempt, running)

    def hang(self) -> None:
        self._hangs = True

    def close(self) -> None:
        assert self.engine.violations == []
        assert set(self.engine.starts.values()) <= {1}

    def _behave(self, launch: Launch) -> Behaviour:
        work = self._works[launch.attempt_id]
        return Behaviour(
            duration_s=1e6 if work.lasts else 1.0,
            hangs_at_start=self._hangs,
            exit_code=work.exit_code,
            exit_signal=work.signal,
            ignores_requests=work.ignores_requests,
            output=work.output.encode(),
            reports=work.reports.encode(),
            checkpoint_period_s=0.25 if work.saves else None,
            leave_s=1.0 if work.saves else 0.0,
            notices=(f"not available here: {work.misses}",) if work.misses else (),
        )


class SimBatchHarness(SimHarness):
    """The simulated batch system: what is submitted goes through its queue first."""

    def __init__(self) -> None:
        super().__init__()
        self.batch = self.engine = SimBatchEngine(self.clock, _nodes(), behaviour=self._behave)

    def hold_the_queue(self, held: bool) -> None:
        """While it is held, the system gives nodes to nobody."""
        self.batch.closed = held

    def forget(self, attempt: str) -> None:
        """The system loses a job that waits."""
        self.batch.forget(attempt)


class LocalHarness:
    """The local engine in a home of its own, with real processes."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.engine = self.open()
        self._started: list[str] = []

    def open(self, **knobs: Any) -> LocalEngine:
        """An engine on the home, as a server that comes (back) would make it."""
        engine = LocalEngine(self.home, _nodes(), machine=MACHINE, **knobs)
        self.news = Event()
        engine.subscribe(lambda _attempt: self.news.set())
        return engine

    def launch(self, work: Work, **wanted: Any) -> Launch:
        missing = (Mount(source="/no/such/source", target=work.misses),) if work.misses else ()
        launch = make_launch(("bash", "-c", script(work)), mounts=missing, **wanted)
        self._started.append(launch.attempt_id)
        return launch

    def settle(self, attempt: str, until: Callable[[Observation], bool]) -> Observation:
        deadline = time.monotonic() + BOUND_S
        while not until(seen := self.engine.observe([attempt])[attempt]):
            assert time.monotonic() < deadline, f"{attempt} is still {seen}"
            self.news.wait(LOOK_AGAIN_S)
            self.news.clear()
        return seen

    def at_work(self, attempt: str) -> None:
        """Started is not enough: a shell needs a moment until it ignores what it is to ignore."""
        deadline = time.monotonic() + BOUND_S
        self.settle(attempt, running)
        for worker in self.engine.workers(attempt):
            while WORKING.encode() not in self.engine.read(attempt, worker.log):
                assert time.monotonic() < deadline, f"{worker} does not get to work"
                self.news.clear()
                self.news.wait(LOOK_AGAIN_S / 20)

    def reopen(self, **knobs: Any) -> None:
        """The server goes and another comes."""
        self.engine.close()
        self.engine = self.open(**knobs)

    def hang(self) -> None:
        """A warm parent that takes every request and forks nothing."""
        fake = self.home / "python-that-hangs"
        fake.write_text(
            '#!/bin/bash\nfd="${@: -2:1}"\nwhile read -r line <&"$fd"; do\n'
            'sed -E \'s/[{][^{]*[{][^}]*[}]{2}/{"pid": 1}/g\' <<< "$line" >&"$fd"; done\n'
        )
        fake.chmod(0o755)
        self.reopen(python=str(fake))

    def close(self) -> None:
        for attempt in self._started:
            self.engine.reap(attempt)
        self.engine.close()


SAVING = """cd "$CHECKPOINT_ARTIFACT_PATH"
if [ -e state ]; then cat state > /dev/null; fi
echo whole > draft; mv draft state"""


def script(work: Work) -> str:
    """The bash script that does this work."""
    lines = [f"printf %s {shlex.quote(work.output)}"]
    if work.reports:
        lines.append(f'printf %s {shlex.quote(work.reports)} >> "$TARMAC_REPORTS_FILE"')
    if work.ignores_requests:
        lines.insert(0, "trap '' TERM")
    if work.saves:
        lines.insert(0, SAVING)
    if work.lasts:
        sleep = "sleep 3600" if work.ignores_requests else "exec sleep 3600"
        lines.append(f"echo {WORKING}; {sleep}")
    elif work.signal:
        lines.append(f"kill -{work.signal.removeprefix('SIG')} $$")
    lines.append(f"exit {work.exit_code}")
    return "\n".join(lines)


def make_launch(argv: tuple[str, ...], **wanted: Any) -> Launch:
    """A launch of one worker on each of `nodes` nodes; only rank `on_rank` runs `argv`, if that is given."""
    run_id, number = wanted.get("run_id", "run1"), wanted.get("number", 1)
    return Launch(
        attempt_id=attempt_id(run_id, number),
        run_id=run_id,
        run_name="test",
        number=number,
        token=f"token-of-{run_id}-{number}-{OURS}",
        code_digest=wanted.get("code_digest"),
        setup=tuple(CommandStep(argv) for argv in wanted.get("setup", ())),
        setup_env={"PATH": "/usr/bin:/bin"},
        nodes=tuple(
            NodeLaunch(
                node=f"node{rank + 1}",
                address=f"127.0.0.{rank + 1}",
                rank=rank,
                workers=(_worker(rank, wanted.get("argvs", {}).get(rank, argv)),),
                mounts=wanted.get("mounts", ()) if rank == 0 else (),
            )
            for rank in range(wanted.get("nodes", 1))
        ),
        time_limit_s=wanted.get("time_limit_s"),
        pause_signal=wanted.get("pause_signal", "SIGTERM"),
        grace_s=wanted.get("grace_s", 20.0),
        rehearsal=wanted.get("rehearsal", False),
        batch=BatchLaunch(pool=DEFAULT_POOL, turns=wanted.get("turns", 0)),
    )


def _worker(rank: int, argv: tuple[str, ...]) -> WorkerLaunch:
    return WorkerLaunch(
        role="main",
        replica=rank,
        worker=0,
        argv=argv,
        env={"PATH": "/usr/bin:/bin", "NODE_RANK": str(rank)},
        slots=(0,),
        stop_on_failure=True,
    )


def _nodes() -> tuple[Node, ...]:
    return local_nodes(MACHINE, [NodeGroup(nodes=3, slots=4)])


def capacity(slots: int) -> Resources:
    """A node's capacity, for tests that need no more than slots."""
    return Resources(slots=slots, slot_type="cpu", cpus=2.0, memory_bytes=2**33)
