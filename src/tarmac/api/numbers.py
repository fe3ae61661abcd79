"""Numbers by which Determined's command knows things. Made in `server.routes.numbers`."""

from __future__ import annotations

from typing_extensions import TypedDict


class Numbers(TypedDict):
    """The numbers of a run as a trial, and of its experiment."""

    experiment: int
    trial: int


class Numbered(TypedDict):
    """The owner of a number: an experiment, or a run that belongs to none."""

    id: str
