"""What every store guarantees of experiments: a change and what it does to runs are made whole or not."""

from __future__ import annotations

from typing import Any

import pytest

from histories import new_run, spec, step
from tarmac.model.actor import Lease, Sight
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, LeaseLost
from tarmac.model.experiment import Experiment, ExperimentChange, ExperimentQuery, Trial
from tarmac.model.lifecycle import ExperimentState, IllegalStep, RunEvent, RunState, TrialState
from tarmac.model.ports import Store
from tarmac.model.progress import Outcome
from tarmac.model.search import ParameterRange, RangeKind, SearchMethod, SearchSpec

SEARCH = SearchSpec(
    method=SearchMethod.ASHA,
    metric="loss",
    space=(ParameterRange(path=("opt", "lr"), kind=RangeKind.LOG, low=-5.0, high=-1.0),),
    max_trials=4,
    max_time=9,
)


def experiment(experiment_id: str = "e1", **fields: Any) -> Experiment:
    """An experiment to create."""
    plain = Experiment(
        id=experiment_id,
        spec=spec(name="digits", search=SEARCH),
        user="ada",
        created_at=100.0,
        server="local",
    )
    return replace(plain, **fields)


def trial(number: int, run_id: str, **fields: Any) -> Trial:
    return Trial(experiment="e1", number=number, run_id=run_id, parameters={"opt": {"lr": 0.1}}, **fields)


def created(store: Store, **fields: Any) -> Experiment:
    """An experiment with one trial, in the store."""
    change = ExperimentChange(
        before=None, after=experiment(**fields), trials=(trial(1, "r1"),), new_runs=(new_run("r1"),)
    )
    return store.experiments.create(change)


def test_an_experiment_is_read_back_with_its_trials_and_their_runs(store: Store) -> None:
    made = created(store, search_state={"draws": 3, "rungs": [[[0.5, 1]]]}, idempotency_key="once")
    assert store.experiments.experiment("e1") == made
    assert store.experiments.trials("e1") == [trial(1, "r1")]
    assert store.experiments.trial_of("r1") == trial(1, "r1")
    assert store.experiments.trial_of("r2") is None
    assert store.run("r1") is not None
    assert store.experiments.live() == {"e1": 1}


def test_the_same_key_gives_the_same_experiment_and_begins_nothing(store: Store) -> None:
    made = created(store, idempotency_key="once")
    again = ExperimentChange(
        before=None,
        after=experiment("e2", idempotency_key="once"),
        trials=(replace(trial(1, "r9"), experiment="e2"),),
        new_runs=(new_run("r9"),),
    )
    assert store.experiments.create(again) == made
    assert store.run("r9") is None
    assert store.experiments.experiment("e2") is None


def test_a_change_is_made_whole(store: Store) -> None:
    made = created(store)
    run = store.run("r1")
    assert run is not None
    after = replace(made, seq=2, cursor=7, progress=0.25, search_state={"draws": 9})
    change = ExperimentChange(
        before=made,
        after=after,
        trials=(trial(1, "r1", state=TrialState.CLOSING, best=0.5), trial(2, "r2")),
        new_runs=(new_run("r2"),),
        steps=(step(run, RunEvent.STOP_REQUESTED),),
    )
    assert store.experiments.apply(change)
    assert store.experiments.experiment("e1") == after
    assert [each.state for each in store.experiments.trials("e1")] == [TrialState.CLOSING, TrialState.OPEN]
    stopped = store.run("r1")
    assert stopped is not None
    assert stopped.outcome is Outcome.STOPPED
    assert store.run("r2") is not None


def test_a_stale_change_leaves_nothing(store: Store) -> None:
    """Neither one of an older experiment, nor one whose step is stale."""
    made = created(store)
    run = store.run("r1")
    assert run is not None
    store.apply([step(run, RunEvent.PAUSE_REQUESTED)])
    after = replace(made, seq=2, cursor=5)
    late = ExperimentChange(
        before=made,
        after=after,
        trials=(trial(2, "r2"),),
        new_runs=(new_run("r2"),),
        steps=(step(run, RunEvent.STOP_REQUESTED),),
    )
    assert not store.experiments.apply(late)
    assert store.experiments.experiment("e1") == made
    assert store.run("r2") is None
    assert len(store.experiments.trials("e1")) == 1
    assert store.experiments.apply(ExperimentChange(before=made, after=after))
    assert not store.experiments.apply(ExperimentChange(before=made, after=after))


def test_a_change_under_a_lost_lease_is_refused(store: Store) -> None:
    made = created(store)
    lost = Lease(cluster="local", home="other", token=3)
    with pytest.raises(LeaseLost):
        store.experiments.apply(ExperimentChange(before=made, after=replace(made, seq=2)), lease=lost)
    assert store.experiments.experiment("e1") == made


def test_what_never_changes_cannot_be_changed(store: Store) -> None:
    made = created(store)
    for after in (replace(made, seq=3), replace(made, seq=2, user="bob")):
        with pytest.raises(IllegalStep):
            store.experiments.apply(ExperimentChange(before=made, after=after))
    with pytest.raises(InvalidInput):
        store.experiments.create(ExperimentChange(before=None, after=experiment("e3", user="a\0")))


def test_lists_and_references(store: Store) -> None:
    created(store)
    for number, user in ((2, "bob"), (3, "ada")):
        other = experiment(f"e{number}", user=user, archived=number == 3)
        store.experiments.create(ExperimentChange(before=None, after=other))
    ended = replace(other, seq=2, state=ExperimentState.ENDED, outcome=Outcome.COMPLETED, ended_at=200.0)
    assert store.experiments.apply(ExperimentChange(before=other, after=ended))

    def listed(**query: Any) -> list[str]:
        return [each.id for each in store.experiments.experiments(ExperimentQuery(**query))]

    assert listed() == ["e3", "e2", "e1"]
    assert listed(limit=1) == ["e3"]
    assert listed(before_id="e3", user="bob") == ["e2"]
    assert listed(archived=False) == ["e2", "e1"]
    assert listed(states=frozenset({ExperimentState.ACTIVE})) == ["e2", "e1"]
    assert listed(project="none") == []
    [project] = store.experiments.projects(None)
    assert store.experiments.projects(None) == {project: 3}
    of_bob = Sight(user="bob", users=frozenset())
    nothing = Sight(user="eve", closed=frozenset({project}))
    assert store.experiments.projects(of_bob) == {project: 1}
    assert store.experiments.projects(nothing) == {}
    assert (listed(sight=of_bob), listed(sight=nothing)) == (["e2"], [])
    assert [each.id for each in store.experiments.find("digits", user="ada", sight=of_bob)] == ["e2"]
    assert store.experiments.find("e1", sight=of_bob) == store.experiments.find("e", sight=nothing) == []
    assert [each.id for each in store.experiments.find("e2")] == ["e2"]
    assert [each.id for each in store.experiments.find("digits", user="bob")] == ["e2"]
    assert [each.id for each in store.experiments.find("digits")] == ["e3", "e2", "e1"]
    assert [each.id for each in store.experiments.find("e")] == ["e3", "e2", "e1"]
    assert store.experiments.find("") == store.experiments.find("other") == []
    assert list(store.experiments.live()) == ["e1", "e2"]


def test_only_an_ended_experiment_is_removed_and_its_runs_stay(store: Store) -> None:
    made = created(store)
    assert not store.experiments.remove("e1")
    ended = replace(made, seq=2, state=ExperimentState.ENDED, outcome=Outcome.STOPPED, ended_at=200.0)
    assert store.experiments.apply(ExperimentChange(before=made, after=ended))
    assert store.experiments.remove("e1")
    assert store.experiments.experiment("e1") is None
    assert store.experiments.trials("e1") == []
    assert store.experiments.trial_of("r1") is None
    run = store.run("r1")
    assert run is not None
    assert run.state is RunState.QUEUED
