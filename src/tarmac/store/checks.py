"""Checks of everything that is to be written, before any database is touched.

Used by every part of `SqlStore`, and by the simulator's `PlayStore`, which refuses the same records.
"""

from collections.abc import Iterator, Mapping, Sequence

from tarmac.model.burst.rentals import NEXT, RentalStep
from tarmac.model.changes import NewRun, RunStep
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.experiment import ExperimentChange
from tarmac.model.lifecycle import INITIAL_STATE, IllegalStep, RunState, sources, steps
from tarmac.model.progress import RUN_OUTCOMES
from tarmac.model.run import Run
from tarmac.model.run_records import Annotation, Dataset
from tarmac.model.secret import SecretVersion

Key = tuple[str, str]
"""A user and an idempotency key of theirs."""

BIGGEST = 2**63 - 1
"""The biggest number that a column holds."""


def check_new(new: NewRun) -> None:
    """Raise IllegalStep unless state and seq are those after the first events, InvalidInput for bad text."""
    run = new.run
    if steps(INITIAL_STATE, new.events) is not run.state or run.seq != 1 + len(new.events):
        raise IllegalStep(f"run {run.id} is not in the state that its first events lead to")
    if problems := tuple(_problems(run)):
        raise InvalidInput(problems)


def check_step(step: RunStep) -> None:
    """Raise IllegalStep unless the table leads from `before` to `after` by exactly these events."""
    before, after = step.before, step.after
    state = steps(before.state, (item.event for item in step.events))
    if state is not after.state or after.seq != before.seq + len(step.events):
        raise IllegalStep(f"run {after.id} is not in the state that its events lead to")
    if after.outcome is not None and after.outcome not in RUN_OUTCOMES:
        raise IllegalStep(f"run {after.id} cannot end as {after.outcome}: only an attempt can")
    if _identity(before) != _identity(after):
        raise IllegalStep(f"a step of run {before.id} changes what never changes")
    if after.spec is not before.spec and after.spec != before.spec:
        raise IllegalStep(f"a step of run {before.id} changes its spec")
    if after.attained_slot_s != before.attained_slot_s and not step.events:
        raise IllegalStep(f"a step of run {before.id} adds to its usage and could be taken twice")
    if step.attempt is not None and step.attempt.run_id != before.id:
        raise IllegalStep(f"a step of run {before.id} touches attempt {step.attempt.id}")


def check_cluster(cluster: Cluster) -> None:
    """Raise InvalidInput for a name that some database cannot hold."""
    check_texts({"the name of the cluster": cluster.name})


def check_rental(step: RentalStep) -> None:
    """Raise IllegalStep unless the new state may follow, and `seq` counts up."""
    before, after = step.before, step.after
    if after.seq != (1 if before is None else before.seq + 1):
        raise IllegalStep(f"a change of rental {after.id} does not count up")
    if before is not None and (before.id, before.run_id) != (after.id, after.run_id):
        raise IllegalStep(f"a change of rental {before.id} changes what never changes")
    if before is not None and after.state is not before.state and after.state not in NEXT[before.state]:
        raise IllegalStep(f"a rental that is {before.state} cannot become {after.state}")


def check_dataset(dataset: Dataset) -> None:
    """Raise InvalidInput for texts that some database cannot hold."""
    check_texts({"the id of the dataset": dataset.id, "its source": dataset.source})


def check_annotation(annotation: Annotation) -> None:
    """Raise InvalidInput for texts that some database cannot hold."""
    check_texts({"the text": annotation.text, "the user": annotation.actor})


def check_experiment_change(change: ExperimentChange) -> None:
    """Raise the errors of `check_new` and `check_step`; InvalidInput for bad text, IllegalStep for `seq`."""
    for new in change.new_runs:
        check_new(new)
    for step in change.steps:
        check_step(step)
    before, after = change.before, change.after
    if after.seq != (1 if before is None else before.seq + 1):
        raise IllegalStep(f"a change of experiment {after.id} does not count up")
    if before is not None and (before.id, before.user) != (after.id, after.user):
        raise IllegalStep(f"a change of experiment {before.id} changes what never changes")
    key = after.idempotency_key or ""
    texts = {"the name": after.name, "the project": after.project, "the user": after.user}
    check_texts({**texts, "the idempotency key": key})


def check_secret(version: SecretVersion) -> None:
    """Raise InvalidInput for texts that some database cannot hold."""
    check_texts(
        {"the name of the secret": version.name, "its scope": version.scope, "its user": version.user}
    )


def guard_states(step: RunStep) -> frozenset[RunState]:
    """The states of the stored run in which the step may be applied."""
    return sources(step.events[0].event) if step.events else frozenset({step.before.state})


def split_known(new: Sequence[NewRun], known: Mapping[Key, Run]) -> tuple[list[Run], list[NewRun]]:
    """The stored run for each of `new`, and those of `new` that are to be stored.

    `known` are the stored runs by user and idempotency key; within `new`, the first of a key counts for all.
    """
    by_key = dict(known)
    stored: list[Run] = []
    fresh: list[NewRun] = []
    for item in new:
        key = key_of(item.run)
        run = by_key.setdefault(key, item.run) if key is not None else item.run
        if run is item.run:
            fresh.append(item)
        stored.append(run)
    return stored, fresh


def key_of(run: Run) -> Key | None:
    """The key that makes a submission the same as an earlier one."""
    return (run.user, run.idempotency_key) if run.idempotency_key is not None else None


def target_pool(run: Run) -> str | None:
    """The target pool of a run: the one a person set, otherwise that of its spec."""
    return run.place.pool or run.spec.target.pool


def storable(text: str) -> bool:
    """Whether every database can hold, and so find, this text."""
    return (text.isascii() and "\0" not in text) or not any(_bad_text("", text))


def _problems(run: Run) -> Iterator[Problem]:
    """The values of the searchable fields that some database cannot hold."""
    spec = run.spec
    texts = {
        "the name": spec.name,
        "the project": spec.project,
        "the user": run.user,
        "the cluster": spec.target.cluster or "",
        "the pool": spec.target.pool or "",
        "the idempotency key": run.idempotency_key or "",
        **{f"label {key!r}": key + value for key, value in spec.labels.items()},
    }
    for what, text in texts.items():
        if not storable(text):
            yield from _bad_text(what, text)
    for what, number in (("priority", spec.priority), ("slots", spec.slots)):
        if not -BIGGEST <= number <= BIGGEST:
            yield Problem(message=f"{what} {number} is out of range", hint=f"at most {BIGGEST}")


def check_texts(texts: Mapping[str, str]) -> None:
    """Raise InvalidInput for texts that some database cannot hold."""
    if problems := tuple(problem for what, text in texts.items() for problem in _bad_text(what, text)):
        raise InvalidInput(problems)


def _bad_text(what: str, text: str) -> Iterator[Problem]:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        yield Problem(message=f"{what} is not valid text: {text!r}", hint="use UTF-8")
    if "\0" in text:
        yield Problem(message=f"{what} contains a NUL character: {text!r}")


def _identity(run: Run) -> tuple[object, ...]:
    return run.id, run.user, run.created_at, run.idempotency_key, run.array_id, run.array_index
