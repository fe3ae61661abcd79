"""Collects every problem in one input, so that a user sees all of them at once.

Every reader of `dialects` adds to one `Problems` and continues with a harmless value; the caller that created
it calls `raise_any` before using the result.
"""

import re
from collections.abc import Sequence

from tarmac.dialects.located import Node, on_line
from tarmac.model.errors import InvalidInput, Problem

MOST_LISTED = 50
"""Maximum number of problems listed for a file; further ones are only counted."""


class Problems:
    """The problems in one input; `file` is its name, None for command-line flags.

    `warnings` are for the user as well, and refuse nothing.
    """

    def __init__(self, file: str | None) -> None:
        self.file = file
        self.warnings: list[str] = []
        self._found: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def first(self) -> Problem | None:
        """The problem that was added first."""
        return self._found[0] if self._found else None

    @property
    def found(self) -> Sequence[Problem]:
        """The problems so far, for a caller that collects further problems of its own."""
        return tuple(self._found)

    def add(self, at: Node | None, message: str, hint: str | None = None) -> None:
        """Add one problem at the place of a value (None: the input as a whole)."""
        if at is not None and at.origin is not None:
            self._found.append(Problem(message=message, file=at.origin, hint=hint))
            return
        line, column = (at.line, at.column) if at is not None else (None, None)
        self.add_at(line, column, message, hint)

    def add_at(self, line: int | None, column: int | None, message: str, hint: str | None = None) -> None:
        """Add one problem at a line and column."""
        self._found.append(Problem(message=message, file=self.file, line=line, column=column, hint=hint))

    def warn(self, at: Node | None, text: str) -> None:
        """Add a warning, with the line of a value if it refers to one."""
        self.warnings.append(f"{on_line(at) if at is not None else ''}{text}")

    @property
    def listed(self) -> list[Problem]:
        """The problems in the order of the text; beyond `MOST_LISTED`, only their number."""
        ordered = sorted(self._found, key=lambda problem: (problem.line or 0, problem.column or 0))
        listed, rest = ordered[:MOST_LISTED], ordered[MOST_LISTED:]
        return (
            [*listed, Problem(message=f"and {len(rest)} more problems", file=self.file)] if rest else listed
        )

    @property
    def sorted_warnings(self) -> tuple[str, ...]:
        """The warnings in the order of the lines that they refer to, those about the whole text first."""

        def line(text: str) -> int:
            found = re.match(r"line ([0-9]+): ", text)
            return int(found[1]) if found is not None else 0

        return tuple(sorted(self.warnings, key=line))

    def raise_any(self) -> None:
        """Raise InvalidInput with all problems in the order of the text, if there are any."""
        if self._found:
            raise InvalidInput(self.listed)
