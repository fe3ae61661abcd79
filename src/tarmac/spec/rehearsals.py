"""What a rehearsal changes in a spec. Used by the readers and by overrides."""

from __future__ import annotations

from dataclasses import replace

from tarmac.model.spec import Process, Rehearsal, Role, RunSpec, Target


def rehearsed(spec: RunSpec, rehearsal: Rehearsal | None) -> RunSpec:
    """The spec on a cluster of its own: any of its nodes will do, and its slots stand for any type."""
    if rehearsal is None:
        return spec
    return replace(
        spec, rehearsal=rehearsal, target=Target(), roles=tuple(_any_type(role) for role in spec.roles)
    )


def _any_type(role: Role) -> Role:
    processes = tuple(
        Process(command=process.command, resources=replace(process.resources, slot_type=None))
        for process in role.processes
    )
    return replace(role, slot_type=None, processes=processes)
