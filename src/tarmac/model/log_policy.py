"""What a run asks to be done about lines of its logs, and what was found. Part of `RunSpec` and `Cause`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LogAction(StrEnum):
    """What follows where a run fails whose log has such a line. LAST_TRY: it is not tried again."""

    LAST_TRY = "cancel_retries"
    EXCLUDE_NODE = "exclude_node"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPolicy:
    """A regular expression, searched for in each line of a log. No `action`: its name stands in the cause."""

    pattern: str
    name: str | None = None
    action: LogAction | None = None

    @property
    def label(self) -> str:
        """What people know it by."""
        return self.name or self.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMatch:
    """The first line on a node that a policy, by its label, was found in."""

    policy: str
    node: str
    line: str
    action: LogAction | None = None
