"""Checks that the logs that a query names can exist: an empty answer would not say so."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.model.errors import NotFound
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import Role
from tarmac.model.text import suggestion


def check_choice(
    run: Run,
    attempts: Sequence[Attempt],
    *,
    attempt: int | None,
    role: str | None,
    replica: int | None,
    worker: int | None,
    setup_role: str,
) -> None:
    """Raise NotFound for an attempt, role, replica or worker that the run does not have.

    An unknown replica passes before slots were granted: the number of replicas is not known yet.
    """
    if attempt is not None and attempt not in {each.number for each in attempts}:
        had = f"it has had {len(attempts)} so far" if attempts else "it has not started yet"
        raise NotFound(f"there is no attempt {attempt} of {run.name} ({run.id}): {had}")
    roles = {each.name: each for each in run.spec.roles}
    if role is not None and role != setup_role and role not in roles:
        hint = suggestion(role, roles, f"its roles: {', '.join(sorted(roles))}")
        raise NotFound(f"there is no role {role!r} in {run.name} ({run.id})", hint=hint)
    if role == setup_role and role not in roles:
        return
    chosen = [roles[role]] if role is not None else list(roles.values())
    if worker is not None and all(worker >= len(each.processes) for each in chosen):
        raise NotFound(f"there is no worker {worker} of {_named(chosen)}: {_workers(chosen)}")
    granted = [each for each in attempts if attempt in (None, each.number)]
    replicas = {
        placement.replica
        for each in granted
        for placement in each.allocation.placements
        if any(placement.role == known.name for known in chosen)
    }
    if replica is not None and replicas and replica not in replicas:
        raise NotFound(f"there is no replica {replica} of {_named(chosen)}: {_replicas(max(replicas))}")


def _named(roles: Sequence[Role]) -> str:
    return f"role {roles[0].name}" if len(roles) == 1 else "any role"


def _replicas(highest: int) -> str:
    return "there is one, replica 0" if highest == 0 else f"there are 0 to {highest}"


def _workers(roles: Sequence[Role]) -> str:
    most = max(len(each.processes) for each in roles)
    return "a replica has one, worker 0" if most == 1 else f"a replica has 0 to {most - 1}"
