"""The address of a master on a server without a gateway, and the explanation of runs that fail at it.

The training library retries an unreachable master for half an hour at each call. tarmac configures it not to
retry, so that a script which needs a master ends at once; `explain` tells the user why. Used by `conventions`
and by `systems.registry`, for every failure of a run with these conventions.
"""

from __future__ import annotations

import json
import re

from tarmac.model.record import replace
from tarmac.model.run import Cause, CauseCode

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
