"""Finds the run and attempt of code that calls the gateway. Called by the routes for such code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tarmac.model.errors import Forbidden, NotFound, Unauthorized
from tarmac.model.experiment import Experiment, Trial
from tarmac.model.lifecycle import AttemptState
from tarmac.model.run import Attempt, Run, split_attempt_id
from tarmac.model.run_records import NumberKind, RunRecord, RunRecordKind
from tarmac.systems.determined.gateway.calls import Call, inner
from tarmac.systems.determined.gateway.gateway import Gateway

_GONE = "the run of this task is not there any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A run from the view of its own code: the run, the calling attempt, and the trial if it is one."""

    run: Run
    attempt: Attempt
    trial: Trial | None
    experiment: Experiment | None

    @property
    def searcher(self) -> dict[str, Any]:
        """The search section of the configuration."""
        return dict(inner(self.run.spec.conventions.facts, "config", "searcher") or {})

    @property
    def leaves(self) -> bool:
        """Whether the attempt was asked to leave, has ended, or was replaced by another."""
        attempt = self.attempt
        over = attempt.state is AttemptState.ENDED or self.run.attempt != attempt.number
        return over or attempt.leave_request is not None


def task_record(call: Call, task: Task, kind: RunRecordKind, name: str, body: Mapping[str, Any]) -> RunRecord:
    """A record of the run of a task, with the present time."""
    now = call.gateway.service.clock.now()
    return RunRecord(run_id=task.run.id, kind=kind, name=name, attempt=task.attempt.number, at=now, body=body)


def task_of(call: Call) -> Task:
    """The calling task, by its token; for a person's token, the task that the request names.

    The library of 0.34 uses the token of a person who has logged in on the node, if there is one. Raises
    NotFound for a run that is gone, Forbidden if the trial in the path is another one.
    """
    number = call.number("trial") if "trial" in call.request.path_params else None
    if call.attempt_id is not None:
        run_id, attempt = split_attempt_id(call.attempt_id)
        if number is not None and call.gateway.numbers.numbered(NumberKind.TRIAL, number) != run_id:
            raise Forbidden(f"trial {number} is another one's")
        return find_task(call, run_id, attempt)
    return _named_task(call)


def _named_task(call: Call) -> Task:
    """The task of the trial, allocation or task in a request; raises NotFound."""
    path, attempt = call.request.path_params, None
    named = path.get("trial") or path.get("run") or call.field("runId")
    task = path.get("task") or call.field("taskId")
    allocation = str(path.get("allocation") or call.field("allocationId") or "")
    if named is not None and str(named).isdecimal():
        run_id = call.gateway.numbers.numbered(NumberKind.TRIAL, int(named))
    elif allocation or task:
        head, _, last = allocation.rpartition(".")
        attempt = int(last) if last.isdecimal() else None
        run_id = call.gateway.run_of_task(head or str(task)).id
    else:
        run_id = None
    if run_id is None:
        raise NotFound("a trial of its own calls this, with the token of its task")
    found = find_task(call, run_id, attempt)
    call.check_visible(found.run, _GONE)
    if call.request.method != "GET":
        call.check_change(found.run)
    return found


def check_attempt(gateway: Gateway, attempt_id: str) -> None:
    """Raises Unauthorized if an attempt has ended or is unknown: its token ends with it."""
    run_id, number = split_attempt_id(attempt_id)
    attempts = gateway.store.attempts(run_id)
    if not any(each.number == number and each.state is not AttemptState.ENDED for each in attempts):
        raise Unauthorized(f"the attempt {attempt_id:.100} has ended, and its token with it")


def find_task(call: Call, run_id: str, number: int | None) -> Task:
    """A run with one of its attempts (None: the newest); raises NotFound."""
    store = call.store
    run = store.run(run_id)
    attempts = store.attempts(run_id) if run is not None else []
    chosen = [each for each in attempts if number in (None, each.number)]
    if run is None or not chosen:
        raise NotFound(_GONE)
    trial = store.experiments.trial_of(run_id)
    experiment = store.experiments.experiment(trial.experiment) if trial is not None else None
    return Task(run=run, attempt=chosen[-1], trial=trial, experiment=experiment)
