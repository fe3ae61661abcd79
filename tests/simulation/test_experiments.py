"""Experiments in a simulated tarmac: no crash loses a trial or begins one twice (D10, D12)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from actors import ADA
from examples import seeds
from sim_engine import Behaviour
from simulated import Crash, Simulation, nodes, spec
from tarmac.control.admission import Submission
from tarmac.model.errors import Refused
from tarmac.model.experiment import Experiment, Trial
from tarmac.model.lifecycle import ExperimentState, RunState, TrialState
from tarmac.model.metrics import MetricEvent, MetricReport, ReportBatch
from tarmac.model.progress import Outcome
from tarmac.model.run import Run
from tarmac.model.search import ParameterRange, RangeKind, SearchMethod, SearchSpec
from tarmac.model.spec import Target
from tarmac.node.attempt.document import Launch

STEP_S = 10.0
FAILS_AFTER_S = 60.0
SITE = "site"
RATE = ParameterRange(path=("lr",), kind=RangeKind.LOG, low=-5.0, high=-1.0)
ASHA: dict[str, Any] = {
    "method": SearchMethod.ASHA,
    "metric": "loss",
    "space": (RATE,),
    "max_trials": 9,
    "max_concurrent_trials": 3,
    "max_time": 9,
    "divisor": 3.0,
}


class Reports:
    """What trials report: one step for every ten seconds that an attempt ran. Outlives servers."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.simulation: Simulation

    def look(self) -> None:
        """Note the steps that were made since the last look."""
        store, now = self.simulation.store, self.simulation.clock.now()
        for experiment_id in store.experiments.live():
            for trial in store.experiments.trials(experiment_id):
                ran_s = sum(
                    (attempt.ended_at or now) - attempt.started_at
                    for attempt in store.attempts(trial.run_id)
                    if attempt.started_at is not None
                )
                for step in range(self.seen[trial.run_id] + 1, int(ran_s / STEP_S) + 1):
                    self.seen[trial.run_id] = step
                    loss = abs(math.log10(trial.parameters["lr"]) + 3.0) + 1.0 / step
                    self._take(store.run(trial.run_id), step, loss)

    def _take(self, run: Run, step: int, loss: float) -> None:
        """As the intake of an engine does: the event of a report is kept with it."""
        report = MetricReport(at=self.simulation.clock.now(), step=step, values={"loss": loss})
        subscribers = self.simulation.server.plane.control.metric_subscribers
        events = tuple(
            MetricEvent(subscriber=name, run_id=run.id, attempt=1, at=report.at, step=step, body=body)
            for name, subscriber in subscribers.items()
            if (body := subscriber.select(run, report)) is not None
        )
        batch = ReportBatch(
            run_id=run.id, attempt=1, node="node1", begin=step - 1, end=step, reports=(report,), events=events
        )
        store = self.simulation.store
        interrupt, store.interrupt = store.interrupt, lambda: None
        assert store.metrics.take([batch]) == [True]
        store.interrupt = interrupt


class Experimenting:
    """A simulation with one experiment."""

    def __init__(
        self,
        search: SearchSpec,
        *,
        duration_s: float = 200.0,
        slots: int = 4,
        cluster: str | None = None,
        retries: int = 0,
        failing_attempts: int = 0,
    ) -> None:
        """The first `failing_attempts` of each trial exit with 1 after `FAILS_AFTER_S`."""
        self.reports = Reports()

        def behaviour(launch: Launch) -> Behaviour:
            if launch.number <= failing_attempts:
                return Behaviour(
                    duration_s=launch.number * FAILS_AFTER_S, checkpoint_period_s=5.0, exit_code=1
                )
            return Behaviour(duration_s=duration_s, checkpoint_period_s=5.0)

        self.simulation = Simulation(
            behaviour=behaviour,
            cluster=nodes(2, slots // 2),
            batches={cluster: nodes(2, slots // 2, cluster=cluster)} if cluster else {},
        )
        self.reports.simulation = self.simulation
        self.submission = Submission(
            spec=spec(slots=1, name="digits", search=search, target=Target(cluster=cluster), retries=retries),
            actor=ADA,
            idempotency_key="once",
        )
        self.experiment_id = ""

    def create(self) -> None:
        while not self.experiment_id:
            self.simulation.survive(self._create)

    def _create(self) -> None:
        self.experiment_id = self.plane.experiments.create(self.submission).id

    @property
    def plane(self) -> Any:
        return self.simulation.server.plane

    @property
    def experiment(self) -> Experiment:
        return self.simulation.store.experiments.experiment(self.experiment_id)

    @property
    def trials(self) -> list[Trial]:
        return self.simulation.store.experiments.trials(self.experiment_id)

    def change_mind(self, random: Random) -> None:
        """Pause the experiment, or activate it."""
        service = self.plane.experiments
        verb = random.choice((service.pause, service.activate))
        with suppress(Refused):
            self.simulation.survive(lambda: verb(ADA, self.experiment_id))

    def turn(self) -> None:
        self.reports.look()
        for loop, engine in (*self.simulation.loops, ("search", "")):
            self.simulation.survive(lambda at=(loop, engine): self.simulation.server.turn(*at))
        self.check()

    def advance(self) -> None:
        upcoming = self.simulation.upcoming()
        soon = self.simulation.clock.now() + STEP_S
        self.simulation.clock.advance_to(min(soon, upcoming) if upcoming is not None else soon)

    def play(self, until: Callable[[], bool] | None = None, *, turns: int = 3000) -> None:
        """Go on until the experiment has ended, or something else has come about."""
        for _ in range(turns):
            if until() if until is not None else self.experiment.state is ExperimentState.ENDED:
                return
            self.turn()
            self.advance()
        raise AssertionError(f"it does not come to its end: {self.experiment}")

    def check(self) -> None:
        """What holds at any moment: every trial is one run, and every run of the store is one trial."""
        store = self.simulation.store
        if not self.experiment_id:
            return
        trials = {trial.number: trial.run_id for trial in self.trials}
        runs = {run.spec.trial.number: run.id for run in store._runs.values()}
        assert trials == runs, "a trial was lost, or begun twice"
        assert sorted(trials) == list(range(1, len(trials) + 1))


class Crashes:
    """Kills the server now and then, at a durable write or an effect."""

    def __init__(self, random: Random) -> None:
        self.share = 0.08
        self.random = random

    def __call__(self, *_: object) -> None:
        if self.random.random() < self.share:
            raise Crash


def drawn(play: Experimenting) -> list[dict[str, Any]]:
    return [dict(trial.parameters) for trial in play.trials]


def test_an_asha_experiment_ends_bad_trials_early_and_frees_their_slots() -> None:
    play = Experimenting(SearchSpec(**ASHA))
    play.create()
    play.play()
    trials = play.trials
    assert play.experiment.outcome is Outcome.COMPLETED
    assert play.experiment.progress == 1.0
    assert len(trials) == 9
    ends = Counter(trial.end for trial in trials)
    assert ends["closed"] == 9, "the best are ended at the top rung, the others below it"
    assert max(trial.at for trial in trials) >= 9
    assert sum(trial.at < 5 for trial in trials) >= 4
    best = play.plane.experiments.best(ADA, play.experiment)[0].trial
    assert best.best == min(trial.best for trial in trials)
    assert not list(play.simulation.store.live_runs())


def test_promotion_pauses_a_trial_and_resumes_it_from_its_checkpoint() -> None:
    """A trial that waits holds no slots, and goes on as the same run (D12)."""
    play = Experimenting(SearchSpec(**(ASHA | {"promotion": True, "max_time": 3})), slots=2)
    play.create()
    play.play()
    store = play.simulation.store
    events = {trial.number: [event.event for event in store.events(trial.run_id)] for trial in play.trials}
    resumed = [number for number, history in events.items() if "resume_requested" in history]
    assert resumed
    assert play.experiment.outcome is Outcome.COMPLETED


def test_pausing_an_experiment_pauses_every_trial_and_begins_nothing() -> None:
    """Activation brings each back; meanwhile the search issues nothing (D12)."""
    play = Experimenting(SearchSpec(**ASHA))
    play.create()
    play.play(lambda: any(trial.at is not None for trial in play.trials))
    before = len(play.trials)
    play.plane.experiments.pause(ADA, "digits")
    for _ in range(60):
        play.turn()
        play.advance()
    runs = [play.simulation.store.run(trial.run_id) for trial in play.trials]
    assert {run.state for run in runs} <= {RunState.PAUSED, RunState.ENDED}
    assert any(run.state is RunState.PAUSED for run in runs)
    assert len(play.trials) == before
    play.plane.experiments.activate(ADA, "digits")
    play.play()
    assert play.experiment.outcome is Outcome.COMPLETED
    assert len(play.trials) == 9


def test_stopping_and_continuing_a_random_search() -> None:
    random = {"method": SearchMethod.RANDOM, "max_trials": 6, "max_concurrent_trials": 2, "max_time": None}
    play = Experimenting(SearchSpec(**(ASHA | random)), duration_s=50.0)
    play.create()
    play.play(lambda: any(trial.state is TrialState.ENDED for trial in play.trials))
    play.plane.experiments.stop(ADA, "digits")
    play.play()
    assert play.experiment.outcome is Outcome.STOPPED
    stopped = [trial for trial in play.trials if trial.end == "stopped"]
    assert stopped
    with pytest.raises(Refused, match="has ended"):
        play.plane.experiments.pause(ADA, "digits")
    play.check = lambda: None  # from here on a trial has had two runs
    play.plane.experiments.go_on(ADA, "digits")
    play.play()
    assert play.experiment.outcome is Outcome.COMPLETED
    assert [trial.end for trial in play.trials] == ["completed"] * 6
    assert {trial.run_id for trial in stopped}.isdisjoint(trial.run_id for trial in play.trials)
    with pytest.raises(Refused, match="every trial has completed"):
        play.plane.experiments.go_on(ADA, "digits")


def test_a_trial_that_rejects_its_parameters_is_replaced() -> None:
    play = Experimenting(SearchSpec(**ASHA))
    play.create()
    play.turn()
    play.plane.experiments.reject_trial(ADA, play.trials[0].run_id)
    play.play()
    assert len(play.trials) == 10
    assert play.trials[0].end == "invalid"


RANDOM: dict[str, Any] = ASHA | {"method": SearchMethod.RANDOM, "max_trials": 2, "max_time": None}


def test_a_failed_trial_is_tried_again_from_its_last_checkpoint() -> None:
    """Determined's `max_restarts`: the search is told of nothing in between."""
    playing = Experimenting(SearchSpec(**RANDOM), retries=2, failing_attempts=2)
    playing.create()
    playing.play()
    assert playing.experiment.outcome is Outcome.COMPLETED
    assert [trial.end for trial in playing.trials] == ["completed"] * 2
    for trial in playing.trials:
        attempts = playing.simulation.store.attempts(trial.run_id)
        assert [attempt.outcome for attempt in attempts] == [Outcome.FAILED] * 2 + [Outcome.COMPLETED]
        ran_s = [attempt.ended_at - attempt.started_at for attempt in attempts]
        assert sum(ran_s) < 200.0 + 2 * (5.0 + 1.0), "each attempt goes on from the one before"


def test_a_trial_fails_once_its_restarts_are_used_up() -> None:
    """The search goes on with others, and fails where every trial failed."""
    playing = Experimenting(SearchSpec(**RANDOM), retries=1, failing_attempts=2)
    playing.create()
    playing.play()
    assert [trial.end for trial in playing.trials] == ["failed"] * 2
    assert playing.experiment.outcome is Outcome.FAILED
    for trial in playing.trials:
        assert len(playing.simulation.store.attempts(trial.run_id)) == 2


def test_the_same_key_is_the_same_experiment() -> None:
    play = Experimenting(SearchSpec(**ASHA))
    play.create()
    first = play.experiment_id
    play._create()
    assert play.experiment_id == first
    assert len(play.trials) == 3


@pytest.mark.heavy
@pytest.mark.seeded
@pytest.mark.parametrize("case", range(6))
def test_crashes_at_durable_writes_neither_lose_nor_repeat_a_trial(case: int) -> None:
    """The same trials as without crashes, each one run, whatever was being written."""
    promotion = case % 2 == 1
    learns = {"method": (SearchMethod.TPE, SearchMethod.CMA_ES)[promotion], "pruner": "median"}
    search = SearchSpec(**(ASHA | (learns if case >= 4 else {"promotion": promotion}) | {"seed": case}))
    calm = Experimenting(search)
    calm.create()
    calm.play()
    for seed in seeds(8, case=case):
        random = Random(seed)
        play = Experimenting(search)
        crashes = Crashes(random)

        play.simulation.store.interrupt = crashes
        play.simulation.engine.interrupt = crashes
        play.create()
        for _ in range(400):
            if play.experiment.state is ExperimentState.ENDED:
                break
            play.turn()
            if random.random() < 0.05:
                play.change_mind(random)
            play.advance()
        crashes.share = 0.0
        if play.experiment.state is ExperimentState.PAUSED:
            play.plane.experiments.activate(ADA, play.experiment_id)
        play.play()
        assert play.simulation.crashes > 3, f"seed {seed} is tame"
        if case < 4:
            assert drawn(play) == drawn(calm), f"seed {seed}"
        assert len(play.trials) == len(calm.trials), f"seed {seed}"
        assert play.experiment.outcome is Outcome.COMPLETED
        assert not list(play.simulation.store.live_runs())


@pytest.mark.parametrize("cluster", [None, SITE], ids=["placed", "with a queue of its own"])
def test_max_slots_bounds_what_all_trials_hold_together(cluster: str | None) -> None:
    """The others wait, are told why, and start as soon as one has left."""
    search = SearchSpec(**(ASHA | {"max_slots": 2, "max_concurrent_trials": 4}))
    play = Experimenting(search, cluster=cluster)
    play.create()
    most = 0
    for _ in range(3000):
        if play.experiment.state is ExperimentState.ENDED:
            break
        play.turn()
        held = len(play.simulation.store.live_attempts())
        assert held <= 2
        most = max(most, held)
        waiting = [run for run in play.simulation.store.live_runs() if run.state is RunState.QUEUED]
        if held == 2 and waiting:
            assert "max_slots" in play.plane.why(ADA, waiting[-1].id).headline
        play.advance()
    assert most == 2
    assert len(play.trials) == 9
