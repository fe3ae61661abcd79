"""The intervals of a Slurm engine's queries. Used by `SlurmEngine`; tests use shorter ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """The intervals of queries to Slurm, and of checks for the runners' last events.

    `places_s`: the interval for reading the whole queue of the site, while a job of tarmac waits there.
    `report_lag_s`: the maximum time until reports are visible on the shared disk. `forgotten_s`: the time
    after its runners' last event until a job that Slurm considers running has ended. A controller that was
    down at the end of a job may learn of it late, or never.
    """

    query_s: float = 2.0
    idle_s: float = 30.0
    look_s: float = 2.0
    places_s: float = 60.0
    report_lag_s: float = 15.0
    forgotten_s: float = 120.0


DEFAULT_TEMPO = Tempo()
