"""What starts clusters on machines, for tests: it starts nothing, and their engine is simulated."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from sim_engine import SimEngine
from tarmac.model.cluster import Cluster, Machine, MachineProgress, MachineReport, MachineState
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Problem

LIMIT_S = 120.0
NAME = "gpus"


@dataclass
class Starter:
    """Starts nothing: notes what it is told, fails with `problems`, and waits at `gate`."""

    engine: SimEngine
    running: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    unfit: list[Problem] = field(default_factory=list)
    broken: list[Problem] = field(default_factory=list)
    lost: list[Problem] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    waiting: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    # the kind of the engine

    def check(self, cluster: Cluster) -> None:
        """Any will do."""

    def open(self, cluster: Cluster) -> SimEngine:
        assert cluster.name == NAME
        return self.engine

    # what starts its clusters

    def prepare(
        self, name: str, machines: Sequence[Machine], *, install: bool, progress: MachineProgress
    ) -> Start:
        if self.unfit:
            raise InvalidInput(self.unfit)
        placed = [
            replace(machine, address=f"127.0.0.{int(machine.name.removeprefix('gpu')) + 1}")
            for machine in machines
        ]
        progress(machines[0].name, f"reached{' and installed' if install else ''}")
        return Start(self, Cluster(name=name, engine="placed", machines=tuple(placed)))

    def end(
        self, name: str, machines: Sequence[Machine], *, purge: bool, progress: MachineProgress
    ) -> Sequence[Problem]:
        for machine in machines:
            self.calls.append(f"end {machine.name}{' and purge' if purge else ''}")
            self.running.discard(machine.name)
        return self.lost

    def look(self, name: str, machines: Sequence[Machine]) -> Sequence[MachineReport]:
        return [
            MachineReport(
                machine=machine,
                state=MachineState.UP if machine.name in self.running else MachineState.DOWN,
            )
            for machine in machines
        ]


@dataclass
class Start:
    starter: Starter
    cluster: Cluster

    def begin(self) -> None:
        self.starter.waiting.set()
        assert self.starter.gate.wait(LIMIT_S)
        if self.starter.broken:
            raise InvalidInput(self.starter.broken)
        names = [machine.name for machine in self.cluster.machines]
        self.starter.calls.append(f"begin {' '.join(names)}")
        self.starter.running |= set(names)
