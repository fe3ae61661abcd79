"""Experiments and their trials as they are recorded, and the port of their store.

An experiment is a spec with a search over its parameters; each of its trials is a run. Changed only by
`ExperimentChange`s, which `control` decides: what a search is told, what it asks for and what becomes of runs
by it stand in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from tarmac.model.changes import NewRun, RunStep
from tarmac.model.run import Outcome
from tarmac.model.search import SearchSpec
from tarmac.model.serving import Lease
from tarmac.model.spec import RunSpec


class ExperimentState(StrEnum):
    """What an experiment waits for. STOPPING: for its trials to leave."""

    ACTIVE = "active"
    PAUSED = "paused"
    STOPPING = "stopping"
    ENDED = "ended"


class TrialState(StrEnum):
    """What becomes of a trial. WAITING: until the search lets it go on. CLOSING: it is being ended."""

    OPEN = "open"
    WAITING = "waiting"
    CLOSING = "closing"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial of an experiment: its run, its parameters, how far it may go and how far it got.

    `length` is how far it may go (None: to its own end), `at` the length of its newest metric, `latest`, and
    `best_at` that of its best. `end` says how it ended: completed, failed, stopped, invalid; or closed, where
    the search ended it. `invalid`: it said that its parameters make no sense.
    """

    experiment: str
    number: int
    run_id: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    state: TrialState = TrialState.OPEN
    length: int | None = None
    latest: float | None = None
    at: float | None = None
    best: float | None = None
    best_at: float | None = None
    end: str | None = None
    invalid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A search over the parameters of a spec, durable across servers.

    `spec.search` is set; the spec of a trial is this one with values in place of the search. A person may
    change what it says of trials that are begun later, and its name and labels. `seq` counts
    changes, and guards each. `search_state` is that of the search (None: it has not begun), `cursor` the id
    of the last report it was told. `code_digest` and `code_commit` are those of the code of every trial, as
    in `Run`; `parent` is the experiment that this one was made from.
    """

    id: str
    spec: RunSpec
    user: str
    created_at: float
    server: str
    state: ExperimentState = ExperimentState.ACTIVE
    seq: int = 1
    search_state: Mapping[str, Any] | None = None
    cursor: int = 0
    progress: float = 0.0
    outcome: Outcome | None = None
    message: str | None = None
    ended_at: float | None = None
    code_digest: str | None = None
    code_commit: str | None = None
    parent: str | None = None
    archived: bool = False
    idempotency_key: str | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def project(self) -> str:
        return self.spec.project

    @property
    def search(self) -> SearchSpec:
        """The search of its spec."""
        assert self.spec.search is not None, "an experiment searches"
        return self.spec.search


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentChange:
    """One atomic change of an experiment: trials put whole, new runs, and steps of runs.

    Guard: the stored experiment has `before.seq`, and no step is stale. `before` None: it is new.
    """

    before: Experiment | None
    after: Experiment
    trials: tuple[Trial, ...] = ()
    new_runs: tuple[NewRun, ...] = ()
    steps: tuple[RunStep, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReport:
    """What a search is told: a trial came to `length` with this metric (nan: none). `id` counts up."""

    id: int
    trial: int
    length: float
    metric: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentQuery:
    """Which experiments to list: newest first, at most `limit`, those before `before_id` when paging."""

    user: str | None = None
    project: str | None = None
    states: frozenset[ExperimentState] = frozenset()
    archived: bool | None = None
    before_id: str | None = None
    limit: int = 100


class ExperimentHead(NamedTuple):
    """An experiment as far as long lists are filtered by it."""

    id: str
    name: str
    user: str


class Experiments(Protocol):
    """The durable record of experiments. Errors are those of `ports.Store`."""

    def create(self, change: ExperimentChange) -> Experiment:
        """Keep a new experiment, its first trials and their runs, all in one transaction.

        Idempotent by (user, idempotency key): one kept before under the same key is returned as it is now.
        """
        ...

    def apply(self, change: ExperimentChange, *, lease: Lease | None = None) -> bool:
        """Make a change in one transaction; False, and nothing is done, where its guard does not hold.

        With a lease as in `ports.Store.apply`.
        """
        ...

    def experiment(self, experiment_id: str) -> Experiment | None:
        """The experiment with exactly this id."""
        ...

    def find(self, reference: str, *, user: str | None = None, limit: int = 10) -> list[Experiment]:
        """Experiments a user may mean: that id, else of that name (newest first), else whose ids begin so."""
        ...

    def experiments(self, query: ExperimentQuery) -> list[Experiment]:
        """A page of the list, newest first."""
        ...

    def heads(self, query: ExperimentQuery) -> list[ExperimentHead]:
        """The same in short; quick for any number."""
        ...

    def load(self, experiment_ids: Sequence[str]) -> dict[str, Experiment]:
        """The experiments with these ids, as far as they exist."""
        ...

    def live(self) -> dict[str, int]:
        """The `seq` of every experiment that has not ended, by id."""
        ...

    def trials(self, experiment_id: str) -> list[Trial]:
        """All trials of an experiment, by number."""
        ...

    def trials_of(self, experiment_ids: Sequence[str]) -> list[Trial]:
        """All trials of several experiments, those of each by number."""
        ...

    def trial_of(self, run_id: str) -> Trial | None:
        """The trial that a run is."""
        ...

    def remove(self, experiment_id: str) -> bool:
        """Forget an experiment that has ended, with its trials; their runs stay. False: there is none."""
        ...
