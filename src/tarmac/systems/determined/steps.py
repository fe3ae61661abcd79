"""Converts configurations from before 0.13, which count in steps of several batches. Called by `reader`.

`batches_per_step` is now `scheduling_unit`; a period or a length in steps becomes a length in batches. A
value without an unambiguous conversion is left unchanged, and the reader refuses it at its place.
"""

from __future__ import annotations

from tarmac.dialects.kinds import yaml12
from tarmac.dialects.located import Node, Scalar, Table
from tarmac.dialects.problems import Problems

_UNIT = "batches_per_step"
_USUAL_BATCHES = 100
"""The default number of batches in a step."""

_PERIODS = frozenset({"min_validation_period", "min_checkpoint_period"})
_LENGTHS = {"max_steps": "max_length", "target_trial_steps": "max_length"}


def in_batches(tree: Table, problems: Problems) -> Table:
    """The tree without steps; a warning names their fields and the batches of each."""
    batches = _whole(tree.values.get(_UNIT))
    if tree.values.get(_UNIT) is not None and (not batches or tree.values.get("scheduling_unit") is not None):
        return tree
    found: list[Scalar] = []
    entries = []
    for key, value in tree.entries:
        if key.text == _UNIT:
            found.append(key)
            entries.append((_renamed(key, "scheduling_unit"), value))
        elif key.text in _PERIODS and _whole(value) is not None:
            found.append(key)
            entries.append((key, _length(value, batches or _USUAL_BATCHES)))
        elif key.text == "searcher" and isinstance(value, Table):
            entries.append((key, _searcher(value, batches or _USUAL_BATCHES, found)))
        else:
            entries.append((key, value))
    if not found:
        return tree
    problems.warn(
        found[0],
        f"{', '.join(key.text for key in found)}: a step is read as "
        f"{batches or _USUAL_BATCHES} batches; lengths and periods are in batches since 0.13",
    )
    return Table(entries=tuple(entries), line=tree.line, column=tree.column)


def _searcher(table: Table, batches: int, found: list[Scalar]) -> Table:
    """The searcher with its length in batches, if it has exactly one length."""
    keys = [key for key, _ in table.entries if key.text in {*_LENGTHS, "max_length"}]
    if len(keys) != 1 or keys[0].text not in _LENGTHS or not _whole(table.values.get(keys[0].text)):
        return table
    found.append(keys[0])
    entries = tuple(
        (_renamed(key, _LENGTHS[key.text]), _length(value, batches)) if key is keys[0] else (key, value)
        for key, value in table.entries
    )
    return Table(entries=entries, line=table.line, column=table.column)


def _length(steps: Node, batches: int) -> Table:
    count = (_whole(steps) or 0) * batches
    number = Scalar(text=str(count), line=steps.line, column=steps.column)
    key = Scalar(text="batches", line=steps.line, column=steps.column)
    return Table(entries=((key, number),), line=steps.line, column=steps.column)


def _renamed(key: Scalar, name: str) -> Scalar:
    return Scalar(text=name, line=key.line, column=key.column)


def _whole(node: Node | None) -> int | None:
    found = yaml12(node) if isinstance(node, Scalar) else None
    return found if type(found) is int and found >= 0 else None
