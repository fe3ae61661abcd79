"""Reads `scheduling`: priority, retries, the time limit, and what of it has another meaning here."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.dialects.located import Scalar
from tarmac.dialects.mcli.fields import SCHEDULING, tidied
from tarmac.dialects.mcli.kinds import hours_s, truth, whole
from tarmac.dialects.mcli.priorities import PRIORITIES
from tarmac.dialects.native.reader import MOST_RETRIES
from tarmac.dialects.problems import nearest
from tarmac.dialects.section import Section, Value, where

WATCHDOG_RETRIES = 10
"""How often a watched run is tried again where its file does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """`priority` with its word as it was written; None: not given."""

    priority: int = 0
    word: str | None = None
    retries: int = 0
    time_limit_s: float | None = None
    preemptible: bool = False


def read_scheduling(run: Section, warnings: list[str]) -> Scheduling:
    """The scheduling of a run, with MCLI's defaults."""
    value = run.get("scheduling")
    wanted = f"a mapping with the fields {', '.join(sorted(SCHEDULING.known))}"
    section = tidied(value, SCHEDULING, warnings, wanted=wanted) if value is not None else None
    if section is None:
        return Scheduling()
    word = _priority(section.get("priority"))
    watched = section.read("watchdog_enabled", truth(), False)
    again = section.read("retry_on_system_failure", truth(), None)
    if again is False and (said := section.get("retry_on_system_failure")) is not None:
        warnings.append(
            f"{where(said)}false has no effect: what a lost node ended is repeated, a few times at most"
        )
    preemptible = section.read("preemptible", truth(), False)
    if preemptible and (said := section.get("preemptible")) is not None:
        warnings.append(f"{where(said)}whether runs displace others is a rule of the pool here, not of a run")
    if (resumable := section.get("resumable")) is not None and section.read("resumable", truth(), False):
        warnings.append(f"{where(resumable)}an old field: what the platform ended goes on by itself")
    retries = section.read("max_retries", whole(0, MOST_RETRIES), None)
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
    """The word of the priority, in small letters."""
    if value is None:
        return None
    known = ", ".join(PRIORITIES)
    if not isinstance(value.node, Scalar):
        value.expected(f"one of {known}")
        return None
    word = value.node.text.strip().lower()
    if word in PRIORITIES:
        return word
    meant = nearest(word, PRIORITIES)
    value.expected(f"one of {known}", f"did you mean '{meant}'?" if meant else None)
    return None
