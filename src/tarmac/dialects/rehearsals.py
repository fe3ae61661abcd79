"""Reads rehearsals, and applies them to a spec. Used by readers and overrides."""

from typing import Any

from tarmac.dialects import quantities
from tarmac.dialects.clusterfile import UNNAMED, cluster_fields, read_cluster, read_inline
from tarmac.dialects.kinds import text
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.schema import MISSING, Custom, read_value, record
from tarmac.dialects.section import Value
from tarmac.dialects.slot_types import with_types
from tarmac.model.codec import replace
from tarmac.model.resources import ACCELERATOR
from tarmac.model.spec import Rehearsal, Role, RunSpec, Target

FILE = record({"source": text(), "filename": text()})
"""A cluster file in a submission: its text, and its name for messages."""


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


def _read(value: Value) -> Any:
    """`2x1`, a description of a cluster, or (in overrides) a file with one.

    Raises InvalidInput for problems in a file.
    """
    if isinstance(value.node, Scalar):
        return value.read(quantities.REHEARSAL, MISSING)
    if not isinstance(value.node, Table):
        value.expected("nodes x slots per node, such as 2x1, or the description of a cluster")
        return MISSING
    if any(key.text == "source" for key, _ in value.node.entries):
        return _from_file(value) or MISSING
    cluster = read_inline(value)
    return Rehearsal(described=cluster) if cluster is not None else MISSING


def _write(rehearsal: Rehearsal) -> Any:
    if rehearsal.described is None:
        return f"{rehearsal.nodes}x{rehearsal.slots_per_node}"
    return cluster_fields(rehearsal.described)


def _from_file(value: Value) -> Rehearsal | None:
    found = read_value(value, FILE)
    if "source" not in found:
        value.refuse("the text of a cluster file is expected as its 'source'")
        return None
    name = found.get("filename", "cluster.yaml")
    reading = read_cluster(found["source"], filename=name, named=UNNAMED)
    value.problems.warnings += reading.warnings
    return Rehearsal(described=reading.cluster)


def _any_type(role: Role) -> Role:
    return with_types(role, lambda _: None)


REHEARSAL = Custom(_read, _write)
