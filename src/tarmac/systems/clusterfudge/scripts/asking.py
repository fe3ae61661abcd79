"""Sends requests to tarmac: through the socket of `tarmac launch` if that runs the script, else in-process.

Called by `Client`. Request and answer are JSON; an error in the answer is raised as an exception that the
script knows. Under `tarmac launch`, an error of ours that the script does not catch is shown as a sentence
with its place, not as a traceback; Python shows all other errors. Runs on Python 3.9: see the package.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from types import TracebackType
from typing import Any

from .errors import OURS, AuthenticationError, RequestError, SchedulingError, TarmacError

SOCKET_VARIABLE = "TARMAC_LAUNCH_SOCKET"
"""Set by `tarmac launch` for the script: the path of its socket."""

_PIECE_BYTES = 65536


def ask(question: Mapping[str, Any]) -> Any:
    """The answer; prints notices on stderr, and raises errors."""
    path = os.environ.get(SOCKET_VARIABLE)
    reply = _through_socket(path, question) if path else _here(question)
    for notice in reply.get("notices", ()):
        sys.stderr.write(f"tarmac: {notice}\n")
    if "error" in reply:
        raise _error(reply["error"])
    return reply["answer"]


def _through_socket(path: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
    content = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as opened:
            opened.connect(path)
            opened.sendall(json.dumps(question).encode() + b"\n")
            while piece := opened.recv(_PIECE_BYTES):
                content += piece
        reply: Mapping[str, Any] = json.loads(content)
    except (OSError, ValueError) as problem:
        raise TarmacError(f"the tarmac launch that runs this script does not answer: {problem}") from None
    return reply


def _here(question: Mapping[str, Any]) -> Mapping[str, Any]:
    # Imported only when needed: a script may run on a Python without tarmac.
    try:
        gateway = import_module("tarmac.systems.clusterfudge.scripts.gateway")
    except ImportError as problem:
        raise TarmacError(
            f"tarmac is not installed for this Python ({problem}): run the script with tarmac launch"
        ) from None
    reply: Mapping[str, Any] = gateway.in_process(question)
    return reply


def _error(form: Mapping[str, Any]) -> Exception:
    message, hint = form["message"], form.get("hint")
    if form["kind"] == "scheduling":
        return SchedulingError(message, form["log"])
    if form["kind"] == "authentication":
        return AuthenticationError(None, details=message)
    if form["kind"] == "request":
        return RequestError(message, hint)
    return TarmacError(f"{message} ({hint})" if hint else message)


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
