"""Places in the logs of a run, as `Last-Event-ID` carries them: `ATTEMPT.ROLE.REPLICA.WORKER:NEXT,...`.

`parse` reads the header of a client that comes back, `format_places` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.model.errors import InvalidInput


def parse(text: str) -> dict[str, int]:
    """The offset that comes next in each log named; raises InvalidInput for anything else."""
    places: dict[str, int] = {}
    for item in filter(None, text.split(",")):
        name, _, offset = item.rpartition(":")
        if name.count(".") < 3 or not offset.isdecimal():
            raise InvalidInput(
                f"Last-Event-ID: {item!r:.80} is no place in a log", hint="such as 1.main.0.0:4096"
            )
        places[name] = int(offset)
    return places


def format_places(places: Mapping[str, int]) -> str:
    """The text that `parse` reads."""
    return ",".join(f"{name}:{offset}" for name, offset in places.items())
