"""Reads a run file without a server. Used by `check` and `convert`."""

from __future__ import annotations

from tarmac.cli.reading import How
from tarmac.cli.runfile import RunText, read_run_file
from tarmac.dialects.dialect import Extras, Reading
from tarmac.systems.registry import read


def reading_of(file: str, how: How) -> tuple[RunText, Reading]:
    """The text and its reading; raises InvalidInput with every problem in it."""
    text = read_run_file(file)
    return text, reading_in(text, how)


def reading_in(text: RunText, how: How) -> Reading:
    """The reading of a text; raises InvalidInput with every problem in it."""
    extras = how.extras(text.directory)
    return read(
        text.text,
        filename=text.filename,
        directory=text.directory,
        dialect=how.dialect,
        extras=Extras(
            files=tuple(sorted(extras.get("files", {}).items())),
            entry_point=how.entry_point,
            parameters=tuple(how.parameters.items()),
            changes=tuple(how.changes.items()),
        ),
    )
