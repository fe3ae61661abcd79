"""The changes that the conventions of a run's system make to its launch.

The record itself: `node.attempt.document`.
"""

from __future__ import annotations

from collections.abc import Callable

from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch

ApplyConventions = Callable[[Run, Attempt, Launch], Launch]
"""Adds what the conventions of the run's system promise to a launch: variables, files, mounts. Pure."""


def as_it_is(_run: Run, _attempt: Attempt, launch: Launch) -> Launch:
    """The `ApplyConventions` of no system: workers get only what tarmac itself promises."""
    return launch
