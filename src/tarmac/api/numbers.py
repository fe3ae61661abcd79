"""Numbers by which a system's own command knows things. Made in `server.routes.experiments`."""

from msgspec import Struct


class Numbers(Struct, frozen=True, kw_only=True):
    """The numbers of a run as a trial, and of its experiment."""

    experiment: int
    trial: int


class Numbered(Struct, frozen=True, kw_only=True):
    """The owner of a number: an experiment, or a run that belongs to none."""

    id: str
