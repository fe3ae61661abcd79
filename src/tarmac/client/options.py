"""What may be said of a submission, and of which logs are wanted. Options of the methods of `Client`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict


class SubmitOptions(TypedDict, total=False):
    """What goes along with the text of a run file (docs/api.md)."""

    filename: str  # for messages, and the choice of a dialect
    directory: str | Path | None  # where relative code paths start: by default here
    dialect: str | None  # of the text; else its content shows it
    extras: Mapping[str, Any] | None  # files beside it, and parameters
    overrides: Mapping[str, Any] | None  # values in place of the file's own
    clone: str | None  # a run, instead of a text


class LogChoice(TypedDict, total=False):
    """Which logs of a run, and how much of them."""

    role: str | None
    replica: int | None
    worker: int | None
    attempt: int | None
    tail: int | None  # only the last lines of each worker so far
    since_s: float | None  # only what was written in the last seconds
