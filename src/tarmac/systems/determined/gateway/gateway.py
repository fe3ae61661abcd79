"""The common state of the gateway's routes: numbers of experiments and trials, and peers that wait.

Determined's whole numbers stand for experiments and runs of tarmac. An experiment is a search of tarmac; a
standalone run of Determined's dialect counts as one with a single trial. Made by `systems.gateways`, and by
tests over fakes.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarmac.control.service import ControlPlane
from tarmac.model.errors import NotFound
from tarmac.model.experiment import Experiment, Experiments, Trial
from tarmac.model.people.account import People
from tarmac.model.ports import Store
from tarmac.model.run import Run
from tarmac.model.run_records import NumberKind, Numbers, RunRecords
from tarmac.server.service import Service
from tarmac.systems.determined.gateway.tokens import TokenMaker
from tarmac.systems.determined.identity import uuid_of

MOST = 1000
"""Maximum number of gatherings in memory; the oldest is dropped first."""

LONGEST_S = 600.0

Key = tuple[str, str]


class _Gathering:
    def __init__(self) -> None:
        self.contents: dict[str, Any] = {}
        self.complete = asyncio.Event()


class Gatherings:
    """The gatherings of all attempts, in memory of the event loop: after a restart, peers ask again."""

    def __init__(self) -> None:
        self._open: dict[Key, _Gathering] = {}

    async def gather(self, key: Key, who: str, content: Any, *, peers: int) -> list[Any]:
        """The data of all peers, by name. Raises TimeoutError if some peers do not send theirs."""
        found = self._open.get(key)
        if found is None or (found.complete.is_set() and who not in found.contents):
            while len(self._open) >= MOST:
                self._open.pop(next(iter(self._open)))
            found = self._open[key] = _Gathering()
        found.contents[who] = content
        if len(found.contents) >= peers:
            found.complete.set()
        await asyncio.wait_for(found.complete.wait(), LONGEST_S)
        return [found.contents[name] for name in sorted(found.contents)]


VERSION = "0.38.1"
"""The emulated release of Determined: its answers are those of older releases with additional fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The parts of a gateway. `tokens` makes and reads the tokens of sessions; `owner` owns the server.

    `records` stores the trials' own records.
    """

    service: Service
    numbers: Numbers
    records: RunRecords
    tokens: TokenMaker
    owner: str
    url: str
    gatherings: Gatherings = field(default_factory=Gatherings)

    @property
    def plane(self) -> ControlPlane:
        """The control plane of the server."""
        return self.service.plane

    @property
    def people(self) -> People:
        """The accounts of the server, and their memberships."""
        return self.service.accounts.callers.people()

    @property
    def store(self) -> Store:
        """The records of the server."""
        return self.plane.control.store

    @property
    def experiments(self) -> Experiments:
        """The table of experiments."""
        return self.store.experiments

    def experiment_numbers(self, ids: Sequence[str]) -> Mapping[str, int]:
        """The numbers of experiments, by id."""
        return self.numbers.numbers(NumberKind.EXPERIMENT, ids)

    def experiment_number(self, experiment_id: str) -> int:
        """The number of one experiment."""
        return self.experiment_numbers([experiment_id])[experiment_id]

    def trial_numbers(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        """The numbers of trials, by the id of their run."""
        return self.numbers.numbers(NumberKind.TRIAL, run_ids)

    def trial_number(self, run_id: str) -> int:
        """The number of one trial, by the id of its run."""
        return self.trial_numbers([run_id])[run_id]

    def experiment_of(self, run: Run) -> int:
        """The number of the experiment of a trial's run."""
        return self.experiment_number(experiment_id(run))

    def experiment(self, number: int) -> Experiment:
        """The experiment with a number; raises NotFound."""
        found = self.numbers.numbered(NumberKind.EXPERIMENT, number)
        experiment = self.experiments.experiment(found) if found is not None else None
        if experiment is None:
            raise NotFound(f"experiment not found: {number}")
        return experiment

    def run_of_trial(self, number: int) -> Run:
        """The run of the trial with a number; raises NotFound, also if the run was removed."""
        found = self.numbers.numbered(NumberKind.TRIAL, number)
        run = self.store.run(found) if found is not None else None
        if run is None:
            raise NotFound(f"trial not found: {number}")
        return run

    def trial_of(self, run: Run) -> Trial:
        """The trial of an experiment that a run is; raises NotFound."""
        trial = self.experiments.trial_of(run.id)
        if trial is None:
            raise NotFound(f"trial not found: {self.trial_number(run.id)}")
        return trial

    def run_of_task(self, task: str) -> Run:
        """The run of the trial behind a task; raises NotFound."""
        head = task.partition(".")[0]
        found = self.numbers.numbered(NumberKind.EXPERIMENT, int(head)) if head.isdecimal() else None
        trials = self.experiments.trials(found) if found is not None else ()
        run_ids = [trial.run_id for trial in trials] or [found or ""]
        named = next((each for each in run_ids if task == task_name(head, each)), None)
        if named is not None and (run := self.store.run(named)) is not None:
            return run
        raise NotFound(f"task not found: {task:.100}")


UNCATEGORIZED = 1
"""The number of the only workspace, and of its first project."""

ALL = 1_000_000
"""Maximum number of listed experiments."""


def experiment_id(run: Run) -> str:
    """The id of a run's experiment: a run of its own counts as one."""
    return run.spec.trial.experiment if run.spec.trial is not None else run.id


def task_name(experiment_number: int | str, run_id: str) -> str:
    """The task name of a trial."""
    return f"{experiment_number}.{uuid_of('trial', run_id)}"
