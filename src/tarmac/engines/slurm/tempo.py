"""How often an engine of Slurm asks. Used by `SlurmEngine`; tests have a quicker one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """How often Slurm is asked, and how often runners are looked at for their last word.

    `places_s`: how often the whole queue of the site is read, while a job of ours waits there.
    `report_lag_s`: how long reports may take to be seen on the shared disk.
    `forgotten_s`: so long after the last word of its runners a job that Slurm takes for running is over.
    A controller that was down while a job ended may learn of it late, or never.
    """

    query_s: float = 2.0
    idle_s: float = 30.0
    look_s: float = 2.0
    places_s: float = 60.0
    report_lag_s: float = 15.0
    forgotten_s: float = 120.0


DEFAULT_TEMPO = Tempo()
