"""Finds the run that a user means: by id, name (the newest), unique prefix of its id, or `@last`.

Called by `service` for every command that takes a run. `awaited_runs` finds those that a run waits for.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tarmac.control.arrays import means_all
from tarmac.model.actor import Actor
from tarmac.model.array import split_member
from tarmac.model.dependency import AwaitedRun, Condition, Dependency
from tarmac.model.errors import InvalidInput, NotFound, Problem, Refused
from tarmac.model.ports import Store
from tarmac.model.run import Run
from tarmac.model.summary import RunQuery

LAST = "@last"
"""The newest run of the actor (of any user, if they have none), whether it has ended or not."""


def find_run(store: Store, actor: Actor, reference: str) -> Run:
    """Find the run, first among the actor's own.

    Raises NotFound with the nearest names, and Refused if a prefix means several runs.
    """
    if reference == LAST:
        newest = store.runs(RunQuery(user=actor.user, limit=1)) or store.runs(RunQuery(limit=1))
        if not newest:
            raise NotFound("there is no run yet", hint="tarmac run -- echo hello makes one")
        reference = newest[0].id
    exact = store.run(reference)
    if exact is not None:
        return exact
    found = store.find_runs(reference, user=actor.user) or _in_array(store, actor, reference)
    if not found:
        raise NotFound(f"there is no run {reference!r}", hint=_nearest(store, actor, reference))
    if len(found) > 1 and found[0].name != reference:
        listed = ", ".join(f"{run.id} ({run.name})" for run in found)
        raise Refused(f"{reference!r} means several runs: {listed}", hint="give more of the id")
    return found[0]


def _in_array(store: Store, actor: Actor, reference: str) -> list[Run]:
    """The run that `NAME[3]` means; for an array's own id, its newest member."""
    member = split_member(reference)
    if member is None:
        query = RunQuery(array_id=reference, limit=1)
    else:
        name, index = member
        named = store.find_runs(name, user=actor.user)
        array_id = named[0].array_id if named else name
        if array_id is None:
            return []
        query = RunQuery(array_id=array_id, array_index=index, limit=1)
    return list(store.load_runs([each.id for each in store.runs(query)]).values())


def _nearest(store: Store, actor: Actor, reference: str) -> str:
    if store.experiments.find(reference, user=actor.user):
        return f"it is an experiment: tarmac experiment show {reference}"
    recent = store.runs(RunQuery(limit=200))
    names = dict.fromkeys([run.name for run in recent] + [run.id for run in recent])
    close = difflib.get_close_matches(reference, names, n=3)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "tarmac ls --all lists them" if recent else "no run was submitted yet"


def awaited_runs(store: Store, actor: Actor, after: Sequence[Dependency]) -> tuple[AwaitedRun, ...]:
    """The referenced runs, each once; raises InvalidInput with every reference that means no single run.

    A run that is named twice has to complete if either reference requires it.
    """
    found: dict[str, AwaitedRun] = {}
    problems: list[Problem] = []
    for dependency in after:
        try:
            run = find_run(store, actor, dependency.run)
        except (NotFound, Refused) as error:
            problems.append(Problem(message=f"after: {error.message}", hint=error.hint))
            continue
        identifier = str(run.array_id) if means_all(run, dependency.run) else run.id
        before = found.get(identifier)
        condition = dependency.condition
        if before is not None and before.condition is Condition.COMPLETED:
            condition = Condition.COMPLETED
        found[identifier] = AwaitedRun(run_id=identifier, name=run.name, condition=condition)
    if problems:
        raise InvalidInput(problems)
    return tuple(found.values())
