"""Resolves the references of a new spec to the runs that it waits for. Called by `admission`.

References are resolved when the run is accepted: a later run of the same name changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.control.arrays import means_all
from tarmac.control.lookup import find_run
from tarmac.model.actor import Actor
from tarmac.model.dependency import AwaitedRun, Condition, Dependency
from tarmac.model.errors import InvalidInput, NotFound, Problem, Refused
from tarmac.model.ports import Store


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
