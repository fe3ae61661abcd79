"""Reads `scheduling`: priority, retries and time limit, with warnings where meanings differ here.

Called by the reader; `view` uses its words.
"""

import re
from dataclasses import dataclass

from tarmac.dialects.kinds import Kind, Misfit, did_you_mean, flag, integer, lenient
from tarmac.dialects.located import Scalar
from tarmac.dialects.native.fields import MOST_RETRIES
from tarmac.dialects.section import Section, Value
from tarmac.systems.mcli.fields import SCHEDULING, read_known

PRIORITIES = {
    "highest": 2,
    "high": 1,
    "medium": 0,
    "auto": 0,
    "default": 0,
    "low": -1,
    "lowest": -2,
}
"""The priority in tarmac of each word; a higher number runs sooner. Case does not matter."""


WATCHDOG_RETRIES = 10
"""Default number of retries of a watched run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """`priority` has its word as written; None: not given."""

    priority: int = 0
    word: str | None = None
    retries: int = 0
    time_limit_s: float | None = None
    preemptible: bool = False


def read_scheduling(run: Section) -> Scheduling:
    """The scheduling of a run, with MCLI's defaults."""
    value = run.get("scheduling")
    description = f"a mapping with the fields {', '.join(sorted(SCHEDULING.known))}"
    section = read_known(value, SCHEDULING, description=description) if value is not None else None
    if section is None:
        return Scheduling()
    word = _priority(section.get("priority"))
    watched = section.read("watchdog_enabled", flag(lenient), False)
    again = section.read("retry_on_system_failure", flag(lenient), None)
    if again is False and (retry := section.get("retry_on_system_failure")) is not None:
        retry.warn("false has no effect: what a lost node ended is repeated, a few times at most")
    preemptible = section.read("preemptible", flag(lenient), False)
    if preemptible and (choice := section.get("preemptible")) is not None:
        choice.warn("whether runs preempt others is a rule of the pool here, not of a run")
    if (resumable := section.get("resumable")) is not None and section.read(
        "resumable", flag(lenient), False
    ):
        resumable.warn("an old field: what the platform ended goes on by itself")
    retries = section.read("max_retries", integer(0, MOST_RETRIES, of=lenient), None)
    if retries is None:
        retries = WATCHDOG_RETRIES if watched or again else 0
    return Scheduling(
        priority=PRIORITIES[word] if word else 0,
        word=word,
        retries=retries,
        time_limit_s=section.read("max_duration", hours_s(), None),
        preemptible=preemptible,
    )


def _priority(value: Value | None) -> str | None:
    """The priority's word, in lower case."""
    if value is None:
        return None
    known = ", ".join(PRIORITIES)
    if not isinstance(value.node, Scalar):
        value.expected(f"one of {known}")
        return None
    word = value.node.text.strip().lower()
    if word in PRIORITIES:
        return word
    value.expected(f"one of {known}", did_you_mean(word, PRIORITIES))
    return None


def hours_s() -> Kind[float]:
    """A number of hours, in seconds."""

    def read(scalar: Scalar) -> float:
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

    return Kind("a number of hours such as 24 or 0.5", read)


_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}", re.ASCII)
