"""Reads rehearsals, and applies them to a spec. Used by readers and overrides."""

from __future__ import annotations

from tarmac.dialects import quantities
from tarmac.dialects.clusterfile import UNNAMED, read_cluster, read_inline
from tarmac.dialects.kinds import text
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.section import Fields, Section, Value
from tarmac.model.record import replace
from tarmac.model.resources import ACCELERATOR
from tarmac.model.spec import Process, Rehearsal, Role, RunSpec, Target

TARGET_FIELDS = {
    "cluster": "cluster",
    "pool": "pool",
    "shard": "shard",
    "hostnames": "hostnames",
    "exclude_hostnames": "excluded",
}
"""Fields that select nodes, each with the attribute of a `Target` that it sets."""

FILE = Fields(known=frozenset({"source", "filename"}))
"""A cluster file in a submission: its text, and its name for messages."""


def read_rehearsal(section: Section) -> Rehearsal | None:
    """The field `rehearse`: `2x1`, a description of a cluster, or (in overrides) a file with one.

    Reports fields that contradict it. Raises InvalidInput for problems in a file.
    """
    value = section.get("rehearse")
    if value is None:
        return None
    rehearsal = _read(value)
    if rehearsal is not None and rehearsal.described is not None:
        section.exclude("rehearse", "cluster", reason="a rehearsal is a cluster of its own")
    else:
        section.exclude("rehearse", *TARGET_FIELDS, reason="a rehearsal makes its own nodes")
    return rehearsal


def with_rehearsal(spec: RunSpec, rehearsal: Rehearsal | None) -> RunSpec:
    """The spec on a cluster of its own.

    On a rehearsal given as nodes x slots, any node is suitable, and slots count as any type. A described one
    has the pools, shards, host names and types that the spec may name; a role that requests GPUs of no
    particular type may use any of its slots.
    """
    if rehearsal is None:
        return spec
    if rehearsal.described is not None:
        return replace(
            spec,
            rehearsal=rehearsal,
            target=replace(spec.target, cluster=None),
            roles=tuple(_any_type(role) if role.slot_type == ACCELERATOR else role for role in spec.roles),
        )
    return replace(
        spec, rehearsal=rehearsal, target=Target(), roles=tuple(_any_type(role) for role in spec.roles)
    )


def _read(value: Value) -> Rehearsal | None:
    if isinstance(value.node, Scalar):
        return value.read(quantities.rehearsal(), None)
    if not isinstance(value.node, Table):
        value.expected("nodes x slots per node, such as 2x1, or the description of a cluster")
        return None
    if any(key.text == "source" for key, _ in value.node.entries):
        return _from_file(value)
    cluster = read_inline(value)
    return Rehearsal(described=cluster) if cluster is not None else None


def _from_file(value: Value) -> Rehearsal | None:
    section = value.section(FILE)
    source, filename = (section.get("source"), section.get("filename")) if section else (None, None)
    if source is None or not isinstance(source.node, Scalar):
        value.refuse("the text of a cluster file is expected as its 'source'")
        return None
    name = filename.read(text(), "") if filename is not None else "cluster.yaml"
    reading = read_cluster(source.node.text, filename=name, named=UNNAMED)
    value.problems.warnings += reading.warnings
    return Rehearsal(described=reading.cluster)


def _any_type(role: Role) -> Role:
    processes = tuple(
        Process(command=process.command, resources=replace(process.resources, slot_type=None))
        for process in role.processes
    )
    return replace(role, slot_type=None, processes=processes)
