"""Makes an action on a page again and again, and takes the medians. Used by the measurements of the page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from playwright.sync_api import Error, Page

from benchmarks.page.filled import ARGUMENTS  # noqa: F401 - first: it makes the builders of tests known
from page_actions import Action, perform
from stopwatches import Timing

BUDGETS = {"answer": 300.0, "frame": 100.0, "shown": inf, "change": 1000.0}
"""In ms: the slowest answer, from the input to the painted frame, to the result, and a change by others."""

PAUSE_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The medians of an action, by the names of their budgets; `problem`: why it was given up."""

    page: str
    name: str
    medians: Mapping[str, float]
    problem: str = ""


def figures_of(page: Page, action: Action, times: int) -> Figures:
    """Make the action so many times."""
    found: list[Timing] = []
    problem = ""
    try:
        for timing in perform(page, action, times):
            found.append(timing)
            time.sleep(PAUSE_S if action.change is not None else 0)
    except Error as error:
        problem = str(error).splitlines()[0]
    return Figures(
        page=action.page,
        name=action.name,
        medians=medians(found, is_change=action.change is not None),
        problem=problem,
    )


def medians(found: Sequence[Timing], *, is_change: bool = False) -> dict[str, float]:
    """The median of each kind of time."""
    kinds: dict[str, list[float | None]] = {
        "answer": [each.answer for each in found],
        "frame": [each.frame for each in found],
        "change" if is_change else "shown": [each.shown for each in found],
    }
    known = {name: [each for each in values if each is not None] for name, values in kinds.items()}
    return {name: median(values) for name, values in known.items() if values}
