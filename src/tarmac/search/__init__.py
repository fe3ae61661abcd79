"""Searches over parameters: from events of trials to operations on trials. Pure; used by `control`."""

from tarmac.search.moves import (
    Create,
    Ended,
    Event,
    Finish,
    GoOn,
    Method,
    Operation,
    Sampler,
    Searcher,
    Stop,
    TrialEnd,
    Validation,
    Wait,
)
from tarmac.search.rungs import preview
from tarmac.search.searching import Search
from tarmac.search.space import RandomSampler, grid_size

__all__ = [
    "Create",
    "Ended",
    "Event",
    "Finish",
    "GoOn",
    "Method",
    "Operation",
    "RandomSampler",
    "Sampler",
    "Search",
    "Searcher",
    "Stop",
    "TrialEnd",
    "Validation",
    "Wait",
    "grid_size",
    "preview",
]
