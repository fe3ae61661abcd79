"""What the conventions of a run's system do to its launch. The record itself: `node.attempt.document`."""

from __future__ import annotations

from collections.abc import Callable

from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch

ApplyConventions = Callable[[Run, Attempt, Launch], Launch]
"""Adds to a launch what the conventions of the run's system promise: variables, files, mounts. Pure."""


def as_it_is(_run: Run, _attempt: Attempt, launch: Launch) -> Launch:
    """The `ApplyConventions` of no system: every worker gets what tarmac itself promises."""
    return launch
