"""The package `determined`, which a run gets whose code imports it while its Python does not have it. Pure.

The setup step that `conventions` adds is carried out on each node: only there is known what Python has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tarmac.node.attempt.steps import PipStep

LIBRARY = r"(?:\d[0-9A-Za-z.]{0,30})?"
"""A version, or nothing: no package is installed."""

FACT = "library"
"""Among the facts of a run: which version it gets, where that is not the usual one."""

USUAL = "0.38.1"
BEFORE_0_38 = "0.34.0"
"""For configurations that say how long a trial is by `max_length`: later versions lost what those rely on."""

_PACKAGE = "determined"
_WITH_IT = "tensorboard"
"""The library does not begin without it, and does not bring it along."""


def library_fact(configured: str | None, config: Mapping[str, Any]) -> dict[str, Any]:
    """The fact for a run; `configured` is what the cluster says."""
    if configured is not None:
        return {FACT: configured}
    searcher = config.get("searcher") or {}
    is_old = searcher.get("max_length") is not None and searcher.get("max_time") is None
    return {FACT: BEFORE_0_38} if is_old else {}


def library_steps(facts: Mapping[str, Any]) -> tuple[PipStep, ...]:
    """The setup steps of a run with these facts, which in a native file may be anything."""
    version = facts.get(FACT, USUAL)
    if not isinstance(version, str) or not re.fullmatch(LIBRARY, version):
        version = USUAL
    if not version:
        return ()
    return (PipStep((f"{_PACKAGE}=={version}", _WITH_IT), imported=_PACKAGE),)
