"""Makes the container of an attempt with the first driver that succeeds. Called by the hook `image`."""

from __future__ import annotations

import os
from typing import Callable, Mapping, NamedTuple, Optional

from tarmac.node.container import drivers, root
from tarmac.node.container.apptainer import Apptainer, check_binds
from tarmac.node.container.drivers import APPTAINER, AUTO, OWN, PODMAN, Facts
from tarmac.node.container.entry import AnyContainer
from tarmac.node.container.podman import is_divided, user_namespace
from tarmac.node.container.root import CannotMake, Root

Note = Callable[[str], None]
"""Notifies the user with a text."""


class Request(NamedTuple):
    """The container to make. `flat` returns the image's files in one directory, see `flat.flat_root`.

    `token` names the variable that identifies the attempt's remaining processes; for the others see
    `AnyContainer`.
    """

    root: Root
    flat: Callable[[], str]
    env: Mapping[str, str]
    numbers: Mapping[int, int]
    key: str
    accelerators: bool
    token: str
    digest: str = ""
    use: Optional[int] = None


def make(setting: str, facts: Facts, request: Request, note: Note) -> AnyContainer:
    """Make the container. Raises CannotMake with the reason of each driver that the setting allows."""
    failures: dict[str, str] = {}
    for driver in drivers.choose(setting, facts):
        try:
            made = _MAKERS[driver](facts, request, note)
        except (CannotMake, OSError) as problem:
            failures[driver] = str(problem)
            continue
        if failures and setting == AUTO:
            note(f"the container is made by {driver} ({drivers.explain(OWN, facts, failures)})")
        return made
    raise CannotMake(drivers.explain(setting, facts, failures))


def _own(_facts: Facts, request: Request, note: Note) -> AnyContainer:
    """Make its root on the attempt's disk, or in memory if that disk does not support it."""
    try:
        made = root.make(request.root, request.env, request.numbers, request.key)
    except CannotMake as problem:
        in_memory = request.root._replace(in_memory=True)
        made = root.make(in_memory, request.env, request.numbers, request.key)
        note(f"what is written beside the run's own directories is held in memory ({problem})")
    return made._replace(digest=request.digest, use=request.use)


def _podman(facts: Facts, request: Request, note: Note) -> AnyContainer:
    if is_divided():
        note(
            "runs here have a user namespace already, to which Podman can add no users: tarmac uses that one"
        )
        return _own(facts, request, note)
    runtime = os.path.join(request.root.place, "podman")
    with user_namespace(facts.programs[PODMAN], runtime) as users:
        return _own(facts, request._replace(root=request.root._replace(users=users)), note)


def _apptainer(facts: Facts, request: Request, _note: Note) -> AnyContainer:
    check_binds(request.root.binds)
    return Apptainer(
        program=facts.programs[APPTAINER],
        root=request.flat(),
        binds=request.root.binds,
        accelerators=request.accelerators,
        token=request.token,
        env=request.env,
        numbers=request.numbers,
        key=request.key,
        digest=request.digest,
        use=request.use,
    )


_MAKERS = {OWN: _own, PODMAN: _podman, APPTAINER: _apptainer}
