"""Reads settings in the notation of cluster descriptions: pool rules, sizes, durations.

Called by `settings`, only for files with such settings: its imports take longer than all other reading.
"""

from collections.abc import Sequence
from typing import Any

from tarmac.dialects.located import Problems, from_plain
from tarmac.dialects.pool_rules import read_pools
from tarmac.dialects.quantities import SIZE, duration_s
from tarmac.dialects.section import Value
from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER, NodeGroup, Pool
from tarmac.model.errors import Problem


def local_pools(
    table: Any, groups: Sequence[NodeGroup], file: str
) -> tuple[tuple[Pool, ...], Sequence[Problem]]:
    """The rules in the table `pools`, for pools with nodes, and the problems with them."""
    problems = Problems(file)
    read = read_pools(Value(from_plain(table), "pools", problems), LOCAL_CLUSTER)
    known = dict.fromkeys(group.pool for group in groups) or [DEFAULT_POOL]
    for pool, rules in read:
        if pool.name not in known:
            rules.refuse("no node is in this pool", f"pools with nodes: {', '.join(known)}")
    return tuple(pool for pool, _ in read), problems.found


def amount(text: str, path: str, file: str, *, is_size: bool) -> tuple[float | None, Sequence[Problem]]:
    """A size such as `64GiB`, or a duration such as `2m`, and the problems with it."""
    problems = Problems(file)
    value = Value(from_plain(text), path, problems)
    read = value.read(SIZE, None) if is_size else value.read(duration_s(), None)
    return read, problems.found
