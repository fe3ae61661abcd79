"""Reads `log_policies`: reactions to log lines of a run that fails. Called by `reader`."""

from __future__ import annotations

import re

from tarmac.dialects.kinds import choice, text
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.log_policy import LogAction, LogPolicy

POLICY = Fields(
    known=frozenset({"pattern", "name", "action"}),
    synonyms=words_for(pattern="regex match expression", name="label", action="then do type"),
)
MOST_POLICIES = 100


def read_log_policies(run: Section) -> tuple[LogPolicy, ...]:
    """The policies, in their order."""
    value = run.get("log_policies")
    if value is None:
        return ()
    items = list(value.items("a list of policies, each a mapping with 'pattern',"))
    if len(items) > MOST_POLICIES:
        value.refuse(f"{len(items)} policies; at most {MOST_POLICIES} are allowed")
    return tuple(policy for item in items if (policy := _policy(item)) is not None)


def _policy(value: Value) -> LogPolicy | None:
    section = value.section(POLICY)
    if section is None:
        return None
    found = section.get("pattern")
    if found is None:
        section.missing("pattern", "the regular expression that is searched for in each line")
        return None
    pattern = found.read(text("a regular expression"), "")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        found.refuse(f"this is not a regular expression: {error}")
    return LogPolicy(
        pattern=pattern,
        name=section.read("name", text("a name"), None),
        action=section.read("action", choice(LogAction), None),
    )
