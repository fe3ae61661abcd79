"""Shows an uncaught error of ours as a sentence with its place, not as a traceback.

Installed by `Client`, and only under `tarmac launch`; Python shows all other errors of a script. Runs on
Python 3.9: see the package.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType

from .asking import SOCKET_VARIABLE
from .errors import OURS, RequestError, SchedulingError

_HERE = os.path.dirname(os.path.abspath(__file__))


def show_errors_as_sentences() -> None:
    """Install the exception hook, unless the script has installed one already."""
    if SOCKET_VARIABLE in os.environ and sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def sentence(error: BaseException, trace: TracebackType | None) -> str:
    """The error in the form of `tarmac` errors: the line of the script, the problem, a hint."""
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if not os.path.abspath(frame.filename).startswith(_HERE)
    ]
    place = f"{os.path.relpath(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""
    message = error.message if isinstance(error, RequestError) else str(error).strip()
    first, *rest = message.splitlines() or ["something went wrong"]
    lines = [f"error: {place}{first}", *(f"  {line}" for line in rest)]
    if isinstance(error, SchedulingError) and error.scheduling_log:
        lines += ["  scheduling log:", *(f"    {line}" for line in error.scheduling_log.splitlines())]
    if isinstance(error, RequestError) and error.hint:
        lines.append(f"  hint: {error.hint}")
    return "\n".join(lines) + "\n"


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, OURS):
        sys.stdout.flush()
        sys.stderr.write(sentence(error, trace))
    else:
        sys.__excepthook__(kind, error, trace)
