"""A plain line that a user is told once, ever. Made by `wiring`, asked by the routes that take runs in."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tarmac.model.spec import RunSpec


class SlotsNotice:
    """What is worth knowing about this machine's slots, for the first run of a home that asks for some."""

    def __init__(self, text: str | None, marker: Path) -> None:
        self._text = text
        self._marker = marker

    def take(self, spec: RunSpec) -> tuple[str, ...]:
        """The line, the first time it matters; rehearsals bring slots of their own, so there it does not."""
        if self._text is None or not spec.slots or spec.rehearsal is not None:
            return ()
        text, self._text = self._text, None
        with suppress(OSError):  # a full disk: then it may be said again
            try:
                self._marker.touch(exist_ok=False)
            except FileExistsError:
                return ()
        return (text,)
