"""`SqlExperiments`: experiments and their trials. Made by `SqlStore`, on its database.

A change of an experiment and its effects on runs are in one transaction: `write_runs` makes the latter.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select, update

from tarmac.model.actor import Lease, Sight
from tarmac.model.changes import NewRun, RunStep
from tarmac.model.codec import common, decode
from tarmac.model.experiment import Experiment, ExperimentChange, ExperimentHead, ExperimentQuery, Trial
from tarmac.model.lifecycle import ExperimentState
from tarmac.store.checks import check_experiment_change
from tarmac.store.database import Conflict, Database, Stale
from tarmac.store.rows import body, read_record, written
from tarmac.store.schema import experiment, trial
from tarmac.store.statements import by_reference, page, seen

WriteRuns = Callable[[Connection, Sequence[NewRun], Sequence[RunStep]], None]
"""Stores new runs and applies steps within a transaction; raises Stale if a step is stale."""

_EXPERIMENTS = select(experiment.c.record, experiment.c.spec, experiment.c.search_state)
_BY_KEY = _EXPERIMENTS.where(
    experiment.c.idempotency_key == bindparam("of_key"), experiment.c.user_name == bindparam("of_user")
)
_BY_REFERENCE = by_reference(_EXPERIMENTS, experiment)
_LIVE = (
    select(experiment.c.id, experiment.c.seq)
    .where(experiment.c.state != ExperimentState.ENDED.value)
    .order_by(experiment.c.id)
)
_UPDATE = update(experiment).where(
    experiment.c.id == bindparam("guard_id"), experiment.c.seq == bindparam("guard_seq")
)
_REMOVE = delete(experiment).where(
    experiment.c.id == bindparam("guard_id"), experiment.c.state == ExperimentState.ENDED.value
)
_TRIALS = select(trial.c.body).where(trial.c.experiment_id == bindparam("of_id")).order_by(trial.c.number)
_BY_IDS = _EXPERIMENTS.where(experiment.c.id.in_(bindparam("ids", expanding=True)))
_TRIALS_OF = (
    select(trial.c.body)
    .where(trial.c.experiment_id.in_(bindparam("ids", expanding=True)))
    .order_by(trial.c.experiment_id, trial.c.number)
)
_TRIAL_OF = select(trial.c.body).where(trial.c.run_id == bindparam("of_run"))
_OWN_COLUMNS = ("spec", "search_state")
"""The fields of an experiment that are no part of the column `record`."""

_SAME_COLUMNS = ("id", "seq", "name", "project", "server", "archived", "idempotency_key")

_DROP_TRIAL = delete(trial).where(
    trial.c.experiment_id == bindparam("guard_experiment"), trial.c.number == bindparam("guard_number")
)


class SqlExperiments:
    """Implements `model.experiment.Experiments` in SQL."""

    def __init__(self, database: Database, write_runs: WriteRuns) -> None:
        self._database = database
        self._write_runs = write_runs

    def create(self, change: ExperimentChange) -> Experiment:
        check_experiment_change(change)
        try:
            return self._create(change)
        except Conflict:  # another was stored under this key after the lookup; now the lookup finds it
            return self._create(change)

    def apply(self, change: ExperimentChange, *, lease: Lease | None = None) -> bool:
        check_experiment_change(change)
        assert change.before is not None, "a new experiment is created"
        guard = {"guard_id": change.before.id, "guard_seq": change.before.seq}
        try:
            with self._database.writing(lease) as connection:
                values = {**guard, **_row(change.after)}
                if change.after.spec is not change.before.spec:
                    values["spec"] = written(change.after.spec)
                if connection.execute(_UPDATE, values).rowcount != 1:
                    raise Stale
                self._keep(connection, change)
        except Stale:
            return False
        return True

    def experiment(self, experiment_id: str) -> Experiment | None:
        return self.load([experiment_id]).get(experiment_id)

    def find(
        self, reference: str, *, user: str | None = None, sight: Sight | None = None, limit: int = 10
    ) -> list[Experiment]:
        statements = [seen(each, experiment, sight) for each in _BY_REFERENCE]
        found = self._database.rows_by_reference(statements, reference, user=user, limit=limit)
        return [_experiment(row) for row in found]

    def experiments(self, query: ExperimentQuery) -> list[Experiment]:
        return [_experiment(row) for row in self._database.rows(_matching(query))]

    def heads(self, query: ExperimentQuery) -> list[ExperimentHead]:
        statement = _matching(query).with_only_columns(
            experiment.c.id, experiment.c.name, experiment.c.user_name
        )
        return [ExperimentHead(*row) for row in self._database.rows(statement)]

    def projects(self, sight: Sight | None) -> dict[str, int]:
        counts = select(experiment.c.project, func.count()).group_by(experiment.c.project)
        return {row[0]: row[1] for row in self._database.rows(seen(counts, experiment, sight))}

    def load(self, experiment_ids: Sequence[str]) -> dict[str, Experiment]:
        found = map(_experiment, self._database.rows_of(_BY_IDS, experiment_ids))
        return {each.id: each for each in found}

    def live(self) -> dict[str, int]:
        return {row.id: row.seq for row in self._database.rows(_LIVE)}

    def trials(self, experiment_id: str) -> list[Trial]:
        return self._trials(self._database.rows(_TRIALS, {"of_id": experiment_id}))

    def trials_of(self, experiment_ids: Sequence[str]) -> list[Trial]:
        return self._trials(self._database.rows_of(_TRIALS_OF, experiment_ids))

    def trial_of(self, run_id: str) -> Trial | None:
        found = self._trials(self._database.rows(_TRIAL_OF, {"of_run": run_id}))
        return found[0] if found else None

    def remove(self, experiment_id: str) -> bool:
        return self._database.write(_REMOVE, {"guard_id": experiment_id}) == 1

    @staticmethod
    def _trials(found: Sequence[Any]) -> list[Trial]:
        return [read_record(Trial, row.body) for row in found]

    def _create(self, change: ExperimentChange) -> Experiment:
        after = change.after
        with self._database.writing() as connection:
            if after.idempotency_key is not None:
                key = {"of_key": after.idempotency_key, "of_user": after.user}
                row = connection.execute(_BY_KEY, key).one_or_none()
                if row is not None:
                    return _experiment(row)
            connection.execute(insert(experiment), {**_row(after), "spec": written(after.spec)})
            self._keep(connection, change)
        return after

    def _keep(self, connection: Connection, change: ExperimentChange) -> None:
        self._write_runs(connection, change.new_runs, change.steps)
        if change.trials:
            keys = [
                {"guard_experiment": each.experiment, "guard_number": each.number} for each in change.trials
            ]
            connection.execute(_DROP_TRIAL, keys)
            connection.execute(insert(trial), [_trial_row(each) for each in change.trials])


def _matching(query: ExperimentQuery) -> Select[Any]:
    return page(_EXPERIMENTS, experiment.c.id, query, experiment, "archived")


def _row(record: Experiment) -> dict[str, Any]:
    """The columns that every change sets: all but the spec."""
    fields = common(Experiment, record, but=_OWN_COLUMNS)
    return {
        **{name: getattr(record, name) for name in _SAME_COLUMNS},
        "state": record.state.value,
        "user_name": record.user,
        "record": written(fields),
        "search_state": body(record.search_state),
    }


def _trial_row(record: Trial) -> dict[str, Any]:
    return {
        "experiment_id": record.experiment,
        "number": record.number,
        "run_id": record.run_id,
        "body": written(record),
    }


def _experiment(row: Sequence[Any]) -> Experiment:
    record, spec, state = row
    fields = json.loads(record) | {"spec": json.loads(spec)}
    if state is not None:
        fields["search_state"] = json.loads(state)
    return decode(Experiment, fields)
