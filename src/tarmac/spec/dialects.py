"""All dialects, and the choice among them by content. Called by the server for every submission and check."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.model.errors import InvalidInput, Problem
from tarmac.spec.dialect import Certainty, Dialect, Reading
from tarmac.spec.native.dialect import NativeDialect

DIALECTS: Sequence[Dialect] = (NativeDialect(),)


def read(text: str, *, filename: str, directory: str, dialects: Sequence[Dialect] = DIALECTS) -> Reading:
    """The spec in a run file of any dialect; raises InvalidInput with every problem in it."""
    dialect = choose(text, filename=filename, dialects=dialects)
    return dialect.read(text, filename=filename, directory=directory)


def choose(text: str, *, filename: str, dialects: Sequence[Dialect] = DIALECTS) -> Dialect:
    """The dialect that is surest the text is its own, the first of equals; raises InvalidInput if none is."""
    detections = [(dialect, dialect.detect(filename, text)) for dialect in dialects]
    best, detection = max(detections, key=lambda pair: pair[1].certainty)
    if detection.certainty is not Certainty.NO:
        return best
    missed = "; ".join(f"{dialect.name}: {verdict.missed}" for dialect, verdict in detections)
    raise InvalidInput(
        [
            Problem(
                file=filename,
                message=f"this is no run file of any kind that tarmac reads; {missed}",
                hint="the shortest run file is one line: 'command: echo hello'",
            )
        ]
    )
