"""Experiments and their trials as recorded, and the port of their store.

An experiment is a spec with a search over its parameters; each of its trials is a run. Only
`ExperimentChange`s change it, which `control` decides: reports to the search, its requests and the resulting
steps of runs are in one transaction.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from tarmac.model.actor import Lease, Sight
from tarmac.model.changes import NewRun, RunStep
from tarmac.model.lifecycle import ExperimentState
from tarmac.model.search import ExperimentProgress, SearchSpec, TrialProgress
from tarmac.model.spec import RunSpec
from tarmac.model.summary import ListQuery


class Trial(TrialProgress, frozen=True, kw_only=True):
    """One trial of an experiment, and its run. `invalid`: it reported that its parameters make no sense."""

    experiment: str
    run_id: str
    seed: int = 0
    invalid: bool = False


class Experiment(ExperimentProgress, frozen=True, kw_only=True):
    """A search over the parameters of a spec, durable across servers.

    `spec.search` is set; the spec of a trial is this one with values in place of the search. A person may
    change it for later trials, and change its name and labels. `seq` counts changes, and guards each.
    `search_state` is that of the search (None: it has not begun), `cursor` the id of the last report that the
    search has handled. `code_digest` and `code_commit` are those of the code of every trial, as in `Run`.
    """

    spec: RunSpec
    server: str
    seq: int = 1
    search_state: Mapping[str, Any] | None = None
    cursor: int = 0
    code_digest: str | None = None
    code_commit: str | None = None
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


class ExperimentChange(Struct, frozen=True, kw_only=True):
    """One atomic change of an experiment: complete trials, new runs, and steps of runs.

    Guard: the stored experiment has `before.seq`, and no step is stale. `before` None: it is new.
    """

    before: Experiment | None
    after: Experiment
    trials: tuple[Trial, ...] = ()
    new_runs: tuple[NewRun, ...] = ()
    steps: tuple[RunStep, ...] = ()


class TrialReport(Struct, frozen=True, kw_only=True):
    """A report to a search: a trial reached `length` with this metric (nan: none). `id` counts up."""

    id: int
    trial: int
    length: float
    metric: float


class ExperimentQuery(ListQuery, frozen=True, kw_only=True):
    """The experiments to list: newest first, at most `limit`, those before `before_id` when paging."""

    states: frozenset[ExperimentState] = frozenset()
    archived: bool | None = None


class ExperimentHead(NamedTuple):
    """The fields of an experiment that long lists are filtered by."""

    id: str
    name: str
    user: str


class Experiments(Protocol):
    """The durable record of experiments. Errors are those of `ports.Store`."""

    def create(self, change: ExperimentChange) -> Experiment:
        """Store a new experiment, its first trials and their runs, all in one transaction.

        Idempotent by (user, idempotency key): an earlier one with the same key is returned as stored now.
        """

    def apply(self, change: ExperimentChange, *, lease: Lease | None = None) -> bool:
        """Apply a change in one transaction; False, and nothing is done, if its guard does not hold.

        The lease works as in `ports.Store.apply`.
        """

    def experiment(self, experiment_id: str) -> Experiment | None:
        """The experiment with exactly this id."""

    def find(
        self, reference: str, *, user: str | None = None, sight: Sight | None = None, limit: int = 10
    ) -> list[Experiment]:
        """Experiments with that id, otherwise that name (newest first), otherwise that id prefix.

        Only those that `sight` covers (None: all).
        """

    def experiments(self, query: ExperimentQuery) -> list[Experiment]:
        """A page of the list, newest first."""

    def heads(self, query: ExperimentQuery) -> list[ExperimentHead]:
        """The heads of a page of the list; quick for any number."""

    def projects(self, sight: Sight | None) -> dict[str, int]:
        """The number of experiments in each project, of those that `sight` covers, or of all."""

    def load(self, experiment_ids: Sequence[str]) -> dict[str, Experiment]:
        """The experiments with these ids; missing ones are left out."""

    def live(self) -> dict[str, int]:
        """The `seq` of every experiment that has not ended, by id."""

    def trials(self, experiment_id: str) -> list[Trial]:
        """All trials of an experiment, by number."""

    def trials_of(self, experiment_ids: Sequence[str]) -> list[Trial]:
        """All trials of several experiments, those of each by number."""

    def trial_of(self, run_id: str) -> Trial | None:
        """The trial of a run."""

    def remove(self, experiment_id: str) -> bool:
        """Forget an ended experiment with its trials; their runs stay. False: it does not exist."""
