"""The package `determined` in runs: its installation, and failures of runs that need a master. Pure.

Called by `conventions`, `reader` and the dialect. A run whose code imports the package gets it if its Python
lacks it; the setup step runs on each node, because only the node knows its Python's packages.

The library retries an unreachable master for half an hour at each call. On a server without a gateway, tarmac
configures it not to retry, so that a script which needs a master ends at once; `explain` tells the user why.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from tarmac.model.codec import replace
from tarmac.model.progress import Cause, CauseCode
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


ADDRESS = "http://127.0.0.1:1"
"""No program listens there, so every request fails at once."""

NO_RETRY = json.dumps({"total": 0})
"""The library's retries, in the form of its variable DET_RETRY_CONFIG."""

_REQUEST_FAILED = re.compile(r"127\.0\.0\.1:1(?!\d)|host='127\.0\.0\.1', port=1\)")
_FRAME = re.compile(r'\s*File "(?P<file>[^"<>]+)", line (?P<line>\d+)', re.ASCII)
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python3[^/]*/")
_WORK = "/work/"


def explain(cause: Cause) -> Cause:
    """The cause; if the worker's last lines show a failed request to a master, with that and a hint."""
    if cause.code is not CauseCode.EXIT_CODE or not any(_REQUEST_FAILED.search(line) for line in cause.tail):
        return cause
    asks = f"{_place(cause.tail) or 'it'} asks a master of Determined (Core API)"
    message = f"{cause.message}: {asks}, which this server answers with [determined] listen alone"
    return replace(cause, code=CauseCode.UNSUPPORTED, message=message)


def _place(tail: tuple[str, ...]) -> str | None:
    """`train.py:12`: the innermost line of the user's own code in a traceback."""
    frames = [found for line in tail if (found := _FRAME.match(line)) and not _LIBRARY.search(found["file"])]
    return f"{frames[-1]['file'].rpartition(_WORK)[2]}:{frames[-1]['line']}" if frames else None
