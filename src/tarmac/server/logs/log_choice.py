"""Checks that a query for logs names existing ones: an empty answer would hide the error."""

from collections.abc import Sequence

from tarmac.api.run_operations import LogsQuery
from tarmac.model.errors import NotFound, suggestion
from tarmac.model.progress import WorkerPlacement
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import Role

SETUP_ROLE = "setup"
"""The role of the output of setup steps and hooks; its replica is the rank of the node."""


def check_choice(
    query: LogsQuery,
    run: Run,
    attempts: Sequence[Attempt],
) -> None:
    """Raise NotFound for an attempt, role, replica, worker or rank that the run does not have.

    Before the slots are granted, numbers that depend on them are not checked: the number of replicas, of
    processes that a launcher starts for each slot, and of ranks.
    """
    attempt, role, replica = query.attempt, query.role, query.replica
    if attempt is not None and attempt not in {each.number for each in attempts}:
        had = f"it has had {len(attempts)} so far" if attempts else "it has not started yet"
        raise NotFound(f"there is no attempt {attempt} of {run.name} ({run.id}): {had}")
    roles = {each.name: each for each in run.spec.roles}
    if role is not None and role != SETUP_ROLE and role not in roles:
        hint = suggestion(role, roles, f"its roles: {', '.join(sorted(roles))}")
        raise NotFound(f"there is no role {role!r} in {run.name} ({run.id})", hint=hint)
    if role == SETUP_ROLE and role not in roles:
        return
    chosen = [roles[role]] if role is not None else list(roles.values())
    granted = [
        placement
        for each in attempts
        if attempt in (None, each.number)
        for placement in each.allocation.placements
        if any(placement.role == known.name for known in chosen)
    ]
    most = max(_workers(each, granted) for each in chosen)
    if query.worker is not None and query.worker >= most > 0:
        raise NotFound(f"there is no worker {query.worker} of {_named(chosen)}: {_range('worker', most)}")
    replicas = {placement.replica for placement in granted}
    if replica is not None and replicas and replica not in replicas:
        raise NotFound(
            f"there is no replica {replica} of {_named(chosen)}: {_range('replica', max(replicas) + 1)}"
        )
    ranks = max((_ranks(each, attempts, attempt) for each in chosen), default=0)
    if query.rank is not None and query.rank >= ranks > 0:
        raise NotFound(f"there is no rank {query.rank} of {_named(chosen)}: {_range('rank', ranks)}")


def _workers(role: Role, granted: Sequence[WorkerPlacement]) -> int:
    """Maximum workers of a replica of a role; 0 if it depends on slots that are not granted yet."""
    if role.launcher is None:
        return len(role.processes)
    return max(
        (max(1, len(placement.slots)) for placement in granted if placement.role == role.name), default=0
    )


def _ranks(role: Role, attempts: Sequence[Attempt], number: int | None) -> int:
    """Maximum ranks of a role in one of the attempts."""
    if role.launcher is None:
        return 0
    return max(
        (
            sum(max(1, len(each.slots)) for each in attempt.allocation.placements if each.role == role.name)
            for attempt in attempts
            if number in (None, attempt.number)
        ),
        default=0,
    )


def _named(roles: Sequence[Role]) -> str:
    return f"role {roles[0].name}" if len(roles) == 1 else "any role"


def _range(word: str, count: int) -> str:
    owner = "a replica has" if word == "worker" else "there is" if count == 1 else "there are"
    return f"{owner} one, {word} 0" if count == 1 else f"{owner} 0 to {count - 1}"
