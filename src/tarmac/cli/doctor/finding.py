"""One line of `tarmac doctor`. Made by the other modules here, printed by the command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Whether something works: fully, not fully, or not at all."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was looked at, and what was found.

    `meaning` says what that is for runs, and what to do; it is empty where all is well. Without what is
    `needed`, no run works.
    """

    what: str
    state: State
    text: str
    meaning: str = ""
    needed: bool = False

    @property
    def stops_runs(self) -> bool:
        """Whether no run works here because of it."""
        return self.needed and self.state is State.MISSING


def ok(what: str, text: str) -> Finding:
    """Something that works."""
    return Finding(what=what, state=State.OK, text=text)


def warn(what: str, text: str, meaning: str) -> Finding:
    """Something that works in part, or will not for long."""
    return Finding(what=what, state=State.WARN, text=text, meaning=meaning)


def missing(what: str, text: str, meaning: str, *, needed: bool = False) -> Finding:
    """Something that is not there."""
    return Finding(what=what, state=State.MISSING, text=text, meaning=meaning, needed=needed)
