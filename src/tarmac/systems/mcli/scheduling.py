"""The table of `scheduling`: priority, retries and time limit, with warnings where meanings differ here.

A part of the reader's table; `view` uses its words.
"""

import re
from typing import Any

from tarmac.dialects.kinds import Kind, Misfit, did_you_mean, flag, integer, lenient
from tarmac.dialects.located import Scalar
from tarmac.dialects.native.fields import MOST_RETRIES
from tarmac.dialects.schema import MISSING, Custom, Field, record
from tarmac.dialects.section import Value
from tarmac.systems.mcli.fields import Vocabulary

PRIORITIES = {"highest": 2, "high": 1, "medium": 0, "auto": 0, "default": 0, "low": -1, "lowest": -2}
"""The priority in tarmac of each word; a higher number runs sooner. Case does not matter."""

WATCHDOG_RETRIES = 10
"""Default number of retries of a watched run."""


def _priority(scalar: Scalar) -> str:
    """The priority's word, in lower case."""
    word = scalar.text.strip().lower()
    if word not in PRIORITIES:
        raise Misfit(did_you_mean(word, PRIORITIES))
    return word


def _noted(unlike: bool, text: str) -> Custom:
    """A truth value, one of which has another meaning here."""

    def read(value: Value) -> Any:
        found = value.read(flag(lenient), MISSING)
        if found is unlike:
            value.warn(text)
        return found

    return Custom(read)


def _hours_s(scalar: Scalar) -> float:
    """A number of hours, in seconds."""
    unit = re.fullmatch(r"([0-9.]+) ?(h|hours?|m|min|d|days?|s)", scalar.text, re.ASCII)
    if unit:
        raise Misfit(
            f"it counts hours, without a unit: {unit[1]}" if unit[2][0] == "h" else "it counts hours"
        )
    if not _NUMBER.fullmatch(scalar.text):
        raise Misfit()
    seconds = float(scalar.text) * 3600
    if not 1 <= seconds <= 3650 * 86400:
        raise Misfit("at least a second, and at most ten years")
    return seconds


_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}", re.ASCII)

SCHEDULING = Vocabulary(
    shape=record(
        {
            "priority": Kind(f"one of {', '.join(PRIORITIES)}", _priority),
            "watchdog_enabled": Field(flag(lenient), words="watchdog"),
            "retry_on_system_failure": _noted(
                False, "false has no effect: what a lost node ended is repeated, a few times at most"
            ),
            "preemptible": _noted(
                True, "whether runs preempt others is a rule of the pool here, not of a run"
            ),
            "resumable": _noted(True, "an old field: what the platform ended goes on by itself"),
            "max_retries": Field(integer(0, MOST_RETRIES, of=lenient), words="retries"),
            "max_duration": Field(Kind("a number of hours such as 24 or 0.5", _hours_s), words="timeout"),
        }
    ),
    ignored={"priority_int": "the word under 'priority' says it"},
)
