"""Writes the description of a cluster as it stands in a run file's `rehearse`. Called by the writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any

from tarmac.dialects.native.amounts import Fields, written_duration, written_number, written_size
from tarmac.model.cluster import Cluster, NodeGroup, Pool

_NAMES = {"nodes": "count", "memory_bytes": "memory"}
"""Attributes that a description calls otherwise; durations lose their unit."""


def cluster_fields(cluster: Cluster) -> Fields:
    """The fields `nodes` and `pools` that describe it."""
    nodes = [_said(group, {"nodes": None, "slots": None}) for group in cluster.groups]
    usual = Pool(cluster="")
    pools = {pool.name: _said(pool, {}, leave_out=("name", "cluster"), usual=usual) for pool in cluster.pools}
    return {"nodes": nodes} | ({"pools": pools} if pools else {})


def _said(
    record: NodeGroup | Pool,
    always: Mapping[str, Any],
    *,
    leave_out: tuple[str, ...] = (),
    usual: Pool | None = None,
) -> Fields:
    """The attributes of a record that differ from its defaults."""
    found: Fields = {}
    for item in fields(record):
        value = getattr(record, item.name)
        default = getattr(usual, item.name) if usual is not None else item.default
        if item.name not in leave_out and (item.name in always or value != default):
            found[_NAMES.get(item.name, item.name.removesuffix("_s"))] = _written(item.name, value)
    return found


def _written(name: str, value: Any) -> Any:
    if name.endswith("_s"):
        return written_duration(value)
    if name.endswith("_bytes"):
        return written_size(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {key: written_number(item) for key, item in value.items()}
    return written_number(value) if isinstance(value, float) else value
