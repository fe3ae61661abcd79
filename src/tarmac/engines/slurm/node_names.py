"""The nodes that a job may have, in the form of `sbatch`: pure. Called by `script`.

A run names the allowed nodes, and gets some of them; Slurm's `--nodelist` gives a job all that it names. So
if a run names more than it needs, all others of its partition are excluded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]*)")
"""A name and its number; numbers with leading zeros stay part of the name."""


def node_directives(
    hostnames: Collection[str], excluded: Collection[str], *, nodes: int, known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The directives of a job of `nodes` nodes, in a partition with the `known` ones (none: not read yet)."""
    allowed = [name for name in hostnames if name not in excluded]
    if allowed and (len(allowed) == nodes or not known):
        yield "nodelist", hostlist(allowed[:nodes])
    elif allowed:
        excluded = {*excluded, *(name for name in known if name not in allowed)}
    if excluded:
        yield "exclude", hostlist(excluded)


def hostlist(names: Iterable[str]) -> str:
    """Names in Slurm's short form: `n[1-3,7],login`."""
    numbers: dict[str, list[int]] = {}
    plain = []
    for name in sorted(set(names)):
        match = _NUMBERED.fullmatch(name)
        if match is None or not match[1] or match[1][-1].isdigit():
            plain.append(name)
        else:
            numbers.setdefault(match[1], []).append(int(match[2]))
    grouped = [f"{prefix}{_ranges(sorted(found))}" for prefix, found in numbers.items()]
    return ",".join([*grouped, *plain])


def _ranges(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return f"[{','.join(str(first) if first == last else f'{first}-{last}' for first, last in parts)}]"
