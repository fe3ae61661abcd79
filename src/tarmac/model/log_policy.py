"""Actions of a run on lines of its logs, and the matches found. Part of `RunSpec` and `Cause`."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from tarmac.model.record import StoredRecord


class LogAction(StrEnum):
    """The action if a run fails whose log has such a line. LAST_TRY: it is not tried again."""

    LAST_TRY = "cancel_retries"
    EXCLUDE_NODE = "exclude_node"


class LogPolicy(StoredRecord, frozen=True, kw_only=True):
    """A regular expression, searched for in each line of a log. Without `action`, only the cause names it."""

    pattern: str
    name: str | None = None
    action: LogAction | None = None

    @property
    def label(self) -> str:
        """Its name for people."""
        return self.name or self.pattern


class LogMatch(Struct, frozen=True, kw_only=True):
    """The first line on a node that a policy matched; `policy` is its label."""

    policy: str
    node: str
    line: str
    action: LogAction | None = None
