"""One line of `tarmac doctor`. Created by the other modules here, printed by the command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Whether a feature works: fully, not fully, or not at all."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check.

    `meaning` describes the effect on runs and a remedy; it is empty if the check is ok. No run works if a
    `needed` check is missing.
    """

    what: str
    state: State
    text: str
    meaning: str = ""
    needed: bool = False

    @property
    def stops_runs(self) -> bool:
        """Whether it prevents all runs here."""
        return self.needed and self.state is State.MISSING


def ok(what: str, text: str) -> Finding:
    """A feature that works."""
    return Finding(what=what, state=State.OK, text=text)


def warn(what: str, text: str, meaning: str) -> Finding:
    """A feature that works in part, or will soon stop working."""
    return Finding(what=what, state=State.WARN, text=text, meaning=meaning)


def missing(what: str, text: str, meaning: str, *, needed: bool = False) -> Finding:
    """A missing feature."""
    return Finding(what=what, state=State.MISSING, text=text, meaning=meaning, needed=needed)
