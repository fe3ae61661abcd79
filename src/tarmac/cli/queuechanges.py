"""Reads the changes of `tarmac queue set` from its words: options, or `RUN.priority=1 RUN2.pool=x`.

Called by `queue`, `experiment` and `queueacts`. All problems with the words are reported at once; the server
checks whether the runs and pools exist, and whether the change is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.text import suggestion

HIGHEST_PRIORITY = 1_000_000
LARGEST_WEIGHT = 100_000

Change = dict[str, Any]
"""A `QueueChange` of docs/using/api.md."""

OPERATIONS = {
    "priority": "priority",
    "weight": "weight",
    "pool": "pool",
    "resource-pool": "pool",
    "ahead-of": "ahead_of",
    "behind-of": "behind_of",
}
"""The words between the dot and the equals sign, and their fields."""

_SYNONYMS = {
    "resource_pool": "resource-pool",
    "ahead_of": "ahead-of",
    "behind_of": "behind-of",
}
_MOVES = frozenset({"ahead_of", "behind_of"})


def is_assignment(word: str) -> bool:
    """Whether a word has the batch form; names of runs have no equals sign."""
    return "=" in word


def read_assignments(words: Sequence[str]) -> list[Change]:
    """The changes of `RUN.OPERATION=VALUE ...`, in order; raises InvalidInput with all problems.

    The last dot before the first equals sign separates run and operation: names and weights may have dots.
    """
    problems: list[Problem] = []
    changes: list[Change] = []
    for word in words:
        left, equals, value = word.partition("=")
        reference, dot, operation = left.rpartition(".")
        if not equals or not dot or not reference:
            problems.append(_problem(word, "is not of the form RUN.OPERATION=VALUE", _FORM_HINT))
        elif operation not in OPERATIONS:
            hint = suggestion(operation, OPERATIONS, f"one of {', '.join(OPERATIONS)}", _SYNONYMS)
            problems.append(_problem(word, f"there is no operation {operation!r}", hint))
        else:
            field = OPERATIONS[operation]
            try:
                changes.append({"run": reference, field: _VALUES[field](_unquoted(value))})
            except ValueError as misfit:
                problems.append(_problem(word, str(misfit)))
    problems += _contradictions(changes)
    if problems:
        raise InvalidInput(problems)
    return changes


def read_options(references: Sequence[str], options: Mapping[str, str]) -> list[Change]:
    """The same changes for each of these runs; `options` has the text of each field."""
    values: Change = {}
    problems: list[Problem] = []
    for field, text in options.items():
        try:
            values[field] = _VALUES[field](text)
        except ValueError as misfit:
            problems.append(_problem(f"--{field}", str(misfit)))
    if problems:
        raise InvalidInput(problems)
    return [{"run": run, field: value} for run in references for field, value in values.items()]


def _contradictions(changes: Sequence[Change]) -> list[Problem]:
    """Fields set twice for one run; and moves of a run combined with the priority that they would set."""
    first: dict[tuple[str, str], Any] = {}
    problems = []
    for change in changes:
        reference = change["run"]
        ((field, value),) = ((field, value) for field, value in change.items() if field != "run")
        kind = "place" if field in _MOVES or field == "priority" else field
        before = first.setdefault((reference, kind), (field, value))
        if before != (field, value):
            words = " and ".join(f"{_word(name)}={content}" for name, content in (before, (field, value)))
            problems.append(Problem(message=f"{reference}: {words} contradict each other"))
    return problems


def _priority(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text) or abs(int(text)) > HIGHEST_PRIORITY:
        raise ValueError(
            f"a priority is a whole number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}, not {text!r}"
        )
    return int(text)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= LARGEST_WEIGHT:
        raise ValueError(f"a weight is a number above 0, at most {LARGEST_WEIGHT}, not {text!r}")
    return weight


def _name(text: str) -> str:
    if not text:
        raise ValueError("there is nothing after the equals sign")
    return text


_VALUES: dict[str, Callable[[str], Any]] = {
    "priority": _priority,
    "weight": _weight,
    "pool": _name,
    "ahead_of": _name,
    "behind_of": _name,
}
_FORM_HINT = "such as digits.priority=10 or digits.ahead-of=other"


def _unquoted(text: str) -> str:
    """The text without quotes that a shell has left around it."""
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" else text


def _word(field: str) -> str:
    return field.replace("_", "-")


def _problem(word: str, message: str, hint: str | None = None) -> Problem:
    return Problem(message=f"{word}: {message}", hint=hint)
