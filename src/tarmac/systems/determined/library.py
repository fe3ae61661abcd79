"""The package `determined`, installed for a run whose code imports it if its Python lacks it. Pure.

Called by `conventions` and `reader`. The setup step runs on each node, because only the node knows its
Python's packages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tarmac.node.attempt.steps import PipStep

LIBRARY = r"(?:\d[0-9A-Za-z.]{0,30})?"
"""A version, or nothing: no package is installed."""

FACT = "library"
"""The fact with the version of a run, if that is not the usual one."""

USUAL = "0.38.1"
BEFORE_0_38 = "0.34.0"
"""For configurations with `max_length` as the length of a trial: later versions do not support it fully."""

_PACKAGE = "determined"
_WITH_IT = "tensorboard"
"""Required by the library, but not declared as its dependency."""


def library_fact(configured: str | None, config: Mapping[str, Any]) -> dict[str, Any]:
    """The fact for a run; `configured` is the version in the cluster's settings."""
    if configured is not None:
        return {FACT: configured}
    searcher = config.get("searcher") or {}
    is_old = searcher.get("max_length") is not None and searcher.get("max_time") is None
    return {FACT: BEFORE_0_38} if is_old else {}


def library_steps(facts: Mapping[str, Any]) -> tuple[PipStep, ...]:
    """The setup steps of a run with these facts, which may be anything in a native file."""
    version = facts.get(FACT, USUAL)
    if not isinstance(version, str) or not re.fullmatch(LIBRARY, version):
        version = USUAL
    if not version:
        return ()
    return (PipStep((f"{_PACKAGE}=={version}", _WITH_IT), imported=_PACKAGE),)
