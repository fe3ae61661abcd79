"""Searches over parameters: events of trials in, operations on trials out. Pure; used by `control`."""

from tarmac.search.moves import (
    Create,
    Ended,
    Event,
    Finish,
    GoOn,
    Operation,
    Searcher,
    Stop,
    TrialEnd,
    Validation,
    Wait,
)
from tarmac.search.preview import PreviewLine, preview
from tarmac.search.searching import Search
from tarmac.search.space import grid_size

__all__ = [
    "Create",
    "Ended",
    "Event",
    "Finish",
    "GoOn",
    "Operation",
    "PreviewLine",
    "Search",
    "Searcher",
    "Stop",
    "TrialEnd",
    "Validation",
    "Wait",
    "grid_size",
    "preview",
]
